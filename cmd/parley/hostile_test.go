package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"parley/cmd/parley/program"
)

// escapes is text that clears a screen, sets a title, turns the direction of text and
// begins a line that looks like the program's.
const escapes = "\x1b[2J\x1b]0;owned\x07\u009b31m\u202e\u2066\u2028\x7f\rover\nparley: FAKE\r\nFAKE"

// forged says what of escapes a terminal would obey.
func forged(text string) (found []string) {
	for _, r := range "\x1b\x07\u009b\u202e\u2066\u2028\x7f\r" {
		if strings.ContainsRune(text, r) {
			found = append(found, fmt.Sprintf("%U", r))
		}
	}
	if regexp.MustCompile(`(?m)^(parley: )?FAKE`).MatchString(text) {
		found = append(found, "a line")
	}
	return found
}

// answered is a recorded answer.
type answered struct {
	route  string
	status int
	header http.Header
	body   []byte
}

// hostileServer forwards to a true server and records its answers, or gives these again
// with changes.
type hostileServer struct {
	*httptest.Server
	real string

	mu       sync.Mutex
	recorded []answered
	replays  bool
	poison   func(string) bool // by name of a member
	fails    string            // a route
	seen     map[string]int
}

func newHostileServer(t *testing.T, real string) *hostileServer {
	h := &hostileServer{real: real}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hostileServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route := r.Method + " " + r.URL.Path
	h.mu.Lock()
	replays := h.replays
	h.mu.Unlock()
	if replays {
		h.replay(w, route)
		return
	}
	forward, err := http.NewRequestWithContext(r.Context(), r.Method, h.real+r.URL.RequestURI(), r.Body)
	if err != nil {
		panic(err)
	}
	forward.Header, forward.Host = r.Header.Clone(), r.Host
	forward.Header.Del("Accept-Encoding")
	answer, err := http.DefaultTransport.RoundTrip(forward)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	got := answered{route, answer.StatusCode, answer.Header.Clone(), nil}
	for buffer := make([]byte, 64<<10); ; {
		n, err := answer.Body.Read(buffer)
		got.body = append(got.body, buffer[:n]...)
		_, _ = w.Write(buffer[:n])
		_ = http.NewResponseController(w).Flush()
		if err != nil {
			break
		}
	}
	for name, value := range answer.Trailer {
		w.Header()[http.TrailerPrefix+name], got.header[http.TrailerPrefix+name] = value, value
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recorded = append(h.recorded, got)
}

// replay gives the answers of a route in their order, and then the last one again.
func (h *hostileServer) replay(w http.ResponseWriter, route string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var of []answered
	for _, a := range h.recorded {
		if a.route == route {
			of = append(of, a)
		}
	}
	if len(of) == 0 || route == h.fails {
		for _, name := range []string{"Location", "Warning", "Retry-After", "X-Request-Id", "X-Svc-Request-Id", "Www-Authenticate"} {
			w.Header().Set(name, "\u009b31m\u202e\u2066\u2028") // net/http lets no other escapes pass
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(object{
			"detail": escapes, "title": escapes, "type": escapes, "code": escapes, "request_id": escapes, "error": escapes, "error_description": escapes,
			"errors": []object{{"loc": []string{escapes}, "msg": escapes, "type": escapes}},
		})
		return
	}
	a := of[min(h.seen[route], len(of)-1)]
	h.seen[route]++
	maps.Copy(w.Header(), a.header)
	w.Header().Del("Content-Length")
	w.Header().Del("Content-Encoding")
	w.WriteHeader(a.status)
	_, _ = w.Write(changed(a.body, h.poison))
}

// changed adds escapes to members of the JSON values in a body, which may be a stream.
func changed(body []byte, poison func(string) bool) []byte {
	lines := bytes.SplitAfter(body, []byte("\n"))
	for i, line := range lines {
		text, stream := bytes.CutPrefix(line, []byte("data: "))
		var v any
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		if decoder.Decode(&v) != nil {
			continue
		}
		lines[i], _ = json.Marshal(poisoned(v, "", poison))
		if stream {
			lines[i] = slices.Concat([]byte("data: "), lines[i], []byte("\n"))
		}
	}
	return bytes.Join(lines, nil)
}

func poisoned(v any, name string, poison func(string) bool) any {
	switch v := v.(type) {
	case string:
		if poison(name) {
			return v + escapes
		}
	case []any:
		for i := range v {
			v[i] = poisoned(v[i], name, poison)
		}
	case object:
		for k := range v {
			v[k] = poisoned(v[k], k, poison)
		}
	case nil:
		if poison(name) {
			return escapes // an optional text
		}
	}
	return v
}

// names returns the members of recorded answers that hold text or nothing.
func (h *hostileServer) names() []string {
	found := map[string]bool{}
	for _, a := range h.recorded {
		changed(a.body, func(name string) bool { found[name] = true; return false })
	}
	delete(found, "")
	return slices.Sorted(maps.Keys(found))
}

var anyID = regexp.MustCompile(`[0-9a-f-]{36}|[A-Za-z0-9_-]{43}`)

// victim is an organization whose profile is used with a hostile server.
type victim struct {
	t       *testing.T
	server  *hostileServer
	profile string
	printed int // how often escapes were printed as text
	runs    int
	tried   []string // the arguments of does
	// harmless says of members of answers whether commands went on with escapes in them,
	// refused which routes have refused once. Victims share both.
	harmless, refused map[string]bool
}

func (v *victim) run(profile string, args ...string) (out, said string, code int) {
	var o, e lockedLog
	if v.profile != "" { // the operator has none
		args = append(slices.Clone(args), "--profile", profile)
	}
	code = run(v.t.Context(), func() {}, args, &program.Streams{In: strings.NewReader("hello"), RawOut: &o, RawErr: &e})
	return o.String(), e.String(), code
}

// copied returns a copy of a profile, if there is one.
func (v *victim) copied(profile string) string {
	to := filepath.Join(v.t.TempDir(), "profile")
	_ = filepath.WalkDir(profile, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, _ := filepath.Rel(profile, path)
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, relative), 0o700)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, relative), text, 0o600)
	})
	return to
}

// again runs a command against the recorded answers.
func (v *victim) again(profile, fails string, poison func(string) bool, args ...string) (code int) {
	v.t.Helper()
	h := v.server
	h.mu.Lock()
	h.replays, h.poison, h.fails, h.seen = true, poison, fails, map[string]int{}
	h.mu.Unlock()
	out, said, code := v.run(v.copied(profile), args...)
	v.runs++
	if found := forged(out + "\n" + said); len(found) > 0 {
		v.t.Errorf("%q prints %v:\n%q\n%q", args, found, out, said)
	}
	if strings.Contains(out+said, `\u001b`) {
		v.printed++
	}
	if slices.Contains(args, "--json") {
		for line := range strings.Lines(out) {
			if !json.Valid([]byte(line)) {
				v.t.Errorf("%q prints no JSON: %q", args, line)
			}
		}
	}
	return code
}

// does runs a command against the true server. Then it runs it with escapes in each member of
// the answers that no command had before, with escapes in all members that allow it to go on,
// and with a refusal by each kind of route.
func (v *victim) does(args ...string) string {
	v.t.Helper()
	h := v.server
	v.tried = append(v.tried, strings.Join(args, " "))
	before := v.copied(v.profile)
	h.mu.Lock()
	h.replays, h.recorded = false, nil
	h.mu.Unlock()
	out, said, want := v.run(v.profile, args...)
	if want != program.ExitOK && want != program.ExitTimeout {
		v.t.Fatalf("%q exits %d: %s%s", args, want, out, said)
	}
	names := h.names()
	alone := func(name string) {
		v.harmless[name] = v.again(before, "", func(n string) bool { return n == name }, args...) == want
	}
	for _, name := range names {
		if _, known := v.harmless[name]; !known {
			alone(name)
		}
	}
	all := func(name string) bool { return v.harmless[name] }
	if v.again(before, "", all, args...) != want { // a member that other commands do not need to understand
		for _, name := range slices.DeleteFunc(names, func(name string) bool { return !v.harmless[name] }) {
			alone(name)
		}
		v.again(before, "", all, args...)
	}
	v.again(before, "", all, append(slices.Clone(args), "--json")...)
	for i, a := range h.recorded {
		if kind := anyID.ReplaceAllString(a.route, ""); !v.refused[kind] {
			v.refused[kind] = true
			v.again(before, a.route, func(string) bool { return false }, append(slices.Clone(args), []string{"--json"}[:i%2]...)...)
		}
	}
	h.mu.Lock()
	h.replays = false
	h.mu.Unlock()
	return out
}

// first returns the first id that a command printed after a text.
func (v *victim) first(printed, after string) string {
	v.t.Helper()
	found := regexp.MustCompile(after + `([0-9a-f-]{36})`).FindStringSubmatch(printed)
	if found == nil {
		v.t.Fatalf("%q has no id after %q", printed, after)
	}
	return found[1]
}

// untried are the commands that TestHostileServer does not run, and why.
var untried = map[string]string{
	"a2a echo": runsOn, "webhook listen": runsOn, "serve": runsOn, "demo": "its server is its own", "bench": "measures a server of its own",
	"agent verify-svid": "needs a workload identity; TestSVID runs it",
	"group appoint":     "needs a group without an admin; it prints what group role does",
	"key restore":       "needs keys that somebody else replaced; it prints what agent rotate-keys does",
	"cluster":           "asks members of the operator's own cluster, through the same printer",
	"backup list":       onDisk, "backup check": onDisk, "backup prune": onDisk, "restore": onDisk, "verify": onDisk, "quarantine": onDisk,
	"receipt verify": onDisk, "config": onDisk, "version": "no text of others", "completion": "no text of others",
}

const (
	runsOn = "runs until it is stopped; it prints as watch does"
	onDisk = "reads files of this machine only; through the same printer"
)

// leaves returns all commands.
func leaves(t *testing.T) []string {
	found := names{}
	found.addCommands(t)
	return slices.Sorted(maps.Keys(found["command"]))
}

// report reports an agent, with escapes in the note.
func (v *victim) report(handle string) {
	v.t.Helper()
	var token struct {
		Access string `json:"access_token"`
	}
	text, err := os.ReadFile(filepath.Join(v.profile, "token.json"))
	if err != nil || json.Unmarshal(text, &token) != nil {
		v.t.Fatal(err)
	}
	body, _ := json.Marshal(object{"category": "spam", "agent_id": v.first(v.does("agent", "keys", handle, "--json"), `"agent_id": ?"`), "note": escapes})
	ask, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, v.server.real+"/reports", bytes.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	ask.Header.Set("Authorization", "Bearer "+token.Access)
	ask.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(ask)
	if err != nil || answer.StatusCode != http.StatusCreated {
		v.t.Fatal(answer, err)
	}
	_ = answer.Body.Close()
}

// TestHostileServer: whatever a server answers, no command passes it to the terminal, nor
// lets it begin a line. Other organizations write no more than a server can.
func TestHostileServer(t *testing.T) {
	if got := forged("a " + escapes); len(got) != 9 {
		t.Fatalf("raw escapes: %v", got) // what the test would find without the printer
	}
	data := filepath.Join(t.TempDir(), "data")
	real := serveData(t, data, "1")
	harmless, refused := map[string]bool{}, map[string]bool{}
	join := func(slug string) *victim {
		v := &victim{t: t, harmless: harmless, refused: refused, server: newHostileServer(t, real.base), profile: filepath.Join(t.TempDir(), slug)}
		v.does("register", slug, "--email", "ops@"+slug+".example", "--url", v.server.URL)
		return v
	}
	acme, globex := join("acme"), join("globex")
	hostileMessages(t, acme, globex)
	hostileWebhooks(acme)
	hostileGroups(acme, globex)
	operator := &victim{t: t, harmless: harmless, refused: refused, server: newHostileServer(t, real.admin)}
	operate := func(call string) string {
		return operator.does(append(strings.Fields(call), "--admin", operator.server.URL, "--data", data)...)
	}
	for _, call := range []string{
		"org list", "org show acme", "org quota acme agents 7", "org tier acme 2", "org approve acme", "org hold acme", "org release acme",
		"org suspend acme", "org resume acme", "key rotate --cards", "operator token create ada --role read", "operator token list", "operator token revoke ada",
		"registration token create", "backup take --to " + filepath.Join(t.TempDir(), "backup"),
	} {
		operate(call)
	}
	operate("registration token revoke " + operator.first(operate("registration token list"), "\n"))
	globex.report("alice@acme.localhost")
	operate("report list")
	operate("report close " + operator.first(operate("report list"), "\n"))
	acme.does("credential", "create", "--scope", "read", "--description", "a "+escapes, "--expires", "7d")
	acme.does("credential", "list")
	acme.does("credential", "revoke", acme.first(acme.does("credential", "create", "--json"), `"client_id": ?"`))
	acme.does("agent", "svid-challenge", "alice")
	acme.does("agent", "rotate-keys", "alice")
	former := regexp.MustCompile(`"former":\[{"kid":"([^"]+)`).FindStringSubmatch(acme.does("key", "show", "alice@acme.localhost", "--former", "--json"))
	if former == nil {
		t.Fatal("there is no former key")
	}
	acme.does("key", "retire", "alice", former[1])
	acme.does("export", filepath.Join(t.TempDir(), "export"))
	globex.does("agent", "revoke", "bob", "--yes")
	acme.does("erase", "acme")

	for _, leaf := range leaves(t) {
		name := strings.TrimPrefix(leaf, "parley ")
		tried := slices.ContainsFunc(slices.Concat(acme.tried, globex.tried, operator.tried), func(args string) bool { return strings.HasPrefix(args+" ", name+" ") })
		apart := slices.ContainsFunc(slices.Collect(maps.Keys(untried)), func(command string) bool { return strings.HasPrefix(name+" ", command+" ") })
		if tried == apart {
			t.Errorf("%q: tried is %v, and so is that untried says why not", name, tried)
		}
	}
	runs, printed := acme.runs+globex.runs+operator.runs, acme.printed+globex.printed+operator.printed
	t.Logf("%d runs, %d of them printed escapes as text", runs, printed)
	if printed < 100 {
		t.Errorf("only %d of %d runs printed escapes as text", printed, runs)
	}
}

func hostileMessages(t *testing.T, acme, globex *victim) {
	acme.does("agent", "create", "alice", "--post-quantum")
	globex.does("agent", "create", "bob")
	acme.does("agent", "list")
	acme.does("agent", "show", "alice")
	acme.does("agent", "keys", "bob@globex.localhost")
	card := filepath.Join(t.TempDir(), "card.json")
	if err := os.WriteFile(card, []byte(`{"name":"Bob","description":"answers","version":"1","skills":[{"id":"a","name":"b","description":"c","tags":["d"]}],"svc":{"a2a_enabled":true,"categories":["finance"]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	globex.does("card", "put", "bob", card)
	acme.does("card", "get", "bob@globex.localhost")
	acme.does("directory", "search", "bob")
	globex.does("card", "delete", "bob")
	globex.does("card", "put", "bob", card)

	sent := acme.does("send", "bob@globex.localhost", escapes)
	message, conversation := acme.first(sent, "message "), acme.first(sent, "conversation ")
	globex.does("inbox")
	globex.does("watch", "--count", "1", "--timeout", "300ms")
	globex.does("reply", message, escapes)
	acme.does("conversation", "list")
	acme.does("conversation", "show", conversation)
	acme.does("conversation", "transcript", conversation)
	acme.does("trace", message)
	acme.does("receipt", "get", message)
	globex.does("ack", message)
	acme.does("key", "show", "bob@globex.localhost", "--former")
	acme.does("verify-keys", "bob@globex.localhost")
	acme.does("conversation", "status", conversation, "completed", "--reason", "done")
	acme.does("a2a", "send", "bob@globex.localhost", "hi", "--wait", "1s")

	acme.does("block", "add", "bob@globex.localhost")
	acme.does("block", "list")
	acme.does("block", "remove", "bob@globex.localhost")
}

func hostileWebhooks(acme *victim) {
	hook := acme.first(acme.does("webhook", "create", "http://127.0.0.1:9/", "--agent", "alice", "--description", "x"), "created ")
	acme.does("webhook", "list")
	job := acme.first(acme.does("webhook", "test", hook), "job ")
	acme.does("webhook", "deliveries", hook)
	acme.does("webhook", "retry", hook, job)
	acme.does("webhook", "rotate", hook)
	acme.does("webhook", "pause", hook)
	acme.does("webhook", "resume", hook)
	acme.does("webhook", "delete", hook)
}

func hostileGroups(acme, globex *victim) {
	acme.does("group", "create", "team", "bob@globex.localhost", "--description", "builds", "--policy", "majority")
	acme.does("group", "list")
	acme.does("group", "show", "team")
	globex.does("group", "invites")
	request := acme.first(acme.does("group", "requests", "team", "--status", "all"), "")
	globex.does("group", "decline", "team@acme.localhost", request)
	acme.does("group", "invite", "team", "bob@globex.localhost", "--message", "join us")
	globex.does("group", "join", "team@acme.localhost")
	acme.does("group", "members", "team")
	acme.does("group", "send", "team", "hello all")

	const bob = "bob@globex.localhost"
	acme.does("group", "create", "club", "--policy", "open")
	globex.does("group", "join", "club@acme.localhost")
	acme.does("group", "role", "club", bob, "admin")
	acme.does("group", "kick", "club", bob)
	globex.does("group", "join", "club@acme.localhost")
	globex.does("group", "leave", "club@acme.localhost")
	acme.does("group", "delete", "club", "--yes")

	acme.does("group", "create", "council", "--policy", "majority", "--visibility", "public")
	asked := func() string {
		globex.does("group", "join", "council@acme.localhost")
		return acme.first(acme.does("group", "requests", "council"), "")
	}
	globex.does("group", "withdraw", "council@acme.localhost", asked())
	acme.does("group", "vote", "council", asked(), "approve")
}
