package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// TestCanaries puts unique texts into everything secret and private, uses every route
// correctly and incorrectly at the lowest log level, and searches the log, the admin
// listener and the data directory for them.
func TestCanaries(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		format := map[string]string{"1": "text", "4": "json"}[journals]
		admin := kit.FreeAddress(t)
		s := kit.Start(t, "--journals", journals, "--poll-limit", "0/0", "--access-log", "--log-level", "debug", "--log-format", format, "--admin-listen", admin)
		c := kit.PlantCanaries()
		scene := setUp(t, c, s)
		useCorrectly(c, scene)
		useIncorrectly(t, c, scene)
		sendBrokenHTTP(t, c, scene)
		for _, path := range []string{"/metrics", "/livez", "/readyz", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2", "/nothing"} {
			if names := c.Found(kit.Fetch(t, s.AdminToken(t), "http://"+admin+path)); len(names) > 0 {
				t.Errorf("%s shows %v", path, names)
			}
		}
		before := s.Log
		s.Kill()
		searchData(t, c, s.Dir, scene.alice.Org.ID)
		s.Restart(t)
		scene.alice.Send(scene.bob)
		if err := s.Drain(10 * time.Second); err != nil {
			t.Error(err)
		}
		for _, log := range []string{before.Text(), s.Log.Text()} {
			if names := c.Found([]byte(log)); len(names) > 0 {
				t.Errorf("the log shows %v:\n%s", names, log)
			}
			if lines := strings.Count(log, "\n"); lines < 2 {
				t.Errorf("the log has only %d lines: the search checked nothing", lines)
			}
		}
		if !strings.Contains(before.Text(), "/poll/{token}") {
			t.Error("the log has no line of an answer to a poll")
		}
		if !strings.Contains(before.Text(), "connection") {
			t.Error("the log has no line of the lowest level")
		}
	})
}

// setUp registers the organizations and agents and records the secrets that the server
// issued.
func setUp(t *testing.T, c kit.Canaries, s *kit.Server) *accessScene {
	t.Helper()
	scene := &accessScene{s: s, alice: s.Org(t).Agent("alice"), bob: s.Org(t).Agent("bob"), carol: s.Org(t).Agent("carol")}
	slug := kit.FreshSlug()
	challenge := s.Call(t, "", "POST", "/auth/register", obj{"email": c["email"], "org_slug": slug, "org_name": c["org-name"]}).Want(201)
	for sha256.Sum256([]byte(challenge.Str("challenge") + ":" + c["challenge-nonce"]))[0] == 0 { // a wrong solution on purpose
		c["challenge-nonce"] += "x"
	}
	s.Call(t, "", "POST", "/auth/register/solve", obj{"challenge_id": challenge.Str("challenge_id"), "nonce": c["challenge-nonce"]}).Want(400)
	solved := s.Call(t, "", "POST", "/auth/register/solve", challenge.Solution()).Want(201)
	o := &kit.Org{T: t, S: s, Slug: slug, ID: solved.Str("org_id"), Client: solved.Str("client_id"), Secret: solved.Str("client_secret")}
	o.Token = s.Grant(t, o.Client, o.Secret).Want(200).Str("access_token")
	scene.alice = o.Agent("alice")
	c["client-secret"] = strings.TrimPrefix(o.Secret, "parley_sk_")
	c["bearer-signature"] = o.Token[strings.LastIndex(o.Token, ".")+1:]
	c["poll-token"] = scene.alice.PollURL[strings.LastIndex(scene.alice.PollURL, "/")+1:]
	c["basic"] = strings.TrimPrefix(kit.Basic(o.Client, o.Secret), "Basic ")
	fresh := scene.alice.Post(pollTokenPath(scene.bob.Org, scene.alice), nil).Want(200).Str("poll_url")
	c["second-poll-token"] = fresh[strings.LastIndex(fresh, "/")+1:]
	scene.alice.PollURL = fresh
	return scene
}

// pollTokenPath returns the route that replaces an agent's poll token.
func pollTokenPath(_ *kit.Org, g *kit.Agent) string { return g.Path("/poll-token") }

// useCorrectly makes valid requests to every route.
func useCorrectly(c kit.Canaries, scene *accessScene) {
	t, a, b := scene.alice.T, scene.alice, scene.bob
	private := obj{"encrypted_payload": c["encrypted_payload"], "self_encrypted_payload": c["self_encrypted_payload"], "metadata": obj{"k": c["metadata"]}, "content_type": c["content_type"]}
	var m obj
	for range 3 {
		m = a.Send(b, kit.Merged(private, obj{"conversation_metadata": obj{"k": c["conversation_metadata"]}}))
	}
	a.TrySend(b, private, "Idempotency-Key", c["idempotency-key"]).Want(201)
	a.TrySend(b, private, "Idempotency-Key", c["idempotency-key"]).Want(200)
	b.TryReply(m, kit.Merged(private)).Want(201)
	a.Patch("/conversations/"+kit.Text(m, "conversation_id")+"/status", obj{"status": "paused", "reason": c["reason"]}).Want(200)
	a.Patch("/org", obj{"contact_email": c["email"], "name": c["org-name"]}).Want(200)
	a.Put(a.Path("/card"), kit.Merged(kit.FullCard(), obj{"description": c["card"], "svc": obj{"categories": []any{c["card"]}}})).Want(200)
	st := b.Stream(kit.NilUUID)
	st.Message()
	st.Close()
	page := b.Get(b.Path("/messages?limit=1")).Want(200)
	c["cursor"] = page.Str("next_cursor")
	b.Get(b.Path("/messages?limit=1&cursor=") + c["cursor"]).Want(200)
	scene.s.Call(t.(*testing.T), "", "GET", strings.TrimPrefix(a.PollURL, scene.s.Base), nil).Want(200)
	for route, ask := range accessAsks {
		method, _, _ := strings.Cut(route, " ")
		if r := ask(scene); !strings.HasSuffix(route, "/stream") {
			scene.s.Call(t, a.Token, method, r.path, r.body)
		}
	}
}

// useIncorrectly makes every kind of mistake, each with a canary in it.
func useIncorrectly(t *testing.T, c kit.Canaries, scene *accessScene) {
	t.Helper()
	s, a, b := scene.s, scene.alice, scene.bob
	for _, r := range bodiedRoutes(t, s) {
		for _, body := range []string{`{"encrypted_payload":"` + c["encrypted_payload"], `{"metadata":{"a":"` + c["metadata"] + `","a":1}}`, `{"client_secret":"` + c["wrong-secret"] + `","client_id":"x"}`, `"` + c["reason"] + `"`} {
			s.Call(t, a.Token, r.method, r.concrete(), kit.Verbatim(body))
		}
	}
	private := kit.NewAgent("private")
	private["signing_public_key"] = kit.Merged(private["signing_public_key"].(obj), obj{"d": c["private-jwk"]})
	a.Post("/agents", private).Invalid("body", "")
	a.TrySend(b, obj{"type": "x", "encrypted_payload": c["encrypted_payload"] + "!"}).Invalid("body", "")
	a.TrySend(b, nil, "X-Svc-Message-Signature", c["message-signature"]).Refused(403, "signature_invalid")
	a.TrySend(b, obj{"type": "a.b.d"}, "Idempotency-Key", c["idempotency-key"]).Refused(409, "idempotency_mismatch")
	a.Get(a.Path("/messages?cursor=")+c["cursor"]).Refused(400, "invalid_cursor")
	s.Grant(t, a.Client, c["wrong-secret"]).Want(401)
	s.Grant(t, c["wrong-secret"], a.Secret).Want(401)
	s.Call(t, c["wrong-token"], "GET", "/org", nil).Refused(401, "invalid_token")
	s.Call(t, a.Token+"x", "GET", "/org", nil).Want(401)
	s.Call(t, "", "GET", "/poll/"+c["wrong-token"], nil).Refused(404, "not_found")
	s.Call(t, "", "GET", strings.TrimPrefix(a.PollURL, s.Base)+"?since="+c["reason"], nil).Want(422)
	s.Call(t, "", "POST", strings.TrimPrefix(a.PollURL, s.Base), nil).Refused(405, "method_not_allowed")
	s.Call(t, "", "GET", strings.TrimPrefix(a.PollURL, s.Base)+"/more", nil).Refused(404, "not_found")
	b.TryReply(obj{"id": kit.Nobody}, obj{"encrypted_payload": c["encrypted_payload"]}).Want(404)
}

// sendBrokenHTTP sends requests that the HTTP parser rejects or that break off.
func sendBrokenHTTP(t *testing.T, c kit.Canaries, scene *accessScene) {
	t.Helper()
	authorization := "Authorization: Bearer " + scene.alice.Token
	poll := strings.TrimPrefix(scene.alice.PollURL, scene.s.Base)
	for _, request := range []string{
		"GET " + poll + "\x01 HTTP/1.1\r\nHost: h\r\n\r\n", "GET " + poll + "\r\nHost: h\r\n\r\n", "GET " + poll + " HTTP/9\r\nHost: h\r\n\r\n", "GET " + poll + "/../x HTTP/1.1\r\nHost: h\r\n\r\n", "GET " + poll[1:] + " HTTP/1.1\r\nHost: h\r\n\r\n", poll + " GET HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /org HTTP/1.1\r\nHost: h\r\n" + authorization + "\x01\r\n\r\n", "GET /org HTTP/1.1\r\nHost: h\r\n" + authorization + "\r\n" + authorization + "\r\n\r\n", "GET /org HTTP/1.1\r\nHost: h\r\n " + authorization + "\r\n\r\n", "GET /org HTTP/1.1\r\n" + authorization + "\r\n\r\n",
		"GET /org HTTP/1.1\r\nHost: " + c["malformed-header"] + "@h\r\n\r\n", "GET /org HTTP/1.1\r\nHost: h\r\n" + c["malformed-header"] + "\r\n\r\n", "GET /org HTTP/1.1\r\nHost: h\r\nContent-Length: " + c["malformed-header"] + "\r\n\r\n", "GET /org HTTP/1.1\r\nHost: h\r\nX: " + c["malformed-header"] + strings.Repeat("x", 20000) + "\r\n\r\n",
		"POST /messages HTTP/1.1\r\nHost: h\r\n" + authorization + "\r\nTransfer-Encoding: chunked\r\n\r\n" + c["encrypted_payload"] + "\r\n", "POST /messages HTTP/1.1\r\nHost: h\r\n" + authorization + "\r\nTransfer-Encoding: " + c["malformed-header"] + "\r\n\r\n", "POST /messages HTTP/1.1\r\nHost: h\r\n" + authorization + "\r\nContent-Length: 9999\r\n\r\n" + c["encrypted_payload"],
	} {
		if outcome := playRaw(scene.s.Addr, []string{request}, 200*time.Millisecond); !strings.Contains(outcome, "4") && !strings.Contains(outcome, "nothing") {
			t.Errorf("%q: %s", request, outcome)
		}
	}
}

// searchData searches the data directory, in which contents are sealed. It also searches
// for ids, which are not: that shows that the search works.
func searchData(t *testing.T, c kit.Canaries, dir, orgID string) {
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
	if names := c.Found(all); len(names) > 0 {
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

// TestCanariesControl: the search finds a planted line in every encoding.
func TestCanariesControl(t *testing.T) {
	t.Parallel()
	c := kit.PlantCanaries()
	innocent := []byte("12:00:00.000 DBG connection said=\"error when serving\" request_id=7f\n{\"level\":\"INFO\",\"msg\":\"canary\"}\n")
	if names := c.Found(innocent); len(names) != 0 {
		t.Fatalf("found %v in a harmless log", names)
	}
	for name, canary := range c {
		for _, line := range []string{
			"token=" + canary, `{"msg":"x","body":"a` + canary + `b"}`, strings.ToUpper(canary), "%2F" + url.QueryEscape(canary), hex.EncodeToString([]byte("x" + canary)), fmt.Sprintf("%q", canary),
			base64.StdEncoding.EncodeToString([]byte("user:" + canary + "!")), base64.URLEncoding.EncodeToString([]byte("a" + canary)), base64.RawStdEncoding.EncodeToString([]byte("ab" + canary)), base64.StdEncoding.EncodeToString([]byte(canary)),
		} {
			if names := c.Found(append(slices.Clone(innocent), line...)); !slices.Contains(names, name) {
				t.Errorf("%s was not found in %q", name, line)
			}
		}
	}
}
