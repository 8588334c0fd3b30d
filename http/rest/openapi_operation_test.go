package rest

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"parley/client/api"
)

func (b *schemas) operation(r *Route) object {
	op := object{{"operationId", b.about(r).ID}, {"tags", []string{b.texts.about(r).tag}}, {"summary", r.Summary}}
	description := b.texts.about(r).text
	security := []object{}
	if r.Access.NeedsTier1() {
		description = strings.TrimSpace(description + "\n\nNeeds trust tier 1 or more.")
	}
	if r.Access.NeedsToken() {
		security = append(security, object{{"bearer", []string{}}})
	}
	for _, scope := range r.Access.Scopes() { // one of them is enough
		security = append(security, object{{"oauth2", []string{string(scope)}}})
	}
	if r.Access == Basic {
		security = []object{{{"basic", []string{}}}}
	}
	op = op.with("security", security)
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
	if name := owner.FieldByIndex(f.index).Tag.Get("goName"); name != "" {
		p = p.with("x-go-name", name) // generators of Go drop where a parameter is: two would have one name
	}
	if text := b.describe(owner, f); text != "" {
		p = p.with("description", text)
	}
	if f.shape.kind == kindList {
		p = p.with("style", "form").with("explode", !f.shape.split)
	}
	if f.ofAgent || f.ofGroup {
		return p.with("schema", object{{"type", "string"}, {"description", "An id (UUID) or a handle."}})
	}
	return p.with("schema", b.inputField(owner, f, false))
}

func (b *schemas) requestBody(r *Route) object {
	media := object{{"schema", b.inputBody(r.in, r.plan.body)}, {"example", bodyExample(r.in, r.plan.body)}}
	content := object{{JSONMedia, media}}
	if r.plan.form {
		content = append(object{{formMedia, media}}, content...)
	}
	required := slices.ContainsFunc(r.plan.body.fields, func(f field) bool { return f.shape.required })
	return object{{"required", required}, {"content", content}}
}

// sharedHeaders are the headers that responses refer to.
func sharedHeaders() object {
	header := func(text, kind string) object {
		return object{{"description", text}, {"schema", object{{"type", kind}}}}
	}
	return object{
		{RequestIDHeader, header("The name of the request, also in the body of an error.", "string")},
		{fasthttp.HeaderRetryAfter, header("After how many seconds to try again.", "integer")},
		{RateHeaders[0], header("How many requests the caller may make in a window. Sent where the caller is held to a rate.", "integer")},
		{RateHeaders[1], header("How many of them are left.", "integer")},
		{RateHeaders[2], header("After how many seconds all of them are available again.", "integer")},
		{"Idempotency-Replayed", header("true on the stored answer to an earlier request with the same Idempotency-Key.", "string")},
		{fasthttp.HeaderWWWAuthenticate, header("How to authenticate.", "string")},
		{fasthttp.HeaderCacheControl, header("How long the answer may be kept.", "string")},
		{fasthttp.HeaderETag, header("The version of the document, for If-None-Match.", "string")},
		{fasthttp.HeaderLastModified, header("When the document last changed.", "string")},
	}
}

// headers returns references to shared headers. Every response has X-Request-ID.
func headers(names ...string) object {
	all := object{}
	for _, name := range append([]string{RequestIDHeader}, names...) {
		all = all.with(name, object{{"$ref", "#/components/headers/" + name}})
	}
	return all
}

// headersOf returns the headers of an error status besides X-Request-ID.
func headersOf(r refusal) []string {
	switch r.status {
	case fasthttp.StatusUnauthorized:
		return append([]string{fasthttp.HeaderWWWAuthenticate}, RateHeaders[:]...)
	case fasthttp.StatusForbidden:
		if slices.Contains(r.codes, ErrScope.Code) {
			return append([]string{fasthttp.HeaderWWWAuthenticate}, RateHeaders[:]...)
		}
	case fasthttp.StatusTooManyRequests, fasthttp.StatusServiceUnavailable:
		return append([]string{fasthttp.HeaderRetryAfter}, RateHeaders[:]...)
	}
	return RateHeaders[:]
}

func response(text string, headers object, media string, schema object) object {
	return object{{"description", text}, {"headers", headers}, {"content", object{{media, object{{"schema", schema}}}}}}
}

// refusalTexts describe the statuses of refusals.
var refusalTexts = map[int]string{
	fasthttp.StatusBadRequest:            "The request is not valid in a way that no schema describes.",
	fasthttp.StatusUnauthorized:          "The credentials are missing, malformed, expired or revoked.",
	fasthttp.StatusForbidden:             "The caller may not do this.",
	fasthttp.StatusNotFound:              "There is no such resource, or the caller may not know that there is.",
	fasthttp.StatusConflict:              "The state of the resource forbids this.",
	fasthttp.StatusGone:                  "The resource has been permanently removed.",
	fasthttp.StatusRequestEntityTooLarge: "The body is larger than 1 MiB (of an MLS commit: 8 MiB), or than 16 KiB without a valid bearer token.",
	fasthttp.StatusUnsupportedMediaType:  "The body is of another media type, or compressed.",
	fasthttp.StatusUnprocessableEntity:   "The request does not match its schema, or a rule forbids these values.",
	fasthttp.StatusTooManyRequests:       "Too many requests. Retry-After says when to try again.",
	fasthttp.StatusServiceUnavailable:    "The server could not answer. overloaded: nothing was done. outcome_unknown: it may have been done; repeat the request with the same Idempotency-Key.",
}

// sharedNames are the responses that are the same on every route that has them.
var sharedNames = map[int]string{
	fasthttp.StatusUnauthorized: "Unauthenticated", fasthttp.StatusNotFound: "NotFound", fasthttp.StatusRequestEntityTooLarge: "TooLarge",
	fasthttp.StatusUnsupportedMediaType: "UnsupportedMediaType", fasthttp.StatusTooManyRequests: "RateLimited", fasthttp.StatusServiceUnavailable: "Unavailable",
}

// sharedResponses returns the responses that routes refer to.
func (b *schemas) sharedResponses(routes []Route) object {
	b.output(reflect.TypeFor[api.Invalid]())
	shared := object{}
	for _, s := range statusCodes {
		if name := sharedNames[s.status]; name != "" {
			codes := slices.DeleteFunc(slices.Clone(s.codes), func(code string) bool { return code == "invalid_client" })
			shared = shared.with(name, b.refused(refusal{s.status, codes}))
			shared = shared.with(rpcPrefix+name, b.refusedByRPC(refusal{s.status, codes}))
		}
	}
	for _, often := range b.often(routes) {
		shared = shared.with(often.name(), b.refused(often))
	}
	return shared.with("Error", response("Any other error.", headers(RateHeaders[:]...), JSONMedia, b.output(reflect.TypeFor[api.Error]())))
}

// refused describes one status of refusals with its codes.
func (b *schemas) refused(r refusal) object {
	body := reflect.TypeFor[api.Error]()
	if r.status == fasthttp.StatusUnprocessableEntity {
		body = reflect.TypeFor[api.Invalid]()
	}
	return response(refusalTexts[r.status], headers(headersOf(r)...), JSONMedia, withCodes(b.output(body), r.codes))
}

// withCodes restricts the code of an error to the given ones.
func withCodes(schema object, codes []string) object {
	return object{{"allOf", []object{schema, {{"type", "object"}, {"properties", object{{"code", object{{"type", "string"}, {"enum", codes}}}}}}}}}
}

func (b *schemas) responses(r *Route) object {
	op := b.about(r)
	success := object{{"description", fasthttp.StatusMessage(r.Status)}}
	own := strings.Fields(op.Headers)
	if !r.Probe {
		own = append(own, RateHeaders[:]...)
	}
	success = success.with("headers", headers(own...))
	if content := b.content(r); content != nil {
		success = success.with("content", content)
	}
	if r.OwnRefusals() {
		success = b.successOfRPC(success)
	}
	byStatus := map[int]object{r.Status: success}
	if repeatable(r) {
		byStatus[fasthttp.StatusOK] = b.replayed(r, success)
	}
	if op.Again != "" {
		byStatus[fasthttp.StatusOK] = append(object{{"description", op.Again}}, success[1:]...)
	}
	if slices.Contains(own, fasthttp.HeaderETag) {
		byStatus[fasthttp.StatusNotModified] = object{{"description", "The document is that of If-None-Match or If-Modified-Since."}, {"headers", headers(own...)}}
	}
	for _, refusal := range refusalsOf(r, op) {
		scope := slices.Contains(refusal.codes, ErrScope.Code)
		switch {
		case r.OwnRefusals() && scope: // the only 403 that is one of HTTP
			refusal.codes = []string{ErrScope.Code}
			byStatus[refusal.status] = b.refusedByRPC(refusal)
		case !r.OwnRefusals() || sharedNames[refusal.status] != "":
			byStatus[refusal.status] = b.refusalOn(r, refusal)
		}
	}
	for status, body := range op.Bodies {
		byStatus[status] = response(fasthttp.StatusMessage(status), headers(headersOf(refusal{status: status})...), JSONMedia, b.output(body))
	}
	all := object{}
	for _, status := range sortedKeys(byStatus) {
		all = all.with(strconv.Itoa(status), byStatus[status])
	}
	return all.with("default", object{{"$ref", "#/components/responses/Error"}})
}

func sortedKeys(byStatus map[int]object) []int {
	var keys []int
	for status := range byStatus {
		keys = append(keys, status)
	}
	slices.Sort(keys)
	return keys
}

// repeatable reports whether a route takes an Idempotency-Key.
func repeatable(r *Route) bool {
	return slices.ContainsFunc(r.plan.header, func(f field) bool { return f.name == "Idempotency-Key" })
}

// replayed describes the 200 of a repeated request, which a first request may also
// return.
func (b *schemas) replayed(r *Route, success object) object {
	text := "The stored answer: the Idempotency-Key was used before."
	if r.Status == fasthttp.StatusOK {
		text = fasthttp.StatusMessage(r.Status)
	}
	again := object{{"description", text}, {"headers", headers(append([]string{"Idempotency-Replayed"}, RateHeaders[:]...)...)}}
	return append(again, success[2:]...)
}

// content describes the body of a successful answer, nil if it has none.
func (b *schemas) content(r *Route) object {
	switch {
	case r.Streams && r.media == eventMedia:
		return object{{r.media, streamed(b.eventStream(r))}}
	case r.media != "" && r.out == nil:
		return object{{mediaType([]byte(r.media)), object{}}}
	case r.Status == fasthttp.StatusNoContent || r.out == reflect.TypeFor[NoContent]():
		return nil
	case r.out == reflect.TypeFor[Rendered]():
		return object{{JSONMedia, object{}}}
	}
	return object{{cmp.Or(r.media, JSONMedia), object{{"schema", b.output(r.out)}}}}
}

// refusalOn describes a refusal of one route: by RFC 6749 for the token endpoint, and by
// reference for other routes unless it is specific to the route.
func (b *schemas) refusalOn(r *Route, refused refusal) object {
	if r.Access == Basic && (refused.status == fasthttp.StatusBadRequest || refused.status == fasthttp.StatusUnauthorized) {
		return response("An error after RFC 6749.", headers(headersOf(refused)...), JSONMedia, withCodes(b.output(reflect.TypeFor[api.TokenError]()), refused.codes))
	}
	name := sharedNames[refused.status]
	if name != "" && r.OwnRefusals() {
		name = rpcPrefix + name
	} else if b.shared[refused.name()] {
		name = refused.name()
	}
	if name != "" {
		return object{{"$ref", "#/components/responses/" + name}}
	}
	return b.refused(refused)
}
