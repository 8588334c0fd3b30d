package admin

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"

	"parley/actors/operator"
	"parley/client/parley"
	"parley/cmd/parley/datadir"
	"parley/http/auth"
)

// Guard rejects calls that pages from other sites make in the operator's browser, and
// calls of those who are no operators.
type Guard struct {
	Token datadir.AdminToken
	// Tokens returns the tokens of operators.
	Tokens func(context.Context) (*operator.State, error)
	// Hosts are the names, besides those of loopback, that requests to the listener may
	// use.
	Hosts []string
}

var (
	errAdminHost   = parley.Refuse(parley.Forbidden, "host_not_allowed", "The admin listener answers to loopback names only; list others with --admin-hosts.")
	errCrossSite   = parley.Refuse(parley.Forbidden, "cross_site", "The admin listener does not answer pages of other sites.")
	errAdminToken  = parley.Refuse(parley.Unauthenticated, "not_authenticated", "This call needs the token of an operator, or that of the data directory: Authorization: Bearer <admin.token>.")
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

// NeedsToken rejects callers without the token of an operator. Next can tell who calls.
func (g Guard) NeedsToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		presented, ok := auth.ParseBearer([]byte(r.Header.Get("Authorization")))
		by, err := caller{}, error(errAdminToken)
		if ok {
			by, err = g.caller(r.Context(), presented)
		}
		if errors.Is(err, errAdminToken) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="parley admin"`)
		}
		if err != nil {
			writeRefusal(w, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(as(r.Context(), by)))
	})
}

// caller returns who has a token. Named tokens are looked up where they are decided, so that a revoked
// one is refused by all nodes at once.
func (g Guard) caller(ctx context.Context, presented []byte) (caller, error) {
	if g.Token.Matches(presented) {
		return caller{role: operator.RoleAdmin}, nil
	}
	if g.Tokens == nil || !bytes.HasPrefix(presented, []byte(auth.OperatorTokenPrefix)) {
		return caller{}, errAdminToken
	}
	s, err := g.Tokens(ctx)
	if err != nil {
		return caller{}, err
	}
	hash := auth.HashSecret(string(presented))
	t := s.Operator(hash[:])
	if t == nil {
		return caller{}, errAdminToken
	}
	return caller{parley.IDFromBytes[parley.OperatorID](t.GetId()), operator.Role(t.GetRole())}, nil
}

// answersTo reports whether requests may name this Host, with or without a port.
func (g Guard) answersTo(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = parley.BareHost(host)
	return parley.IsLoopback(host) || slices.ContainsFunc(g.Hosts, func(allowed string) bool { return strings.EqualFold(parley.BareHost(allowed), host) })
}
