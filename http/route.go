package http

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/valyala/fasthttp"
)

// Access says who may call a route.
type Access uint8

const (
	// public needs no credentials.
	public Access = iota
	// bearer needs an access token.
	bearer
	// tier1 needs an access token of an organization of trust tier 1 or more.
	tier1
	// basic takes client credentials, which the handler judges.
	basic
)

func (a Access) String() string { return [...]string{"public", "bearer", "tier1", "basic"}[a] }

// Route is one line of the table that is the whole interface.
type Route struct {
	Method  string
	Path    string
	Summary string
	// Status is that of an answer unless the handler says otherwise.
	Status int
	Access Access

	in, out reflect.Type // nil: nothing is bound, or the body is the handler's own
	media   string       // of the answer, when it is not JSON
	streams bool         // the connection outlives the handler
	exempt  bool         // it takes calls of suspended organizations, too
	handle  func(*Call, *plan) error
	plan    *plan
}

// route declares an endpoint with a typed handler from In to Out. Out is
// anything that marshals to JSON, NoContent, or Rendered; with a method
// Status() int it chooses its status.
func route[In, Out any](method, path string, access Access, status int, summary string, h func(*Call, *In) (Out, error)) Route {
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

// rendered declares an endpoint whose handler has the JSON of an As at hand, so
// that it is described like any other.
func rendered[As, In any](method, path string, access Access, status int, summary string, h func(*Call, *In) (Rendered, error)) Route {
	r := route(method, path, access, status, summary, h)
	r.out = reflect.TypeFor[As]()
	return r
}

// stream declares an endpoint whose handler takes the connection over. Until it
// does, an error is answered like any other.
func stream[In any](method, path string, access Access, summary string, h func(*Call, *In) error) Route {
	return Route{
		Method: method, Path: path, Summary: summary, Status: 200, Access: access,
		in: reflect.TypeFor[In](), media: "text/event-stream", streams: true,
		handle: func(c *Call, p *plan) error {
			in := new(In)
			if err := p.bind(c, reflect.ValueOf(in).Elem()); err != nil {
				return err
			}
			return h(c, in)
		},
	}
}

// raw declares an endpoint whose handler writes its own body of the media type.
func raw[In any](method, path string, access Access, media, summary string, h func(*Call, *In) error) Route {
	r := stream(method, path, access, summary, h)
	r.media, r.streams = media, false
	return r
}

// openToSuspended reports whether a suspended organization may call the route: it
// may read what it has, but not listen for more.
func (r *Route) openToSuspended() bool {
	return r.exempt || r.Method == fasthttp.MethodGet && !r.streams
}

var pathParameter = regexp.MustCompile(`\{([^{}]*)\}`)

// shapeOf is the path with its parameters made nameless: two routes of one
// method must differ in it, since the router silently mixes up those that do
// not.
func shapeOf(path string) string { return pathParameter.ReplaceAllString(path, "{}") }

// parameters are the names in the path.
func (r *Route) parameters() []string {
	var names []string
	for _, m := range pathParameter.FindAllStringSubmatch(r.Path, -1) {
		names = append(names, m[1])
	}
	return names
}

// prepare plans the binding and holds the path against it.
func (r *Route) prepare(brand string) (err error) {
	if r.plan, err = newPlan(r.in, brand); err != nil {
		return fmt.Errorf("%s %s: %w", r.Method, r.Path, err)
	}
	if r.plan.body == nil && (r.Method == fasthttp.MethodPost || r.Method == fasthttp.MethodPut || r.Method == fasthttp.MethodPatch) {
		r.plan.body = &members{most: extraMembers} // an object of which nothing is wanted, and nothing else
	}
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

// headerWord is a brand as it stands in header names: Svc.
func headerWord(brand string) string { return strings.ToUpper(brand[:1]) + brand[1:] }
