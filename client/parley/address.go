package parley

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// Dialable reports whether a URL names a host that can be connected to, with a port
// from 1 to 65535 or none. url.Parse takes any digits for a port, and none after a
// colon.
func Dialable(u *url.URL) bool {
	return u.Hostname() != "" && !strings.HasSuffix(u.Host, ":") && (u.Port() == "" || validPort(u.Port()))
}

// IsLoopback reports whether a host, which is a name or an IP address without a
// port, is this machine. It asks no resolver: localhost and every name below it
// are reserved. // source: RFC 6761 section 6.3
func IsLoopback(host string) bool {
	if host = strings.TrimSuffix(strings.ToLower(host), "."); host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(BareHost(host))
	return err == nil && addr.Unmap().IsLoopback()
}

// BareHost returns a host without the brackets of an IPv6 address.
func BareHost(host string) string {
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// IsHostPort reports whether text is an address to listen on: host:port with a port
// from 0 to 65535. The host may be empty.
func IsHostPort(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// baseURLPattern has the characters of a URL that mean nothing in HTML, in a shell
// and in a header: base URLs are shown in all of them.
var baseURLPattern = regexp.MustCompile(`^[A-Za-z0-9:/\[\]._~%-]+$`)

// IsBaseURL reports whether text is an http or https URL to which paths can be
// appended: without user, query and fragment, and of safe characters only.
func IsBaseURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && baseURLPattern.MatchString(text) && (u.Scheme == "http" || u.Scheme == "https") && Dialable(u) && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}
