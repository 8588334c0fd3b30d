package rest

import (
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// readBoth reads a body in both ways and reports whether it is plain and both agree.
func readBoth(t *testing.T, r *Route, body string) (isPlain bool) {
	t.Helper()
	var in [2]reflect.Value
	var faults [2]SchemaError
	for i := range in {
		in[i] = reflect.New(r.in).Elem()
		d := &decoder{plan: r.plan.body, into: in[i], root: &place{name: "body"}, faults: &faults[i]}
		if i == 0 {
			if isPlain = d.plain([]byte(body)); !isPlain {
				if !in[0].IsZero() || len(faults[0].Faults) > 0 {
					t.Fatalf("%s %s: a body that is not plain leaves something: %q", r.Method, r.Path, body)
				}
				return false
			}
			continue
		}
		d.full([]byte(body))
	}
	if !reflect.DeepEqual(in[0].Interface(), in[1].Interface()) || !reflect.DeepEqual(faults[0], faults[1]) {
		t.Fatalf("%s %s: %q is read as\n%+v %+v\nby the reader of plain bodies, and as\n%+v %+v", r.Method, r.Path, body, in[0], faults[0], in[1], faults[1])
	}
	return true
}

// sendRoute is the route that has to be fast.
func sendRoute(t testing.TB) *Route {
	t.Helper()
	routes := tableOf(t)
	for i := range routes {
		if routes[i].Method == "POST" && routes[i].Path == "/messages" {
			return &routes[i]
		}
	}
	t.Fatal("there is no POST /messages")
	return nil
}

const plainSend = `{"to_handle":"ann@acme.localhost","from_handle":"bob@acme.localhost","type":"svc.v1.note",` +
	`"encrypted_payload":"AAAAAAAAAAAAAAAA","encryption_version":"hpke-v1","metadata":{"a":[1,{"b":"}\""}]},"content_type":null}`

func TestPlainBodies(t *testing.T) {
	send := sendRoute(t)
	for name, c := range map[string]struct {
		body  string
		plain bool
	}{
		"usual":                  {plainSend, true},
		"blanks":                 {" \n" + strings.NewReplacer(`,"`, " ,\t\"", `":`, "\" :\r ").Replace(plainSend) + "\n ", true},
		"a fault":                {strings.Replace(plainSend, "hpke-v1", "hpke-v9", 1), true},
		"a member is missing":    {`{"to_handle":"ann@acme.localhost"}`, true},
		"text of another kind":   {strings.Replace(plainSend, `{"a":[1,{"b":"}\""}]}`, `"x"`, 1), true},
		"empty":                  {`{}`, false},
		"an unknown member":      {strings.Replace(plainSend, "to_handle", "to", 1), false},
		"a member twice":         {strings.Replace(plainSend, "from_handle", "to_handle", 1), false},
		"an escape":              {strings.Replace(plainSend, "AAAA", `AAA\u0041`, 1), false},
		"a control character":    {strings.Replace(plainSend, "AAAA", "AAA\x1f", 1), false},
		"not ASCII":              {strings.Replace(plainSend, "AAAA", "AAAé", 1), false},
		"a number":               {strings.Replace(plainSend, "null", "1", 1), false},
		"metadata with one name": {strings.Replace(plainSend, `"a":[1,`, `"a":1,"a":[1,`, 1), false},
		"broken metadata":        {strings.Replace(plainSend, "[1,", "[1,,", 1), false},
		"too deep":               {strings.Replace(plainSend, "[1,", strings.Repeat("[", 40)+strings.Repeat("]", 40)+",[", 1), false},
		"no end":                 {plainSend[:len(plainSend)-1], false},
		"two":                    {plainSend + plainSend, false},
		"a comma too many":       {strings.Replace(plainSend, "null", "null,", 1), false},
		"nulls":                  {strings.Replace(plainSend, "null", "nulls", 1), false},
	} {
		if got := readBoth(t, send, c.body); got != c.plain {
			t.Errorf("%s: plain is %v: %s", name, got, c.body)
		}
	}
	// Every byte at every place of a word.
	for at := range 9 {
		for b := range 256 {
			text := []byte("AAAAAAAAA")
			text[at] = byte(b)
			want := b >= ' ' && b < 0x80 && b != '\\'
			if isPlain(text) != want {
				t.Errorf("byte %#x at %d: %v", b, at, !want)
			}
		}
	}
}

// Bodies of all routes, whole and with a byte changed or cut off.
func TestPlainBodiesOfAllRoutes(t *testing.T) {
	plain := 0
	for _, r := range tableOf(t) {
		if r.plan.body == nil {
			continue
		}
		bodies := append([]string{plainSend, exampleBody(t, r.plan.body)}, nastyBodies...)
		for _, f := range r.plan.body.fields {
			for _, value := range append([]string{exampleOf(t, f.shape), `"x"`}, nastyValues...) {
				bodies = append(bodies, `{"`+f.name+`":`+value+`}`)
			}
		}
		for _, body := range bodies {
			if readBoth(t, &r, body) {
				plain++
			}
		}
	}
	if plain < 100 {
		t.Errorf("only %d bodies are plain: this compares little", plain)
	}
}

func FuzzPlainBody(f *testing.F) {
	f.Add(plainSend)
	f.Add(` {"to_handle":"a","metadata":{"a":"}"} , "type":null}`)
	send := sendRoute(f)
	f.Fuzz(func(t *testing.T, body string) { readBoth(t, send, body) })
}

// Formatting changes nothing in a value without blanks and escapes.
func FuzzCompactValue(f *testing.F) {
	f.Add(`{"a":[1.50,-0,1e999,"é<\u2028",null],"":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		raw := jsontext.Value(text)
		if !raw.IsValid() || strings.ContainsAny(text, " \t\r\n\\") {
			return
		}
		if err := raw.Format(); err != nil || string(raw) != text {
			t.Errorf("%q becomes %q, %v", text, raw, err)
		}
	})
}

// BenchmarkBody reads the body of a send of 1 KiB in both ways.
func BenchmarkBody(b *testing.B) {
	send := sendRoute(b)
	body := []byte(strings.Replace(plainSend, "AAAA", strings.Repeat("AAAA", 256), 1))
	for name, read := range map[string]func(*decoder){
		"plain": func(d *decoder) {
			if !d.plain(body) {
				b.Fatal("not plain")
			}
		},
		"full": func(d *decoder) { d.full(body) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			in := reflect.New(send.in).Elem()
			for b.Loop() {
				in.SetZero()
				faults := SchemaError{}
				read(&decoder{plan: send.plan.body, into: in, root: &place{name: "body"}, faults: &faults})
			}
		})
	}
}
