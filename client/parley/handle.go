package parley

import (
	"strconv"
	"strings"
)

// reserved are slugs that people could mistake for the service itself or for a part
// of it.
var reserved = map[string]bool{
	"www": true, "api": true, "admin": true, "docs": true, "well-known": true, "a2a": true, "localhost": true,
	"parley": true, "root": true, "support": true,
}

// punycode is the prefix of labels that encode Unicode characters in ASCII.
// source: RFC 5890 section 2.3.1
const punycode = "xn--"

// Regular expressions for names, as error messages and the OpenAPI description show
// them.
const (
	SlugPattern      = `^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])$`
	AgentNamePattern = `^[a-z0-9](?:[a-z0-9-]{0,198}[a-z0-9])?$`
	GroupNamePattern = `^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$`
)

const (
	slugMin, slugMax = 2, 32
	agentNameMax     = 200
	groupNameMax     = 63
	domainMax        = 253
	domainLabelMax   = 63
)

// validLabel reports whether s consists of lowercase alphanumerics and interior hyphens
// and is shortest to longest bytes long. Every request checks several names, so this is
// not a regular expression; a test compares it with the patterns above.
func validLabel(s string, shortest, longest int) bool {
	if len(s) < shortest || len(s) > longest || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// ValidSlug reports whether s may be an organization's slug: 2-32 lowercase
// alphanumerics and interior hyphens. It does not check for reserved words; see
// ReservedSlug.
func ValidSlug(s string) bool { return validLabel(s, slugMin, slugMax) }

// ReservedSlug reports whether no organization may take s, because it is a reserved
// word, the brand of the service, or punycode, which browsers display as other letters.
func ReservedSlug(s, brand string) bool {
	return reserved[s] || s == brand || strings.HasPrefix(s, punycode)
}

// ValidAgentName reports whether s may be an agent's name: 1-200 lowercase
// alphanumerics with optional interior hyphens.
func ValidAgentName(s string) bool { return validLabel(s, 1, agentNameMax) }

// Handle is `<agent>@<org>.<domain>` or, with Group set, `#<group>@<org>.<domain>`.
type Handle struct {
	Name   string
	Slug   string
	Domain string
	Group  bool
}

// ErrBadHandle is the refusal of a text that does not have the form of a handle. It
// says nothing about whether the handle exists.
var ErrBadHandle = Refuse(Unprocessable, "validation_error", "Value should be a handle such as name@org.domain")

// ParseHandle parses a handle in upper or lower case. The domain begins after the first
// dot after the @; the caller checks whether it is the domain of this server. The only
// error is ErrBadHandle. // spec: What the service does
func ParseHandle(text string) (Handle, error) {
	local, rest, ok := strings.Cut(strings.ToLower(text), "@")
	if !ok || !ascii(text) {
		return Handle{}, ErrBadHandle
	}
	slug, domain, ok := strings.Cut(rest, ".")
	if !ok || !ValidDomain(domain) {
		return Handle{}, ErrBadHandle
	}
	h := Handle{Name: local, Slug: slug, Domain: domain}
	h.Name, h.Group = strings.CutPrefix(local, "#")
	longest := agentNameMax
	if h.Group {
		longest = groupNameMax
	}
	if !validLabel(h.Name, 1, longest) || !validLabel(h.Slug, slugMin, slugMax) {
		return Handle{}, ErrBadHandle
	}
	return h, nil
}

// ValidDomain reports whether s may be the domain of handles: labels of lowercase
// alphanumerics and interior hyphens, separated by dots, then an optional port for
// servers that do not use the default one.
func ValidDomain(s string) bool {
	if len(s) > domainMax {
		return false
	}
	name, port, ported := strings.Cut(s, ":")
	if ported && !validPort(port) {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if !validLabel(label, 1, domainLabelMax) {
			return false
		}
	}
	return true
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// ascii reports whether text is ASCII. Some other characters have an ASCII letter as
// their lower case, such as the Kelvin sign, and must not pass as that letter.
func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}

func (h Handle) String() string {
	s := h.Name + "@" + h.Slug + "." + h.Domain
	if h.Group {
		return "#" + s
	}
	return s
}
