package rest

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parley/client/api"
)

// rpcPrefix begins the names of refusals in the form of JSON-RPC.
const rpcPrefix = "A2A"

// refusedByRPC describes one status of refusals of an RPC route.
func (b *schemas) refusedByRPC(r refusal) object {
	return response(refusalTexts[r.status], headers(headersOf(r)...), JSONMedia, withCodes(b.output(reflect.TypeFor[api.A2ARefusal]()), r.codes))
}

// successOfRPC describes the 200 of an RPC route: errors of JSON-RPC, which have no status of
// HTTP, are in it too.
func (b *schemas) successOfRPC(success object) object {
	out := object{}
	for _, e := range success {
		switch e.name {
		case "description":
			e.value = "The JSON-RPC response: a result, or an error that has no HTTP status of its own, such as a refusal by a policy (-32000). The streaming methods answer with server-sent events, each of which has such a response."
		case "content":
			e.value = object{{JSONMedia, object{{"schema", b.output(reflect.TypeFor[api.A2AResponse]())}}}, {eventMedia, streamed(b.taskEvent())}}
		}
		out = append(out, e)
	}
	return out
}

// taskEvent describes an event of a stream of the bridge.
func (b *schemas) taskEvent() object {
	return b.ref(reflect.TypeFor[a2AStreamEvent](), false, func() object {
		data := object{{"type", "string"}, {"contentMediaType", JSONMedia}, {"contentSchema", b.output(reflect.TypeFor[api.A2AResponse]())}}
		return object{
			{"type", "object"},
			{"description", "One event of a stream of the A2A bridge. Its data is a JSON-RPC response."},
			{"properties", object{
				{"id", object{{"type", "string"}, {"description", "The number of the event, for Last-Event-ID. An error has none."}}},
				{"data", data},
			}},
			{"required", []string{"data"}},
		}
	})
}

// a2AStreamEvent names the schema of the events of the bridge's streams.
type a2AStreamEvent struct{}

// TestBridgeInDocument: answers of the A2A bridge have the shape of JSON-RPC, and no status
// that the bridge does not use.
func TestBridgeInDocument(t *testing.T) {
	document := serviceDocument(t)
	responses := at(t, document, "paths", "/a2a/{handle}", "post", "responses").(map[string]any)
	if got := slices.Sorted(maps.Keys(responses)); !slices.Equal(got, []string{"200", "401", "403", "404", "413", "415", "429", "503", "default"}) {
		t.Errorf("statuses %v", got)
	}
	for status, response := range responses {
		ref, shared := response.(map[string]any)["$ref"].(string)
		if shared {
			response = at(t, document, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
		want := "A2ARefusal"
		switch status {
		case "200":
			want = "A2AResponse"
		case "default":
			want = "Error"
		}
		if schema, _ := json.Marshal(at(t, response, "content", JSONMedia, "schema")); !strings.Contains(string(schema), `"#/components/schemas/`+want+`"`) {
			t.Errorf("%s: %s", status, schema)
		}
	}
	for name, want := range map[string]string{"A2ARefusal": `{"type":"null"}`, "A2AResponse": `{"oneOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]}`} {
		id := maps.Clone(at(t, document, "components", "schemas", name, "properties", "id").(map[string]any))
		delete(id, "description")
		if got, _ := json.Marshal(id); string(got) != want {
			t.Errorf("id of %s: %s", name, got)
		}
	}
}

// TestGeneratorsTellApart: parameters of one operation have names of their own in Go, and what
// may have several shapes has a discriminator or cannot be mistaken.
func TestGeneratorsTellApart(t *testing.T) {
	document := serviceDocument(t)
	for path, methods := range at(t, document, "paths").(map[string]any) {
		for method, operation := range methods.(map[string]any) {
			names := map[any]bool{}
			parameters, _ := operation.(map[string]any)["parameters"].([]any)
			for _, p := range parameters {
				p := p.(map[string]any)
				name := cmp.Or(p["x-go-name"], p["name"])
				if names[name] {
					t.Errorf("%s %s has two parameters %v", method, path, name)
				}
				names[name] = true
			}
		}
	}
	kinds := at(t, document, "components", "schemas", "AgentStreamEvent", "discriminator", "mapping").(map[string]any)
	for _, e := range streamEvents {
		ref, _ := kinds[e.name].(string)
		if got := at(t, document, append(strings.Split(strings.TrimPrefix(ref, "#/"), "/"), "properties", "event", "const")...); got != e.name {
			t.Errorf("%s: %v", e.name, got)
		}
	}
}
