package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"parley/client/api"
)

// tableOf returns all routes of the API, ready to bind, without a service behind them.
func tableOf(t testing.TB) []Route {
	t.Helper()
	routes := ServiceRoutes()
	for i := range routes {
		if err := routes[i].Prepare("Svc"); err != nil {
			t.Fatal(err)
		}
	}
	return routes
}

// ask is the part of a request that is bound.
type ask struct{ media, path, query, header, body string }

// bindTo binds a request to a route's In.
func (a ask) bindTo(r *Route) (in reflect.Value, err error) {
	ctx := &fasthttp.RequestCtx{}
	ctx.Request.SetRequestURI("/x")
	ctx.Request.URI().SetQueryString(a.query)
	ctx.Request.SetBodyString(a.body)
	ctx.Request.Header.SetContentType(a.media)
	for _, name := range r.parameters() {
		ctx.SetUserValue(name, a.path)
	}
	for _, f := range r.plan.header {
		if a.header != "" {
			ctx.Request.Header.Set(f.name, a.header)
		}
	}
	in = reflect.New(r.in).Elem()
	return in, r.plan.bind(&Call{ctx: ctx}, in)
}

// samples are texts; every pattern of the table accepts one of them.
var samples = []string{toyID, "a.b.c", "read", "2099-01-01T00:00:00Z", "QQ", "acme", "a@b.c", "FR", "alice@acme.localhost", "hpke-v1", "open", "spam", "accept_all", "send_all", "public", "member", "approve", "message.received", "OKP", "Ed25519", "text/plain", "free", "2.0", "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "AKP", "X-Wing", strings.Repeat("A", 1622)}

// exampleOf returns JSON that a shape accepts.
func exampleOf(t testing.TB, s *shape) string {
	t.Helper()
	switch s.kind {
	case kindBool:
		return "true"
	case kindInt, kindNumber:
		return strconv.FormatInt(s.minimum, 10)
	case kindMap:
		return `{"a.b.c":` + exampleOf(t, s.item) + "}"
	case kindObject:
		return `{"a":[1,{"b":null}]}`
	case kindArray:
		return `["a"]`
	case kindAny:
		return strconv.Quote(toyID)
	case kindStruct:
		return exampleBody(t, s.members)
	case kindList:
		return "[" + exampleOf(t, s.item) + "]"
	}
	for _, text := range samples {
		v, faults := reflect.New(s.typ).Elem(), &SchemaError{}
		flat := *s
		flat.pointer, flat.clearable = false, false
		if flat.fromText(text, v, &place{name: "body"}, faults); len(faults.Faults) == 0 {
			return strconv.Quote(text)
		}
	}
	t.Fatalf("no sample matches a %s with pattern %q", s.typ, s.pattern)
	return ""
}

// exampleBody sets every member.
func exampleBody(t testing.TB, m *members) string {
	t.Helper()
	var parts []string
	for _, f := range m.fields {
		parts = append(parts, strconv.Quote(f.name)+":"+exampleOf(t, f.shape))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// mediaTypes are the media types of the bodies.
var mediaTypes = []string{"application/json", "", "application/x-www-form-urlencoded", "application/problem+json; charset=utf-8", "text/plain", "multipart/form-data; boundary=x"}

// nastyBodies are malformed or unusual bodies, which must not break any route.
var nastyBodies = []string{
	"", " ", "null", "{}", "[]", "[", "{", `{"":0}`, `{"a":1,"a":2}`, `{"\u0061":1,"a":2}`, `{} {}`, "\xef\xbb\xbf{}", "{\"a\":\"\xff\"}", `{"a":"\ud800"}`, `{"a":"\udc00\ud800"}`, `{"a":NaN}`, `{"a":Infinity}`, `{"a":1e400}`, `{"a":-0}`, `{"a":01}`,
	`{"a":99999999999999999999999999}`, `{'a':1}`, `{"a":1,}`, `{"a":/**/1}`, `{"a":"` + "\x00" + `"}`, `{"a":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40), "a=1&a=2", "grant_type=%zz", "=&==&%=", "grant_type=client_credentials&scope=%ff",
}

// nastyValues are values that most members refuse.
var nastyValues = []string{`null`, `true`, `0`, `-1`, `1.5`, `1e999`, `""`, `"\u0000"`, `[]`, `{}`, `[[]]`, `{"a":{}}`}

// FuzzBodies binds arbitrary requests to every route of the table. An accepted request
// obeys its tags. Encoded by the standard library it is accepted again, and from then
// on it does not change: empty members are left out and get their defaults. The error
// of a refused request has the form of a 422, or is an unknown path or media type.
func FuzzBodies(f *testing.F) {
	routes := tableOf(f)
	turn := 0 // each nasty value goes to a few routes; the fuzzer tries it on the others
	for i := range routes {
		good := "{}"
		if routes[i].plan.body != nil {
			good = exampleBody(f, routes[i].plan.body)
		}
		f.Add(byte(i), byte(0), toyID, "limit=1&cursor=&since=2026-11-20&ids="+toyID, "key", good)
		f.Add(byte(i), byte(1), "a%2fb", "limit=%zz&limit=0&include_revoked=maybe&timeout_ms=1e9&ids=,,", "\xff", strings.ToUpper(good))
		f.Add(byte(i), byte(2), "%ff", "%=&&=a&type=%ff", strings.Repeat("k", 256), "grant_type=client_credentials&client_id=a&client_secret=b+c%26")
		if routes[i].plan.body == nil {
			continue
		}
		for range 5 {
			f.Add(byte(i), byte(0), toyID, "", "", nastyBodies[turn%len(nastyBodies)])
			turn++
		}
		for _, field := range routes[i].plan.body.fields {
			f.Add(byte(i), byte(0), toyID, "", "", `{"`+field.name+`":`+nastyValues[turn%len(nastyValues)]+`}`)
			turn++
		}
	}
	f.Fuzz(func(t *testing.T, route, media byte, path, query, header, body string) {
		r := &routes[int(route)%len(routes)]
		if r.plan.unbound { // its handler reads the body
			return
		}
		a := ask{mediaTypes[int(media)%len(mediaTypes)], path, query, header, body}
		in, err := a.bindTo(r)
		if err != nil {
			wellRefused(t, err)
			return
		}
		for _, complaint := range disobedience(in, "") {
			t.Fatalf("%s %s accepts %+v: %s", r.Method, r.Path, a, complaint)
		}
		var told, before []byte
		for range 3 {
			if before, told = told, encoded(t, in); r.plan.body == nil {
				return
			}
			a.media, a.body = "application/json", string(told)
			if in, err = a.bindTo(r); err != nil {
				t.Fatalf("%s %s accepts %+v as %s, which it then refuses: %v", r.Method, r.Path, a, told, err)
			}
		}
		if string(told) != string(before) {
			t.Fatalf("%s %s: %s became %s", r.Method, r.Path, before, told)
		}
	})
}

func encoded(t *testing.T, in reflect.Value) []byte {
	t.Helper()
	told, err := json.Marshal(in.Interface())
	if err != nil {
		t.Fatalf("%+v cannot be encoded: %v", in, err)
	}
	return told
}

// faultKinds are the error types of a 422.
var faultKinds = []string{
	faultMissing, faultExtra, faultJSON, faultStringType, faultTooLong, faultTooShort, faultPattern, faultEnum, faultBoolType, faultBoolParsing, faultIntType, faultIntParsing, faultIntFraction, faultIntSize,
	faultFloatType, faultFloatParsing, faultFinite,
	faultAtLeast, faultAtMost, faultUUIDType, FaultUUIDParsing, faultDatetime, faultDict, faultList, faultListTooLong, faultListTooShort, FaultValue,
}

// wellRefused checks that an error of the binder can be answered.
func wellRefused(t *testing.T, err error) {
	t.Helper()
	schema := (*SchemaError)(nil)
	if !errors.As(err, &schema) {
		if !errors.Is(err, ErrNoRoute) && !errors.Is(err, errMediaType) {
			t.Fatalf("refused with %v", err)
		}
		return
	}
	if len(schema.Faults) == 0 || len(schema.Faults) > fieldErrorsMax {
		t.Fatalf("refused with %d faults", len(schema.Faults))
	}
	for _, fault := range schema.Faults {
		if len(fault.Loc) == 0 || !slices.Contains([]any{"body", "query", "path", "header"}, fault.Loc[0]) || fault.Msg == "" || !slices.Contains(faultKinds, fault.Type) {
			t.Fatalf("a fault is %+v", fault)
		}
	}
	var told struct {
		Detail []api.FieldError `json:"detail"`
	}
	if err := json.Unmarshal(ProblemOf(err).Body("id"), &told); err != nil || len(told.Detail) != len(schema.Faults) {
		t.Fatalf("%+v cannot be encoded: %v", schema.Faults, err)
	}
}

// disobedience reads the tags of an In struct without the binder's plan, and lists the
// rules that a bound value breaks.
func disobedience(v reflect.Value, tag reflect.StructTag) (complaints []string) {
	if inner, null, ok := clearable(v); ok {
		if null {
			return nil
		}
		v = inner
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return disobedience(v.Elem(), tag)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() || v.Type().Field(i).Anonymous {
				complaints = append(complaints, disobedience(v.Field(i), v.Type().Field(i).Tag)...)
			}
		}
	case reflect.String:
		if v.String() != "" || tag.Get("required") == "true" {
			return textDisobedience(v.String(), tag)
		}
	case reflect.Int, reflect.Int64:
		return numberDisobedience(v.Int(), tag)
	case reflect.Slice:
		raw, isRaw := v.Interface().(api.Object)
		if list, ok := v.Interface().(api.Array); ok {
			raw, isRaw = api.Object(list), true
		}
		limit, limited := number(tag, "maxBytes")
		if isRaw && len(raw) > 0 && (!json.Valid(raw) || !utf8.Valid(raw) || limited && len(raw) > limit) {
			return []string{fmt.Sprintf("%d bytes of JSON %q", len(raw), raw)}
		}
		if limit, limited := number(tag, "maxItems"); limited && v.Len() > limit {
			return []string{fmt.Sprintf("%d items", v.Len())}
		}
		for i := range v.Len() {
			if v.Type().Elem().Kind() == reflect.Struct || v.Type().Elem().Kind() == reflect.String {
				complaints = append(complaints, disobedience(v.Index(i), tag)...)
			}
		}
	case reflect.Float64:
		low, bounded := number(tag, "minimum")
		if high, _ := number(tag, "maximum"); bounded && (v.Float() < float64(low) || v.Float() > float64(high)) {
			return []string{fmt.Sprintf("%v is out of bounds", v.Float())}
		}
	case reflect.Map:
		if limit, limited := number(tag, "maxItems"); limited && v.Len() > limit {
			return []string{fmt.Sprintf("%d members", v.Len())}
		}
		for all := v.MapRange(); all.Next(); {
			complaints = append(complaints, textDisobedience(all.Value().String(), tag)...)
		}
	}
	return complaints
}

// clearable returns the value in an api.Clearable, and whether it is null or unset.
func clearable(v reflect.Value) (inner reflect.Value, null, ok bool) {
	if _, ok := clearableValue(v.Type()); !ok {
		return v, false, false
	}
	return v.Field(2), !v.Field(0).Bool() || v.Field(1).Bool(), true
}

func number(tag reflect.StructTag, name string) (int, bool) {
	n, err := strconv.Atoi(tag.Get(name))
	return n, err == nil
}

func textDisobedience(text string, tag reflect.StructTag) (complaints []string) {
	complain := func(what string) { complaints = append(complaints, fmt.Sprintf("%q breaks %s", text, what)) }
	n := utf8.RuneCountInString(text)
	if limit, ok := number(tag, "maxLength"); ok && n > limit {
		complain("maxLength")
	}
	if limit, ok := number(tag, "minLength"); ok && n < limit {
		complain("minLength")
	}
	if pattern := tag.Get("pattern"); pattern != "" && !regexp.MustCompile(pattern).MatchString(text) {
		complain(pattern)
	}
	if words := tag.Get("enum"); words != "" && !slices.Contains(strings.Split(words, ","), text) {
		complain(words)
	}
	if !utf8.ValidString(text) {
		complain("UTF-8")
	}
	return complaints
}

func numberDisobedience(n int64, tag reflect.StructTag) (complaints []string) {
	if least, ok := number(tag, "minimum"); ok && n < int64(least) {
		complaints = append(complaints, fmt.Sprint(n, " is below ", least))
	}
	if most, ok := number(tag, "maximum"); ok && n > int64(most) {
		complaints = append(complaints, fmt.Sprint(n, " is above ", most))
	}
	return complaints
}

// TestDisobedienceControl: the second implementation of the tags detects values that
// break them.
func TestDisobedienceControl(t *testing.T) {
	sound := func() *api.Reply {
		return &api.Reply{Type: "a.b.c", EncryptedPayload: "QQ", EncryptionVersion: "hpke-v1", Metadata: api.Object(`{}`)}
	}
	if complaints := disobedience(reflect.ValueOf(sound()).Elem(), ""); len(complaints) != 0 {
		t.Fatalf("a valid reply: %q", complaints)
	}
	for name, change := range map[string]func(*api.Reply){
		"pattern": func(r *api.Reply) { r.Type = "a.b" }, "enum": func(r *api.Reply) { r.EncryptionVersion = "x" }, "too long": func(r *api.Reply) { r.ContentType = strings.Repeat("x", 256) },
		"JSON": func(r *api.Reply) { r.Metadata = api.Object(`{`) }, "bytes": func(r *api.Reply) { r.Metadata = api.Object(`{"a":"` + strings.Repeat("x", 4096) + `"}`) }, "UTF-8": func(r *api.Reply) { r.ContentType = "\xff" },
		"behind a pointer": func(r *api.Reply) { r.SenderSigningKid = new(strings.Repeat("x", 256)) },
	} {
		r := sound()
		if change(r); len(disobedience(reflect.ValueOf(r).Elem(), "")) != 1 {
			t.Errorf("%s: %q", name, disobedience(reflect.ValueOf(r).Elem(), ""))
		}
	}
	if len(disobedience(reflect.ValueOf(api.Inbox{Limit: 101}), "")) != 1 || len(disobedience(reflect.ValueOf(api.OrgPatch{ContactEmail: api.SetTo("nobody")}), "")) != 1 {
		t.Error("a number or a clearable is not checked")
	}
}
