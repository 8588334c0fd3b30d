package api

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// bodied is a route with a body, from the server's description.
type bodied struct {
	method, path string
	properties   map[string]obj
	oauth        bool // its errors follow RFC 6749
}

// bodiedRoutes reads the description.
func bodiedRoutes(t testing.TB, s *kit.Server) (routes []bodied) {
	t.Helper()
	document := s.Call(t, "", "GET", "/openapi.json", nil).Want(200)
	paths, _ := document.At("paths").(obj)
	for path, methods := range paths {
		for method, operation := range methods.(obj) {
			content, _ := kit.At(operation.(obj), "requestBody.content").(obj)
			kind, _ := content["application/json"].(obj)
			schema, _ := kind["schema"].(obj)
			if schema == nil || path == "/a2a/{handle}" { // JSON-RPC has refusals of its own
				continue
			}
			schema = kit.Resolved(document.Body, schema)
			r := bodied{method: strings.ToUpper(method), path: path, properties: map[string]obj{}, oauth: path == "/oauth/token"}
			properties, _ := schema["properties"].(obj)
			for name, property := range properties {
				r.properties[name] = kit.Resolved(document.Body, property.(obj))
			}
			routes = append(routes, r)
		}
	}
	slices.SortFunc(routes, func(a, b bodied) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	if len(routes) < 10 {
		t.Fatalf("only %d routes with a body are described", len(routes))
	}
	return routes
}

// concrete fills unknown ids into a path.
func (r bodied) concrete() string { return pathParameter.ReplaceAllString(r.path, kit.Nobody) }

// sent sends a body and returns the answer.
func (r bodied) sent(o *kit.Org, body string) *kit.Answer {
	return o.S.Call(o.T, o.Token, r.method, r.concrete(), kit.Verbatim(body)).As("%.120q", body)
}

// notJSON are bodies that are not JSON, or that parsers may read differently.
var notJSON = map[string]string{
	"cut off": `{"a":`, "cut off in a name": `{"a`, "trailing text": `{} x`, "two values": `{}{}`, "trailing comma": `{"a":1,}`, "trailing comma in a list": `{"a":[1,]}`, "comment": `{"a":1/* */}`, "single quotes": `{'a':1}`, "no quotes": `{a:1}`,
	"NaN": `{"a":NaN}`, "Infinity": `{"a":Infinity}`, "minus Infinity": `{"a":-Infinity}`, "a leading zero": `{"a":01}`, "a plus": `{"a":+1}`, "a hexadecimal number": `{"a":0x1}`, "half a number": `{"a":1.}`, "half an exponent": `{"a":1e}`,
	"a bad escape": `{"a":"\x"}`, "half an escape": `{"a":"\u12"}`, "a control character": "{\"a\":\"\n\"}", "NUL": "{\"a\":\"\x00\"}", "NUL behind": "{}\x00", "a byte order mark": "\xef\xbb\xbf{}",
	"not UTF-8": "{\"a\":\"\xff\"}", "overlong UTF-8": "{\"a\":\"\xc0\xaf\"}", "a surrogate in UTF-8": "{\"a\":\"\xed\xa0\x80\"}", "not UTF-8 in a name": "{\"\xff\":1}", "not UTF-8 deep inside": "{\"metadata\":{\"a\":[\"\xff\"]}}",
	"a lone high surrogate": `{"a":"\ud800"}`, "a lone low surrogate": `{"a":"\udc00"}`, "surrogates the wrong way round": `{"a":"\udc00\ud800"}`, "a lone surrogate in a name": `{"\ud800":1}`,
	"a name twice": `{"a":1,"a":1}`, "a name twice, once escaped": `{"a":1,"\u0061":1}`, "a name twice deep inside": `{"metadata":{"a":{"b":1,"b":2}}}`, "an empty name twice": `{"":1,"":2}`,
	"33 arrays": `{"a":` + strings.Repeat("[", 33) + strings.Repeat("]", 33) + `}`, "100,000 arrays": `{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, "100,000 open arrays": strings.Repeat("[", 100_000), "100,000 open objects": strings.Repeat(`{"a":`, 100_000), "40 objects": strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40),
	"undefined": `undefined`, "True": `True`, "nothing but a quote": `"`, "nothing but a minus": `-`,
}

// TestStrictJSONEverywhere: every route that takes a body rejects anything that is not
// unambiguous JSON, and says so.
func TestStrictJSONEverywhere(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		o.Agent("strict")
		routes, names := bodiedRoutes(t, s), slices.Sorted(maps.Keys(notJSON))
		answers := kit.ConcurrentlyBounded(len(routes)*len(names), func(i int) *kit.Answer {
			return routes[i/len(names)].sent(o, notJSON[names[i%len(names)]])
		})
		for i, a := range answers {
			name := names[i%len(names)]
			if routes[i/len(names)].oauth {
				oauthRefused(a.As("%s", name), "Invalid JSON")
				continue
			}
			a.As("%s", name).Invalid("body", "json_invalid")
			if !strings.Contains(string(a.Raw), "Invalid JSON: ") {
				a.Errorf("the error does not state what is wrong")
			}
		}
		for _, r := range routes {
			for _, body := range []string{`[]`, `"a"`, `1`, `true`} {
				if a := r.sent(o, body); r.oauth {
					oauthRefused(a, "dictionary")
				} else {
					a.Invalid("body", "dict_type")
				}
			}
		}
	})
}

// oauthRefused checks an error of the token endpoint.
func oauthRefused(a *kit.Answer, saying string) {
	a.T.Helper()
	if said, _ := a.At("error_description").(string); a.Err != nil || a.Status != 400 || a.Body["error"] != "invalid_request" || !strings.Contains(said, saying) {
		a.Errorf("want 400 invalid_request that names %s", saying)
	}
}

// wrongValues returns values of every kind that a property does not accept: none if it is
// described as any value, by its text alone.
func wrongValues(property obj) []string {
	if _, described := property["description"]; described && len(property) == 1 {
		return nil
	}
	kinds := map[string][]string{
		"string": {`"\u0000"`, `""`}, "boolean": {`true`}, "integer": {`1`, `-1`, `1.5`, `1e400`, `-1e400`, `123456789012345678901234567890`, `1e-400`}, "object": {`{}`, `{"a":{}}`}, "array": {`[]`, `[[]]`, `[null]`},
	}
	own := property["type"]
	var out []string
	for kind, values := range kinds {
		if own == kind || slices.Contains(anyList(own), any(kind)) {
			continue
		}
		out = append(out, values...)
	}
	slices.Sort(out)
	return out
}

func anyList(v any) []any {
	list, _ := v.([]any)
	return list
}

// TestWrongTypesEverywhere: every described member rejects values of every other kind,
// and the error names its location.
func TestWrongTypesEverywhere(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		o.Agent("strict")
		type probe struct {
			r           bodied
			name, value string
		}
		var probes []probe
		for _, r := range bodiedRoutes(t, s) {
			for _, name := range slices.Sorted(maps.Keys(r.properties)) {
				for _, value := range wrongValues(r.properties[name]) {
					probes = append(probes, probe{r, name, value})
				}
			}
		}
		answers := kit.ConcurrentlyBounded(len(probes), func(i int) *kit.Answer {
			quoted, _ := json.Marshal(probes[i].name)
			return probes[i].r.sent(o, "{"+string(quoted)+":"+probes[i].value+"}")
		})
		for i, a := range answers {
			if probes[i].r.oauth {
				oauthRefused(a, "Input should be")
			} else {
				a.Invalid("body."+probes[i].name, "")
			}
		}
		if len(probes) < 200 {
			t.Errorf("only %d probes", len(probes))
		}
	})
}

// TestStrictControl: the checks of this file report violations.
func TestStrictControl(t *testing.T) {
	t.Parallel()
	for name, body := range notJSON {
		var v any
		lenient := json.Unmarshal([]byte(body), &v) == nil
		if strict := slices.Contains([]string{
			"not UTF-8", "overlong UTF-8", "a surrogate in UTF-8", "not UTF-8 in a name", "not UTF-8 deep inside", "a lone high surrogate", "a lone low surrogate", "surrogates the wrong way round", "a lone surrogate in a name",
			"a name twice", "a name twice, once escaped", "a name twice deep inside", "an empty name twice", "33 arrays", "40 objects",
		}, name); lenient != strict {
			t.Errorf("%s: a lenient parser accepts it: %v", name, lenient)
		}
	}
	for kind, own := range map[string]any{"string": "string", "integer": []any{"integer", "null"}, "object": "object"} {
		values := wrongValues(obj{"type": own})
		if right := map[string]string{"string": `""`, "integer": `1`, "object": `{}`}[kind]; len(values) < 5 || slices.Contains(values, right) {
			t.Errorf("wrong values of a %s: %v", kind, values)
		}
	}
}
