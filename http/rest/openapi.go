package rest

import (
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The document is derived from the binding plans, not by a reflecting library. The plans
// hold every constraint that is enforced, so the document cannot differ from the server.
// A library would not understand tags such as aliases, split, maxBytes or the brand in
// header names.

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

// OpenAPI renders the routes as an OpenAPI 3.1 document. brand is the word in header
// names, version that of the software. wireSource is the source of the wire structs,
// whose comments become descriptions; nil means no descriptions. The routes must be
// prepared.
func OpenAPI(routes []Route, brand, version string, wireSource fs.FS) ([]byte, error) {
	b := newSchemas(brand, wireSource)
	for i := range routes {
		if out := routes[i].out; out != nil && out != reflect.TypeFor[Rendered]() && out != reflect.TypeFor[NoContent]() {
			b.output(out)
		}
	}
	responses := b.sharedResponses()
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
			{"version", versionOr(version)},
			{"description", documentIntroduction},
			{"license", object{{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}},
		}},
		{"servers", []object{{{"url", "/"}}}},
		{"tags", tagsOf(routes)},
		{"paths", items},
		{"webhooks", b.webhooks()},
		{"components", object{
			{"schemas", b.components()},
			{"responses", responses},
			{"headers", sharedHeaders()},
			{"securitySchemes", securitySchemes()},
		}},
	}
	if b.err != nil {
		return nil, b.err
	}
	return json.Marshal(document)
}

func securitySchemes() object {
	return object{
		{"bearer", object{{"type", "http"}, {"scheme", "bearer"}, {"bearerFormat", "JWT"}, {"description", "An access token of POST /oauth/token; it is valid for 15 minutes."}}},
		{"oauth2", object{
			{"type", "oauth2"},
			{"description", "The client_id and client_secret of a registration give such an access token."},
			{"flows", object{{"clientCredentials", object{{"tokenUrl", "/oauth/token"}, {"scopes", object{{"org", "Act for the organization."}}}}}}},
		}},
		{"basic", object{{"type", "http"}, {"scheme", "basic"}, {"description", "The client_id and client_secret of a registration."}}},
	}
}

func versionOr(version string) string {
	if version == "" {
		return "0"
	}
	return version
}

// tagOf groups operations by the first segment of their path.
func tagOf(r *Route) string {
	word, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
	word = strings.TrimSuffix(strings.TrimPrefix(word, "."), ".json")
	if word == "" {
		return "root"
	}
	return word
}

func tagsOf(routes []Route) []object {
	var names []string
	for i := range routes {
		if name := tagOf(&routes[i]); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	tags := make([]object, len(names))
	for i, name := range names {
		tags[i] = object{{"name", name}}
	}
	return tags
}

// errSchema reports that a type cannot be described.
func errSchema(t reflect.Type) error { return fmt.Errorf("openapi: %s cannot be described", t) }
