package http

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"parley/client"
	"parley/http/rest"
)

// TestClientCallsRoutes: each call that the client declares by a tag is a route of the
// server, and is public if the route is.
func TestClientCallsRoutes(t *testing.T) {
	routes := Declared()
	seen := 0
	var walk func(subject reflect.Type)
	walk = func(subject reflect.Type) {
		for field := range subject.Fields() {
			tag := strings.Fields(field.Tag.Get("call"))
			switch {
			case len(tag) > 0:
				seen++
				at := slices.IndexFunc(routes, func(r rest.Route) bool { return r.Method == tag[0] && r.Path == tag[1] })
				if at < 0 || (routes[at].Access == rest.Public) != slices.Contains(tag, "public") {
					t.Errorf("%s.%s calls %q", subject, field.Name, tag)
				}
			case field.IsExported() && field.Type.Kind() == reflect.Struct:
				walk(field.Type)
			}
		}
	}
	walk(reflect.TypeFor[client.Session]())
	if seen < 50 {
		t.Errorf("the client declares %d calls", seen)
	}
}
