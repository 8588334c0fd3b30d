package parley

import "strings"

var reserved = map[string]bool{"www": true, "api": true, "admin": true, "docs": true, "well-known": true, "a2a": true, "localhost": true}

// Patterns as clients are told them.
const (
	SlugPattern      = `^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])$`
	AgentNamePattern = `^[a-z0-9](?:[a-z0-9-]{0,198}[a-z0-9])?$`
	GroupNamePattern = `^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$`
)

const (
	slugMin, slugMax = 2, 32
	agentNameMax     = 200
	groupNameMax     = 63
)

// validLabel reports whether s is shortest to longest lowercase alphanumerics
// and interior hyphens. Every request judges several: the patterns above say
// the same, and a test holds the two together.
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
// alphanumerics and interior hyphens. Reserved words are a separate question.
func ValidSlug(s string) bool { return validLabel(s, slugMin, slugMax) }

// ReservedSlug reports whether no organization may take s.
func ReservedSlug(s string) bool { return reserved[s] }

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

// ErrBadHandle says that a text has not the form of a handle. Whether the
// handle exists is another question.
var ErrBadHandle = Refuse(Unprocessable, "validation_error", "Value should be a handle such as name@org.domain")

// ParseHandle reads a handle in any case. The domain is what follows the first
// dot after the organization and is not judged here. // spec: What the service does
func ParseHandle(text string) (Handle, error) {
	local, rest, ok := strings.Cut(strings.ToLower(text), "@")
	if !ok || !ascii(text) {
		return Handle{}, ErrBadHandle
	}
	slug, domain, ok := strings.Cut(rest, ".")
	if !ok || domain == "" || len(domain) > 253 || strings.ContainsAny(domain, "@/# \t\r\n") {
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

// ascii keeps out letters whose lower case is one of ours, such as the sign of
// Kelvin: they only look like a name.
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
