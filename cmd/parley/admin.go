package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"parley/actors"
)

// adminDoor is the operator's: metrics, profiles, readiness, backups. It knows no
// callers and must never be reachable from outside.
type adminDoor struct{ server *http.Server }

func newAdminDoor(node *actors.Node, metrics prometheus.Gatherer, backups *backupDoor, orgs *orgDoor) *adminDoor {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if trouble := node.Trouble(); trouble != nil {
			http.Error(w, trouble.Text, http.StatusServiceUnavailable)
			return
		}
		if file := node.Damage(); file != "" {
			http.Error(w, "damaged: "+file, http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.Handle("POST /backup", backups)
	orgs.mount(mux)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return &adminDoor{&http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}}
}

// serve accepts connections until close.
func (a *adminDoor) serve(ln net.Listener) error {
	if err := a.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (a *adminDoor) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if a.server.Shutdown(ctx) == nil {
		return nil
	}
	return a.server.Close() // a profile or trace is being taken
}
