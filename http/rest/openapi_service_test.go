package rest

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parley/client/api"
)

// servicePlans plans the routes of the server, without a service behind them.
func servicePlans(t *testing.T, brand string) []Route {
	t.Helper()
	routes := ServiceRoutes()
	for i := range routes {
		if err := routes[i].Prepare(brand); err != nil {
			t.Fatal(err)
		}
	}
	return routes
}

// ServiceRoutes returns the routes of the server, ServiceDocument the document that it
// serves. service_test.go sets them, because a test of package rest cannot import the
// service.
var (
	ServiceRoutes   func() []Route
	ServiceDocument func(brand, version string) []byte
)

// serviceDocument returns the document of a server with the brand acme.
func serviceDocument(t *testing.T) map[string]any {
	t.Helper()
	text := ServiceDocument("acme", "1.2")
	for _, placeholder := range []string{brandWord, headerWord, versionWord} {
		if strings.Contains(string(text), placeholder) {
			t.Errorf("the document has %s", placeholder)
		}
	}
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	if version := at(t, document, "info", "version"); version != "1.2" {
		t.Errorf("version %v", version)
	}
	return document
}

// TestExamplesAreAccepted binds the example of every body with the route's binder,
// including the rules across members.
func TestExamplesAreAccepted(t *testing.T) {
	document, bodies := serviceDocument(t), 0
	for _, r := range servicePlans(t, "Acme") {
		if !r.plan.bodied {
			continue
		}
		bodies++
		example := at(t, document, "paths", r.Path, strings.ToLower(r.Method), "requestBody", "content", JSONMedia, "example")
		text, err := json.Marshal(example)
		if err != nil || len(r.plan.body.fields) > 0 && string(text) == "{}" {
			t.Errorf("%s %s: example %s, %v", r.Method, r.Path, text, err)
			continue
		}
		in, faults := reflect.New(r.in), &SchemaError{}
		decodeBody(text, r.plan.body, in.Elem(), faults)
		if rules, ok := in.Interface().(checker); ok {
			faults.Faults = append(faults.Faults, rules.Check()...)
		}
		if len(faults.Faults) > 0 {
			t.Errorf("%s %s: the example %s is refused: %v", r.Method, r.Path, text, faults.Faults)
		}
	}
	if bodies < 20 {
		t.Errorf("only %d bodies", bodies)
	}
}

// goOnly finds text that only a reader of the source understands.
var goOnly = regexp.MustCompile(`\b(?:[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*|[A-Z]+[a-z]+ID|[A-Z]\w*IDs?)\b`)

// inCode finds what a text quotes, such as methods of A2A.
var inCode = regexp.MustCompile("`[^`]*`")

// plainWords look like Go identifiers but are names elsewhere.
var plainWords = []string{"AgentRead", "GroupRead", "WebhookRead", "MessageRead", "WebFinger", "OpenAPI", "ErrorInfo", "BadRequest", "ConflictError", "EdDSA", "UUID", "DID", "SVID", "KiB", "MiB"}

// TestDescriptionsAreForReaders: every description in the document has the brand,
// contains nothing that a page renders as HTML, and is not a Go comment.
func TestDescriptionsAreForReaders(t *testing.T) {
	texts := 0
	var visit func(path string, node any)
	visit = func(path string, node any) {
		switch node := node.(type) {
		case []any:
			for _, item := range node {
				visit(path, item)
			}
		case map[string]any:
			for name, member := range node {
				text, ok := member.(string)
				if !ok || name != "description" && name != "summary" {
					visit(path+"/"+name, member)
					continue
				}
				texts++
				if strings.ContainsAny(text, "<>") || strings.Contains(strings.ToLower(text), "svc") {
					t.Errorf("%s: a placeholder, or the neutral word in place of the brand: %s", path, text)
				}
				for _, word := range goOnly.FindAllString(inCode.ReplaceAllString(text, ""), -1) {
					if !slices.Contains(plainWords, word) {
						t.Errorf("%s: %s is a name in Go: %s", path, word, text)
					}
				}
				if subject := path[strings.LastIndexByte(path, '/')+1:]; strings.HasPrefix(text, subject+" ") {
					t.Errorf("%s: a Go comment: %s", path, text)
				}
			}
		}
	}
	document := serviceDocument(t)
	visit("", document)
	if texts < 200 {
		t.Errorf("only %d texts", texts)
	}
	signature := parameter(t, document, "/messages", "post", "X-Acme-Message-Signature")
	if text := signature["description"].(string); !strings.Contains(text, `"acme-msg-v1\n"`) {
		t.Errorf("the description of what is signed: %s", text)
	}
}

func TestDocumentOfTheService(t *testing.T) {
	document := serviceDocument(t)
	walk(t, document, document)
	schemas := at(t, document, "components", "schemas")
	if provenance, _ := json.Marshal(at(t, schemas, "Message", "properties", "metadata", "properties", "provenance")); string(provenance) != `{"$ref":"#/components/schemas/Provenance"}` {
		t.Errorf("metadata.provenance: %s", provenance)
	}
	free := 0
	for name, schema := range schemas.(map[string]any) {
		properties, _ := schema.(map[string]any)["properties"].(map[string]any)
		for member, property := range properties {
			p, _ := property.(map[string]any)
			if kind, _ := json.Marshal(p["type"]); strings.Contains(string(kind), `"object"`) {
				if free++; p["additionalProperties"] == nil {
					t.Errorf("%s.%s: additionalProperties is not declared", name, member)
				}
			}
		}
	}
	if free < 5 {
		t.Errorf("only %d free-form objects", free)
	}
	if health, _ := json.Marshal(at(t, document, "paths", "/health", "get", "responses", "503", "content", "application/json", "schema")); string(health) != `{"$ref":"#/components/schemas/Health"}` {
		t.Errorf("503 of /health: %s", health)
	}
	var names []string
	for name := range at(t, document, "webhooks").(map[string]any) {
		names = append(names, name)
	}
	events, _ := reflect.TypeFor[api.CreateWebhook]().FieldByName("Events")
	known := strings.Split(events.Tag.Get("enum"), ",")
	slices.Sort(names)
	slices.Sort(known)
	if !slices.Equal(names, known) {
		t.Errorf("described webhooks %v, deliverable events %v", names, known)
	}
	stream, _ := json.Marshal(at(t, document, "paths", "/agents/{id}/stream", "get", "responses", "200", "content", "text/event-stream", "schema"))
	if string(stream) != `{"$ref":"#/components/schemas/AgentStreamEvent"}` {
		t.Errorf("stream: %s", stream)
	}
	search, _ := json.Marshal(at(t, document, "paths", "/directory/agents/stream", "get", "responses", "200", "content", "text/event-stream", "schema"))
	if string(search) != `{"$ref":"#/components/schemas/SearchStreamEvent"}` {
		t.Errorf("search stream: %s", search)
	}
	if end := at(t, schemas, "SearchStreamEvent", "properties", "data", "if", "const"); end != api.StreamDone {
		t.Errorf("the end of the search stream: %v", end)
	}
	if kinds := at(t, schemas, "AgentStreamEvent", "oneOf"); len(kinds.([]any)) != len(streamEvents) {
		t.Errorf("events of the stream: %v", kinds)
	}
}

// TestOperations: each route of the server has an entry in operations, with an id of its own
// and only codes that do not follow from the route.
func TestOperations(t *testing.T) {
	camelCase := regexp.MustCompile(`^[a-z]+([A-Z]+[a-z0-9]*)*$`)
	ids, routed := map[string]string{}, map[string]bool{}
	for _, r := range servicePlans(t, "Acme") {
		name := r.Method + " " + r.Path
		op, entered := operations[name]
		if routed[name] = true; !entered {
			t.Errorf("%s has no entry in operations: add its id and the codes of its refusals", name)
			continue
		}
		if other, taken := ids[op.ID]; taken || !camelCase.MatchString(op.ID) {
			t.Errorf("%s: the id %q is not a free camelCase verb (%s)", name, op.ID, other)
		}
		ids[op.ID] = name
		for _, code := range strings.Fields(op.Refuses) {
			if code, _, _ := strings.Cut(code, "/"); statusOfCode(code) == 0 {
				t.Errorf("%s: no status for the code %s", name, code)
			}
			if slices.Contains(impliedCodes(&r), code) && code != "not_owner" && code != "not_found" {
				t.Errorf("%s: %s follows from the route and need not be listed", name, code)
			}
		}
	}
	for name := range operations {
		if !routed[name] {
			t.Errorf("operations has %s, which is not a route", name)
		}
	}
	if ids["sendMessage"] != "POST /messages" || ids["replyToMessage"] != "POST /messages/{id}/reply" {
		t.Errorf("the ids are %v", ids)
	}
}
