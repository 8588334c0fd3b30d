package http

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/valyala/fasthttp"

	"parley/http/api"
)

// The document is made from the binding plans rather than by a reflecting
// library: the plans already hold every constraint that is enforced, so that
// the document cannot promise another, and tags such as aliases, split,
// maxBytes or the brand in header names mean nothing to such a library.

// object is a JSON object that keeps the order in which it was written.
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

Every answer bears X-Request-ID; a supplied one of at most 128 safe characters is echoed. Times are UTC, RFC 3339 with microseconds. In requests null means absent, unless a field says that null clears it. Errors have one shape: a sentence (or, for 422, a list of faults), a class name, a stable code and the request id.`

// openAPI renders the table as an OpenAPI 3.1 document.
func openAPI(routes []Route, o Options) ([]byte, error) {
	b := &schemas{comments: readComments()}
	for i := range routes {
		if out := routes[i].out; out != nil && out != reflect.TypeFor[Rendered]() && out != reflect.TypeFor[NoContent]() {
			b.output(out)
		}
	}
	answers := b.errorAnswers()
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
			{"version", versionOr(o.Version)},
			{"description", documentIntroduction},
			{"license", object{{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}},
		}},
		{"servers", []object{{{"url", "/"}}}},
		{"tags", tagsOf(routes)},
		{"paths", items},
		{"components", object{
			{"schemas", b.components()},
			{"responses", answers},
			{"securitySchemes", object{
				{"bearer", object{{"type", "http"}, {"scheme", "bearer"}, {"bearerFormat", "JWT"}, {"description", "An access token of POST /oauth/token; it lives 15 minutes."}}},
				{"basic", object{{"type", "http"}, {"scheme", "basic"}, {"description", "The client_id and client_secret of a registration."}}},
			}},
		}},
	}
	if b.err != nil {
		return nil, b.err
	}
	return json.Marshal(document)
}

func versionOr(version string) string {
	if version == "" {
		return "0"
	}
	return version
}

// tagOf groups operations by the first word of their path.
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

// operationID is unique because method and path are.
func operationID(r *Route) string {
	var b strings.Builder
	b.WriteString(strings.ToLower(r.Method))
	for _, word := range strings.FieldsFunc(r.Path, func(c rune) bool { return strings.ContainsRune("/{}._-", c) }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	if strings.HasSuffix(r.Path, "/") {
		b.WriteString("Slash")
	}
	return b.String()
}

func (b *schemas) operation(r *Route) object {
	op := object{{"operationId", operationID(r)}, {"tags", []string{tagOf(r)}}, {"summary", r.Summary}}
	description := b.comments.of(r.in)
	switch r.Access {
	case bearer:
		op = op.with("security", []object{{{"bearer", []string{}}}})
	case tier1:
		op = op.with("security", []object{{{"bearer", []string{}}}})
		description = strings.TrimSpace(description + "\n\nNeeds trust tier 1 or more.")
	case basic:
		op = op.with("security", []object{{{"basic", []string{}}}})
	default:
		op = op.with("security", []object{})
	}
	if description != "" {
		op = op.with("description", description)
	}
	var parameters []object
	for _, from := range []struct {
		in     string
		fields []field
	}{{"path", r.plan.path}, {"query", r.plan.query}, {"header", r.plan.header}} {
		for i := range from.fields {
			parameters = append(parameters, b.parameter(r.in, from.in, &from.fields[i]))
		}
	}
	if parameters != nil {
		op = op.with("parameters", parameters)
	}
	if r.plan.bodied {
		op = op.with("requestBody", b.requestBody(r))
	}
	return op.with("responses", b.responses(r))
}

func (b *schemas) parameter(owner reflect.Type, in string, f *field) object {
	p := object{{"name", f.name}, {"in", in}, {"required", in == "path" || f.shape.required}}
	if text := b.describe(owner, f); text != "" {
		p = p.with("description", text)
	}
	if f.shape.kind == kindList {
		p = p.with("style", "form").with("explode", !f.shape.split)
	}
	return p.with("schema", b.input(f.shape, f, false))
}

func (b *schemas) requestBody(r *Route) object {
	schema := b.inputBody(r.in, r.plan.body)
	content := object{{jsonMedia, object{{"schema", schema}}}}
	if r.plan.form {
		content = append(object{{"application/x-www-form-urlencoded", object{{"schema", schema}}}}, content...)
	}
	required := slices.ContainsFunc(r.plan.body.fields, func(f field) bool { return f.shape.required })
	return object{{"required", required}, {"content", content}}
}

// errorAnswers are the answers that routes share.
func (b *schemas) errorAnswers() object {
	answer := func(text string, body reflect.Type) object {
		return object{{"description", text}, {"content", object{{jsonMedia, object{{"schema", b.output(body)}}}}}}
	}
	plain, invalid, token := reflect.TypeFor[api.Error](), reflect.TypeFor[api.Invalid](), reflect.TypeFor[api.TokenError]()
	return object{
		{"BadRequest", answer("Invalid input that no schema describes, such as a cursor that this list did not give out.", plain)},
		{"Unauthenticated", answer("The bearer token is missing, malformed, expired or revoked.", plain)},
		{"Forbidden", answer("The caller may not do this.", plain)},
		{"NotFound", answer("There is no such resource.", plain)},
		{"Conflict", answer("The state of the resource forbids this.", plain)},
		{"Gone", answer("The resource has been permanently removed.", plain)},
		{"TooLarge", answer("The body is larger than 1 MiB.", plain)},
		{"UnsupportedMediaType", answer("The body is of another media type.", plain)},
		{"Unprocessable", answer("The request does not match its schema, or a rule forbids these values.", invalid)},
		{"RateLimited", answer("Too many requests; Retry-After says when to come back.", plain)},
		{"Unavailable", answer("The request was shed (overloaded: nothing happened) or its outcome is not known (outcome_unknown: repeat with the same Idempotency-Key).", plain)},
		{"Token", answer("An error after RFC 6749.", token)},
		{"Error", answer("Any other error.", plain)},
	}
}

func (b *schemas) responses(r *Route) object {
	success := object{{"description", fasthttp.StatusMessage(r.Status)}}
	switch {
	case r.media != "":
		success = success.with("content", object{{mediaType([]byte(r.media)), object{}}})
	case r.Status != fasthttp.StatusNoContent && r.out == reflect.TypeFor[Rendered]():
		success = success.with("content", object{{jsonMedia, object{}}})
	case r.Status != fasthttp.StatusNoContent && r.out != reflect.TypeFor[NoContent]():
		success = success.with("content", object{{jsonMedia, object{{"schema", b.output(r.out)}}}})
	}
	all := object{{strconv.Itoa(r.Status), success}}
	if repeatable := slices.ContainsFunc(r.plan.header, func(f field) bool { return f.name == "Idempotency-Key" }); repeatable && r.Status != fasthttp.StatusOK {
		again := append(object{{"description", "The stored answer: the Idempotency-Key was used before (Idempotency-Replayed: true)."}}, success[1:]...)
		all = append(object{{"200", again}}, all...)
	}
	add := func(status int, name string) {
		all = all.with(strconv.Itoa(status), object{{"$ref", "#/components/responses/" + name}})
	}
	if r.Access == basic {
		add(fasthttp.StatusBadRequest, "Token")
		add(fasthttp.StatusUnauthorized, "Token")
		return all.with("default", object{{"$ref", "#/components/responses/Error"}})
	}
	secured, writes := r.Access != public, r.Method != fasthttp.MethodGet
	for _, e := range []struct {
		applies bool
		status  int
		name    string
	}{
		{len(r.plan.query) > 0, fasthttp.StatusBadRequest, "BadRequest"},
		{secured, fasthttp.StatusUnauthorized, "Unauthenticated"},
		{secured, fasthttp.StatusForbidden, "Forbidden"},
		{len(r.plan.path) > 0, fasthttp.StatusNotFound, "NotFound"},
		{writes, fasthttp.StatusConflict, "Conflict"},
		{secured && len(r.plan.path) > 0, fasthttp.StatusGone, "Gone"},
		{r.plan.body != nil, fasthttp.StatusRequestEntityTooLarge, "TooLarge"},
		{r.plan.body != nil, fasthttp.StatusUnsupportedMediaType, "UnsupportedMediaType"},
		{r.plan.body != nil || len(r.plan.path)+len(r.plan.query)+len(r.plan.header) > 0, fasthttp.StatusUnprocessableEntity, "Unprocessable"},
		{true, fasthttp.StatusTooManyRequests, "RateLimited"},
		{true, fasthttp.StatusServiceUnavailable, "Unavailable"},
	} {
		if e.applies {
			add(e.status, e.name)
		}
	}
	return all.with("default", object{{"$ref", "#/components/responses/Error"}})
}

// errSchema says that a type cannot be described.
func errSchema(t reflect.Type) error { return fmt.Errorf("openapi: %s cannot be described", t) }
