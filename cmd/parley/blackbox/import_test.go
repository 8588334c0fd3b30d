package blackbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// importScene is an organization that has everything that an import restores, except groups
// (see importedGroups), and another one that it has messages with.
type importScene struct {
	us                *org
	agents            []*agent // of us, without silent
	silent            *agent   // nobody reads its inbox
	carol             *agent   // of the other organization
	conversations     []string
	messages          []string
	kids              []string // of the first agent
	revoked           *agent
	webhook, switched string
}

// importFlags start a server whose answers do not depend on its port.
func importFlags(journals string) []string {
	return []string{"--journals", journals, "--poll-limit", "0/0", "--base-url", "https://parley.example", "--quota", "tier1.exports_per_hour=none"}
}

func newImportScene(t *testing.T, journals string) *importScene {
	t.Helper()
	s := start(t, importFlags(journals)...)
	x := &importScene{us: s.org(t)}
	them := s.org(t)
	alice, bob := x.us.agent("alice"), x.us.agent("bob")
	x.carol, x.silent, x.revoked = them.agent("carol"), x.us.agent("silent"), x.us.agent("gone")
	dave := them.agent("dave")
	x.agents = []*agent{alice, bob, x.revoked}
	x.us.patch("/org", obj{"name": "Ünïted", "country_code": "fr", "contact_email": "new@us.example"}).want(200)
	x.credentials()
	x.keysOf(alice)
	bob.patch(bob.path(""), obj{"incoming_policy": "groups_only", "human_oversight": false}).want(200)
	bob.patch(bob.path(""), obj{"incoming_policy": "accept_all", "outgoing_policy": "groups_only"}).want(200)
	alice.put(alice.path("/card"), plainCard()).want(200)
	alice.put(alice.path("/card"), fullCard()).want(200)
	bob.put(bob.path("/card"), merged(bridgedCard(), obj{"is_public": true})).want(200)
	x.talk(alice, bob, dave)
	nextMillisecond()
	x.carol.send(alice) // the last events of the streams are messages
	dave.send(bob)
	x.revoked.send(bob)
	x.revoked.delete(x.revoked.path("")).want(204)
	x.webhook = alice.hooksAt("HTTPS://93.184.216.34:443/Hook?a=b", obj{"events": []any{"message.read", "webhook.test"}, "description": "all"}).want(201).str("id")
	x.switched = bob.hooksAt("https://93.184.216.34").want(201).str("id")
	x.us.patch("/webhooks/"+x.switched, obj{"active": false}).want(200)
	for _, g := range x.agents {
		for _, c := range g.pages(g.path("/conversations"), "?limit=100") {
			x.conversations = append(x.conversations, text(c, "id"))
		}
	}
	slices.Sort(x.conversations)
	x.conversations = slices.Compact(x.conversations)
	for _, c := range x.conversations {
		for _, m := range x.us.pages("/conversations/"+c+"/messages", "?limit=200") {
			x.messages = append(x.messages, text(m, "id"))
		}
	}
	dave.send(x.silent)
	return x
}

// credentials adds a live and a revoked credential.
func (x *importScene) credentials() {
	x.us.post("/org/credentials", nil).want(201)
	second := x.us.post("/org/credentials", nil).want(201)
	x.us.delete("/org/credentials/" + second.str("client_id")).want(204)
}

// keysOf changes the keys of an agent: bound, rotated with and without a binding, back to
// the first, retired, and a post-quantum one.
func (x *importScene) keysOf(g *agent) {
	first := g.pair()
	g.put(g.path("/key-binding"), g.binding(first, nil, instant(0))).want(200)
	second := newPair()
	g.post(g.path("/keys"), obj{
		"signing_public_key": signJWK(second.sign), "encryption_public_key": sealJWK(second.seal),
		"key_binding": g.binding(second, first.sign, instant(1e9)),
	}).want(200)
	third := newPair()
	for _, k := range []pairOfKeys{third, second, {third.sign, second.seal}} { // the encryption key came back
		nextMillisecond()
		g.post(g.path("/keys"), obj{"signing_public_key": signJWK(k.sign), "encryption_public_key": sealJWK(k.seal)}).want(200)
	}
	nextMillisecond()
	g.put(g.path("/key-binding"), g.binding(pairOfKeys{third.sign, second.seal}, second.sign, instant(2e9))).want(200)
	sign, _ := first.kids()
	nextMillisecond()
	g.post(g.path("/keys/retire"), obj{"kid": sign}).want(200)
	fourth := newPair()
	g.post(g.path("/keys"), obj{"signing_public_key": signJWK(fourth.sign)}).want(200) // not bound
	g.post(g.path("/keys/pq"), obj{"pq_public_key": kemKey()}).want(200)
	for _, k := range []pairOfKeys{first, second, third, fourth} {
		sign, seal := k.kids()
		x.kids = append(x.kids, sign, seal)
	}
}

// nextMillisecond waits until the clock has moved on: exports have milliseconds, and of two
// changes within one an import may not know which came first.
func nextMillisecond() { time.Sleep(2 * time.Millisecond) }

// talk makes conversations in all statuses, begun by either side, with all kinds of content.
func (x *importScene) talk(alice, bob, dave *agent) {
	status := func(by *agent, m obj, status, reason string) {
		body := obj{"status": status}
		if reason != "" {
			body["reason"] = reason
		}
		by.patch("/conversations/"+text(m, "conversation_id")+"/status", body, "X-Svc-Agent", by.id).want(200)
	}
	full := obj{
		"metadata": obj{"a": []any{1, nil, "é\u2028<"}, "a2a": obj{"mine": true}}, "conversation_metadata": obj{"k": obj{"deep": "v"}}, "content_type": "text/plain",
		"payload_schema": "https://x.example/s.json", "self_encrypted_payload": "bWluZQ", "sender_signing_kid": "some-key", "encrypted_payload": "QUJDRA==",
	}
	m := alice.send(bob, full)
	r := alice.reply(bob.reply(m, obj{"encrypted_payload": "not_canonical_Q"}))
	status(alice, m, "paused", "lunch")
	status(bob, m, "open", "")
	bob.reply(r)
	status(bob, m, "completed", "done")
	alice.send(bob, obj{"parent_conversation_id": m["conversation_id"], "encryption_version": "sender-key-v1"})
	out := alice.send(x.carol, full)
	x.carol.reply(out)
	for i := range 5 { // of many conversations at once, from both sides
		in := x.carol.send(alice)
		alice.send(x.carol)
		if i%2 == 0 {
			alice.reply(in)
		}
		alice.reply(dave.send(alice), obj{"type": "acme.v1.other"})
		dave.send(bob)
	}
	status(bob, dave.send(bob), "rejected", "no")
	status(alice, alice.send(x.carol), "canceled", "")
	read := alice.send(x.carol)
	x.carol.post("/messages/"+text(read, "id")+"/read", nil).want(200)
	task := alice.begins(bob, "m-1")
	for _, got := range bob.pages(bob.path("/messages"), "?limit=100") {
		if got["conversation_id"] == task {
			bob.reply(got, obj{"type": "svc.v1.task_response"})
		}
	}
}

// readAnswers are the answers to all reads that the organization may ask, by request.
type readAnswers map[string]string

// cursors and signatures are made with keys of the server; positions are its own numbers.
var serverOwn = regexp.MustCompile(`"next_cursor":"[^"]*"|"signature":"[^"]*"|"protected":"[^"]*"|"position":\d+`)

// read asks everything. It finds the agents by name on an imported server.
func (x *importScene) read(t *testing.T, o *org) readAnswers {
	t.Helper()
	all := readAnswers{}
	ask := func(path string, headers ...string) {
		a := o.get(path, headers...)
		if a.status != 200 && a.status != 404 && a.status != 410 && a.status != 403 {
			a.errorf("unexpected")
		}
		body := string(serverOwn.ReplaceAll(a.raw, nil))
		if path == "/org/quotas" { // a map in no order
			sorted, _ := json.Marshal(quotasLeft(a))
			body = string(sorted)
		}
		if a.status != 200 { // the id of the request is in it
			body = fmt.Sprint(a.status, " ", a.body["code"], " ", a.body["detail"])
		}
		all[strings.Join(append([]string{path}, headers...), " ")] = body
	}
	for _, path := range []string{
		"/org", "/org/quotas", "/agents", "/agents?include_revoked=true", "/groups", "/groups?scope=all", "/groups/invites",
		"/directory/agents", "/directory/agents?q=invoice", "/directory/agents?category=finance", "/directory/categories", "/directory/groups", "/find/agents",
		"/agents/" + x.carol.id, "/agents/keys?ids=" + x.agents[0].id + "," + x.agents[1].id,
	} {
		ask(path)
	}
	for _, g := range append(slices.Clone(x.agents), x.silent) {
		for _, rest := range []string{"", "/keys", "/key-bindings", "/card", "/did.json", "/conversations?limit=100", "/conversations?limit=2"} {
			ask(g.path(rest))
		}
		for _, path := range []string{"/.well-known/agent-cards/" + g.id + ".json", "/directory/agents/" + g.id, "/a2a/" + g.handle + "/agent.json", "/.well-known/webfinger?resource=acct:" + g.handle, "/a/" + g.handle, "/agents/" + g.handle + "/keys"} {
			ask(path)
		}
	}
	for _, g := range x.agents {
		for _, rest := range []string{"/messages?limit=100", "/messages?limit=2", "/messages?type=acme.v1.other"} {
			ask(g.path(rest))
		}
	}
	for _, kid := range x.kids {
		ask(x.agents[0].path("/keys?kid=" + kid))
	}
	for _, c := range x.conversations {
		for _, rest := range []string{"", "/participants", "/messages?limit=200", "/messages?limit=1&order=desc"} {
			ask("/conversations/" + c + rest)
		}
		ask("/conversations/"+c+"/messages", "X-Svc-Agent", x.agents[1].id)
	}
	for _, m := range x.messages {
		ask("/messages/" + m)
		ask("/messages/"+m, "X-Svc-Agent", x.agents[1].id)
		ask("/messages/" + m + "/trace")
	}
	return all
}

// followed returns the events of streamed by conversation: an import may change the places of
// two events of one millisecond in different conversations.
func followed(o *org, g *agent) []string {
	events := streamed(o, g)
	slices.SortStableFunc(events, func(a, b string) int { return strings.Compare(conversationIn(a), conversationIn(b)) })
	return events
}

// streamed returns the events that a stream of an agent has from its first message to its
// last.
func streamed(o *org, g *agent) (events []string) {
	g = &agent{org: o, id: g.id}
	newest := text(g.inbox("?limit=1").items()[0], "id")
	st := g.stream("00000000-0000-0000-0000-000000000000")
	for {
		e := st.next()
		events = append(events, e.name+" "+e.id+" "+string(e.raw))
		if e.id == newest {
			st.close()
			return events
		}
	}
}

// conversationIn returns the id of the conversation that an event is about.
func conversationIn(event string) string {
	_, after, _ := strings.Cut(event, `"conversation_id":"`)
	return after[:min(len(after), 36)]
}

// exportBytes makes an export and returns its bytes.
func exportBytes(t *testing.T, o *org) []byte {
	t.Helper()
	_, raw := export(t, o)
	return raw
}

// imported imports an export, verifies the directory, and starts a server on it.
func imported(t *testing.T, export []byte, slug, journals string) *org {
	t.Helper()
	dir := t.TempDir()
	file, data := filepath.Join(dir, "export.ndjson"), filepath.Join(dir, "data")
	if err := os.WriteFile(file, export, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(export)
	made := succeeds(t, "import", file, "--data", data, "--journals", journals, "--sha256", hex.EncodeToString(sum[:]), "--records", strconv.Itoa(bytes.Count(export, []byte("\n"))))
	if v := succeeds(t, "verify", "--data", data); v["faults"] != 0.0 {
		t.Fatalf("verify: %v", v)
	}
	s, err := (&server{dir: data, flags: importFlags(journals)}).launched("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Log(s.log.tail())
		}
	})
	o := &org{t: t, s: s, slug: slug, id: text(made, "org_id"), client: text(made, "client_id"), secret: text(made, "client_secret")}
	o.token = s.grant(t, o.client, o.secret).want(200).str("access_token")
	return o
}

// TestImportAnswersAsTheOriginal: a server on an imported directory answers every read as
// the server did that made the export, and another export is the same.
func TestImportAnswersAsTheOriginal(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		x := newImportScene(t, journals)
		x.read(t, x.us) // reading gives messages receipts
		before := x.read(t, x.us)
		events := map[string][]string{}
		for _, g := range x.agents[:2] {
			events[g.name] = followed(x.us, g)
		}
		export := exportBytes(t, x.us)
		x.us.s.kill()
		if v := succeeds(t, "verify", "--data", x.us.s.dir); v["faults"] != 0.0 {
			t.Fatalf("verify of the original: %v", v)
		}
		other := map[string]string{"1": "4", "4": "1"}[journals]
		for _, journals := range []string{journals, other} {
			o := imported(t, export, x.us.slug, journals)
			compareExports(t, export, exportBytes(t, o))
			after := x.read(t, o)
			for path, want := range before {
				if after[path] != want {
					t.Errorf("journals=%s: GET %s:\n%s\nwas\n%s", journals, path, after[path], want)
				}
			}
			if len(before) < 200 {
				t.Errorf("only %d reads", len(before))
			}
			for _, g := range x.agents[:2] {
				if got := followed(o, g); !slices.Equal(got, events[g.name]) {
					t.Errorf("journals=%s: stream of %s:\n%s\nwas\n%s", journals, g.name, strings.Join(got, "\n"), strings.Join(events[g.name], "\n"))
				}
			}
			x.goesOn(t, o)
		}
	})
}

// compareExports compares two exports record by record, without what an import changes.
func compareExports(t *testing.T, before, after []byte) {
	t.Helper()
	want, got := recordsOf(t, before), recordsOf(t, after)
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got[key] != want[key] {
			t.Errorf("%s is\n%s\nwas\n%s", key, got[key], want[key])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d records, want %d", len(got), len(want))
	}
}

// recordsOf returns the records of an export by type and id, without the instant of the
// export, the credentials, and whether webhooks are active. Positions become ranks.
func recordsOf(t *testing.T, export []byte) map[string]string {
	t.Helper()
	all, positions := []obj{}, map[string][]float64{}
	place := func(of obj, agent string) {
		if n, ok := of["position"].(float64); ok {
			positions[agent] = append(positions[agent], n)
		}
	}
	for line := range bytes.Lines(export) {
		var r obj
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		data := r["data"].(obj)
		switch r["type"] {
		case "org":
			data["export"].(obj)["snapshot_at"], data["credentials"] = nil, nil
		case "webhook":
			delete(data, "active")
		}
		eachPosition(r, place)
		all = append(all, r)
	}
	for _, of := range positions {
		slices.Sort(of)
	}
	rank := func(of obj, agent string) {
		if n, ok := of["position"].(float64); ok {
			of["position"], _ = slices.BinarySearch(positions[agent], n)
		}
	}
	records := map[string]string{}
	for _, r := range all {
		data := r["data"].(obj)
		eachPosition(r, rank)
		b, _ := json.Marshal(data)
		records[fmt.Sprint(r["type"], " ", data["id"])] = string(b)
	}
	return records
}

// eachPosition calls fn with each object of a record that has a position in the feed or the
// list of an agent.
func eachPosition(r obj, fn func(of obj, agent string)) {
	data := r["data"].(obj)
	if r["type"] == "message" {
		fn(data["export"].(obj), text(data, "to_agent_id"))
	}
	for _, name := range []string{"listed", "announced"} {
		if all, found := data[name].([]any); found {
			for _, l := range objects(all) {
				fn(l, text(l, "agent_id"))
			}
		}
	}
}

// goesOn checks that the organization can go on where it stopped.
func (x *importScene) goesOn(t *testing.T, o *org) {
	t.Helper()
	alice, bob := &agent{org: o, id: x.agents[0].id, handle: x.agents[0].handle}, &agent{org: o, id: x.agents[1].id, handle: x.agents[1].handle}
	o.s.grant(t, x.us.client, x.us.secret).want(401)
	m := alice.send(bob)
	bob.reply(m)
	if first := text(bob.inbox("?limit=1").items()[0], "id"); first != text(m, "id") {
		t.Errorf("the newest message is %s, want %s", first, text(m, "id"))
	}
	next := newPair()
	alice.post(alice.path("/keys"), obj{"signing_public_key": signJWK(next.sign)}).want(200)
	o.post("/agents", newAgent("alice")).refused(409, "name_taken")
	o.agent("another").send(bob)
	alice.trySend(x.carol, nil).refused(410, "gone")
	o.s.call(t, "", "POST", "/auth/register", obj{"email": "a@b.c", "org_slug": x.carol.slug}).refused(409, "slug_taken")
	o.post("/webhooks/"+x.webhook+"/rotate-secret", nil).want(200)
	o.patch("/webhooks/"+x.webhook, obj{"active": true}).want(200)
	polled := o.post(alice.path("/poll-token"), nil).want(200).str("poll_url")
	count := o.s.call(t, "", "GET", strings.TrimPrefix(polled, "https://parley.example")+"?since=2000-01-01", nil).want(200)
	if inbox := len(o.pages(alice.path("/messages"), "?limit=100")); count.at("count") != float64(inbox) {
		t.Errorf("the poll counts %v, the inbox has %d", count.at("count"), inbox)
	}
	if _, said, code := command(t, "import", "/dev/null", "--data", o.s.dir); code == 0 || !strings.Contains(said, "not a file") && !strings.Contains(said, "not empty") {
		t.Errorf("import into a directory that is used: %d %s", code, said)
	}
}

// TestImportRefuses: an export of which any line is missing, changed or doubled is refused,
// and nothing is left of the directory.
func TestImportRefuses(t *testing.T) {
	t.Parallel()
	s := start(t, importFlags("1")...)
	a, b := pair(t, s)
	second := a.org.agent("second")
	r := b.reply(a.send(b))
	a.reply(r)
	a.patch("/conversations/"+text(r, "conversation_id")+"/status", obj{"status": "completed"}).want(200)
	b.send(second)
	export := exportBytes(t, a.org)
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	refused := func(what string, changed []byte, said string, flags ...string) {
		t.Helper()
		file := filepath.Join(dir, "export.ndjson")
		if err := os.WriteFile(file, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		out, told, code := command(t, append([]string{"import", file, "--data", data}, flags...)...)
		if _, err := os.Lstat(data); code == 0 || err == nil || !strings.Contains(told, said) {
			t.Errorf("%s: exit code %d, want a refusal with %q\n%s%s", what, code, said, out, told)
		}
	}
	lines := bytes.SplitAfter(bytes.TrimSuffix(export, []byte("\n")), []byte("\n"))
	lines[len(lines)-1] = append(lines[len(lines)-1], '\n')
	for i, line := range lines {
		without := bytes.Join(slices.Concat(lines[:i], lines[i+1:]), nil)
		refused(fmt.Sprintf("without line %d: %.60s", i+1, line), without, "")
		refused(fmt.Sprintf("line %d twice", i+1), bytes.Join(slices.Concat(lines[:i+1], lines[i:]), nil), "")
	}
	sum := sha256.Sum256(export)
	refused("another digest", bytes.Replace(export, []byte(`"encrypted_payload":"`), []byte(`"encrypted_payload":"A`), 1), "SHA-256", "--sha256", hex.EncodeToString(sum[:]))
	refused("another number", export, "records, not", "--records", "3")
	refused("cut off", export[:len(export)-1], "cut off")
	refused("an older format", bytes.Replace(export, []byte("parley-export-3"), []byte("parley-export-2"), 1), "export the organization again")
	refused("an unknown type", append(slices.Clone(export), `{"type":"vote","data":{"id":"x"}}`+"\n"...), "no type")
	refused("an unknown member", bytes.Replace(export, []byte(`"suspended":`), []byte(`"extra":1,"suspended":`), 1), "line 1")
	if err := os.WriteFile(filepath.Join(dir, "export.ndjson"), export, 0o600); err != nil {
		t.Fatal(err)
	}
	succeeds(t, "import", filepath.Join(dir, "export.ndjson"), "--data", data)
}

// quotasLeft are the quotas whose use an import restores: it makes no requests and no exports, and
// counts messages as they are stored.
func quotasLeft(a *answer) obj {
	quotas := a.at("quotas").(obj)
	for _, name := range []string{"changes_per_day", "exports_per_hour", "stored_bytes"} {
		delete(quotas, name)
	}
	return quotas
}
