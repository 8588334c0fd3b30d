package httpserver

import (
	"compress/gzip"
	"io"
	stdhttp "net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/client/api"
	"parley/client/parley"
	"parley/http/rest"
)

// documents is a toy server of one document, with a clock that a test moves.
type documents struct {
	*toy
	now, changed atomic.Int64 // in milliseconds
	text         atomic.Value
}

type toyQuestion struct {
	Word string `json:"-" query:"word" required:"true" maxLength:"3"`
}

func newDocuments(t *testing.T) *documents {
	s := &documents{}
	s.text.Store("first")
	document := func(cache string) func(*rest.Call, *api.Nothing) (rest.Rendered, error) {
		return func(c *rest.Call, _ *api.Nothing) (rest.Rendered, error) {
			return c.Document(map[string]any{"text": s.text.Load()}, time.UnixMilli(s.changed.Load()), cache)
		}
	}
	missing := func(*rest.Call, *toyQuestion) (rest.Rendered, error) { return rest.Rendered{}, parley.ErrNotFound }
	strict := rest.RenderedAs[api.Object](stdhttp.MethodGet, "/strict", rest.Public, 200, "x", missing).As("application/toy+json").WithBadRequest()
	s.toy = newToy(t, func(o *Options) {
		o.Clock = func() time.Time { return time.UnixMilli(s.now.Load()) }
		o.Routes = append(o.Routes, strict,
			rest.RenderedAs[api.Object](stdhttp.MethodGet, "/kept", rest.Public, 200, "x", document(rest.CacheFiveMinutes)).As("application/toy+json"),
			rest.RenderedAs[api.Object](stdhttp.MethodGet, "/fresh", rest.Public, 200, "x", document(rest.CacheChecked)),
		)
	})
	return s
}

// at sets the time and when the document last changed, in milliseconds.
func (s *documents) at(now, changed int64) { s.now.Store(now); s.changed.Store(changed) }

func TestDocument(t *testing.T) {
	s := newDocuments(t)
	s.at(10_000, 2_300)
	first := s.ask(t, "GET", "/kept", "")
	tag := first.Header.Get("ETag")
	for name, want := range map[string]string{
		"Content-Type": "application/toy+json", "Cache-Control": "public, max-age=300", "Last-Modified": "Thu, 01 Jan 1970 00:00:03 GMT",
		"Access-Control-Allow-Origin": "*",
	} {
		if first.Header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, first.Header.Get(name), want)
		}
	}
	for name, c := range map[string]struct {
		path, head string
		status     int
	}{
		"its tag":              {"/kept", "If-None-Match: " + tag, 304},
		"its tag, weak":        {"/kept", "If-None-Match: W/" + tag, 304},
		"a list":               {"/kept", `If-None-Match: "a",W/"b" , ` + tag, 304},
		"any":                  {"/kept", "If-None-Match: *", 304},
		"several lines":        {"/kept", "If-None-Match: \"a\"\r\nIf-None-Match: " + tag, 304},
		"another tag":          {"/kept", `If-None-Match: "a"`, 200},
		"a tag without quotes": {"/kept", "If-None-Match: " + tag[1:len(tag)-1], 200},
		"its date":             {"/kept", "If-Modified-Since: Thu, 01 Jan 1970 00:00:03 GMT", 304},
		"a later date":         {"/kept", "If-Modified-Since: Thu, 01 Jan 1970 00:00:09 GMT", 304},
		"an earlier date":      {"/kept", "If-Modified-Since: Thu, 01 Jan 1970 00:00:02 GMT", 200},
		"no date":              {"/kept", "If-Modified-Since: yesterday", 200},
		"the tag decides":      {"/kept", "If-None-Match: \"a\"\r\nIf-Modified-Since: Thu, 01 Jan 1970 00:00:03 GMT", 200},
		"never by date":        {"/fresh", "If-Modified-Since: Thu, 01 Jan 1970 00:00:09 GMT", 200},
		"by tag":               {"/fresh", "If-None-Match: " + tag, 304},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			a := s.ask(t, method, c.path, "", c.head)
			if a.StatusCode != c.status || (a.body == "") != (c.status == 304 || method == "HEAD") || a.Header.Get("ETag") != tag {
				t.Errorf("%s, %s: %d %q, want %d", method, name, a.StatusCode, a.body, c.status)
			}
		}
	}
}

// TestDocumentForms: a document above 8 KiB has two forms, each with its tag; what it says is the
// same. A smaller one has one.
func TestDocumentForms(t *testing.T) {
	s := newDocuments(t)
	s.at(10_000, 2_300)
	s.text.Store(strings.Repeat("large ", 20_000))
	inflated := func(a answered) string {
		r, err := gzip.NewReader(strings.NewReader(a.body))
		if err != nil {
			t.Fatalf("%v %v", err, a.Header)
		}
		plain, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(plain)
	}
	for _, path := range []string{"/kept", "/openapi.json", "/docs/swagger-ui.css", "/docs/LICENSE"} {
		plain, packed := s.ask(t, "GET", path, "", "Accept-Encoding: gzip;q=0"), s.ask(t, "GET", path, "", "Accept-Encoding: br, gzip")
		tags := [2]string{plain.Header.Get("ETag"), packed.Header.Get("ETag")}
		if plain.StatusCode != 200 || packed.StatusCode != 200 || plain.Header.Get("Content-Encoding") != "" || packed.Header.Get("Content-Encoding") != "gzip" || inflated(packed) != plain.body || len(packed.body)*2 > len(plain.body) {
			t.Errorf("%s: %d bytes %v, %d bytes %v", path, len(plain.body), plain.Header, len(packed.body), packed.Header)
		}
		if tags[0] == tags[1] || !strings.HasPrefix(tags[0], `"`) || !strings.HasPrefix(tags[1], `"`) {
			t.Errorf("%s has the tags %s and %s", path, tags[0], tags[1])
		}
		for form, accept := range []string{"Accept-Encoding: identity", "Accept-Encoding: *"} {
			for _, method := range []string{"GET", "HEAD"} {
				for of, tag := range tags {
					want := map[bool]int{true: 304, false: 200}[of == form]
					a := s.ask(t, method, path, "", accept, "If-None-Match: "+tag)
					if a.StatusCode != want || a.Header.Get("ETag") != tags[form] || a.Header.Get("Vary") != "Accept-Encoding" || (a.body == "") != (want == 304 || method == "HEAD") {
						t.Errorf("%s %s with %s and %s: %d %v", method, path, accept, tag, a.StatusCode, a.Header)
					}
				}
				length := [2]int{len(plain.body), len(packed.body)}[form]
				if a := s.ask(t, method, path, "", accept); a.ContentLength != int64(length) {
					t.Errorf("%s %s with %s announces %d bytes of %d", method, path, accept, a.ContentLength, length)
				}
			}
		}
	}
	s.text.Store("small")
	for _, path := range []string{"/kept", "/docs/page.css"} {
		a := s.ask(t, "GET", path, "", "Accept-Encoding: gzip")
		if a.Header.Get("Content-Encoding") != "" || a.Header.Get("Vary") != "" || a.Header.Get("ETag") == "" {
			t.Errorf("%s: %v", path, a.Header)
		}
	}
}

// TestDocumentChangesTwiceInASecond: a client that compares dates gets both versions of a
// document that changed twice in a second, the last one when the second has passed.
func TestDocumentChangesTwiceInASecond(t *testing.T) {
	s := newDocuments(t)
	s.at(5_200, 5_100)
	date := s.ask(t, "GET", "/kept", "").Header.Get("Last-Modified")
	if date != "Thu, 01 Jan 1970 00:00:05 GMT" {
		t.Fatalf("Last-Modified is %s: a date in the future, or none", date)
	}
	if a := s.ask(t, "GET", "/kept", "", "If-Modified-Since: "+date); a.StatusCode != 304 {
		t.Errorf("at once: %d", a.StatusCode)
	}
	s.text.Store("second")
	for _, now := range []int64{6_000, 60_000} {
		s.at(now, 5_800)
		if a := s.ask(t, "GET", "/kept", "", "If-Modified-Since: "+date); a.StatusCode != 200 || a.body != `{"text":"second"}` {
			t.Errorf("at %d: %d %s", now, a.StatusCode, a.body)
		}
	}
	date = s.ask(t, "GET", "/kept", "").Header.Get("Last-Modified")
	if a := s.ask(t, "GET", "/kept", "", "If-Modified-Since: "+date); a.StatusCode != 304 {
		t.Errorf("%d with the date of the second version", a.StatusCode)
	}
}

// TestBadRequest: a route whose standard demands it answers 400 to input that does not
// match its schema. No cache keeps a refusal of a public route.
func TestBadRequest(t *testing.T) {
	s := newDocuments(t)
	for target, want := range map[string]string{
		"/strict":           `{"detail":"query.word: Field required","error":"validation_error","code":"validation_error","request_id":"r"}`,
		"/strict?word=long": `{"detail":"query.word: String should have at most 3 characters","error":"validation_error","code":"validation_error","request_id":"r"}`,
		"/strict?word=%zz":  `{"detail":"query.word: Value error, percent-encoding or UTF-8 is invalid","error":"validation_error","code":"validation_error","request_id":"r"}`,
	} {
		if a := s.ask(t, "GET", target, "", "X-Request-ID: r"); a.StatusCode != 400 || a.body != want || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s, Cache-Control %q", target, a.StatusCode, a.body, a.Header.Get("Cache-Control"))
		}
	}
	a := s.ask(t, "GET", "/strict?word=yes", "")
	if a.StatusCode != 404 || a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%d, Cache-Control %q, Content-Type %q", a.StatusCode, a.Header.Get("Cache-Control"), a.Header.Get("Content-Type"))
	}
}
