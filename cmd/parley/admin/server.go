package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"strconv"
	"time"

	"parley/actors/operator"
	"parley/client/api"
	parleyhttp "parley/http"
)

// Server holds the operator's HTTP servers. The admin address serves everything; the
// metrics address serves only metrics and readiness.
type Server struct {
	Admin   *http.Server
	Metrics *http.Server
}

// NewServer serves metrics and readiness to everybody who can reach a listener, and all
// other calls, at the admin address only, to operators.
func NewServer(service *parleyhttp.Service, metrics http.Handler, guard Guard, calls ...Endpoint) *Server {
	status := http.NewServeMux()
	status.Handle("GET /metrics", metrics)
	status.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	status.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ask, err := probed(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if reason := service.Ready(ask); reason != nil {
			http.Error(w, reason.Text, parleyhttp.ReadyStatus(ask, reason))
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	all := http.NewServeMux()
	for _, pattern := range []string{"/metrics", "/livez", "/readyz"} {
		all.Handle(pattern, status)
	}
	all.Handle("/", guard.NeedsToken(Privileged(calls...)))
	return &Server{Admin: limited(guard.RefuseBrowsers(all)), Metrics: limited(status)}
}

// probed is what a probe asks for.
func probed(query url.Values) (ask api.GetReadiness, err error) {
	ask.For = cmp.Or(query.Get("for"), api.ForWrites)
	if ask.For != api.ForReads && ask.For != api.ForWrites {
		return ask, errors.New("for is reads or writes")
	}
	for name, value := range map[string]*bool{"leads": &ask.Leads, "graceful": &ask.Graceful} {
		if *value, err = strconv.ParseBool(cmp.Or(query.Get(name), "false")); err != nil {
			return ask, fmt.Errorf("%s is true or false", name)
		}
	}
	return ask, nil
}

// Privileged handles the calls that change something or expose internals of the process.
// It does not authenticate callers.
func Privileged(calls ...Endpoint) http.Handler {
	power := &Calls{http.NewServeMux()}
	for _, c := range calls {
		c.Mount(power)
	}
	// pprof.Cmdline is left out, because the command line and the environment may hold
	// secrets.
	power.Show(operator.RoleAdmin, "GET /debug/pprof/", pprof.Index)
	power.Show(operator.RoleAdmin, "GET /debug/pprof/profile", pprof.Profile)
	power.Show(operator.RoleAdmin, "GET /debug/pprof/symbol", pprof.Symbol)
	power.Show(operator.RoleAdmin, "GET /debug/pprof/trace", pprof.Trace)
	return power.mux
}

// limited returns a server with bounds on the time and size of request headers.
func limited(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
}

// Serve accepts connections until Close.
func Serve(s *http.Server, ln net.Listener) error {
	if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close waits for up to 1 s for calls in progress and then closes their connections.
func (a *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var errs []error
	for _, s := range []*http.Server{a.Admin, a.Metrics} {
		if s.Shutdown(ctx) != nil { // a profile or trace is being taken
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}
