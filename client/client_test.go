package client

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/client/api"
	"parley/client/clienttest"
	"parley/client/parley"
)

// script is a server whose answers the test writes.
type script struct{ *clienttest.Server }

func newScript(t *testing.T) *script {
	t.Helper()
	return &script{clienttest.New(t)}
}

func (s *script) client(t *testing.T, opts ...Option) *Session {
	t.Helper()
	opts = append([]Option{WithCredentials(Credentials{ClientID: clienttest.ClientID, ClientSecret: clienttest.ClientSecret}), WithRetries(4, time.Millisecond)}, opts...)
	c, err := New(s.URL+"/", opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestErrorsAreTyped(t *testing.T) {
	s := newScript(t)
	s.Mux.HandleFunc("GET /org", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		clienttest.Refuse(w, 409, "invalid_transition", map[string]any{"current_status": "open"})
	})
	s.Mux.HandleFunc("PATCH /org", func(w http.ResponseWriter, r *http.Request) {
		clienttest.Answer(w, 422, api.Invalid{Detail: []api.FieldError{{Loc: []any{"body", "a", 0}, Msg: "Field required", Type: "missing"}}, Error: "validation_error", Code: "validation_error", RequestID: "req-2"})
	})
	s.Mux.HandleFunc("GET /org/quotas", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) })
	c := s.client(t)
	_, err := c.Org.Get(t.Context())
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, InvalidTransition) || errors.Is(err, NotFound) {
		t.Fatalf("%#v", err)
	}
	if e.Status != 409 || e.Class != "SomeError" || e.Detail != "No." || e.RequestID != "req-1" || e.RetryAfter != 7*time.Second || e.Extra["current_status"] != "open" {
		t.Fatalf("%+v", e)
	}
	_, err = c.Org.Update(t.Context(), api.OrgPatch{})
	if !errors.As(err, &e) || e.Code != ValidationError || len(e.Fields) != 1 || e.Detail != "body.a.0: Field required" || e.RequestID != "req-2" {
		t.Fatalf("%+v", err)
	}
	_, err = c.Org.Quotas(t.Context())
	if !errors.As(err, &e) || e.Status != 502 || err.Error() != "502 Bad Gateway" {
		t.Fatalf("%v", err)
	}
}

func TestTokensAreSharedAndRenewed(t *testing.T) {
	s := newScript(t)
	var mu sync.Mutex
	var used []string
	s.Mux.HandleFunc("GET /org", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		used = append(used, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		clienttest.Answer(w, 200, api.Org{Name: "acme"})
	})
	var now atomic.Int64
	c := s.client(t, WithClock(func() time.Time { return time.Unix(now.Load(), 0) }))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if org, err := c.Org.Get(context.Background()); err != nil || org.Name != "acme" {
				t.Errorf("%v", err)
			}
		})
	}
	all.Wait()
	if got := s.Tokens.Load(); got != 1 {
		t.Fatalf("20 calls asked for %d tokens", got)
	}
	for _, c2 := range []struct{ at, want int64 }{{839, 1}, {840, 2}} {
		now.Store(c2.at)
		if _, err := c.Org.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.Tokens.Load(); got != c2.want {
			t.Fatalf("after %d s: %d tokens", c2.at, got)
		}
	}
	if last := used[len(used)-1]; last != "token-2" {
		t.Fatalf("used %s", last)
	}
}

func TestRefusedTokenIsReplacedOnce(t *testing.T) {
	s := newScript(t)
	var calls atomic.Int64
	good := "token-2"
	s.Mux.HandleFunc("POST /agents", func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.Header.Get("Authorization") != "Bearer "+good {
			clienttest.Refuse(w, 401, "token_expired", nil)
			return
		}
		clienttest.Answer(w, 201, api.Agent{Name: "ann"})
	})
	c := s.client(t)
	if a, err := c.Agents.Create(t.Context(), api.CreateAgent{Name: "ann"}); err != nil || a.Name != "ann" || calls.Load() != 2 {
		t.Fatalf("%v after %d calls", err, calls.Load())
	}
	good = "none"
	if _, err := c.Agents.Create(t.Context(), api.CreateAgent{}); !errors.Is(err, TokenExpired) || calls.Load() != 4 {
		t.Fatalf("%v after %d calls", err, calls.Load())
	}
}

func TestWrongCredentials(t *testing.T) {
	s := newScript(t)
	c := s.client(t).Authenticated(Credentials{ClientID: clienttest.ClientID, ClientSecret: "wrong"})
	if _, err := c.Org.Get(t.Context()); !errors.Is(err, InvalidClient) {
		t.Fatal(err)
	}
	anonymous, err := New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := anonymous.Org.Get(t.Context()); !errors.Is(err, ErrNoCredentials) {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "localhost:1", "ftp://x", "http://", "http://a?b", "http://u:secret@a", "http://a:0", "http://a:65536", "http://a:", "http://:80", "http://a:secret"} {
		if _, err := New(bad); !errors.Is(err, ErrBaseURL) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// failing counts requests. It fails those before the n-th and lets the others succeed.
func failing(n int64, fail, succeed http.HandlerFunc) (http.HandlerFunc, *atomic.Int64, *[]string) {
	calls, keys := new(atomic.Int64), new([]string)
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		*keys = append(*keys, r.Header.Get("Idempotency-Key"))
		if calls.Add(1) < n {
			fail(w, r)
			return
		}
		succeed(w, r)
	}, calls, keys
}

func drop(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func unavailable(code string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "0")
		clienttest.Refuse(w, 503, code, nil)
	}
}

func TestOnlySafeRequestsAreRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		fail   http.HandlerFunc
		send   bool // whether a send with a key succeeds
		get    bool
		create bool
	}{
		"overloaded":      {unavailable("overloaded"), true, true, true},
		"outcome unknown": {unavailable("outcome_unknown"), true, true, false},
		"dropped":         {drop, true, true, false},
		"internal":        {func(w http.ResponseWriter, r *http.Request) { clienttest.Refuse(w, 500, "internal", nil) }, false, false, false},
		"rate limited":    {func(w http.ResponseWriter, r *http.Request) { clienttest.Refuse(w, 429, "rate_limited", nil) }, false, false, false},
		"patient": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "3600")
			clienttest.Refuse(w, 503, "overloaded", nil)
		}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			client := s.client(t)
			ok := func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Idempotency-Replayed", "true")
				clienttest.Answer(w, 200, map[string]any{})
			}
			send, _, keys := failing(3, c.fail, ok)
			read, _, _ := failing(3, c.fail, ok)
			create, creates, _ := failing(3, c.fail, ok)
			s.Mux.HandleFunc("POST /messages", send)
			s.Mux.HandleFunc("GET /org", read)
			s.Mux.HandleFunc("POST /agents", create)
			sent, err := client.Messages.Send(t.Context(), api.Send{})
			if (err == nil) != c.send || (err == nil && !sent.Replayed) {
				t.Errorf("send: %v", err)
			}
			if len((*keys)[0]) != 32 || len(slices.Compact(*keys)) != 1 {
				t.Errorf("keys %q", *keys)
			}
			if _, err := client.Org.Get(t.Context()); (err == nil) != c.get {
				t.Errorf("get: %v", err)
			}
			if _, err := client.Agents.Create(t.Context(), api.CreateAgent{}); (err == nil) != c.create || (!c.create && creates.Load() != 1) {
				t.Errorf("create: %v after %d", err, creates.Load())
			}
		})
	}
}

func TestRepeatsAreBounded(t *testing.T) {
	s := newScript(t)
	h, calls, _ := failing(1000, unavailable("overloaded"), nil)
	s.Mux.HandleFunc("GET /org", h)
	if _, err := s.client(t).Org.Get(t.Context()); !errors.Is(err, Overloaded) || calls.Load() != 4 {
		t.Fatalf("%v after %d", err, calls.Load())
	}
	h, calls, _ = failing(1000, unavailable("overloaded"), nil)
	s.Mux.HandleFunc("GET /health", h)
	if _, err := s.client(t, WithRetries(1, 0)).Health(t.Context()); !errors.Is(err, Overloaded) || calls.Load() != 1 {
		t.Fatalf("%v after %d", err, calls.Load())
	}
}

func TestTokenFailureIsNotRepeatedTwice(t *testing.T) {
	h, calls, _ := failing(1000, unavailable("overloaded"), nil)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /oauth/token", h)
	s := &script{&clienttest.Server{Server: httptest.NewServer(mux)}}
	t.Cleanup(s.Close)
	if _, err := s.client(t).Org.Get(t.Context()); !errors.Is(err, Overloaded) || calls.Load() != 4 {
		t.Fatalf("%v after %d", err, calls.Load())
	}
}

func TestUnhealthyServerStillReports(t *testing.T) {
	s := newScript(t)
	s.Mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		clienttest.Answer(w, 503, api.Health{Status: "failing", Checks: map[string]string{"disk": "stalled"}})
	})
	h, err := s.client(t).Health(t.Context())
	var e *Error
	if !errors.As(err, &e) || e.Status != 503 || h == nil || h.Checks["disk"] != "stalled" {
		t.Fatalf("%+v %v", h, err)
	}
}

func TestSendRequest(t *testing.T) {
	s := newScript(t)
	var got *http.Request
	var body string
	s.Mux.HandleFunc("POST /messages/sync", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, body = r, string(b)
		clienttest.Answer(w, 200, api.SyncResult{Status: api.SyncTimeout, Message: api.Message{Metadata: api.Object("{}")}})
	})
	c := s.client(t, WithBrand("acme"))
	in := api.Sync{Send: api.Send{IdempotencyKey: "k", ActingAgent: "ann", Type: "a.b.c", EncryptedPayload: "AA", ToHandle: new("bob@x.localhost"), Metadata: api.Object(`{"n":1}`)}, TimeoutMS: 1500}
	if out, err := c.Messages.Sync(t.Context(), in); err != nil || out.Status != api.SyncTimeout || out.Reply != nil {
		t.Fatalf("%+v %v", out, err)
	}
	if want := `{"to_handle":"bob@x.localhost","type":"a.b.c","encrypted_payload":"AA","metadata":{"n":1}}`; body != want {
		t.Errorf("body %s", body)
	}
	for name, want := range map[string]string{"Idempotency-Key": "k", "X-Acme-Agent": "ann", "Content-Type": "application/json", "Authorization": "Bearer token-1"} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: %q", name, got.Header.Get(name))
		}
	}
	if got.URL.RawQuery != "timeout_ms=1500" {
		t.Errorf("query %s", got.URL.RawQuery)
	}
}

func TestPagesAreWalkedToTheEnd(t *testing.T) {
	s := newScript(t)
	var asked []string
	s.Mux.HandleFunc("GET /agents/{id}/messages", func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		page := api.Page[api.Message]{Items: []api.Message{{Type: "a"}, {Type: "b"}}, NextCursor: new("two +"), HasMore: true}
		if r.FormValue("cursor") == "two +" { // a short page that is not the last
			page = api.Page[api.Message]{Items: []api.Message{}, NextCursor: new("3"), HasMore: true}
		}
		if r.FormValue("cursor") == "3" { // a cursor that leads to itself
			page = api.Page[api.Message]{Items: []api.Message{{Type: "c"}}, NextCursor: new("3")}
		}
		clienttest.Answer(w, 200, page)
	})
	c := s.client(t)
	var types string
	for m, err := range All(t.Context(), c.Messages.Inbox, api.Inbox{Limit: 2, Type: new("x")}) {
		if err != nil {
			t.Fatal(err)
		}
		types += m.Type
	}
	if types != "abc" || len(asked) != 3 || asked[1] != "cursor=two+%2B&limit=2&type=x" {
		t.Fatalf("%s by %q", types, asked)
	}
	asked = nil
	for range All(t.Context(), c.Messages.Inbox, api.Inbox{}) {
		break
	}
	if len(asked) != 1 {
		t.Fatalf("a walk that was stopped sent %d requests", len(asked))
	}
	asked = nil
	walk := All(t.Context(), c.Messages.Inbox, api.Inbox{})
	for range 2 {
		for range walk {
		}
	}
	if len(asked) != 6 || asked[0] != asked[3] {
		t.Fatalf("two walks sent %q", asked)
	}
}

func TestRegisterSolvesTheChallenge(t *testing.T) {
	s := newScript(t)
	challenge, rounds := strings.Repeat("ab", 16), 0
	s.Mux.HandleFunc("POST /auth/register", func(w http.ResponseWriter, r *http.Request) {
		clienttest.Answer(w, 201, api.Challenge{ChallengeID: "a sealed challenge", Algorithm: "sha256-hashcash", Challenge: challenge, Difficulty: 12})
	})
	s.Mux.HandleFunc("POST /auth/register/solve", func(w http.ResponseWriter, r *http.Request) {
		var in api.Solve
		_ = json.NewDecoder(r.Body).Decode(&in)
		sum := sha256.Sum256([]byte(challenge + ":" + in.Nonce))
		if rounds++; rounds == 1 {
			clienttest.Refuse(w, 410, "challenge_expired", nil)
			return
		}
		if sum[0] != 0 || sum[1]>>4 != 0 || len(in.Nonce) > parley.NonceMax {
			clienttest.Refuse(w, 400, "pow_invalid", nil)
			return
		}
		clienttest.Answer(w, 201, Credentials{OrgSlug: "acme", ClientSecret: "s"})
	})
	c, err := New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Register(t.Context(), api.Register{Email: "a@b", OrgSlug: "acme"})
	if err != nil || got.ClientSecret != "s" || rounds != 2 {
		t.Fatalf("%+v %v after %d rounds", got, err, rounds)
	}
}

func TestProofOfWork(t *testing.T) {
	for _, bits := range []int{0, 1, 8, 13} {
		nonce, err := SolveProof(t.Context(), "00ff", bits, nil)
		if err != nil || zeroBits(sha256.Sum256([]byte("00ff:"+nonce))) < bits {
			t.Errorf("%d bits: %q %v", bits, nonce, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var last ProofProgress
	_, err := SolveProof(ctx, "00ff", 40, func(p ProofProgress) {
		last = p
		cancel()
	})
	if !errors.Is(err, context.Canceled) || last.Tried == 0 || last.Difficulty != 40 {
		t.Errorf("%v %+v", err, last)
	}
	if _, err := SolveProof(t.Context(), "00ff", 41, nil); !errors.Is(err, ErrProof) {
		t.Error(err)
	}
}
