package embed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/client/parley"
)

const secretKey = "sk-very-secret"

// endpoint is a server that answers like OpenAI's, after some answers of a script.
type endpoint struct {
	*httptest.Server
	requests atomic.Int32
	texts    atomic.Int32
}

func newEndpoint(t *testing.T, script ...http.HandlerFunc) *endpoint {
	e := &endpoint{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(e.requests.Add(1))
		// A server notices that a client is gone only after it has read the body.
		content, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if r.Method != http.MethodPost || r.URL.Path != "/v1/embeddings" || r.Header.Get("Authorization") != "Bearer "+secretKey {
			t.Errorf("unexpected request: %s %s %q", r.Method, r.URL, r.Header)
		}
		if n <= len(script) && script[n-1] != nil {
			script[n-1](w, r)
			return
		}
		var body struct {
			Model string
			Input []string
		}
		if err := json.Unmarshal(content, &body); err != nil || body.Model != "m" {
			t.Errorf("bad body: %v %+v", err, body)
		}
		e.texts.Add(int32(len(body.Input)))
		// The last text comes first: the index says which vector is whose.
		var data []string
		for i := len(body.Input) - 1; i >= 0; i-- {
			data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":[%d,0.5,-1e-3]}`, i, len(body.Input[i])))
		}
		fmt.Fprintf(w, `{"object":"list","data":[%s],"usage":{"total_tokens":1}}`, strings.Join(data, ","))
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) remote(t *testing.T, change func(*RemoteOptions)) *Remote {
	o := RemoteOptions{URL: e.URL + "/v1/", Model: "m", Key: secretKey, Dim: 3, Batch: 3, Backoff: time.Millisecond, Entropy: parley.CountingEntropy()}
	if change != nil {
		change(&o)
	}
	r, err := NewRemote(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, `{"error":"`+secretKey+`"}`)
	}
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

func TestRemoteBatches(t *testing.T) {
	e := newEndpoint(t)
	texts := []string{"a", "", "bb", "ccc", "dddd", " \n", "eeeee", "ffffff", "ggggggg"}
	got, err := e.remote(t, nil).Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		want := float32(len(text))
		if strings.TrimSpace(text) == "" {
			want = 0
		}
		if len(got[i]) != 3 || got[i][0] != want {
			t.Errorf("%q: got %v", text, got[i])
		}
	}
	if n, texts := e.requests.Load(), e.texts.Load(); n != 3 || texts != 7 {
		t.Errorf("%d requests for %d texts, want 3 for 7", n, texts)
	}
}

// A failure that may pass is tried again, at most Tries times; another one is not.
func TestRemoteMisbehaves(t *testing.T) {
	broken := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"data":`)
	}
	dropped := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	hangs := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	huge := func(w http.ResponseWriter, _ *http.Request) {
		for range 1 << 10 {
			if _, err := io.WriteString(w, strings.Repeat(" ", 1<<10)); err != nil {
				return
			}
		}
	}
	for name, c := range map[string]struct {
		script   []http.HandlerFunc
		requests int32
		fails    bool
	}{
		"503, then good":        {[]http.HandlerFunc{status(503)}, 2, false},
		"429 with Retry-After":  {[]http.HandlerFunc{status(429, "Retry-After", "0")}, 2, false},
		"connection dropped":    {[]http.HandlerFunc{dropped, dropped}, 3, false},
		"answer ends early":     {[]http.HandlerFunc{broken}, 2, false},
		"no answer in time":     {[]http.HandlerFunc{hangs}, 2, false},
		"never good":            {[]http.HandlerFunc{status(500), status(502), status(503), status(504)}, 4, true},
		"wrong key":             {[]http.HandlerFunc{status(401)}, 1, true},
		"bad request":           {[]http.HandlerFunc{status(400)}, 1, true},
		"redirect":              {[]http.HandlerFunc{status(302, "Location", "/elsewhere")}, 1, true},
		"not JSON":              {[]http.HandlerFunc{answer("<html>")}, 1, true},
		"no vectors":            {[]http.HandlerFunc{answer(`{"data":[]}`)}, 1, true},
		"a vector too many":     {[]http.HandlerFunc{answer(`{"data":[{"embedding":[1,2,3]},{"embedding":[1,2,3]}]}`)}, 1, true},
		"another dimension":     {[]http.HandlerFunc{answer(`{"data":[{"embedding":[1,2]}]}`)}, 1, true},
		"index outside":         {[]http.HandlerFunc{answer(`{"data":[{"index":1,"embedding":[1,2,3]}]}`)}, 1, true},
		"negative index":        {[]http.HandlerFunc{answer(`{"data":[{"index":-1,"embedding":[1,2,3]}]}`)}, 1, true},
		"numbers beyond limits": {[]http.HandlerFunc{answer(`{"data":[{"embedding":[1e99,2,3]}]}`)}, 1, true},
		"more than was asked":   {[]http.HandlerFunc{huge}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEndpoint(t, c.script...)
			r := e.remote(t, func(o *RemoteOptions) { o.Timeout = 200 * time.Millisecond })
			got, err := r.Embed(t.Context(), []string{"four"})
			if c.fails != (err != nil) || err != nil && !errors.Is(err, ErrRemote) {
				t.Errorf("got %v, %v", got, err)
			}
			if err != nil && strings.Contains(err.Error(), secretKey) {
				t.Errorf("the error shows the key: %v", err)
			}
			if n := e.requests.Load(); n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
		})
	}
}

// A caller that gives up is not kept waiting by a pause or by the endpoint.
func TestRemoteGivesUp(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"hangs":       func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"retry later": status(503, "Retry-After", "25"),
	} {
		t.Run(name, func(t *testing.T) {
			e := newEndpoint(t, handler)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := e.remote(t, nil).Embed(ctx, []string{"x"}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			if n := e.requests.Load(); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

func TestRemoteOptions(t *testing.T) {
	good := RemoteOptions{URL: "http://localhost:1/v1", Model: "m", Dim: 3, Entropy: parley.CountingEntropy()}
	if _, err := NewRemote(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*RemoteOptions){
		"no URL": func(o *RemoteOptions) { o.URL = "" }, "a path": func(o *RemoteOptions) { o.URL = "/v1" },
		"ftp": func(o *RemoteOptions) { o.URL = "ftp://a/v1" }, "user": func(o *RemoteOptions) { o.URL = "http://u:p@a/v1" },
		"query": func(o *RemoteOptions) { o.URL = "http://a/v1?x=1" }, "no model": func(o *RemoteOptions) { o.Model = "" },
		"no dimension": func(o *RemoteOptions) { o.Dim = 0 }, "huge dimension": func(o *RemoteOptions) { o.Dim = dimMax + 1 },
		"no entropy": func(o *RemoteOptions) { o.Entropy = nil },
	} {
		o := good
		change(&o)
		if _, err := NewRemote(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
