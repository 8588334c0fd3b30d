package http

import "testing"

// TestOperations holds the table of operations against the table of routes.
func TestOperations(t *testing.T) {
	routed := map[string]bool{}
	for _, r := range (&Service{}).Routes() {
		name := r.Method + " " + r.Path
		routed[name] = true
		if operations[name].ID == "" {
			t.Errorf("%s has no entry in operations: give it an id and the codes it refuses with", name)
		}
	}
	for name := range operations {
		if !routed[name] {
			t.Errorf("operations has %s, which is no route", name)
		}
	}
}
