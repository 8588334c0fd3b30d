package egress

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// errHost rejects a text that is not a host by the URL standard.
var errHost = ErrTarget.Saying("The host of the url is not a host name or address.")

// parseHost parses the host of an https URL: an IPv6 address in brackets, a name, or one
// of the many spellings of an IPv4 address. // source: WHATWG URL, section 3.5, host parser
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

// parseIPv6 parses an address in brackets. Zones are not allowed in a URL.
func parseIPv6(text string) (string, netip.Addr, error) {
	inner, closed := strings.CutSuffix(text[1:], "]")
	addr, err := netip.ParseAddr(inner)
	if !closed || err != nil || !addr.Is6() || addr.Zone() != "" {
		return "", netip.Addr{}, errHost
	}
	return addr.String(), addr, nil
}

// percentDecode decodes escapes once. A % that begins none is kept, and rejected later
// with the other forbidden characters.
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

// domains maps names as the URL standard does: by UTS 46, non-transitional, with its
// checks of bidirectional text and joiners, and without rules for hyphens.
// // source: WHATWG URL, section 3.3, domain to ASCII
var domains = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false), idna.CheckHyphens(false), idna.CheckJoiners(true), idna.BidiRule())

// domainToASCII converts a name to lower-case ASCII. Characters that are variants of
// ASCII ones (full-width, circled, mathematical) become those, so that an address spelled
// with them is recognized. Remaining non-ASCII labels become the xn-- form.
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

// foreignToNames reports whether a character cannot occur in a name that can be looked
// up. The standard allows a few more characters, which such names do not contain either.
func foreignToNames(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
}

// endsInNumber distinguishes an IPv4 address, valid or not, from a name.
// // source: WHATWG URL, section 3.5, ends in a number checker
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

// parseIPv4 parses one to four numbers, the last of which fills the remaining bytes.
// // source: WHATWG URL, section 3.5, IPv4 parser
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

// parseNumber parses a decimal, 0octal or 0xhex number. A number too large for any
// address becomes one that fits in no address.
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
