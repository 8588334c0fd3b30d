package rest

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/valyala/fasthttp"

	"parley/client/parley"
)

// Access is the access that a route requires.
type Access uint8

const (
	// Public needs no credentials.
	Public Access = iota
	// Basic takes client credentials, which the handler checks.
	Basic
	// Read needs an access token of any scope.
	Read
	// Act needs a token of scope org or agents.
	Act
	// Tier1 is Act for organizations of trust tier 1 or more.
	Tier1
	// Manage needs a token of scope org.
	Manage
	// ManageTier1 is Manage for organizations of trust tier 1 or more.
	ManageTier1
)

func (a Access) String() string {
	return [...]string{"public", "basic", "read", "act", "tier1", "manage", "manage tier1"}[a]
}

// NeedsToken reports whether callers need an access token.
func (a Access) NeedsToken() bool { return a >= Read }

// NeedsTier1 reports whether callers need trust tier 1 or more.
func (a Access) NeedsTier1() bool { return a == Tier1 || a == ManageTier1 }

// Scopes returns the scopes of which a token needs one, the widest first; nil if it needs no token.
func (a Access) Scopes() []parley.Scope {
	switch a {
	case Public, Basic:
	case Read:
		return []parley.Scope{parley.ScopeOrg, parley.ScopeAgents, parley.ScopeRead}
	case Act, Tier1:
		return []parley.Scope{parley.ScopeOrg, parley.ScopeAgents}
	case Manage, ManageTier1:
		return []parley.Scope{parley.ScopeOrg}
	}
	return nil
}

// Admits reports whether a token of a scope may call a route that needs one.
func (a Access) Admits(s parley.Scope) bool {
	return s == parley.ScopeOrg || a == Read || s == parley.ScopeAgents && (a == Act || a == Tier1)
}

// Route is one line of the table that is the whole interface.
type Route struct {
	Method  string
	Path    string
	Summary string
	// Status is the status of a successful answer unless the handler overrides it.
	Status int
	Access Access
	// BadRequest: input that does not match the schema is answered with 400 instead of 422,
	// as the standard of the route demands.
	BadRequest bool
	// Probe: load balancers call the route again and again. It has no rate limit, and is
	// never rejected for load.
	Probe bool
	// BodyMax bounds the body, in bytes; 0 means parley.BodyBytesMax.
	BodyMax int

	in, out reflect.Type // nil: nothing is bound, or the handler writes its own body
	media   string       // of the answer; empty: application/json
	Streams bool         // the handler takes the connection over
	Exempt  bool         // also open to suspended organizations
	erases  bool         // also open to the token that asked for the erasure
	people  bool         // refusals are pages if the client accepts HTML
	handle  func(*Call, *plan) error
	plan    *plan
	// refusal gives refusals the form of the route's protocol, nil for the usual form.
	refusal func(p Problem, requestID string) (status int, body []byte)
}

// Typed declares an endpoint with a typed handler from In to Out. Out is anything
// that marshals to JSON, NoContent or Rendered. An Out with a method Status() int
// chooses its own status.
func Typed[In, Out any](method, path string, access Access, status int, summary string, h func(*Call, *In) (Out, error)) Route {
	return Route{
		Method: method, Path: path, Summary: summary, Status: status, Access: access,
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](),
		handle: func(c *Call, p *plan) error {
			in := new(In)
			if err := p.bind(c, reflect.ValueOf(in).Elem()); err != nil {
				return err
			}
			out, err := h(c, in)
			if err != nil {
				return err
			}
			return c.answer(out)
		},
	}
}

// RenderedAs declares an endpoint whose handler renders the JSON itself. The document
// describes the answer as As.
func RenderedAs[As, In any](method, path string, access Access, status int, summary string, h func(*Call, *In) (Rendered, error)) Route {
	r := Typed(method, path, access, status, summary, h)
	r.out = reflect.TypeFor[As]()
	return r
}

// As returns the route with another media type of its successful answers, which are JSON
// all the same.
func (r Route) As(media string) Route {
	r.media = media
	return r
}

// Stream declares an endpoint whose handler takes over the connection. Until then errors
// are answered as on any other route.
func Stream[In any](method, path string, access Access, summary string, h func(*Call, *In) error) Route {
	return Route{
		Method: method, Path: path, Summary: summary, Status: 200, Access: access,
		in: reflect.TypeFor[In](), media: "text/event-stream", Streams: true,
		handle: func(c *Call, p *plan) error {
			in := new(In)
			if err := p.bind(c, reflect.ValueOf(in).Elem()); err != nil {
				return err
			}
			return h(c, in)
		},
	}
}

// Download declares an endpoint whose handler takes over the connection and writes a long
// answer of the media type, for tokens of scope org. Suspended organizations may call it.
func Download[In any](path, media, summary string, h func(*Call, *In) error) Route {
	r := Stream(fasthttp.MethodGet, path, Manage, summary, h)
	r.media, r.Exempt = media, true
	return r
}

// Raw declares an endpoint whose handler writes its own body of the media type.
func Raw[In any](method, path string, access Access, media, summary string, h func(*Call, *In) error) Route {
	r := Stream(method, path, access, summary, h)
	r.media, r.Streams = media, false
	return r
}

// RPC declares an endpoint of a protocol within HTTP. Its handler reads the body and writes
// the answer. Of In only path, query and headers are bound; its members describe the body.
// refusal gives all refusals the form of the protocol. Calls of suspended organizations
// reach the handler, which refuses them: only it knows the request's id.
func RPC[In any](path string, access Access, summary string, h func(*Call, *In) error, refusal func(p Problem, requestID string) (status int, body []byte)) Route {
	r := Raw("POST", path, access, JSONMedia, summary, h)
	r.refusal, r.Exempt = refusal, true
	return r
}

// OwnRefusals reports whether refusals have the form of the route's protocol.
func (r *Route) OwnRefusals() bool { return r.refusal != nil }

// Refusal returns the answer to a problem in the form of the route's protocol. It returns
// false for a route with the usual form.
func (r *Route) Refusal(p Problem, requestID string) (status int, body []byte, own bool) {
	if r == nil || r.refusal == nil {
		return 0, nil, false
	}
	status, body = r.refusal(p, requestID)
	return status, body, true
}

// OpenToSuspended reports whether a suspended organization may call the route. It
// may read what it has, but not open a stream.
func (r *Route) OpenToSuspended() bool {
	return r.Exempt || r.Method == fasthttp.MethodGet && !r.Streams
}

// ForProbes returns the route as a Probe.
func (r Route) ForProbes() Route {
	r.Probe = true
	return r
}

// WithBadRequest returns the route with BadRequest set.
func (r Route) WithBadRequest() Route {
	r.BadRequest = true
	return r
}

// WithBody returns the route with another bound for its bodies, in bytes.
func (r Route) WithBody(most int) Route {
	r.BodyMax = most
	return r
}

// Matches reports whether a request is for the route, by its method and the target in its
// first line. It reports false for a path that is not written plainly.
func (r *Route) Matches(method, target []byte) bool {
	if string(method) != r.Method {
		return false
	}
	path, _, _ := strings.Cut(string(target), "?")
	parts, own := strings.Split(path, "/"), strings.Split(r.Path, "/")
	if len(parts) != len(own) {
		return false
	}
	for i, part := range own {
		if part != parts[i] && !(strings.HasPrefix(part, "{") && parts[i] != "") {
			return false
		}
	}
	return true
}

// ToErase returns the route as the one that erases the caller's organization: it may be
// called again with the same token, and by suspended organizations.
func (r Route) ToErase() Route {
	r.erases, r.Exempt = true, true
	return r
}

// OpenToErased reports whether the route may be called with the token that asked for the
// erasure of its organization.
func (r *Route) OpenToErased() bool { return r.erases }

var pathParameter = regexp.MustCompile(`\{([^{}]*)\}`)

// Shape returns the path with anonymous parameters. Two routes with the same method must
// differ in it, because the router silently mixes up those that do not.
func Shape(path string) string { return pathParameter.ReplaceAllString(path, "{}") }

// parameters returns the names of the path's parameters.
func (r *Route) parameters() []string {
	var names []string
	for _, m := range pathParameter.FindAllStringSubmatch(r.Path, -1) {
		names = append(names, m[1])
	}
	return names
}

// Prepare builds the binding plan and checks the path against it. brand is the word in
// header names, such as Svc in X-Svc-Agent.
func (r *Route) Prepare(brand string) (err error) {
	if r.plan, err = newPlan(r.in, brand); err != nil {
		return fmt.Errorf("%s %s: %w", r.Method, r.Path, err)
	}
	if r.plan.body == nil && (r.Method == fasthttp.MethodPost || r.Method == fasthttp.MethodPut || r.Method == fasthttp.MethodPatch) {
		r.plan.body = &members{most: extraMembers} // an object without known members
	}
	if r.Method == fasthttp.MethodPatch {
		r.plan.body.some = true
	}
	r.plan.lists = r.Method == fasthttp.MethodGet && isList(r.out)
	r.plan.unbound = r.refusal != nil
	bound := map[string]bool{}
	for _, f := range r.plan.path {
		bound[f.name] = true
	}
	for _, name := range r.parameters() {
		if !bound[name] {
			return fmt.Errorf("%s %s: %s has no field for {%s}", r.Method, r.Path, r.in, name)
		}
		delete(bound, name)
	}
	for name := range bound {
		return fmt.Errorf("%s %s: the path has no {%s}", r.Method, r.Path, name)
	}
	if !strings.HasPrefix(r.Path, "/") {
		return fmt.Errorf("%s %s: the path must begin with /", r.Method, r.Path)
	}
	return nil
}

// isList reports whether answers of a type are an array, a page, or what came in a wait.
func isList(out reflect.Type) bool {
	if out == nil || out.Kind() == reflect.Slice {
		return out != nil
	}
	if _, both := reflect.Zero(out).Interface().(interface{ OneOf() []any }); both {
		return true
	}
	if out.Kind() != reflect.Struct {
		return false
	}
	for f := range out.Fields() {
		if name, _ := jsonName(f); name == "items" {
			return true
		}
	}
	return false
}

// ReplayedHeader marks the answer to a request that was made before, under the same key.
const ReplayedHeader = "Idempotency-Replayed"

// Text returns a text, or "" if it is absent.
func Text(t *string) string {
	if t == nil {
		return ""
	}
	return *t
}

// HeaderWord returns a brand in the spelling of header names: Svc.
func HeaderWord(brand string) string { return strings.ToUpper(brand[:1]) + brand[1:] }

// Serve binds the request of a call and runs the handler.
func (r *Route) Serve(c *Call) error { return r.handle(c, r.plan) }

// Headers returns the names of the request headers that the route reads.
func (r *Route) Headers() []string {
	names := make([]string, 0, len(r.plan.header))
	for i := range r.plan.header {
		names = append(names, r.plan.header[i].name)
	}
	return names
}

// Label returns the name of a route in metrics and logs: its path with the names of its
// parameters, or "none" if r is nil.
func (r *Route) Label() string {
	if r == nil {
		return "none"
	}
	return r.Path
}
