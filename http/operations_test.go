package http

import "testing"

// TestOperations compares the table of operations with the table of routes.
func TestOperations(t *testing.T) {
	routed := map[string]bool{}
	for _, r := range (&Service{}).Routes() {
		name := r.Method + " " + r.Path
		routed[name] = true
		if operations[name].ID == "" {
			t.Errorf("%s has no entry in operations: add its id and the codes of its refusals", name)
		}
	}
	for name := range operations {
		if !routed[name] {
			t.Errorf("operations has %s, which is not a route", name)
		}
	}
}
