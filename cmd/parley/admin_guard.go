package main

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"parley"
	"parley/cmd/parley/datadir"
	"parley/http/auth"
)

// adminGuard keeps those from the admin listener who have no business there:
// pages of other origins in the operator's own browser, and callers without the
// token.
type adminGuard struct {
	token datadir.AdminToken
	// hosts are names, beside those of loopback, by which the listener may be
	// called.
	hosts []string
}

var (
	errAdminHost   = parley.Refuse(parley.Forbidden, "host_not_allowed", "The admin listener answers to loopback names only; list others with --admin-hosts.")
	errCrossSite   = parley.Refuse(parley.Forbidden, "cross_site", "The admin listener does not answer pages of other sites.")
	errAdminToken  = parley.Refuse(parley.Unauthenticated, "not_authenticated", "This call needs the admin token of the data directory: Authorization: Bearer <admin.token>.")
	errAdminOrigin = parley.Refuse(parley.Forbidden, "forbidden", "Orders are given with application/json, and by no browser.")
)

// refuseBrowsers refuses what a page of elsewhere can have a browser send. A name
// of its own that resolves to this machine (DNS rebinding) makes such a page an
// origin of ours, so the Host must be one that we were given.
func (g adminGuard) refuseBrowsers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch site := r.Header.Get("Sec-Fetch-Site"); {
		case !g.answersTo(r.Host):
			refuseOrder(w, errAdminHost)
		case site != "" && site != "none" && site != "same-origin":
			refuseOrder(w, errCrossSite)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// needsToken refuses callers without the admin token.
func (g adminGuard) needsToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		presented, ok := auth.ParseBearer([]byte(r.Header.Get("Authorization")))
		if !ok || !g.token.Matches(presented) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="parley admin"`)
			refuseOrder(w, errAdminToken)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// answersTo reports whether the listener may be called by that Host, with or
// without a port.
func (g adminGuard) answersTo(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = parley.BareHost(host)
	return parley.IsLoopback(host) || slices.ContainsFunc(g.hosts, func(allowed string) bool { return strings.EqualFold(parley.BareHost(allowed), host) })
}
