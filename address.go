package parley

import (
	"net/url"
	"strings"
)

// Dialable reports whether a URL names a host that can be connected to, with a port
// from 1 to 65535 or none. url.Parse takes any digits for a port, and none after a
// colon.
func Dialable(u *url.URL) bool {
	return u.Hostname() != "" && !strings.HasSuffix(u.Host, ":") && (u.Port() == "" || validPort(u.Port()))
}
