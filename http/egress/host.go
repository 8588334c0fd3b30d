package egress

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// errHost says that a text is no host of the URL standard.
var errHost = ErrTarget.Saying("The host of the url is not a host name or address.")

// parseHost reads the host of an https URL: an IPv6 address in brackets, a name,
// or one of the many ways to write an IPv4 address.
// source: WHATWG URL, section 3.5, host parser
func parseHost(text string) (host string, addr netip.Addr, err error) {
	if text == "" {
		return "", netip.Addr{}, ErrTarget.Saying("The url has no host.")
	}
	if strings.HasPrefix(text, "[") {
		return parseIPv6(text)
	}
	name, ok := domainToASCII(percentDecode(text))
	if !ok {
		return "", netip.Addr{}, errHost
	}
	if strings.Trim(name, ".") == "" || strings.ContainsFunc(name, foreignToNames) {
		return "", netip.Addr{}, errHost
	}
	if !endsInNumber(name) {
		return name, netip.Addr{}, nil
	}
	if addr, ok = parseIPv4(name); !ok {
		return "", netip.Addr{}, errHost
	}
	return addr.String(), addr, nil
}

// parseIPv6 reads an address in brackets. Zones have no place in a URL.
func parseIPv6(text string) (string, netip.Addr, error) {
	inner, closed := strings.CutSuffix(text[1:], "]")
	addr, err := netip.ParseAddr(inner)
	if !closed || err != nil || !addr.Is6() || addr.Zone() != "" {
		return "", netip.Addr{}, errHost
	}
	return addr.String(), addr, nil
}

// percentDecode undoes escapes once; a % that begins none stands for itself and
// is refused with the other forbidden characters.
func percentDecode(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil && text[i+1] != '+' {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// domains maps names as the URL standard does: by UTS 46, non-transitional, with
// its checks of bidirectional text and joiners, and without rules for hyphens.
// source: WHATWG URL, section 3.3, domain to ASCII
var domains = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false), idna.CheckHyphens(false), idna.CheckJoiners(true), idna.BidiRule())

// domainToASCII puts a name into lower-case ASCII. Characters that are but
// another way to write an ASCII one (full-width, circled, mathematical) become
// that one, so that an address hidden in them is seen; what is left beyond ASCII
// becomes the xn-- form.
func domainToASCII(name string) (string, bool) {
	if !utf8.ValidString(name) {
		return "", false
	}
	lower := strings.ToLower(name)
	if isASCII(lower) && !strings.Contains(lower, "xn--") {
		return lower, true
	}
	ascii, err := domains.ToASCII(name)
	return ascii, err == nil && isASCII(ascii)
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf })
}

// foreignToNames tells what no name that can be looked up has in it. The standard
// lets a few more characters pass, which no such name has either.
func foreignToNames(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
}

// endsInNumber tells an IPv4 address, or a bad one, from a name.
// source: WHATWG URL, section 3.5, ends in a number checker
func endsInNumber(name string) bool {
	name = strings.TrimSuffix(name, ".")
	last := name[strings.LastIndex(name, ".")+1:]
	if last == "" {
		return false
	}
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	_, ok := parseNumber(last)
	return ok
}

// parseIPv4 reads one to four numbers, the last of which fills what is left.
// source: WHATWG URL, section 3.5, IPv4 parser
func parseIPv4(name string) (netip.Addr, bool) {
	parts := strings.Split(strings.TrimSuffix(name, "."), ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var whole uint64
	for i, part := range parts {
		n, ok := parseNumber(part)
		room := uint64(1) << 8
		if i == len(parts)-1 {
			room = 1 << (8 * (5 - len(parts)))
		}
		if !ok || n >= room {
			return netip.Addr{}, false
		}
		whole = whole*room + n
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(whole))
	return netip.AddrFrom4(b), true
}

// parseNumber reads a decimal, 0octal or 0xhex number. One too large for any
// address is read as one that no address has room for.
func parseNumber(text string) (uint64, bool) {
	base, digits := 10, text
	switch {
	case text == "":
		return 0, false
	case strings.HasPrefix(text, "0x"):
		base, digits = 16, text[2:]
	case len(text) > 1 && text[0] == '0':
		base, digits = 8, text[1:]
	}
	if strings.Trim(digits, "0123456789abcdef"[:base]) != "" {
		return 0, false
	}
	if digits == "" { // 0x alone
		return 0, true
	}
	n, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return 1 << 40, true
	}
	return n, true
}
