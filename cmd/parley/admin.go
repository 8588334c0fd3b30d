package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"parley/actors"
	parleyhttp "parley/http"
)

// adminDoor is the operator's: metrics, profiles, readiness, backups. It knows no
// callers and must never be reachable from outside.
type adminDoor struct{ server *http.Server }

func newAdminDoor(node *actors.Node, service *parleyhttp.Service, backups *backupDoor) *adminDoor {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metricsOf(node, service), promhttp.HandlerOpts{}))
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
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return &adminDoor{&http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}}
}

func metricsOf(node *actors.Node, service *parleyhttp.Service) *prometheus.Registry {
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("parley_actors_live", "Actors in memory.", node.Live),
		gauge("parley_streams_open", "Open agent streams.", service.OpenStreams),
	)
	return r
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
