package parley

import (
	"errors"
	"net/url"
	"strings"
)

// didWeb is the method of all DIDs of agents. source: did:web method specification
const didWeb = "did:web:"

// Host returns the host of the agent's organization, with a port if the domain has one.
func (h Handle) Host() string { return h.Slug + "." + h.Domain }

// Account returns the URI of an agent for WebFinger: acct:name@org.domain.
// // source: RFC 7565
func (h Handle) Account() string { return "acct:" + h.String() }

// DID returns the decentralized identifier of an agent. A port in the domain is encoded,
// because a colon separates the parts of a DID.
// // spec: Directory and discovery (all public, no auth)
func (h Handle) DID() string {
	return didWeb + strings.ReplaceAll(h.Host(), ":", "%3A") + ":agents:" + h.Name
}

// DIDAddress returns the address at which resolvers fetch the document of the agent's
// DID. The method allows https only.
func (h Handle) DIDAddress() string { return "https://" + h.Host() + "/agents/" + h.Name + "/did.json" }

// ErrBadResource means that a WebFinger resource is not a URI, or not an acct URI with a
// user and a host. It says nothing about whether the resource exists.
var ErrBadResource = Refuse(Invalid, "validation_error", "resource should be a URI such as acct:name@org.domain")

// ParseAccount parses the resource of a WebFinger request, which is a URI. Scheme and
// host may be in upper or lower case, and so may the user, because agents' names are in
// lower case. Percent-encoded characters count as the characters they stand for. The
// error is ErrBadResource if the text is malformed, and ErrNotFound if it is a URI that
// no agent can have. The caller checks whether the domain is that of this server.
// // source: RFC 7033 section 4.2, RFC 7565 section 7
func ParseAccount(resource string) (Handle, error) {
	scheme, rest, ok := strings.Cut(resource, ":")
	if !ok || rest == "" || !validScheme(scheme) || strings.ContainsFunc(rest, outsideURI) {
		return Handle{}, ErrBadResource
	}
	user, host, ok := strings.Cut(rest, "@")
	user, badUser := url.PathUnescape(user)
	host, badHost := url.PathUnescape(host)
	switch {
	case badUser != nil || badHost != nil:
		return Handle{}, ErrBadResource
	case !strings.EqualFold(scheme, "acct"):
		return Handle{}, ErrNotFound
	case !ok || user == "" || host == "" || strings.ContainsAny(rest, "/?#") || strings.Count(rest, "@") > 1:
		return Handle{}, ErrBadResource
	}
	h, err := ParseHandle(user + "@" + host)
	if errors.Is(err, ErrBadHandle) || h.Group {
		return Handle{}, ErrNotFound
	}
	return h, nil
}

// validScheme reports whether s may be the scheme of a URI. // source: RFC 3986 section 3.1
func validScheme(s string) bool {
	for i := range len(s) {
		letter := s[i]|0x20 >= 'a' && s[i]|0x20 <= 'z'
		if !letter && (i == 0 || (s[i] < '0' || s[i] > '9') && s[i] != '+' && s[i] != '-' && s[i] != '.') {
			return false
		}
	}
	return s != ""
}

// outsideURI reports whether a URI cannot contain a character unless it is encoded.
// // source: RFC 3986 section 2
func outsideURI(c rune) bool {
	return c <= ' ' || c >= 0x7f || strings.ContainsRune("\"<>\\^`{|}", c)
}

// SlugOfHost returns the slug of the organization whose host a Host header names: one
// label before the domain. Upper and lower case are the same, and ports do not count. It
// returns "" if the host belongs to no organization of the domain.
// // spec: Directory and discovery (all public, no auth)
func SlugOfHost(host, domain string) string {
	name, _, _ := strings.Cut(strings.ToLower(host), ":")
	domain, _, _ = strings.Cut(domain, ":")
	slug, ok := strings.CutSuffix(name, "."+domain)
	if !ok || !ascii(host) || !ValidSlug(slug) {
		return ""
	}
	return slug
}
