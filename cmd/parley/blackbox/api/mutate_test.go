package api

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// specimen is a valid request, divided into the parts that mutations change.
type specimen struct {
	line, body string
	headers    []string
}

func (s specimen) text(length bool) string {
	headers := s.headers
	if length {
		headers = append(slices.Clone(headers), "Content-Length: "+strconv.Itoa(len(s.body)))
	}
	return s.line + "\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n" + s.body
}

// hostileTexts are texts that break fragile parsers.
var hostileTexts = []string{
	"\x00", "\r\n", "\n", "\t", "\xff", "\xc0\xaf", "\ud7ff", "\U0010ffff", "\u202e", "\ufeff", "%00", "%2e%2e", "%zz", "%", "../", "//", "\\", "\"", "\\u0000", "\\ud800", "'", "{", "}", "[", "]", "{}", "[]", "null", "true", ":", ",", "-", "-1", "0", "1e999", "-0", "1.5", "99999999999999999999",
	"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "@", "#", "?", "&", "=", ";", "*", " ", "$ref", "__proto__", "provenance", "svc.v1.", "..", ".", "Transfer-Encoding: chunked\r\n", "Content-Length: 1\r\n", "Expect: 100-continue\r\n", "0\r\n\r\n", "HTTP/1.0", "9999-12-31T23:59:60Z", "0000-00-00",
	strings.Repeat("A", 300), strings.Repeat("[", 200), strings.Repeat("9", 400), strings.Repeat("é", 300),
}

// mutate changes a text in one place.
func mutate(r *rand.Rand, text, other string) string {
	if text == "" {
		return hostileTexts[r.IntN(len(hostileTexts))]
	}
	i := r.IntN(len(text))
	j := min(len(text), i+1+r.IntN(12))
	switch r.IntN(8) {
	case 0:
		return text[:i] + string([]byte{text[i] ^ 1<<r.IntN(8)}) + text[i+1:]
	case 1:
		return text[:i] + text[j:]
	case 2:
		return text[:j] + text[i:]
	case 3, 4:
		return text[:i] + hostileTexts[r.IntN(len(hostileTexts))] + text[i:]
	case 5:
		return text[:i] + hostileTexts[r.IntN(len(hostileTexts))] + text[j:]
	case 6:
		if other != "" {
			k := r.IntN(len(other))
			return text[:i] + other[k:min(len(other), k+1+r.IntN(40))] + text[j:]
		}
		return text[:i]
	default:
		return text[:i] + string([]byte{byte(r.IntN(256))}) + text[j:]
	}
}

// mutant changes a specimen in one to four places and nearly always keeps its
// Content-Length right, so that it passes the HTTP framing.
func (s specimen) mutant(r *rand.Rand, other specimen) string {
	s.headers = slices.Clone(s.headers)
	for range 1 + r.IntN(4) {
		switch where := r.IntN(10); {
		case where < 6 && s.body != "":
			s.body = mutate(r, s.body, other.body)
		case where < 8:
			s.line = mutate(r, s.line, other.line)
		default:
			i := r.IntN(len(s.headers))
			s.headers[i] = mutate(r, s.headers[i], other.headers[r.IntN(len(other.headers))])
		}
	}
	text := s.text(r.IntN(20) > 0)
	if r.IntN(20) == 0 {
		text = mutate(r, text, other.text(true))
	}
	return text
}

// sendUnchanged sends one request, again while the disk of this machine stalls.
func sendUnchanged(addr, text string) *mutantAnswers {
	for until := time.Now().Add(kit.DiskPatience); ; time.Sleep(250 * time.Millisecond) {
		h := &mutantAnswers{status: map[int]int{}}
		h.send(addr, text)
		if h.status[http.StatusServiceUnavailable] == 0 || !kit.DiskStalled(http.StatusServiceUnavailable, h.last) || time.Now().After(until) {
			return h
		}
	}
}

// mutantAnswers counts the answers to mutants.
type mutantAnswers struct {
	mu     sync.Mutex
	sent   int
	status map[int]int
	bad    []string
	last   []byte // the body of the last answer
}

// faulty reports whether an answer indicates a fault of the server, whatever the input.
// Shedding load is allowed.
func faulty(status int, body []byte) bool {
	return status >= 500 && kit.SummaryOf(status, body) != "503 overloaded"
}

// sendMutants sends mutants of a corpus from several connections at once.
func sendMutants(addr string, corpus []specimen, seed uint64, lasting time.Duration) *mutantAnswers {
	h := &mutantAnswers{status: map[int]int{}}
	var working sync.WaitGroup
	for n := range uint64(4) {
		working.Go(func() {
			r := rand.New(rand.NewPCG(seed, n))
			for until := time.Now().Add(lasting); time.Now().Before(until); {
				h.send(addr, corpus[r.IntN(len(corpus))].mutant(r, corpus[r.IntN(len(corpus))]))
			}
		})
	}
	working.Wait()
	return h
}

// send opens a connection and sends one mutant.
func (h *mutantAnswers) send(addr, text string) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		h.note(0, "no connection: "+err.Error())
		return
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(300 * time.Millisecond))
	_, _ = io.WriteString(conn, text)
	_ = conn.(*net.TCPConn).CloseWrite()
	in := bufio.NewReader(conn)
	h.note(-1, "")
	for {
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			return
		}
		body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
		complaint := ""
		if faulty(answer.StatusCode, body) {
			complaint = fmt.Sprintf("%d %s\n  to %q", answer.StatusCode, body, text)
		}
		h.note(answer.StatusCode, complaint)
		h.keep(body)
		if err != nil || strings.HasPrefix(text, "HEAD") {
			return
		}
	}
}

func (h *mutantAnswers) keep(body []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = body
}

func (h *mutantAnswers) note(status int, complaint string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if status < 0 {
		h.sent++
		return
	}
	h.status[status]++
	if complaint != "" && len(h.bad) < 10 {
		h.bad = append(h.bad, complaint)
	}
}

// specimens returns valid requests for every route in the description.
func (c *accessScene) specimens(t *testing.T) (corpus []specimen) {
	t.Helper()
	routes, _ := describedRoutes(t, c.s)
	for _, route := range routes {
		method, _, _ := strings.Cut(route, " ")
		for range 2 {
			ask := accessAsks[route](c)
			s := specimen{line: method + " " + ask.path + " HTTP/1.1", headers: []string{"Host: h", "Authorization: Bearer " + c.alice.Token, "Content-Type: application/json", "X-Request-ID: m"}}
			if route == "POST /oauth/token" {
				s.headers[1], s.headers[2], s.body = "Authorization: "+kit.Basic(c.alice.Client, c.alice.Secret), "Content-Type: application/x-www-form-urlencoded", "grant_type=client_credentials&scope=org"
			}
			if ask.body != nil {
				body, err := json.Marshal(ask.body)
				if err != nil {
					t.Fatal(err)
				}
				s.body = string(body)
			}
			corpus = append(corpus, s)
		}
	}
	full := kit.Message(c.bob, obj{
		"from_handle": c.alice.Handle, "encryption_version": "hpke-v1", "sender_signing_kid": c.alice.SignKid(), "metadata": obj{"a": []any{1, "b", nil}}, "content_type": "text/plain", "payload_schema": "https://a.example/s",
		"sender_attestations": []any{"e30.e30.AA"}, "self_encrypted_payload": "QQ", "parent_conversation_id": kit.Text(c.message(), "conversation_id"), "conversation_metadata": obj{"k": "v"},
	})
	body, _ := json.Marshal(full)
	headers := []string{"Host: h", "Authorization: Bearer " + c.alice.Token, "X-Svc-Agent: " + c.alice.ID, "Idempotency-Key: key", "Content-Type: application/json; charset=utf-8"}
	corpus = append(corpus, specimen{"POST /messages HTTP/1.1", string(body), headers})
	for _, path := range []string{c.alice.Path("/messages?limit=3&type=svc.v1.dm"), c.alice.Path("/conversations?limit=3&cursor=AAAA"), "/conversations/" + kit.Text(c.message(), "conversation_id") + "/messages?limit=1&order=desc", "/agents?include_revoked=true", strings.TrimPrefix(c.alice.PollURL, c.s.Base) + "?since=2026-11-21T10:00:00.5%2B02:00", "/agents/keys?ids=" + c.alice.ID + "," + c.bob.ID, "/agents/" + c.alice.Handle + "/keys?kid=" + c.alice.SignKid(), c.alice.Path("/stream")} {
		corpus = append(corpus, specimen{"GET " + path + " HTTP/1.1", "", append(slices.Clone(headers), "Last-Event-ID: "+kit.Text(c.message(), "id"))})
	}
	return corpus
}

// TestNoInputBreaksTheServer sends mutants of valid requests: no answer is a 5xx, the
// server does not panic, and it is healthy afterwards.
func TestNoInputBreaksTheServer(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals, "--poll-limit", "0/0")
		c := &accessScene{s: s, alice: s.Org(t).Agent("alice"), bob: s.Org(t).Agent("bob")}
		corpus := c.specimens(t)
		for _, specimen := range corpus {
			h := sendUnchanged(s.Addr, specimen.text(true))
			for status := range h.status {
				if status/100 != 2 && !slices.Contains([]int{400, 403, 404, 422}, status) {
					t.Errorf("unchanged, %q is answered %d %s", specimen.text(true), status, h.last)
				}
			}
		}
		seed := uint64(time.Now().UnixNano())
		for _, specimen := range corpus {
			if specimen.body != "" { // bodies have more to mutate
				corpus = append(corpus, specimen, specimen, specimen)
			}
		}
		h := sendMutants(s.Addr, corpus, seed, 3*time.Second)
		t.Logf("seed %d: %d mutants, answers %v", seed, h.sent, h.status)
		for _, complaint := range h.bad {
			t.Error(complaint)
		}
		if h.sent < 200 || h.status[200]+h.status[201]+h.status[204] == 0 || h.status[422] == 0 || h.status[400] == 0 {
			t.Error("too few mutants passed the framing")
		}
		for _, word := range inputTrouble(s.Log.Text()) {
			t.Errorf("the log contains: %s", word)
		}
		s.Call(t, "", "GET", "/health", nil).Want(200)
		c.alice.Send(c.bob)
	})
}

// inputTrouble returns the log messages that no input may cause.
func inputTrouble(said string) (found []string) {
	for _, word := range []string{"panic", "handler panicked", "actor failed", "request failed", "stream failed", "fatal error", "runtime error"} {
		if strings.Contains(said, word) {
			found = append(found, word)
		}
	}
	return found
}

// TestNoInputBreaksTheServerControl sends mutants to a server that trusts its input, and
// expects to break it.
func TestNoInputBreaksTheServerControl(t *testing.T) {
	t.Parallel()
	fragile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in map[string]any
		body, _ := io.ReadAll(r.Body)
		if json.Unmarshal(body, &in) == nil {
			if name, ok := in["name"].(string); !ok || !strings.HasPrefix(name, "a") {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}
	}))
	defer fragile.Close()
	corpus := []specimen{{"POST / HTTP/1.1", `{"name":"abc","note":"xyz"}`, []string{"Host: h"}}}
	broken := false
	for seed := uint64(0); seed < 50 && !broken; seed++ {
		broken = len(sendMutants(strings.TrimPrefix(fragile.URL, "http://"), corpus, seed, 100*time.Millisecond).bad) > 0
	}
	if !broken {
		t.Error("no mutant broke a fragile server")
	}
	for told, want := range map[string]bool{`500 {"code":"internal"}`: true, `503 {"code":"outcome_unknown"}`: true, `503 {"code":"overloaded"}`: false, `502 `: true, `422 {}`: false, `200 {}`: false} {
		status, body, _ := strings.Cut(told, " ")
		if n, _ := strconv.Atoi(status); faulty(n, []byte(body)) != want {
			t.Errorf("%s counts as a fault: %v", told, !want)
		}
	}
	if len(inputTrouble("ERR handler panicked panic=x")) == 0 || len(inputTrouble(`{"msg":"actor failed"}`)) == 0 || len(inputTrouble("INF all is well")) != 0 {
		t.Error("the check ignores the log")
	}
}
