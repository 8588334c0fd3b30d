package admin

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"parley/client/parley"
	"parley/cmd/parley/datadir"
	"parley/http/auth"
)

// Guard rejects calls that pages from other sites make in the operator's browser, and
// calls without the admin token.
type Guard struct {
	Token datadir.AdminToken
	// Hosts are the names, besides those of loopback, that requests to the listener may
	// use.
	Hosts []string
}

var (
	errAdminHost   = parley.Refuse(parley.Forbidden, "host_not_allowed", "The admin listener answers to loopback names only; list others with --admin-hosts.")
	errCrossSite   = parley.Refuse(parley.Forbidden, "cross_site", "The admin listener does not answer pages of other sites.")
	errAdminToken  = parley.Refuse(parley.Unauthenticated, "not_authenticated", "This call needs the admin token of the data directory: Authorization: Bearer <admin.token>.")
	errAdminOrigin = parley.Refuse(parley.Forbidden, "forbidden", "Operator requests must have the content type application/json and must not come from a browser.")
)

// RefuseBrowsers rejects requests that a page from another site can make a browser send.
// With DNS rebinding, a name of the attacker's resolves to this machine and its page
// counts as same-origin. Therefore the Host must be one that the operator has listed.
func (g Guard) RefuseBrowsers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch site := r.Header.Get("Sec-Fetch-Site"); {
		case !g.answersTo(r.Host):
			writeRefusal(w, errAdminHost)
		case site != "" && site != "none" && site != "same-origin":
			writeRefusal(w, errCrossSite)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// NeedsToken rejects callers without the admin token.
func (g Guard) NeedsToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		presented, ok := auth.ParseBearer([]byte(r.Header.Get("Authorization")))
		if !ok || !g.Token.Matches(presented) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="parley admin"`)
			writeRefusal(w, errAdminToken)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// answersTo reports whether requests may name this Host, with or without a port.
func (g Guard) answersTo(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = parley.BareHost(host)
	return parley.IsLoopback(host) || slices.ContainsFunc(g.Hosts, func(allowed string) bool { return strings.EqualFold(parley.BareHost(allowed), host) })
}
