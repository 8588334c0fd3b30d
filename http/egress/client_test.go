package egress_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/http/egress"
)

// outcome has the parts of a result that tests compare.
type outcome struct {
	status int
	text   string
	after  time.Duration
}

func outcomeOf(r egress.Result) outcome { return outcome{r.Status, r.Error, r.RetryAfter} }

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// moods maps paths to the behaviours of the sink of TestSinkBehaviours.
func moods(landed *atomic.Int64) map[string]http.HandlerFunc {
	status := func(code int, head ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(head); i += 2 {
				w.Header().Set(head[i], head[i+1])
			}
			w.WriteHeader(code)
		}
	}
	return map[string]http.HandlerFunc{
		"/200": ok, "/204": status(204), "/404": status(404), "/410": status(410), "/500": status(500),
		"/429":    status(429, "Retry-After", "120"),
		"/503":    status(503, "Retry-After", noon.Add(90*time.Second).Format(http.TimeFormat)),
		"/past":   status(503, "Retry-After", noon.Add(-time.Hour).Format(http.TimeFormat)),
		"/week":   status(503, "Retry-After", "604800"),
		"/never":  status(503, "Retry-After", "99999999999999999999"),
		"/never2": status(503, "Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"),
		"/words":  status(503, "Retry-After", "soon"),
		"/minus":  status(503, "Retry-After", "-5"),
		"/301":    status(301, "Location", "/landed"),
		"/307":    status(307, "Location", "https://169.254.169.254/latest/meta-data/"),
		"/landed": func(w http.ResponseWriter, r *http.Request) { landed.Add(1); ok(w, r) },
		"/hang":   hang,
		"/drip": func(w http.ResponseWriter, r *http.Request) { // an endless body, one byte at a time
			_, _ = io.Copy(io.Discard, r.Body)
			for w.WriteHeader(200); r.Context().Err() == nil; time.Sleep(20 * time.Millisecond) {
				_, _ = w.Write([]byte("."))
				_ = http.NewResponseController(w).Flush()
			}
		},
		"/reset": func(w http.ResponseWriter, r *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			_ = conn.(*tls.Conn).NetConn().(*net.TCPConn).SetLinger(0)
			_ = conn.(*tls.Conn).NetConn().Close()
		},
		"/hangup": func(w http.ResponseWriter, r *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			_ = conn.Close()
		},
		"/noise": func(w http.ResponseWriter, r *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			_, _ = conn.Write([]byte("SSH-2.0-OpenSSH_9.9\r\n\r\n"))
			_ = conn.Close()
		},
		"/101": func(w http.ResponseWriter, r *http.Request) { // switches to another protocol and sends nothing
			conn, _, _ := http.NewResponseController(w).Hijack()
			_, _ = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: silence\r\n\r\n"))
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		},
		"/103": func(w http.ResponseWriter, r *http.Request) { // endless hints
			conn, _, _ := http.NewResponseController(w).Hijack()
			for _, err := conn.Write(nil); err == nil; {
				_, err = conn.Write([]byte("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"))
			}
			_ = conn.Close()
		},
		"/head": status(200, "X-Long", strings.Repeat("x", 64<<10)),
		"/slowhead": func(w http.ResponseWriter, r *http.Request) { // an endless head
			conn, _, _ := http.NewResponseController(w).Hijack()
			defer conn.Close()
			for _, err := conn.Write([]byte("HTTP/1.1 200 OK\r\nX: ")); err == nil; time.Sleep(20 * time.Millisecond) {
				_, err = conn.Write([]byte("x"))
			}
		},
	}
}

func TestSinkBehaviours(t *testing.T) {
	var landed atomic.Int64
	behaviour := moods(&landed)
	s := newSinkWith(t, func(w http.ResponseWriter, r *http.Request) { behaviour[r.URL.Path](w, r) }, func(a *authority, s *httptest.Server) {
		s.TLS = &tls.Config{Certificates: []tls.Certificate{a.issue(t, time.Now().Add(time.Hour))}}
	})
	clock := func() time.Time { return noon }
	patient, hasty := newSender(t, s, egress.Options{Clock: clock}), newSender(t, s, egress.Options{Clock: clock, Timeout: 500 * time.Millisecond})
	for path, want := range map[string]outcome{
		"/200": {status: 200}, "/204": {status: 204}, "/404": {404, "HTTP 404 Not Found", 0}, "/410": {410, "HTTP 410 Gone", 0},
		"/500":      {500, "HTTP 500 Internal Server Error", 0},
		"/429":      {429, "HTTP 429 Too Many Requests", 2 * time.Minute},
		"/503":      {503, "HTTP 503 Service Unavailable", 90 * time.Second},
		"/past":     {503, "HTTP 503 Service Unavailable", 0},
		"/week":     {503, "HTTP 503 Service Unavailable", 24 * time.Hour},
		"/never":    {503, "HTTP 503 Service Unavailable", 24 * time.Hour},
		"/never2":   {503, "HTTP 503 Service Unavailable", 24 * time.Hour},
		"/words":    {503, "HTTP 503 Service Unavailable", 0},
		"/minus":    {503, "HTTP 503 Service Unavailable", 0},
		"/301":      {301, "HTTP 301: redirects are not followed", 0},
		"/307":      {307, "HTTP 307: redirects are not followed", 0},
		"/hang":     {0, "no answer in time", 0},
		"/slowhead": {0, "no answer in time", 0},
		"/drip":     {status: 200},
		"/reset":    {0, "the connection broke before the answer", 0},
		"/hangup":   {0, "the connection broke before the answer", 0},
		"/noise":    {0, "the answer is not HTTP", 0},
		"/101":      {101, "HTTP 101 Switching Protocols", 0},
		"/103":      {0, "the answer is not HTTP", 0},
		"/head":     {0, "the answer is not HTTP", 0},
	} {
		t.Run(path[1:], func(t *testing.T) {
			sender := patient
			if want.text == "no answer in time" {
				sender = hasty
			}
			if got := outcomeOf(deliver(t, sender, target(t, s.URL+path))); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
	if landed.Load() != 0 {
		t.Error("a redirect was followed")
	}
	// Control: an ordinary client follows it.
	if !followsRedirects(t, s) || landed.Load() != 1 {
		t.Error("control: the redirect is not followed")
	}
}

func followsRedirects(t *testing.T, s *sink) bool {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get(s.URL + "/301")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode == 200
}

// TestHugeAnswerIsNotRead measures how much of an endless body the sink can write
// before the sender closes the connection.
func TestHugeAnswerIsNotRead(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		wrote := make(chan int, 1)
		s := newSinkWith(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			total, chunk := 0, make([]byte, 32<<10)
			for total < 1<<30 && r.Context().Err() == nil {
				n, err := w.Write(chunk)
				if total += n; err != nil {
					break
				}
			}
			wrote <- total
		}, func(a *authority, s *httptest.Server) {
			s.EnableHTTP2 = h2
			s.TLS = &tls.Config{Certificates: []tls.Certificate{a.issue(t, time.Now().Add(time.Hour))}}
		})
		if r := deliver(t, newSender(t, s, egress.Options{}), target(t, s.URL)); !r.Delivered() {
			t.Errorf("got %+v", r)
		}
		// The test does not bound what the kernels buffer between the two.
		if n := <-wrote; n > 64<<20 {
			t.Errorf("HTTP/2 %v: the sink wrote %d bytes", h2, n)
		}
	}
}

func TestTLSIsVerified(t *testing.T) {
	with := func(until time.Time, names ...string) *sink {
		return newSinkWith(t, ok, func(a *authority, s *httptest.Server) {
			s.TLS = &tls.Config{Certificates: []tls.Certificate{a.issue(t, until, names...)}}
		})
	}
	later := time.Now().Add(time.Hour)
	good, foreign, expired := with(later), with(later, "elsewhere.test"), with(time.Now().Add(-time.Minute))
	old := newSinkWith(t, ok, func(a *authority, s *httptest.Server) {
		s.TLS = &tls.Config{Certificates: []tls.Certificate{a.issue(t, later)}, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	})
	plain := httptest.NewServer(http.HandlerFunc(ok))
	defer plain.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	https := func(url string) string { return strings.Replace(url, "http:", "https:", 1) }
	for name, c := range map[string]struct {
		trusts *sink
		url    string
		want   outcome
	}{
		"good":        {good, good.URL, outcome{status: 200}},
		"unknown":     {foreign, good.URL, outcome{text: "TLS: the certificate is not trusted"}},
		"system":      {nil, good.URL, outcome{text: "TLS: the certificate is not trusted"}},
		"other host":  {foreign, foreign.URL, outcome{text: "TLS: the certificate is for another host"}},
		"expired":     {expired, expired.URL, outcome{text: "TLS: the certificate is expired or not valid"}},
		"old version": {old, old.URL, outcome{text: "TLS: the handshake failed"}},
		"not TLS":     {good, https(plain.URL), outcome{text: "TLS: the target does not speak TLS"}},
		"plain":       {good, plain.URL, outcome{text: "the target is not an https URL"}},
		"closed":      {good, https(closed.URL), outcome{text: "connection refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outcomeOf(deliver(t, newSender(t, c.trusts, egress.Options{}), target(t, c.url))); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	open := newSender(t, good, egress.Options{Guard: egress.NewGuard(egress.Allow{Loopback: true, PlainHTTP: true}, nil)})
	if r := deliver(t, open, target(t, plain.URL)); !r.Delivered() {
		t.Errorf("plain http where it is allowed: %+v", r)
	}
	if r := deliver(t, open, egress.Target{}); r.Delivered() || r.Error == "" {
		t.Errorf("an empty target: %+v", r)
	}
	if _, err := egress.NewSender(egress.Options{Clock: time.Now, Guard: egress.NewGuard(loopback, nil), FurtherRoots: []byte("no PEM")}); !errors.Is(err, egress.ErrRoots) {
		t.Errorf("invalid roots: %v", err)
	}
}

// TestTargetWithoutTLSHandshake: the target accepts the connection and sends nothing.
func TestTargetWithoutTLSHandshake(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	sender := newSender(t, nil, egress.Options{ConnectTimeout: 200 * time.Millisecond})
	if got := outcomeOf(deliver(t, sender, target(t, "https://"+silent.Addr().String()))); got != (outcome{text: "no connection in time"}) {
		t.Errorf("got %+v", got)
	}
}

func TestRequestOfADelivery(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		type seen struct {
			request *http.Request
			body    string
		}
		sights := make(chan seen, 1)
		s := newSinkWith(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			sights <- seen{r, string(body)}
		}, func(a *authority, s *httptest.Server) {
			s.EnableHTTP2 = h2
			s.TLS = &tls.Config{Certificates: []tls.Certificate{a.issue(t, time.Now().Add(time.Hour))}}
		})
		sender := newSender(t, s, egress.Options{Clock: func() time.Time { return noon }, Brand: "svc"})
		done := make(chan egress.Result, 1)
		body := `{"message_id":"m","event":"message.received"}`
		if err := sender.Submit(egress.Post{Target: target(t, s.URL+"/a%2fb//c?d=e"), ID: "job-1", Body: []byte(body), Secrets: []string{secret}, Done: func(r egress.Result) { done <- r }}); err != nil {
			t.Fatal(err)
		}
		got := <-sights
		if r := <-done; !r.Delivered() {
			t.Fatalf("got %+v", r)
		}
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(body))
		for name, want := range map[string]string{
			"X-Svc-Signature": "sha256=" + hex.EncodeToString(mac.Sum(nil)), "Webhook-Id": "job-1", "Webhook-Timestamp": "1795176000",
			"Content-Type": "application/json", "User-Agent": "parley-webhooks", "Idempotency-Key": "", "Accept-Encoding": "",
		} {
			if value := got.request.Header.Get(name); value != want {
				t.Errorf("%s: got %q, want %q", name, value, want)
			}
		}
		if got.body != body || got.request.Method != "POST" || got.request.RequestURI != "/a%2fb//c?d=e" || got.request.ProtoAtLeast(2, 0) != h2 || got.request.ContentLength != int64(len(body)) {
			t.Errorf("got %s %s %s, %d bytes %q", got.request.Method, got.request.RequestURI, got.request.Proto, got.request.ContentLength, got.body)
		}
	}
}

// TestProxiesOfTheEnvironmentAreIgnored: the environment names a proxy that an ordinary
// transport would use.
func TestProxiesOfTheEnvironmentAreIgnored(t *testing.T) {
	var used atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { used.Add(1) }))
	defer proxy.Close()
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("NO_PROXY", "")
	s := newSink(t, ok, "proxied.test")
	names := resolver(t, func(string, int) []string { return []string{"127.0.0.1"} })
	to := target(t, "https://proxied.test"+s.port())
	if r := deliver(t, newSender(t, s, egress.Options{Guard: egress.NewGuard(loopback, names)}), to); !r.Delivered() || used.Load() != 0 {
		t.Errorf("got %+v, and the proxy was used %d times", r, used.Load())
	}
	// Control: the environment names a proxy for this target.
	request, _ := http.NewRequestWithContext(context.Background(), "POST", to.String(), nil)
	if got, err := http.ProxyFromEnvironment(request); err != nil || got == nil {
		t.Errorf("control: got %v and %v", got, err)
	}
}

// TestDeadIdleConnectionIsReplaced: the second post uses the connection of the first.
// The sink closes it without an answer, as if it had just timed out, and the sender
// sends the post again. It does not do so if a connection made for the post breaks: see
// hangup above.
func TestDeadIdleConnectionIsReplaced(t *testing.T) {
	var hits atomic.Int64
	var first atomic.Value
	s := newSinkWith(t, func(w http.ResponseWriter, r *http.Request) {
		ok := hits.Add(1) == 1
		if ok {
			first.Store(r.RemoteAddr)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil || ok || r.RemoteAddr != first.Load() {
			return
		}
		conn, _, _ := http.NewResponseController(w).Hijack()
		_ = conn.Close()
	}, func(a *authority, s *httptest.Server) {
		s.TLS = &tls.Config{Certificates: []tls.Certificate{a.issue(t, time.Now().Add(time.Hour))}}
	})
	sender := newSender(t, s, egress.Options{})
	for range 2 {
		if r := deliver(t, sender, target(t, s.URL)); !r.Delivered() {
			t.Errorf("got %+v", r)
		}
	}
	if hits.Load() != 3 {
		t.Errorf("the sink was reached %d times, want 3", hits.Load())
	}
}
