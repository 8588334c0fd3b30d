package blackbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// canaries maps names of secrets to unique texts. If a text is found elsewhere, the
// secret leaked.
type canaries map[string]string

// plantCanaries returns the canaries that a client supplies.
func plantCanaries() canaries {
	c := canaries{}
	for _, what := range []string{"encrypted_payload", "self_encrypted_payload", "metadata", "conversation_metadata", "reason", "idempotency-key", "private-jwk", "message-signature", "wrong-secret", "wrong-token", "malformed-header", "content_type", "challenge-nonce", "card"} {
		c[what] = "Canary" + strings.ReplaceAll(strings.ReplaceAll(what, "_", ""), "-", "") + randomHex(9)
	}
	c["email"] = "canary" + randomHex(9) + "@private.example"
	c["org-name"] = "canaryname" + randomHex(9)
	return c
}

// spellings returns the encodings in which a text may appear inside other data.
func spellings(text string) []string {
	out := []string{text, hex.EncodeToString([]byte(text)), url.QueryEscape(text), fmt.Sprintf("%q", text)[1 : len(fmt.Sprintf("%q", text))-1]}
	for lead := range 3 { // preceding bytes shift the base64 encoding
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			encoded := encoding.EncodeToString([]byte("..."[:lead] + text))
			out = append(out, encoded[(lead*8+5)/6:len(encoded)-2])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// found returns the names of the canaries that occur in the bytes.
func (c canaries) found(in []byte) (names []string) {
	in = bytes.ToLower(in)
	for name, canary := range c {
		if canary != "" && slices.ContainsFunc(spellings(canary), func(s string) bool { return bytes.Contains(in, []byte(strings.ToLower(s))) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// only returns the named canaries.
func (c canaries) only(names ...string) canaries {
	some := canaries{}
	for _, name := range names {
		some[name] = c[name]
	}
	return some
}

// freeAddress returns an address that no process listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := unusedAddress()
	must(t, err)
	return address
}

// TestCanaries puts unique texts into everything secret and private, uses every route
// correctly and incorrectly at the lowest log level, and searches the log, the admin
// listener and the data directory for them.
func TestCanaries(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		format := map[string]string{"1": "text", "4": "json"}[journals]
		admin := freeAddress(t)
		s := start(t, "--journals", journals, "--poll-limit", "0/0", "--access-log", "--log-level", "debug", "--log-format", format, "--admin-listen", admin)
		c := plantCanaries()
		scene := c.setUp(t, s)
		c.useCorrectly(scene)
		c.useIncorrectly(t, scene)
		c.sendBrokenHTTP(t, scene)
		for _, path := range []string{"/metrics", "/livez", "/readyz", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2", "/nothing"} {
			if names := c.found(fetch(t, s.adminToken(t), "http://"+admin+path)); len(names) > 0 {
				t.Errorf("%s shows %v", path, names)
			}
		}
		before := s.log
		s.kill()
		c.searchData(t, s.dir, scene.alice.org.id)
		s.restart(t)
		scene.alice.send(scene.bob)
		if err := s.drain(10 * time.Second); err != nil {
			t.Error(err)
		}
		for _, log := range []string{before.text(), s.log.text()} {
			if names := c.found([]byte(log)); len(names) > 0 {
				t.Errorf("the log shows %v:\n%s", names, log)
			}
			if lines := strings.Count(log, "\n"); lines < 2 {
				t.Errorf("the log has only %d lines: the search checked nothing", lines)
			}
		}
		if !strings.Contains(before.text(), "/poll/{token}") {
			t.Error("the log has no line of an answer to a poll")
		}
		if !strings.Contains(before.text(), "connection") {
			t.Error("the log has no line of the lowest level")
		}
	})
}

// setUp registers the organizations and agents and records the secrets that the server
// issued.
func (c canaries) setUp(t *testing.T, s *server) *accessScene {
	t.Helper()
	scene := &accessScene{s: s, alice: s.org(t).agent("alice"), bob: s.org(t).agent("bob"), carol: s.org(t).agent("carol")}
	slug := freshSlug()
	challenge := s.call(t, "", "POST", "/auth/register", obj{"email": c["email"], "org_slug": slug, "org_name": c["org-name"]}).want(201)
	for sha256.Sum256([]byte(challenge.str("challenge") + ":" + c["challenge-nonce"]))[0] == 0 { // a wrong solution on purpose
		c["challenge-nonce"] += "x"
	}
	s.call(t, "", "POST", "/auth/register/solve", obj{"challenge_id": challenge.str("challenge_id"), "nonce": c["challenge-nonce"]}).want(400)
	solved := s.call(t, "", "POST", "/auth/register/solve", challenge.solution()).want(201)
	o := &org{t: t, s: s, slug: slug, id: solved.str("org_id"), client: solved.str("client_id"), secret: solved.str("client_secret")}
	o.token = s.grant(t, o.client, o.secret).want(200).str("access_token")
	scene.alice = o.agent("alice")
	c["client-secret"] = strings.TrimPrefix(o.secret, "parley_sk_")
	c["bearer-signature"] = o.token[strings.LastIndex(o.token, ".")+1:]
	c["poll-token"] = scene.alice.pollURL[strings.LastIndex(scene.alice.pollURL, "/")+1:]
	c["basic"] = strings.TrimPrefix(basic(o.client, o.secret), "Basic ")
	fresh := scene.alice.post(scene.bob.org.path(scene.alice), nil).want(200).str("poll_url")
	c["second-poll-token"] = fresh[strings.LastIndex(fresh, "/")+1:]
	scene.alice.pollURL = fresh
	return scene
}

// path returns the route that replaces an agent's poll token.
func (*org) path(g *agent) string { return g.path("/poll-token") }

// useCorrectly makes valid requests to every route.
func (c canaries) useCorrectly(scene *accessScene) {
	t, a, b := scene.alice.t, scene.alice, scene.bob
	private := obj{"encrypted_payload": c["encrypted_payload"], "self_encrypted_payload": c["self_encrypted_payload"], "metadata": obj{"k": c["metadata"]}, "content_type": c["content_type"]}
	var m obj
	for range 3 {
		m = a.send(b, merged(private, obj{"conversation_metadata": obj{"k": c["conversation_metadata"]}}))
	}
	a.trySend(b, private, "Idempotency-Key", c["idempotency-key"]).want(201)
	a.trySend(b, private, "Idempotency-Key", c["idempotency-key"]).want(200)
	b.tryReply(m, merged(private)).want(201)
	a.patch("/conversations/"+text(m, "conversation_id")+"/status", obj{"status": "paused", "reason": c["reason"]}).want(200)
	a.patch("/org", obj{"contact_email": c["email"], "name": c["org-name"]}).want(200)
	a.put(a.path("/card"), merged(fullCard(), obj{"description": c["card"], "svc": obj{"categories": []any{c["card"]}}})).want(200)
	st := b.stream(nilUUID)
	st.message()
	st.close()
	page := b.get(b.path("/messages?limit=1")).want(200)
	c["cursor"] = page.str("next_cursor")
	b.get(b.path("/messages?limit=1&cursor=") + c["cursor"]).want(200)
	scene.s.call(t.(*testing.T), "", "GET", strings.TrimPrefix(a.pollURL, scene.s.base), nil).want(200)
	for route, ask := range accessAsks {
		method, _, _ := strings.Cut(route, " ")
		if r := ask(scene); !strings.HasSuffix(route, "/stream") {
			scene.s.call(t, a.token, method, r.path, r.body)
		}
	}
}

// useIncorrectly makes every kind of mistake, each with a canary in it.
func (c canaries) useIncorrectly(t *testing.T, scene *accessScene) {
	t.Helper()
	s, a, b := scene.s, scene.alice, scene.bob
	for _, r := range bodiedRoutes(t, s) {
		for _, body := range []string{`{"encrypted_payload":"` + c["encrypted_payload"], `{"metadata":{"a":"` + c["metadata"] + `","a":1}}`, `{"client_secret":"` + c["wrong-secret"] + `","client_id":"x"}`, `"` + c["reason"] + `"`} {
			s.call(t, a.token, r.method, r.concrete(), verbatim(body))
		}
	}
	private := newAgent("private")
	private["signing_public_key"] = merged(private["signing_public_key"].(obj), obj{"d": c["private-jwk"]})
	a.post("/agents", private).invalid("body", "")
	a.trySend(b, obj{"type": "x", "encrypted_payload": c["encrypted_payload"] + "!"}).invalid("body", "")
	a.trySend(b, nil, "X-Svc-Message-Signature", c["message-signature"]).refused(403, "signature_invalid")
	a.trySend(b, obj{"type": "a.b.d"}, "Idempotency-Key", c["idempotency-key"]).refused(409, "idempotency_mismatch")
	a.get(a.path("/messages?cursor=")+c["cursor"]).refused(400, "invalid_cursor")
	s.grant(t, a.client, c["wrong-secret"]).want(401)
	s.grant(t, c["wrong-secret"], a.secret).want(401)
	s.call(t, c["wrong-token"], "GET", "/org", nil).refused(401, "invalid_token")
	s.call(t, a.token+"x", "GET", "/org", nil).want(401)
	s.call(t, "", "GET", "/poll/"+c["wrong-token"], nil).refused(404, "not_found")
	s.call(t, "", "GET", strings.TrimPrefix(a.pollURL, s.base)+"?since="+c["reason"], nil).want(422)
	s.call(t, "", "POST", strings.TrimPrefix(a.pollURL, s.base), nil).refused(405, "method_not_allowed")
	s.call(t, "", "GET", strings.TrimPrefix(a.pollURL, s.base)+"/more", nil).refused(404, "not_found")
	b.tryReply(obj{"id": nobody}, obj{"encrypted_payload": c["encrypted_payload"]}).want(404)
}

// sendBrokenHTTP sends requests that the HTTP parser rejects or that break off.
func (c canaries) sendBrokenHTTP(t *testing.T, scene *accessScene) {
	t.Helper()
	authorization := "Authorization: Bearer " + scene.alice.token
	poll := strings.TrimPrefix(scene.alice.pollURL, scene.s.base)
	for _, request := range []string{
		"GET " + poll + "\x01 HTTP/1.1\r\nHost: h\r\n\r\n", "GET " + poll + "\r\nHost: h\r\n\r\n", "GET " + poll + " HTTP/9\r\nHost: h\r\n\r\n", "GET " + poll + "/../x HTTP/1.1\r\nHost: h\r\n\r\n", "GET " + poll[1:] + " HTTP/1.1\r\nHost: h\r\n\r\n", poll + " GET HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /org HTTP/1.1\r\nHost: h\r\n" + authorization + "\x01\r\n\r\n", "GET /org HTTP/1.1\r\nHost: h\r\n" + authorization + "\r\n" + authorization + "\r\n\r\n", "GET /org HTTP/1.1\r\nHost: h\r\n " + authorization + "\r\n\r\n", "GET /org HTTP/1.1\r\n" + authorization + "\r\n\r\n",
		"GET /org HTTP/1.1\r\nHost: " + c["malformed-header"] + "@h\r\n\r\n", "GET /org HTTP/1.1\r\nHost: h\r\n" + c["malformed-header"] + "\r\n\r\n", "GET /org HTTP/1.1\r\nHost: h\r\nContent-Length: " + c["malformed-header"] + "\r\n\r\n", "GET /org HTTP/1.1\r\nHost: h\r\nX: " + c["malformed-header"] + strings.Repeat("x", 20000) + "\r\n\r\n",
		"POST /messages HTTP/1.1\r\nHost: h\r\n" + authorization + "\r\nTransfer-Encoding: chunked\r\n\r\n" + c["encrypted_payload"] + "\r\n", "POST /messages HTTP/1.1\r\nHost: h\r\n" + authorization + "\r\nTransfer-Encoding: " + c["malformed-header"] + "\r\n\r\n", "POST /messages HTTP/1.1\r\nHost: h\r\n" + authorization + "\r\nContent-Length: 9999\r\n\r\n" + c["encrypted_payload"],
	} {
		if outcome := playRaw(scene.s.addr, []string{request}, 200*time.Millisecond); !strings.Contains(outcome, "4") && !strings.Contains(outcome, "nothing") {
			t.Errorf("%q: %s", request, outcome)
		}
	}
}

// searchData searches the data directory, in which contents are sealed. It also searches
// for ids, which are not: that shows that the search works.
func (c canaries) searchData(t *testing.T, dir, orgID string) {
	t.Helper()
	var all []byte
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all = append(all, b...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if names := c.found(all); len(names) > 0 {
		t.Errorf("the data directory holds %v", names)
	}
	for _, what := range []string{"encrypted_payload", "self_encrypted_payload"} { // stored decoded
		text := c[what]
		payload, err := base64.RawURLEncoding.DecodeString(text[:len(text)/4*4])
		if err != nil || bytes.Contains(all, payload) {
			t.Errorf("the data directory holds the decoded %s (%v)", what, err)
		}
	}
	if sum := sha256.Sum256([]byte(c["second-poll-token"])); !bytes.Contains(all, sum[:]) {
		t.Error("the data directory does not hold the hash of the poll token, by which its agent is found")
	}
	id, err := hex.DecodeString(strings.ReplaceAll(orgID, "-", ""))
	if err != nil || !bytes.Contains(all, id) {
		t.Errorf("the search did not find the id of the organization: it does not work (%v)", err)
	}
}

// fetch reads from the admin address.
func fetch(t *testing.T, token, address string) []byte {
	t.Helper()
	req, err := http.NewRequest("GET", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// TestCanariesControl: the search finds a planted line in every encoding.
func TestCanariesControl(t *testing.T) {
	t.Parallel()
	c := plantCanaries()
	innocent := []byte("12:00:00.000 DBG connection said=\"error when serving\" request_id=7f\n{\"level\":\"INFO\",\"msg\":\"canary\"}\n")
	if names := c.found(innocent); len(names) != 0 {
		t.Fatalf("found %v in a harmless log", names)
	}
	for name, canary := range c {
		for _, line := range []string{
			"token=" + canary, `{"msg":"x","body":"a` + canary + `b"}`, strings.ToUpper(canary), "%2F" + url.QueryEscape(canary), hex.EncodeToString([]byte("x" + canary)), fmt.Sprintf("%q", canary),
			base64.StdEncoding.EncodeToString([]byte("user:" + canary + "!")), base64.URLEncoding.EncodeToString([]byte("a" + canary)), base64.RawStdEncoding.EncodeToString([]byte("ab" + canary)), base64.StdEncoding.EncodeToString([]byte(canary)),
		} {
			if names := c.found(append(slices.Clone(innocent), line...)); !slices.Contains(names, name) {
				t.Errorf("%s was not found in %q", name, line)
			}
		}
	}
}
