package kit

import (
	"maps"
	"testing"
)

// TestUndeclaredControl: an undeclared answer is reported, a declared one is not.
func TestUndeclaredControl(t *testing.T) {
	document := Obj{
		"paths": Obj{
			"/a/{id}": Obj{"get": Obj{"responses": Obj{"200": Obj{"headers": Obj{"X-Request-ID": Obj{}}}, "403": Obj{"$ref": "#/components/responses/No"}}}},
			"/a/b":    Obj{"get": Obj{"responses": Obj{"200": Obj{}}}},
		},
		"components": Obj{"responses": Obj{"No": Obj{"content": Obj{"application/json": Obj{"schema": Obj{"allOf": []any{Obj{}, Obj{"properties": Obj{"code": Obj{"enum": []any{"not_owner"}}}}}}}}}}},
	}
	for one, complaints := range map[seenAnswer]int{
		{method: "GET", path: "/a/1", status: 200, headers: "X-Request-ID "}:      0,
		{method: "HEAD", path: "/a/1", status: 200}:                               0,
		{method: "GET", path: "/a/1", status: 403, code: "not_owner"}:             0,
		{method: "GET", path: "/a/1", status: 405, code: "x"}:                     0,
		{method: "GET", path: "/c", status: 404, code: "not_found"}:               0,
		{method: "POST", path: "/a/1", status: 409}:                               0,
		{method: "GET", path: "/a/1", status: 409, code: "name_taken"}:            1,
		{method: "GET", path: "/a/1", status: 403, code: "quota_exceeded"}:        1,
		{method: "GET", path: "/a/1", status: 200, headers: "ETag X-Request-ID "}: 1,
		{method: "GET", path: "/a/b", status: 403, code: "not_owner"}:             1,
	} {
		if got := undeclaredIn(document, maps.Keys(map[seenAnswer]bool{one: true})); len(got) != complaints {
			t.Errorf("%+v: %q", one, got)
		}
	}
}
