package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	parleyhttp "parley/http"
)

// adminServer answers the operator: at the admin address everything, at the
// metrics address metrics and readiness alone.
type adminServer struct {
	admin   *http.Server
	metrics *http.Server
}

// newAdminServer serves what anybody who reaches the listener may read (metrics,
// readiness) as it is, and all else to those who have the admin token.
func newAdminServer(service *parleyhttp.Service, metrics http.Handler, guard adminGuard, calls ...interface{ mount(*http.ServeMux) }) *adminServer {
	status := http.NewServeMux()
	status.Handle("GET /metrics", metrics)
	status.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	status.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if reason := service.Ready(); reason != nil {
			http.Error(w, reason.Text, http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	all := http.NewServeMux()
	for _, pattern := range []string{"/metrics", "/livez", "/readyz"} {
		all.Handle(pattern, status)
	}
	all.Handle("/", guard.needsToken(newPower(calls...)))
	return &adminServer{admin: limited(guard.refuseBrowsers(all)), metrics: limited(status)}
}

// newPower answers the calls that change something or show what is inside the
// process. It guards nothing itself.
func newPower(calls ...interface{ mount(*http.ServeMux) }) http.Handler {
	power := http.NewServeMux()
	for _, c := range calls {
		c.mount(power)
	}
	// The command line and the environment may hold secrets: pprof.Cmdline is left out.
	power.HandleFunc("GET /debug/pprof/", pprof.Index)
	power.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	power.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	power.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return power
}

// limited is a server that waits for nobody for long.
func limited(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
}

// serve accepts connections until close.
func serve(s *http.Server, ln net.Listener) error {
	if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (a *adminServer) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var errs []error
	for _, s := range []*http.Server{a.admin, a.metrics} {
		if s.Shutdown(ctx) != nil { // a profile or trace is being taken
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}
