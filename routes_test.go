package parley_test

import (
	"testing"

	parleyhttp "parley/http"
)

// TestSpecRoutes compares the route table with the specification: every endpoint has
// a route, and every other route is listed in beyondSpec.
func TestSpecRoutes(t *testing.T) {
	var routes []string
	for _, endpoint := range parleyhttp.Endpoints() {
		routes = append(routes, normalEndpoint(endpoint.Method, endpoint.Path))
	}
	if len(routes) == 0 {
		t.Fatal("the route table is empty")
	}
	for _, complaint := range compareRoutes(endpointsOf(readSpec(t)), routes) {
		t.Error(complaint)
	}
}
