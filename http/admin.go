package http

import (
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"
	"github.com/valyala/fasthttp/pprofhandler"
)

// Admin is the operator's door: metrics, profiles, readiness. It knows no
// callers and must never be reachable from outside.
type Admin struct{ engine *fasthttp.Server }

// NewAdmin makes the operator's door of a service.
func NewAdmin(s *Service) *Admin {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "parley_actors_live", Help: "Actors in memory.",
		}, func() float64 { return float64(s.Node.Live()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "parley_streams_open", Help: "Open agent streams.",
		}, func() float64 { return float64(s.Open()) }),
	)
	metrics := fasthttpadaptor.NewFastHTTPHandler(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return &Admin{engine: &fasthttp.Server{
		ReadTimeout: 30 * time.Second, IdleTimeout: time.Minute, NoDefaultServerHeader: true, CloseOnShutdown: true,
		Handler: func(ctx *fasthttp.RequestCtx) {
			switch path := string(ctx.Path()); {
			case path == "/metrics":
				metrics(ctx)
			case path == "/livez":
				ctx.SetBodyString("ok\n")
			case path == "/readyz" && s.Node.Healthy():
				ctx.SetBodyString("ok\n")
			case path == "/readyz":
				ctx.Error("writes are stalled\n", fasthttp.StatusServiceUnavailable)
			case len(path) > 12 && path[:13] == "/debug/pprof/":
				pprofhandler.PprofHandler(ctx)
			default:
				ctx.Error("not found\n", fasthttp.StatusNotFound)
			}
		},
	}}
}

// Serve accepts connections until Shutdown.
func (a *Admin) Serve(ln net.Listener) error { return a.engine.Serve(ln) }

// Shutdown closes the door.
func (a *Admin) Shutdown() error { return a.engine.Shutdown() }
