package rest

import (
	"reflect"
	"testing"

	"github.com/valyala/fasthttp"
)

// TestTarget: a target has everything of a query that the route reads, by each name that it knows,
// and nothing else.
func TestTarget(t *testing.T) {
	type in struct {
		MessageType string   `json:"-" query:"message_type"`
		Tag         []string `json:"-" query:"tag"`
	}
	p, err := newPlan(reflect.TypeFor[in](), "svc")
	if err != nil {
		t.Fatal(err)
	}
	target := func(uri string) string {
		ctx := &fasthttp.RequestCtx{}
		ctx.Request.SetRequestURI(uri)
		c := &Call{ctx: ctx, route: &Route{plan: p}}
		return c.Target()
	}
	plain := target("/x")
	for _, same := range []string{"/x?", "/x?unknown=1", "/x?tag2=a&TAG=b"} {
		if got := target(same); got != plain {
			t.Errorf("%s: %q, want %q", same, got, plain)
		}
	}
	seen := map[string]string{plain: "/x"}
	others := []string{"/y", "/x?tag=a", "/x?tag=b", "/x?tag=a&tag=b", "/x?message_type=a", "/x?tag=%61", "/x?message_type=a&tag=a"}
	for i := range p.query {
		for _, name := range p.query[i].names[1:] {
			others = append(others, "/x?"+name+"=c")
		}
	}
	for _, other := range others {
		if got := target(other); seen[got] != "" {
			t.Errorf("%s has the target of %s: %q", other, seen[got], got)
		} else {
			seen[got] = other
		}
	}
}
