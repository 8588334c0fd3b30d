package rest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// The files openapi_*_test.go and operations_test.go make http/docs/openapi.json, which the
// server embeds. They are tests because they read the binding plans: these hold every
// constraint that is enforced, so the document cannot differ from the server. A reflecting
// library would not understand tags such as aliases, split, maxBytes or the brand in header
// names.

var update = flag.Bool("update", false, "write ../docs/openapi.json anew")

// TestOpenAPIIsCurrent: the committed document is the one that follows from the routes, the
// wire structs and operations.
func TestOpenAPIIsCurrent(t *testing.T) {
	const file = "../docs/openapi.json"
	text, err := openAPI(servicePlans(t, headerWord), operations)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(committed), "\n"), strings.Split(string(text), "\n")); diff != "" {
		t.Errorf("http/docs/openapi.json is not current (- committed, + generated); run: make generate\n%s", diff)
	}
}

// Placeholders in the document, which the server replaces.
const (
	brandWord   = "<brand>"
	headerWord  = "<Brand>" // the brand as header names spell it
	versionWord = "<version>"
)

// object is a JSON object that keeps the order of its members.
type object []entry

type entry struct {
	name  string
	value any
}

func (o object) with(name string, value any) object { return append(o, entry{name, value}) }

// MarshalJSONTo writes the members in order.
func (o object) MarshalJSONTo(enc *jsontext.Encoder) error {
	if err := enc.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, e := range o {
		if err := enc.WriteToken(jsontext.String(e.name)); err != nil {
			return err
		}
		if err := json.MarshalEncode(enc, e.value); err != nil {
			return err
		}
	}
	return enc.WriteToken(jsontext.EndObject)
}

const documentIntroduction = `Organizations register, own agents, and let them exchange end-to-end-encrypted messages.

Every response has X-Request-ID; a supplied one of at most 128 safe characters is echoed. Times are UTC, RFC 3339 with microseconds. In requests null means absent, unless a field says that null clears it. Members of a body that are not described are ignored, except where their schema forbids additional ones. Errors have one shape: a sentence (or, for 422, a list of faults), a class name, a stable code and the request id.`

// openAPI renders the routes as an OpenAPI 3.1 document with placeholders. operations says
// more about them. The routes must be prepared with headerWord.
func openAPI(routes []Route, operations map[string]operation) ([]byte, error) {
	comments, err := readComments("../../client/api")
	if err != nil {
		return nil, err
	}
	texts, err := readTexts(textsFile)
	if err != nil {
		return nil, err
	}
	b := &schemas{comments: comments, texts: texts, operations: operations, shared: map[string]bool{}}
	for i := range routes {
		if out := routes[i].out; out != nil && out != reflect.TypeFor[Rendered]() && out != reflect.TypeFor[NoContent]() {
			b.output(out)
		}
	}
	responses := b.sharedResponses(routes)
	var paths []string
	byPath := map[string]object{}
	for i := range routes {
		r := &routes[i]
		if _, known := byPath[r.Path]; !known {
			paths = append(paths, r.Path)
		}
		byPath[r.Path] = byPath[r.Path].with(strings.ToLower(r.Method), b.operation(r))
	}
	items := object{}
	for _, path := range paths {
		items = items.with(path, byPath[path])
	}
	document := object{
		{"openapi", "3.1.0"},
		{"info", object{
			{"title", "Parley"},
			{"version", versionWord},
			{"description", documentIntroduction},
			{"license", object{{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}},
		}},
		{"servers", []object{{{"url", "/"}}}},
		{"tags", texts.inDocument()},
		{"paths", items},
		{"webhooks", b.webhooks()},
		{"components", object{
			{"schemas", b.components()},
			{"responses", responses},
			{"headers", sharedHeaders()},
			{"securitySchemes", securitySchemes()},
		}},
	}
	text, err := document.render(3)
	if err = errors.Join(b.err, err); err != nil {
		return nil, err
	}
	return []byte(strings.ReplaceAll(text, branded, "X-"+headerWord+"-") + "\n"), nil
}

// render returns the object as JSON with one line for each of its members, to the given
// depth: an operation and a schema have one line each.
func (o object) render(depth int) (string, error) {
	var lines []string
	for _, e := range o {
		name, err := json.Marshal(e.name)
		if err != nil {
			return "", err
		}
		var value string
		if nested, ok := e.value.(object); ok && depth > 1 {
			value, err = nested.render(depth - 1)
		} else {
			var text []byte
			text, err = json.Marshal(e.value)
			value = string(text)
		}
		if err != nil {
			return "", err
		}
		lines = append(lines, string(name)+":"+value)
	}
	return "{\n" + strings.Join(lines, ",\n") + "\n}", nil
}

func securitySchemes() object {
	return object{
		{"bearer", object{{"type", "http"}, {"scheme", "bearer"}, {"bearerFormat", "JWT"}, {"description", "An access token of POST /oauth/token; it is valid for 15 minutes."}}},
		{"oauth2", object{
			{"type", "oauth2"},
			{"description", "The client_id and client_secret of a registration give such an access token."},
			{"flows", object{{"clientCredentials", object{{"tokenUrl", "/oauth/token"}, {"scopes", object{{"org", "Act for the organization."}, {"agents", "Act for some of its agents."}, {"read", "Read, and change nothing."}}}}}}},
		}},
		{"basic", object{{"type", "http"}, {"scheme", "basic"}, {"description", "The client_id and client_secret of a registration."}}},
	}
}

// errSchema reports that a type cannot be described.
func errSchema(t reflect.Type) error { return fmt.Errorf("openapi: %s cannot be described", t) }
