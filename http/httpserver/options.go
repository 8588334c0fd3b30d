package httpserver

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"parley/client/parley"
	"parley/http/connlimit"
	"parley/http/limit"
	"parley/http/overload"
	"parley/http/rest"
)

// Options configure a Server.
type Options struct {
	// Routes is the table of routes. The server adds the documentation's own routes.
	Routes []rest.Route
	// Authenticator is required if a route needs a bearer token.
	Authenticator Authenticator
	// Logger logs only defects. nil means no log.
	Logger *slog.Logger
	// Clock gives handlers the time.
	Clock parley.Clock
	// NewRequestID returns an id for a request that has none.
	NewRequestID func() string
	// Brand is the word in header names such as X-Svc-Agent. The default is "svc".
	Brand string
	// Version is the version of the software, for the OpenAPI document.
	Version string
	// Admit, if set, checks a call whose caller is known, before its trust tier and the
	// schema are checked: rate limits, load shedding. An error rejects the call.
	Admit func(*rest.Call) error
	// Observe, if set, is called with each answer before it is sent. It is called from
	// many goroutines and must return soon.
	Observe func(Answer)
	// ReadTimeout bounds the time to receive one request; WriteTimeout the time to send
	// one answer, from the moment it is made, so that long waits are not cut; IdleTimeout
	// the pause between two requests on a connection. The defaults are 30 s, 30 s and 120
	// s.
	ReadTimeout, WriteTimeout, IdleTimeout time.Duration
	// Connections bounds the open connections. The defaults are 262,144 in total, as many
	// served, and two thirds of the total per address.
	Connections connlimit.Bounds
	// Budget bounds the bytes of large bodies and answers in transit, per organization;
	// for public answers, per address (see Source). nil means no bound.
	Budget *limit.Budget
	// Source returns the address that a public request counts against, as
	// limit.AddressKey formats it. The default is that of the connection.
	Source func(*rest.Call) string
	// Resolve returns the id of the agent or the group with a handle, which may stand in paths.
	// The error of a handle that names none is parley.ErrNotFound.
	Resolve func(*rest.Call, parley.Handle) (parley.AnyID, error)
	// ErrorPage, if set, renders a refusal of a request for a path for people. It is called
	// for clients that accept HTML, on routes for people and on paths without a route.
	ErrorPage func(path string, p *rest.Problem, requestID string) rest.HTML
	// Damaged, if set, returns how to refuse what failed while a file is damaged; nil is a 500.
	Damaged func(reads bool) *parley.Refusal
	// Leaving, if set, reports that clients should connect elsewhere from now on: each answer
	// closes its connection.
	Leaving func() bool
	// Origins are the web origins whose pages may call every route.
	Origins *Origins
	// Overload rejects requests while too many goroutines wait for a processor. nil means
	// that none is rejected.
	Overload *overload.Limiter
}

const (
	readBufferBytes    = 16 << 10
	connectionsDefault = 256 << 10
	// concurrencySlack allows for closed connections whose worker has not ended yet: only
	// the listener rejects connections, never fasthttp.
	concurrencySlack = 1 << 10
)

func (o *Options) ensureDefaults() error {
	if o.Clock == nil || o.NewRequestID == nil {
		return errors.New("http: a server needs a clock and request ids")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Brand == "" {
		o.Brand = "svc"
	}
	for _, d := range []struct {
		value  *time.Duration
		preset time.Duration
	}{{&o.ReadTimeout, 30 * time.Second}, {&o.WriteTimeout, 30 * time.Second}, {&o.IdleTimeout, 120 * time.Second}} {
		if *d.value == 0 {
			*d.value = d.preset
		}
	}
	if o.Overload == nil {
		o.Overload = overload.New(nil)
	}
	if o.Leaving == nil {
		o.Leaving = func() bool { return false }
	}
	if o.Source == nil {
		o.Source = func(c *rest.Call) string { return limit.AddressKey(c.Peer()) }
	}
	b := &o.Connections
	b.Total = cmp.Or(b.Total, connectionsDefault)
	b.Served = cmp.Or(b.Served, b.Total)
	b.PerAddress = cmp.Or(b.PerAddress, max(b.Total/3*2, 1))
	return nil
}
