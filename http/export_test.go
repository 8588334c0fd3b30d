package http

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	stdhttp "net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/actors/org"
	"parley/actors/query"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/export"
)

// exported is an export by type, and the lines in their order.
type exported struct {
	lines  []api.ExportLine
	byType map[string][]map[string]any
}

func (p *tenant) startExport() *stdhttp.Response {
	p.t.Helper()
	r, err := stdhttp.NewRequest("GET", "http://home/orgs/"+p.owner.String()+"/export", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.token)
	answer, err := p.http.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer
}

// export makes an export and checks its trailers, its order and that it has no secrets.
func (p *tenant) export() exported {
	p.t.Helper()
	answer := p.startExport()
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "application/x-ndjson" || answer.Header.Get("Cache-Control") != "no-store" {
		p.t.Fatalf("export: %d %v %v %s", answer.StatusCode, answer.Header, err, raw)
	}
	sum := sha256.Sum256(raw)
	if got, want := answer.Trailer.Get("Repr-Digest"), "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":"; got != want {
		p.t.Errorf("Repr-Digest is %q, want %q", got, want)
	}
	x := exported{byType: map[string][]map[string]any{}}
	last, lastID := 0, ""
	for line := range bytes.Lines(raw) {
		l := api.ExportLine{}
		data := map[string]any{}
		if err := errorsOf(json.Unmarshal(line, &l), json.Unmarshal(l.Data, &data)); err != nil || line[len(line)-1] != '\n' {
			p.t.Fatalf("line %q: %v", line, err)
		}
		at := slices.Index(api.ExportTypes(), l.Type)
		id, _ := data["id"].(string)
		if at < last || at == last && id <= lastID && id != "" {
			p.t.Errorf("%s %s follows %s %s", l.Type, id, api.ExportTypes()[last], lastID)
		}
		last, lastID = at, id
		x.lines, x.byType[l.Type] = append(x.lines, l), append(x.byType[l.Type], data)
	}
	if got := answer.Trailer.Get("X-Svc-Export-Records"); got != strconv.Itoa(len(x.lines)) {
		p.t.Errorf("X-Svc-Export-Records is %q, there are %d", got, len(x.lines))
	}
	if strings.Contains(string(raw), "secret") {
		p.t.Errorf("the export has a member about a secret: %s", raw)
	}
	return x
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// field returns a member of all records of a type.
func (x exported) field(of, name string) (all []string) {
	for _, data := range x.byType[of] {
		all = append(all, fmt.Sprint(data[name]))
	}
	slices.Sort(all)
	return all
}

// exportScene has two organizations that have exchanged all kinds of records.
type exportScene struct {
	*groupHarness
	sent, received []string // messages of the first organization
}

func newExportScene(t *testing.T, journals int) *exportScene {
	h := harnessInMemory(t, journals)
	t.Cleanup(h.close)
	g := &groupHarness{harness: h, first: h.tenant("first"), second: h.tenant("second"), nobody: h.tenant("third")}
	g.ann, g.art, g.bob = g.first.agent("ann"), g.first.agent("art"), g.second.agent("bob")
	x := &exportScene{groupHarness: g}
	send := func(p *tenant, from, to string) string {
		return p.ask("POST", "/messages", `{"to_handle":"`+to+`","type":"a.b.c","encrypted_payload":"QUJD","conversation_metadata":{"k":1}}`, as(from)).want(201).text("id")
	}
	reply := func(p *tenant, to, from string) string {
		return p.ask("POST", "/messages/"+to+"/reply", `{"type":"a.b.c","encrypted_payload":"QUJD"}`, as(from)).want(201).text("id")
	}
	for range 3 {
		m := send(g.first, g.ann, g.second.handle("bob"))
		r := reply(g.second, m, g.bob)
		x.sent, x.received = append(x.sent, m, reply(g.first, r, g.ann)), append(x.received, r, send(g.second, g.bob, g.first.handle("art")))
	}
	x.sent = append(x.sent, send(g.first, g.ann, g.first.handle("art")))
	ours := g.group("ours", "")
	g.seat(ours, g.second, g.bob)
	g.seat(ours, g.first, g.art)
	theirs := g.second.ask("POST", "/groups", `{"name":"theirs"}`).want(201).text("id")
	g.second.ask("POST", "/groups/"+theirs+"/invite", `{"agent_id":"`+g.art+`"}`, as("bob")).want(200)
	g.first.ask("POST", "/groups/"+theirs+"/join", ``, as(g.art)).want(200)
	g.second.ask("POST", "/groups/"+theirs+"/invite", `{"agent_id":"`+g.ann+`"}`, as("bob")).want(200)
	x.sent = append(x.sent, send(g.first, g.ann, "#ours@first.home.example"), send(g.first, g.art, "#theirs@second.home.example"))
	broadcast := send(g.second, g.bob, "#theirs@second.home.example")
	x.sent = append(x.sent, reply(g.first, broadcast, g.art))
	send(g.second, g.bob, "#ours@first.home.example")
	g.first.hook(g.ann, "https://hooks.example/x", "")
	g.first.publish(g.art, card{"name": "Art", "description": "Paints.", "is_public": true})
	return x
}

func TestExportHasWhatTheInterfaceShows(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprint("journals=", journals), func(t *testing.T) {
			x := newExportScene(t, journals)
			p := x.first
			// Every message of every agent's inbox and of every transcript. Reading one
			// changes its receipts, so all are read before the export.
			want := map[string]bool{}
			for _, agent := range []string{x.ann, x.art} {
				x.collect(p, "/agents/"+agent+"/messages", want)
				for _, c := range p.ask("GET", "/agents/"+agent+"/conversations?limit=100", "").want(200).at("items").([]any) {
					x.collect(p, "/conversations/"+c.(map[string]any)["id"].(string)+"/messages", want, as(agent))
				}
			}
			for id := range want {
				p.ask("GET", "/messages/"+id, "").want(200)
			}
			e := p.export()
			for _, kind := range api.ExportTypes() {
				if len(e.byType[kind]) == 0 {
					t.Errorf("the export has no %s", kind)
				}
			}
			if got, all := e.field(api.ExportMessage, "id"), slices.Sorted(maps.Keys(want)); !slices.Equal(got, all) {
				t.Errorf("messages:\n%q, want\n%q", got, all)
			}
			for _, id := range slices.Concat(x.sent, x.received) {
				if !want[id] {
					t.Errorf("the scene sent %s, which nothing shows", id)
				}
			}
			for _, l := range e.lines {
				if l.Type == api.ExportMessage {
					id := struct{ ID string }{}
					_ = json.Unmarshal(l.Data, &id)
					read := p.ask("GET", "/messages/"+id.ID, "").want(200).raw
					if !strings.HasPrefix(string(l.Data), string(read[:len(read)-1])+`,"export":{`) {
						t.Errorf("message:\n%s, read as\n%s", l.Data, read)
					}
				}
			}
			x.compareRecords(p, e)
		})
	}
}

// collect adds the ids of the messages in the pages of a list.
func (x *exportScene) collect(p *tenant, path string, into map[string]bool, head ...string) {
	x.t.Helper()
	for _, m := range p.ask("GET", path+"?limit=100", "", head...).want(200).at("items").([]any) {
		into[m.(map[string]any)["id"].(string)] = true
	}
}

// compareRecords compares the records that are not messages with what is read by id.
func (x *exportScene) compareRecords(p *tenant, e exported) {
	x.t.Helper()
	same := func(kind, path string, data map[string]any, added ...string) {
		x.t.Helper()
		rest := maps.Clone(data)
		for _, name := range added {
			delete(rest, name)
		}
		got, _ := json.Marshal(rest)
		want, _ := json.Marshal(p.ask("GET", path, "").want(200).body)
		if string(got) != string(want) {
			x.t.Errorf("%s:\n%s, read as\n%s", kind, got, want)
		}
	}
	same("org", "/org", e.byType[api.ExportOrg][0], "export", "suspended", "credentials", "tier_granted_at", "tier_lowered", "allowances")
	for _, a := range e.byType[api.ExportAgent] {
		same(
			"agent", "/agents/"+a["id"].(string), a, "card", "former_keys", "key_bindings", "signing_key_since", "encryption_key_since",
			"pq_public_key_since", "unbound_since", "last_active_at",
		)
		if a["id"] == x.art {
			read, _ := json.Marshal(p.ask("GET", "/agents/"+x.art+"/card", "").want(200).body)
			if got, _ := json.Marshal(a["card"]); string(got) != string(read) {
				x.t.Errorf("card:\n%s, read as\n%s", got, read)
			}
		}
	}
	for _, g := range e.byType[api.ExportGroup] {
		same("group", "/groups/"+g["id"].(string), g, "deleted_at")
	}
	for _, c := range e.byType[api.ExportConversation] {
		same("conversation", "/conversations/"+c["id"].(string), c, "group_id", "participants", "updated_at", "task", "messages", "status_changes")
	}
	x.compareSchema(e)
	if got := e.field(api.ExportAgent, "id"); len(got) != 2 {
		x.t.Errorf("agents %q", got)
	}
	seats := map[string]int{}
	for _, m := range e.byType[api.ExportGroupMembership] {
		seats[fmt.Sprint(m["is_own_org"])]++
	}
	if seats["true"] != 3 || seats["false"] != 1 { // ann, art and bob in ours, art in theirs
		x.t.Errorf("memberships: %v", e.byType[api.ExportGroupMembership])
	}
	statuses := map[string]int{}
	for _, r := range e.byType[api.ExportGroupJoinRequest] {
		statuses[fmt.Sprint(r["status"])]++
	}
	if statuses["accepted"] != 3 || statuses["invited"] != 1 {
		x.t.Errorf("join requests: %v", e.byType[api.ExportGroupJoinRequest])
	}
	if hooks := e.byType[api.ExportWebhook]; len(hooks) != 1 || hooks[0]["url"] != "https://hooks.example/x" {
		x.t.Errorf("webhooks: %v", hooks)
	}
	if keys := e.field(api.ExportSigningKey, "agent_id"); !slices.Equal(keys, slices.Sorted(slices.Values([]string{x.ann, x.art}))) {
		x.t.Errorf("signing keys of %q", keys)
	}
	if solved := e.byType[api.ExportPowChallenge]; len(solved) != 1 || solved[0]["challenge_id"] != "challenge of first" || solved[0]["difficulty"] != 0.0 {
		x.t.Errorf("proof of work: %v", solved)
	}
	if user := e.byType[api.ExportUser]; len(user) != 1 || user[0]["email"] != "first@example.org" || user[0]["verified_at"] != nil {
		x.t.Errorf("user: %v", user)
	}
}

// compareSchema compares the conversations, which are not rendered from their schema, with it.
func (x *exportScene) compareSchema(e exported) {
	x.t.Helper()
	for _, l := range e.lines {
		if l.Type != api.ExportConversation {
			continue
		}
		c, again := api.ExportedConversation{}, []byte(nil)
		if err := json.Unmarshal(l.Data, &c); err == nil {
			again, _ = json.Marshal(c)
		}
		if string(again) != string(l.Data) {
			x.t.Errorf("conversation:\n%s, as its schema has it\n%s", l.Data, again)
		}
	}
}

// TestExportWithLittleMemory: an export that may remember few ids reads them in several
// passes, and is the same.
func TestExportWithLittleMemory(t *testing.T) {
	x := newExportScene(t, 4)
	for range 150 {
		x.first.ask("POST", "/messages", `{"to_handle":"`+x.second.handle("bob")+`","type":"a.b.c","encrypted_payload":"QUJD"}`, as(x.ann)).want(201)
	}
	read := func(capacity int) (ids []string) {
		e, err := x.node.Orgs.Export(context.Background(), x.first.owner, capacity)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if err := e.Messages(func(m query.Message) error {
			ids = append(ids, m.Record.MessageID().String())
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return ids
	}
	much, little := read(1<<20), read(0)
	if len(much) < 160 || !slices.Equal(much, little) {
		t.Errorf("%d messages, with little memory %d", len(much), len(little))
	}
}

// awaitNoExport waits until no export is under way.
func awaitNoExport(x *export.Exports) {
	mu, open := inside[sync.Mutex](x, "mu"), reflect.ValueOf(x).Elem().FieldByName("open")
	for n := 1; n > 0; time.Sleep(time.Millisecond) {
		mu.Lock()
		n = open.Len()
		mu.Unlock()
	}
}

func TestExportOnceAnHour(t *testing.T) {
	h := harnessInMemory(t, 1)
	t.Cleanup(h.close)
	p, q := h.tenant("first"), h.tenant("second")
	p.agent("ann")
	path := "/orgs/" + p.owner.String() + "/export"
	q.ask("GET", path, "").want(403, "not_owner")
	p.ask("GET", "/orgs/"+parley.OrgID{1}.String()+"/export", "").want(403, "not_owner")
	p.export()
	again := p.ask("GET", path, "").want(429, "rate_limited")
	if after, err := strconv.Atoi(again.head.Get("Retry-After")); err != nil || after < 3500 || after > 3600 {
		t.Errorf("Retry-After is %q", again.head.Get("Retry-After"))
	}
	q.export() // each organization has its own
	x := h.service.exports
	awaitNoExport(x) // an export ends a little after its last byte
	x.Clock = func() time.Time { return time.Now().Add(time.Hour) }
	p.export()
	p.ask("GET", path, "").want(429, "rate_limited")
}

// TestExportsOfOtherNodesCount: what another node has exported counts here, until it is given
// back there or the hour is over; what is exported here is told once.
func TestExportsOfOtherNodesCount(t *testing.T) {
	h := harnessInMemory(t, 1)
	t.Cleanup(h.close)
	p := h.tenant("first")
	path := "/orgs/" + p.owner.String() + "/export"
	x, told := h.service.exports, 0
	x.Report(func(key string, n int) {
		if key != string(p.owner[:]) {
			t.Errorf("an export of %x is told", key)
		}
		told += n
	})
	x.Spend("nobody", 1)
	x.Spend(string(p.owner[:]), 1)
	p.ask("GET", path, "").want(429, "rate_limited")
	x.Spend(string(p.owner[:]), -1)
	p.export()
	p.ask("GET", path, "").want(429, "rate_limited")
	if told != 1 {
		t.Errorf("%d exports are told", told)
	}
	x.Spend(string(p.owner[:]), 1<<30)
	if n, _ := x.Used(p.owner); n != 1000 {
		t.Errorf("%d exports are known", n)
	}
}

// TestExportThatTheServerBreaksOffDoesNotCount: the reader sees that the answer is not
// complete, and may export at once.
func TestExportThatTheServerBreaksOffDoesNotCount(t *testing.T) {
	h := harnessInMemory(t, 1)
	t.Cleanup(h.close)
	p := h.tenant("first")
	ann := p.agent("ann")
	p.agent("art")
	body := `{"to_handle":"` + p.handle("art") + `","type":"a.b.c","encrypted_payload":"` + strings.Repeat("QUJD", 8000) + `"}`
	for range 20 { // more than the connection holds
		p.ask("POST", "/messages", body, as(ann)).want(201)
	}
	answer := p.startExport()
	if _, err := bufio.NewReader(answer.Body).ReadBytes('\n'); err != nil {
		t.Fatal(err)
	}
	p.ask("GET", "/orgs/"+p.owner.String()+"/export", "").want(429, "rate_limited") // it is under way
	h.service.exports.BreakOff(p.owner)
	if rest, err := io.ReadAll(answer.Body); err == nil {
		t.Errorf("the answer is complete, with %d bytes more", len(rest))
	}
	_ = answer.Body.Close()
	awaitNoExport(h.service.exports)
	if e := p.export(); len(e.byType[api.ExportMessage]) != 20 {
		t.Errorf("%d messages", len(e.byType[api.ExportMessage]))
	}
	// One that its reader leaves counts.
	h.service.exports.Clock = func() time.Time { return time.Now().Add(time.Hour) }
	answer = p.startExport()
	_ = answer.Body.Close()
	p.ask("GET", "/orgs/"+p.owner.String()+"/export", "").want(429, "rate_limited")
}

// TestExportOfSuspended: what an organization has stays its own.
func TestExportOfSuspended(t *testing.T) {
	h := harnessInMemory(t, 1)
	t.Cleanup(h.close)
	p := h.tenant("first")
	if _, err := h.node.Orgs.SetTerms(context.Background(), p.owner, org.Suspend{}); err != nil {
		t.Fatal(err)
	}
	p.ask("POST", "/groups", `{"name":"x"}`).want(403, "suspended")
	if e := p.export(); e.byType[api.ExportOrg][0]["suspended"] != true {
		t.Errorf("the organization: %v", e.byType[api.ExportOrg])
	}
}

// TestExportNeedsTrailers: HTTP/1.0 has none.
func TestExportNeedsTrailers(t *testing.T) {
	h := harnessInMemory(t, 1)
	t.Cleanup(h.close)
	p := h.tenant("first")
	conn, err := h.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "GET /orgs/%s/export HTTP/1.0\r\nHost: home\r\nAuthorization: Bearer %s\r\n\r\n", p.owner, p.token)
	answer, err := stdhttp.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || answer.StatusCode != 400 {
		t.Errorf("%v %v", answer, err)
	}
}
