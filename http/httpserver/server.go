package httpserver

import (
	"context"
	"fmt"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"parley/client/parley"
	"parley/http/connlimit"
	"parley/http/docs"
	"parley/http/limit"
	"parley/http/rest"
)

// Authenticator identifies callers by their tokens.
type Authenticator interface {
	// Bearer checks the value of the Authorization header, empty if there is none, and
	// keeps no reference to it. An error is a parley.Refusal of reason Unauthenticated or
	// BadToken.
	Bearer(header []byte) (rest.Caller, error)
}

// Server serves the table of routes.
type Server struct {
	answers
	bodies
	judge    func(*rest.Call) error
	leaving  func() bool
	bounds   connlimit.Bounds
	single   []string // headers that must not be repeated
	inFlight atomic.Int64
	listener atomic.Pointer[connlimit.Listener]

	router *router.Router
	gets   *router.Router          // finds the route that a GET of a path would reach
	handle fasthttp.RequestHandler // handles a request that was read completely
	engine *fasthttp.Server

	host    rest.Host
	halt    context.CancelFunc
	mu      sync.Mutex
	drained bool
	closers []func()
}

// New plans every route and returns an error if the table is inconsistent.
func New(o Options) (*Server, error) {
	if err := o.ensureDefaults(); err != nil {
		return nil, err
	}
	s := &Server{
		answers: answers{
			routes: append(slices.Clone(o.Routes), docs.Routes(o.Brand, o.Version)...), logger: o.Logger, clock: o.Clock, newRequestID: o.NewRequestID,
			observe: o.Observe, errorPage: o.ErrorPage, damaged: o.Damaged, overload: o.Overload, origins: o.Origins, draining: make(chan struct{}),
		},
		bodies: bodies{auth: o.Authenticator}, judge: o.Admit, leaving: o.Leaving, bounds: o.Connections,
	}
	s.bounds.Budget = o.Budget
	running, halt := context.WithCancel(context.Background())
	s.halt = halt
	s.host = rest.Host{
		Budget: o.Budget, Source: o.Source, Resolve: o.Resolve, Clock: o.Clock, Draining: s.draining, Running: running, Observed: o.Observe != nil,
	}
	if err := s.mount(rest.HeaderWord(o.Brand)); err != nil {
		return nil, err
	}
	s.engine = &fasthttp.Server{
		Handler:                      s.serve,
		ErrorHandler:                 s.answerUnread,
		HeaderReceived:               s.arriving,
		ExpectHandler:                s.expected,
		StreamRequestBody:            true,
		Concurrency:                  o.Connections.Total + concurrencySlack,
		ReadBufferSize:               readBufferBytes,
		ReadTimeout:                  o.ReadTimeout,
		WriteTimeout:                 o.WriteTimeout,
		IdleTimeout:                  o.IdleTimeout,
		MaxRequestBodySize:           parley.BodyBytesMax, // others are bounded by receive
		DisablePreParseMultipartForm: true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		CloseOnShutdown:              true,
		SecureErrorLogMessage:        true,
		Logger:                       engineLog{o.Logger},
	}
	return s, nil
}

// mount builds the routers.
func (s *Server) mount(brand string) error {
	s.router, s.gets = newRouter(), newRouter()
	s.router.HandleMethodNotAllowed, s.router.HandleOPTIONS = true, true
	s.router.NotFound = s.noRoute
	s.router.MethodNotAllowed = func(ctx *fasthttp.RequestCtx) { s.refuse(ctx, nil, idOf(ctx), errMethod) }
	s.router.GlobalOPTIONS = s.options
	s.handle = s.router.Handler
	taken := map[string]string{}
	for i := range s.routes {
		r := &s.routes[i]
		if err := r.Prepare(brand); err != nil {
			return err
		}
		if r.Access.NeedsToken() && s.auth == nil {
			return fmt.Errorf("%s %s needs an authenticator", r.Method, r.Path)
		}
		key := r.Method + " " + rest.Shape(r.Path)
		if other, clash := taken[key]; clash {
			return fmt.Errorf("%s %s and %s are one route", r.Method, r.Path, other)
		}
		taken[key] = r.Path
		handler := func(ctx *fasthttp.RequestCtx) { s.call(ctx, r) }
		s.router.Handle(r.Method, r.Path, handler)
		if r.Method == fasthttp.MethodGet {
			s.gets.Handle(r.Method, r.Path, func(ctx *fasthttp.RequestCtx) { ctx.SetUserValue(routeKey, r) })
			if !r.Streams {
				s.router.Handle(fasthttp.MethodHead, r.Path, handler)
			}
		}
	}
	s.single, s.large = singleHeaders(s.routes), largeRoutes(s.routes)
	return nil
}

// noRoute answers a path that has no route. The path of the documentation's folder serves
// its first page: the router cannot have a route for it beside the neighbouring ones.
func (s *Server) noRoute(ctx *fasthttp.RequestCtx) {
	if string(ctx.URI().PathOriginal()) == docs.Folder && (ctx.IsGet() || ctx.IsHead()) {
		ctx.SetUserValue("file", "index.html")
		s.call(ctx, s.route(docs.File))
		return
	}
	if serve := s.withoutSlash(ctx); serve != nil {
		serve(ctx)
		return
	}
	s.refuse(ctx, nil, idOf(ctx), rest.ErrNoRoute)
}

// withoutSlash returns the handler of a path that ends with a slash too many, nil if there is
// none. Only clients of protocols within HTTP get along with it: the router cannot have both
// paths.
func (s *Server) withoutSlash(ctx *fasthttp.RequestCtx) fasthttp.RequestHandler {
	path, slash := strings.CutSuffix(string(ctx.URI().PathOriginal()), "/")
	if !slash || s.protocolOf(ctx, nil) == nil {
		return nil
	}
	serve, _ := s.router.Lookup(fasthttp.MethodPost, path, ctx)
	return serve
}

// route returns the route that serves a GET of a path.
func (s *Server) route(path string) *rest.Route {
	at := slices.IndexFunc(s.routes, func(r rest.Route) bool { return r.Method == fasthttp.MethodGet && r.Path == path })
	return &s.routes[at]
}

func newRouter() *router.Router {
	r := router.New()
	r.RedirectTrailingSlash, r.RedirectFixedPath = false, false
	r.HandleMethodNotAllowed, r.HandleOPTIONS = false, false
	return r
}

// userKey separates the values of a request from its path parameters.
type userKey uint8

const (
	requestIDKey userKey = iota
	routeKey
	refusedKey
	unreadKey // the body of a request was too large for an unknown caller
	heldKey   // the memory hold of a body
)

func idOf(ctx *fasthttp.RequestCtx) string {
	id, _ := ctx.UserValue(requestIDKey).(string)
	return id
}

// serve handles every request.
func (s *Server) serve(ctx *fasthttp.RequestCtx) {
	s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	id := s.begin(ctx)
	ctx.SetUserValue(requestIDKey, id)
	began := time.Time{}
	if s.observe != nil {
		began = s.clock()
	}
	s.dispatch(ctx, id)
	if ctx.Response.StatusCode() != fasthttp.StatusServiceUnavailable { // a 503 must not release the next one
		s.overload.Answered(s.clock)
	}
	select {
	case <-s.draining:
		ctx.SetConnectionClose()
	default:
		if s.leaving() {
			ctx.SetConnectionClose()
		}
	}
	if s.observe != nil {
		s.tell(ctx, id, began)
	}
}

func (s *Server) dispatch(ctx *fasthttp.RequestCtx, id string) {
	defer s.recover(ctx, id)
	chunked, err := s.guard(ctx)
	if err != nil {
		s.refuse(ctx, nil, id, err)
		ctx.SetConnectionClose()
		return
	}
	body, err := s.receive(ctx, chunked)
	if body != nil {
		defer body.Close()
	}
	if err != nil {
		s.refuseUnread(ctx, id, err)
		return
	}
	if !connlimit.Serve(ctx.Conn()) {
		s.refuse(ctx, nil, id, parley.ErrOverloaded)
		ctx.SetConnectionClose()
		return
	}
	if body != nil && body.Hold != (limit.Hold{}) {
		ctx.SetUserValue(heldKey, &body.Hold) // not the buffer: the engine closes values that it can
	}
	s.handle(ctx)
}

// recover answers a panic like any other defect. If the request had been read completely,
// the connection stays open.
func (s *Server) recover(ctx *fasthttp.RequestCtx, id string) {
	cause := recover()
	if cause == nil {
		return
	}
	r, _ := ctx.UserValue(routeKey).(*rest.Route)
	s.logger.Error("handler panicked", "request_id", id, "method", string(ctx.Method()), "route", r.Label(), "panic", cause, "stack", string(debug.Stack()))
	ctx.Hijack(nil)
	ctx.HijackSetNoResponse(false)
	ctx.Response.Reset()
	s.begin(ctx)
	if ctx.Request.IsBodyStream() {
		ctx.SetConnectionClose()
	}
	ctx.Response.Header.Set(rest.RequestIDHeader, id)
	if r != nil {
		s.dress(ctx, r)
	}
	p := rest.ProblemOf(parley.ErrInternal)
	s.note(ctx, &p)
	s.write(ctx, r, p, id)
}

// call runs a matched route: it checks the caller, its access and its input, then runs
// the handler.
func (s *Server) call(ctx *fasthttp.RequestCtx, r *rest.Route) {
	ctx.SetUserValue(routeKey, r)
	s.dress(ctx, r)
	c := rest.NewCall(ctx, &s.host, r, idOf(ctx))
	defer c.Release()
	if hold, ok := ctx.UserValue(heldKey).(*limit.Hold); ok {
		c.TakeHold(hold)
	}
	err := s.admit(c, ctx)
	if err == nil && ctx.UserValue(unreadKey) != nil {
		err = errStranger
	}
	if err == nil {
		err = r.Serve(c)
	}
	if err != nil {
		c.ReleaseAnswer()
		s.delay(ctx.Conn(), err)
		s.conceal(ctx, err)
		s.refuse(ctx, r, c.RequestID(), err)
	}
}

// dress sets the headers that every answer of a kind of route has.
func (s *Server) dress(ctx *fasthttp.RequestCtx, r *rest.Route) {
	h := &ctx.Response.Header
	if r.Access != rest.Public {
		h.Set(fasthttp.HeaderCacheControl, "no-store")
	} else if r.Method == fasthttp.MethodGet && !permitted(h) {
		h.Set(fasthttp.HeaderAccessControlAllowOrigin, "*")
		h.Set(fasthttp.HeaderAccessControlExposeHeaders, "ETag, Retry-After, X-Request-ID")
	}
}

// admit identifies the caller and checks that it may call the route.
func (s *Server) admit(c *rest.Call, ctx *fasthttp.RequestCtx) (err error) {
	r := c.Route()
	if r.Access.NeedsToken() {
		if s.overload.Reject(s.clock(), connlimit.Few(ctx.Conn())) {
			return parley.ErrOverloaded
		}
		if c.Caller, err = s.auth.Bearer(ctx.Request.Header.Peek(fasthttp.HeaderAuthorization)); err != nil {
			return err
		}
		if c.Caller.Erasing {
			if !r.OpenToErased() {
				return errErased
			}
			return nil
		}
		if !r.Access.Admits(c.Caller.Scope) {
			return rest.ErrScope
		}
	}
	if s.judge != nil {
		if err = s.judge(c); err != nil {
			return err
		}
	}
	if c.Caller.Suspended && !r.OpenToSuspended() {
		return rest.ErrSuspended
	}
	if r.Access.NeedsTier1() && c.Caller.Tier < 1 {
		return rest.ErrTier
	}
	return nil
}

// options answers with the methods of a path. It allows browsers to read public GETs from any
// origin, and pages of listed origins all methods. The router has set Allow.
func (s *Server) options(ctx *fasthttp.RequestCtx) {
	ctx.SetStatusCode(fasthttp.StatusNoContent)
	if permitted(&ctx.Response.Header) {
		preflight(ctx)
		return
	}
	lookup, _ := s.gets.Lookup(fasthttp.MethodGet, string(ctx.URI().PathOriginal()), ctx)
	if lookup == nil {
		return
	}
	lookup(ctx)
	if r, ok := ctx.UserValue(routeKey).(*rest.Route); ok && r.Access == rest.Public {
		h := &ctx.Response.Header
		h.Set(fasthttp.HeaderAccessControlAllowOrigin, "*")
		h.Set(fasthttp.HeaderAccessControlAllowMethods, "GET, HEAD")
		h.Set(fasthttp.HeaderAccessControlAllowHeaders, "Accept, Content-Type, If-Modified-Since, If-None-Match, X-Request-ID")
		h.Set(fasthttp.HeaderAccessControlMaxAge, "86400")
	}
}

// Serve accepts connections until Shutdown.
func (s *Server) Serve(ln net.Listener) error {
	l := connlimit.Limit(ln, s.bounds, s.clock, s.noRoom)
	s.listener.Store(l)
	return s.engine.Serve(l)
}

// OnDrain registers a function that ends long-lived connections. It runs once when the
// server begins to stop, or at once if it already has.
func (s *Server) OnDrain(end func()) {
	s.mu.Lock()
	late := s.drained
	if !late {
		s.closers = append(s.closers, end)
	}
	s.mu.Unlock()
	if late {
		end()
	}
}

// Shutdown stops accepting connections, ends streams, and waits for requests to finish.
// If ctx ends first, it gives up and returns the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	closers := s.closers
	if !s.drained {
		s.drained = true
		close(s.draining)
	}
	s.closers = nil
	s.mu.Unlock()
	var ending sync.WaitGroup
	for _, end := range closers {
		ending.Go(end)
	}
	err := s.engine.ShutdownWithContext(ctx)
	s.halt()
	ending.Wait()
	return err
}

// Routes returns the table as served, documentation included.
func (s *Server) Routes() []rest.Route { return slices.Clone(s.routes) }
