package rest

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parley/client/api"
)

// wireRoutes use every kind of wire struct in a document.
func wireRoutes() []Route {
	return []Route{
		Typed("POST", "/messages", Tier1, 201, "Send.", func(*Call, *api.Send) (api.Message, error) { return api.Message{}, nil }),
		Typed("PATCH", "/org", Act, 200, "Change.", func(*Call, *api.OrgPatch) (*api.Org, error) { return nil, nil }),
		Typed("GET", "/agents/{id}/messages", Read, 200, "List.", func(*Call, *api.Inbox) (api.Page[api.Message], error) { return api.Page[api.Message]{}, nil }),
		Typed("POST", "/agents", Tier1, 201, "Create.", func(*Call, *api.CreateAgent) (api.Agent, error) { return api.Agent{}, nil }),
		Typed("GET", "/agents", Read, 200, "List.", func(*Call, *api.ListAgents) ([]api.Agent, error) { return nil, nil }),
		Typed("GET", "/agents/keys", Public, 200, "Keys.", func(*Call, *api.GetBatchKeys) (api.BatchKeys, error) { return api.BatchKeys{}, nil }),
		Typed("POST", "/oauth/token", Basic, 200, "Token.", func(*Call, *api.TokenRequest) (api.Token, error) { return api.Token{}, nil }),
	}
}

// at returns a node of a JSON document.
func at(t *testing.T, node any, path ...string) any {
	t.Helper()
	for _, name := range path {
		members, ok := node.(map[string]any)
		if !ok || members[name] == nil {
			t.Fatalf("no %q of %v in %v", name, path, node)
		}
		node = members[name]
	}
	return node
}

func documentOf(t *testing.T, routes []Route) map[string]any {
	t.Helper()
	for i := range routes {
		if err := routes[i].Prepare(headerWord); err != nil {
			t.Fatal(err)
		}
	}
	text, err := openAPI(routes, nil)
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	return document
}

func TestDocumentIsValid(t *testing.T) {
	routes := append(toyRoutes(), wireRoutes()...)
	document := documentOf(t, routes)
	if at(t, document, "openapi") != "3.1.0" || at(t, document, "info", "version") != versionWord {
		t.Errorf("info: %v", document["info"])
	}
	for _, r := range routes {
		op := at(t, document, "paths", r.Path, strings.ToLower(r.Method)).(map[string]any)
		if at(t, op, "summary") != r.Summary || len(at(t, op, "responses").(map[string]any)) < 2 {
			t.Errorf("%s %s: %v", r.Method, r.Path, op)
		}
		scheme := map[Access]string{
			Public: "[]", Read: `[{"bearer":[]},{"oauth2":["org"]},{"oauth2":["agents"]},{"oauth2":["read"]}]`,
			Act: `[{"bearer":[]},{"oauth2":["org"]},{"oauth2":["agents"]}]`, Tier1: `[{"bearer":[]},{"oauth2":["org"]},{"oauth2":["agents"]}]`,
			Manage: `[{"bearer":[]},{"oauth2":["org"]}]`, ManageTier1: `[{"bearer":[]},{"oauth2":["org"]}]`, Basic: `[{"basic":[]}]`,
		}[r.Access]
		if got, _ := json.Marshal(op["security"]); string(got) != scheme {
			t.Errorf("%s %s: security %s, want %s", r.Method, r.Path, got, scheme)
		}
		var inPath []string
		parameters, _ := op["parameters"].([]any)
		for _, p := range parameters {
			if at(t, p, "in") == "path" {
				inPath = append(inPath, at(t, p, "name").(string))
			}
		}
		if want := r.parameters(); !slices.Equal(inPath, want) {
			t.Errorf("%s %s: path parameters %v, want %v", r.Method, r.Path, inPath, want)
		}
	}
	walk(t, document, document)
}

// walk checks that every reference resolves and that every required member is
// described.
func walk(t *testing.T, document map[string]any, node any) {
	switch node := node.(type) {
	case []any:
		for _, item := range node {
			walk(t, document, item)
		}
	case map[string]any:
		if ref, ok := node["$ref"].(string); ok {
			at(t, document, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
		if required, ok := node["required"].([]any); ok {
			properties := at(t, node, "properties").(map[string]any)
			for _, name := range required {
				if properties[name.(string)] == nil {
					t.Errorf("%v is required but not described in %v", name, node)
				}
			}
		}
		for _, member := range node {
			walk(t, document, member)
		}
	}
}

// TestDocumentMatchesEnforcedRules compares schemas of each kind with literal JSON.
func TestDocumentMatchesEnforcedRules(t *testing.T) {
	document := documentOf(t, append(toyRoutes(), wireRoutes()...))
	schemas := at(t, document, "components", "schemas")
	for path, want := range map[string]string{
		"ToyIn/required":                      `["type"]`,
		"ToyIn/properties/payload":            `{"maxLength":16,"pattern":"^[A-Za-z0-9_-]+={0,2}$","type":["string","null"]}`,
		"ToyIn/properties/type":               `{"maxLength":30,"pattern":"^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+){2,}$","type":"string"}`,
		"ToyIn/properties/version":            `{"default":"hpke-v1","enum":["hpke-v1","sender-key-v1","none",null],"type":["string","null"]}`,
		"ToyIn/properties/hours":              `{"maximum":72,"minimum":1,"type":["integer","null"]}`,
		"ToyIn/properties/human":              `{"default":true,"type":["boolean","null"]}`,
		"ToyIn/properties/parent":             `{"format":"uuid","type":["string","null"]}`,
		"ToyIn/properties/meta":               `{"additionalProperties":true,"description":"At most 16 bytes of compact JSON.","type":["object","null"]}`,
		"ToyIn/properties/email":              `{"description":"Null clears it.","format":"email","maxLength":20,"type":["string","null"]}`,
		"ToyIn/properties/vote":               `{"description":"Also accepted as choice, decision.","enum":["approve","deny",null],"type":["string","null"]}`,
		"ToyIn/properties/to_handle":          `{"description":"The recipient's handle.","type":["string","null"]}`,
		"ToyIn/properties/signing_public_key": `{"anyOf":[{"$ref":"#/components/schemas/ToyKey"},{"type":"null"}]}`,
		"ToyIn/properties/members":            `{"items":{"$ref":"#/components/schemas/ToyMember"},"maxItems":3,"type":["array","null"]}`,
		"ToyClosed/additionalProperties":      `false`,
		"ToyMember/required":                  `["handle"]`,
		"ToyAnswer/required":                  `["id","caller","limit","note"]`,
		"ToyAnswer/properties/note":           `{"type":["string","null"]}`,
		"ToyThing/properties/name":            `{"type":"string"}`,
		"PageOfMessage/required":              `["items","next_cursor","has_more"]`,
		"PageOfMessage/properties/items":      `{"items":{"$ref":"#/components/schemas/Message"},"type":"array"}`,
		"Message/properties/created_at":       `{"format":"date-time","type":"string"}`,
		"Org/properties/agent_count":          `{"description":"Counts the active agents.","type":"integer"}`,
		"CreateAgent/required":                `["name","signing_public_key","encryption_public_key"]`,
		"BatchKeys/properties/keys":           `{"additionalProperties":{"$ref":"#/components/schemas/AgentKeys"},"type":"object"}`,
		"JWKInput/required":                   `["kty","crv","x"]`,
		"FieldError/required":                 `["loc","msg","type"]`,
	} {
		got, err := json.Marshal(at(t, schemas, strings.Split(path, "/")...))
		if err != nil || string(got) != want {
			t.Errorf("%s\ngot  %s\nwant %s", path, got, want)
		}
	}
	if text := at(t, schemas, "Send", "properties", "to_agent_id", "description"); text != "The recipient. Exactly one of to_agent_id and to_handle is given." {
		t.Errorf("a description in Go terms: %q", text)
	}
	limit, _ := json.Marshal(parameter(t, document, "/bind/{id}", "post", "limit"))
	if string(limit) != `{"in":"query","name":"limit","required":false,"schema":{"default":20,"maximum":100,"minimum":1,"type":"integer"}}` {
		t.Errorf("limit: %s", limit)
	}
	if ids := parameter(t, document, "/bind/{id}", "post", "ids"); ids["explode"] != false {
		t.Errorf("a list separated by commas: %v", ids)
	}
	if agent := parameter(t, document, "/messages", "post", "X-<Brand>-Agent"); agent["in"] != "header" {
		t.Errorf("branded header: %v", agent)
	}
	if body, _ := json.Marshal(at(t, document, "paths", "/things", "post", "responses", "201", "content")); string(body) != `{"application/json":{"schema":{"$ref":"#/components/schemas/ToyThing"}}}` {
		t.Errorf("a rendered answer: %s", body)
	}
	if send := at(t, document, "paths", "/messages", "post", "responses").(map[string]any); send["200"] == nil || send["201"] == nil || send["422"] == nil {
		t.Errorf("a send with an idempotency key: %v", send)
	}
}

func parameter(t *testing.T, document map[string]any, path, method, name string) map[string]any {
	t.Helper()
	for _, p := range at(t, document, "paths", path, method, "parameters").([]any) {
		if p := p.(map[string]any); p["name"] == name {
			return p
		}
	}
	t.Fatalf("%s %s has no parameter %s", method, path, name)
	return nil
}

func TestDocumentRefusesUnsupportedTypes(t *testing.T) {
	type odd struct {
		C chan int `json:"c"`
	}
	b := &schemas{}
	b.output(reflect.TypeFor[odd]())
	if b.err == nil {
		t.Error("a channel was described")
	}
}
