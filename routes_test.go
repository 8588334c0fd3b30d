package parley_test

import (
	"testing"

	parleyhttp "parley/http"
)

// TestSpecRoutes holds the route table against the specification: what is asked
// for has a route or is listed as not built yet, what is not asked for is
// listed as beyond it.
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
