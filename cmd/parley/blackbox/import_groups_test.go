package blackbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// importedGroups is an organization with groups of all kinds, in which everything has happened
// that an import restores.
type importedGroups struct {
	us     *org
	agents []*agent // that are not revoked
	groups []*group
	// majority and unanimity have a running poll each: about erin, who applied, and about
	// dave, who was nominated.
	majority, unanimity *group
	application         string
	nomination          string
	closed              *group
	invitation, carried string // of erin, the second after a poll
}

func newImportedGroups(t *testing.T, journals string) *importedGroups {
	t.Helper()
	s := start(t, importFlags(journals)...)
	x := &importedGroups{us: s.org(t)}
	for _, name := range []string{"alice", "bob", "cleo", "dave", "erin", "solo", "duo"} {
		x.agents = append(x.agents, x.us.agent(name))
	}
	alice, bob := x.agents[0], x.agents[1]
	x.talk()
	x.polls()
	x.ends()
	for _, g := range x.agents[2:5] { // the last event of each stream is a message
		alice.send(bob)
		bob.send(alice)
		alice.send(g)
	}
	duo, solo := x.agents[6], x.agents[5]
	bob.request("GET", bob.path("/messages")+"?limit=3", nil).want(200)
	x.groups[len(x.groups)-1].broadcast(duo)
	x.groups[len(x.groups)-1].broadcast(solo)
	return x
}

// talk makes an open group with broadcasts, replies and receipts, which members join, leave
// and join again, and whose conversation ends and begins again.
func (x *importedGroups) talk() {
	alice, bob, cleo, dave := x.agents[0], x.agents[1], x.agents[2], x.agents[3]
	gone := x.us.agent("gone")
	r := alice.group(obj{"enrollment_policy": "open", "description": "Ünïted", "name": "everybody"})
	x.groups = append(x.groups, r)
	for _, g := range []*agent{bob, cleo, gone} {
		r.joined(g)
	}
	first := r.broadcast(alice, obj{"metadata": obj{"a": []any{1, "é"}}, "conversation_metadata": obj{"k": obj{"deep": "v"}}, "self_encrypted_payload": "bWluZQ"})
	got := bob.inbox("?limit=1").items()[0]
	answer := bob.reply(got)
	alice.reply(answer)
	x.us.post("/messages/"+text(got, "id")+"/read", nil, "X-Svc-Agent", bob.id).want(200)
	r.remove(bob, bob).want(204)
	r.broadcast(cleo, obj{"type": "acme.v1.other"})
	r.joined(dave)
	gone.delete(gone.path("")).want(204)
	r.joined(bob)
	r.role(alice, bob, "admin").want(200)
	r.remove(alice, cleo).want(204)
	r.broadcast(bob)
	talk := "/conversations/" + text(first, "conversation_id") + "/status"
	for _, status := range []string{"paused", "open", "completed"} {
		bob.patch(talk, obj{"status": status, "reason": "why " + status}, "X-Svc-Agent", bob.id).want(200)
	}
	r.broadcast(dave, obj{"conversation_metadata": obj{"again": true}, "parent_conversation_id": first["conversation_id"]})
	r.joined(cleo)
	r.remove(dave, dave).want(204)
	r.patch(obj{"description": nil, "vote_duration_hours": 24}).want(200)
}

// polls makes groups in which an invitation is open, and polls are running and have ended.
func (x *importedGroups) polls() {
	alice, bob, cleo, dave, erin := x.agents[0], x.agents[1], x.agents[2], x.agents[3], x.agents[4]
	x.closed = alice.group(obj{"name": "few", "members": []any{bob.id}})
	x.closed.joined(bob)
	x.closed.invited(alice, cleo, "invited")
	x.closed.joined(cleo)
	x.invitation = x.closed.invited(alice, erin, "invited")
	x.closed.broadcast(alice)
	x.majority = alice.groupWithPolicy("majority", bob, cleo)
	denied := text(x.majority.applied(dave, obj{"message": "let me in"}), "id")
	x.majority.voted(bob, denied, "approve")
	x.majority.voted(bob, denied, "deny")
	x.majority.voted(alice, denied, "deny")
	approved := text(x.majority.applied(dave), "id")
	x.majority.voted(bob, approved, "approve")
	x.majority.voted(cleo, approved, "approve")
	x.application = text(x.majority.applied(erin, obj{"message": "me too"}), "id")
	x.majority.voted(alice, x.application, "approve")
	x.majority.voted(bob, x.application, "deny")
	x.unanimity = alice.groupWithPolicy("unanimity", bob)
	x.nomination = x.unanimity.invited(bob, dave, "pending")
	consented := x.unanimity.invited(alice, erin, "pending")
	x.unanimity.join(erin).want(200).is("status", "pending", "request.id", consented)
	carried := alice.groupWithPolicy("majority", bob)
	x.carried = carried.invited(bob, erin, "pending")
	carried.voted(alice, x.carried, "approve")
	x.groups = append(x.groups, x.closed, x.majority, x.unanimity, carried)
}

// ends makes a group that is deleted, one whose founder is revoked, and an isolated one.
func (x *importedGroups) ends() {
	alice, bob, erin, solo, duo := x.agents[0], x.agents[1], x.agents[4], x.agents[5], x.agents[6]
	over := alice.groupWithPolicy("majority", bob)
	over.broadcast(bob)
	over.applied(erin)
	alice.request("DELETE", over.path(""), nil).want(204)
	founder := x.us.agent("founder")
	left := founder.groupWithPolicy("majority", bob, alice)
	left.applied(erin)
	founder.delete(founder.path("")).want(204)
	left.by = bob
	isolated := solo.group(obj{"isolated": true, "enrollment_policy": "open", "visibility": "private"})
	isolated.joined(duo)
	x.groups = append(x.groups, over, left, isolated)
}

// read asks everything about groups, as the organization and as each of its agents.
func (x *importedGroups) read(o *org) readAnswers {
	all := readAnswers{}
	ask := func(path string, headers ...string) {
		a := o.get(path, headers...)
		body := string(serverOwn.ReplaceAll(a.raw, nil))
		switch {
		case path == "/org/quotas": // a map in no order
			sorted, _ := json.Marshal(quotasLeft(a))
			body = string(sorted)
		case a.status >= 500 || a.status == 401 || a.status == 429:
			a.errorf("unexpected")
		case a.status != 200: // the id of the request is in it
			body = fmt.Sprint(a.status, " ", a.body["code"], " ", a.body["detail"])
		}
		all[strings.Join(append([]string{path}, headers...), " ")] = body
	}
	for _, path := range []string{"/org", "/org/quotas", "/groups", "/groups?scope=all&limit=2", "/groups?scope=seated", "/groups/invites", "/directory/groups", "/directory/groups?q=everybody"} {
		ask(path)
	}
	conversations, messages := map[string]bool{}, map[string]bool{}
	for _, g := range x.agents {
		me := []string{"X-Svc-Agent", g.id}
		ask("/groups/invites", me...)
		ask(g.path("/messages?limit=100"))
		ask(g.path("/messages?type=acme.v1.other"))
		ask(g.path("/conversations?limit=100"))
		for _, c := range o.pages(g.path("/conversations"), "?limit=100") {
			conversations[text(c, "id")] = true
		}
	}
	for _, g := range append(slices.Clone(x.agents), nil) {
		var me []string
		if g != nil {
			me = []string{"X-Svc-Agent", g.id}
		}
		for _, r := range x.groups {
			for _, rest := range []string{"", "/members", "/members?limit=1", "/requests?status=all", "/requests", "/mls/commits"} {
				ask(r.path(rest), me...)
			}
		}
		for c := range conversations {
			for _, rest := range []string{"", "/participants", "/messages?limit=200", "/messages?limit=2&order=desc"} {
				ask("/conversations/"+c+rest, me...)
			}
			page := struct {
				Items []struct{ ID string }
			}{}
			_ = json.Unmarshal([]byte(all[strings.Join(append([]string{"/conversations/" + c + "/messages?limit=200"}, me...), " ")]), &page)
			for _, m := range page.Items {
				messages[m.ID] = true
			}
		}
	}
	for m := range messages {
		ask("/messages/" + m)
		ask("/messages/" + m + "/trace")
		for _, g := range x.agents[:3] {
			ask("/messages/"+m, "X-Svc-Agent", g.id)
		}
	}
	return all
}

// TestImportRestoresGroups: a server on an imported directory answers every read about groups,
// their conversations and messages as the server did that made the export, and polls go on.
func TestImportRestoresGroups(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		x := newImportedGroups(t, journals)
		x.read(x.us) // reading gives messages receipts
		before := x.read(x.us)
		events := map[string][]string{}
		for _, g := range x.agents {
			events[g.name] = streamed(x.us, g)
		}
		export := exportBytes(t, x.us)
		other := map[string]string{"1": "4", "4": "1"}[journals]
		for _, journals := range []string{journals, other} {
			o := imported(t, export, x.us.slug, journals)
			compareExports(t, export, exportBytes(t, o))
			after := x.read(o)
			for path, want := range before {
				if after[path] != want {
					t.Errorf("journals=%s: GET %s:\n%s\nwas\n%s", journals, path, after[path], want)
				}
			}
			if len(before) < 500 || len(after) != len(before) {
				t.Errorf("%d reads, %d before", len(after), len(before))
			}
			for _, g := range x.agents {
				if got := streamed(o, g); !slices.Equal(got, events[g.name]) {
					t.Errorf("journals=%s: stream of %s:\n%s\nwas\n%s", journals, g.name, strings.Join(got, "\n"), strings.Join(events[g.name], "\n"))
				}
			}
			if !t.Failed() {
				x.goesOn(t, o)
			}
		}
	})
}

// goesOn checks that votes on imported polls count, that an invitation is accepted, and that
// broadcasts reach the members.
func (x *importedGroups) goesOn(t *testing.T, o *org) {
	t.Helper()
	as := func(i int) *agent {
		return &agent{org: o, id: x.agents[i].id, handle: x.agents[i].handle, name: x.agents[i].name}
	}
	alice, bob, cleo, dave, erin := as(0), as(1), as(2), as(3), as(4)
	in := func(r *group) *group { return &group{t: t, by: alice, id: r.id, name: r.name, handle: r.handle} }
	majority, unanimity, closed := in(x.majority), in(x.unanimity), in(x.closed)
	// alice and bob have voted against each other, which needs three of four members.
	if status := majority.voted(cleo, x.application, "approve"); status != "pending" {
		t.Errorf("after three of four votes it is %s", status)
	}
	majority.checkRequest("after three votes", alice, x.application, "approvals", 2, "denials", 1, "electorate_size", 4)
	if status := majority.voted(bob, x.application, "approve"); status != "approved" { // he changes his vote
		t.Errorf("after the third approval it is %s", status)
	}
	if status := unanimity.voted(alice, x.nomination, "approve"); status != "invited" {
		t.Errorf("after the last approval it is %s", status)
	}
	unanimity.joined(dave)
	closed.joined(erin)
	sent := closed.broadcast(alice)
	if got := erin.inbox("?limit=1").items()[0]; got["conversation_id"] != sent["conversation_id"] || sent["conversation_id"] != closed.read(alice).at("conversation_id") {
		t.Errorf("erin has got %v of the broadcast %v", got, sent)
	}
	fresh := o.agent("fresh")
	r := in(x.groups[0])
	r.joined(fresh)
	closed.join(fresh).refused(403, "invitation_required")
	o.post("/groups", obj{"name": "few"}, "X-Svc-Agent", alice.id).refused(409, "name_taken")
	alice.request("DELETE", majority.path(""), nil).want(204)
}

// TestImportRefusesIncompleteGroups: a group of whose history anything is missing is refused.
func TestImportRefusesIncompleteGroups(t *testing.T) {
	t.Parallel()
	x := newImportedGroups(t, "1")
	export := exportBytes(t, x.us)
	dir := t.TempDir()
	file, data := filepath.Join(dir, "export.ndjson"), filepath.Join(dir, "data")
	accepts := func(changed []byte) (string, bool) {
		if err := os.WriteFile(file, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		_, told, code := command(t, "import", file, "--data", data)
		defer func() { _ = os.RemoveAll(data) }()
		return told, code == 0
	}
	if told, ok := accepts(export); !ok {
		t.Fatalf("the whole export is refused: %s", told)
	}
	dropped := map[string]int{}
	for line := range bytes.Lines(export) {
		var r struct {
			Type string
			Data struct{ History []json.RawMessage }
		}
		if _ = json.Unmarshal(line, &r); r.Type != "group" {
			continue
		}
		for i, item := range r.Data.History {
			rest := bytes.Replace(line, append(slices.Clone(item), ','), nil, 1)
			if i == len(r.Data.History)-1 {
				rest = bytes.Replace(line, append([]byte{','}, item...), nil, 1)
			}
			var e struct {
				Event     string
				RequestID string `json:"request_id"`
				Seat      int
			}
			_ = json.Unmarshal(item, &e)
			again := fmt.Sprintf(`"request_id":%q,"vote":`, e.RequestID)
			replaced := e.Event == "request_voted" && slices.ContainsFunc(r.Data.History[i+1:], func(later json.RawMessage) bool {
				return bytes.Contains(later, []byte(again)) && bytes.Contains(later, fmt.Appendf(nil, `"seat":%d}`, e.Seat))
			})
			if dropped[e.Event] >= 3 || replaced { // of each kind some; a vote that was replaced does not count
				continue
			}
			dropped[e.Event]++
			if told, ok := accepts(bytes.Replace(export, line, rest, 1)); ok || !strings.Contains(told, "line ") {
				t.Errorf("without %s: %s", item, told)
			}
		}
	}
	if len(dropped) < 13 {
		t.Errorf("only these kinds of events: %v", dropped)
	}
}

// TestImportSkipsGroups: groups of which an export lacks something are refused by id and
// reason, and left out on request. The others are restored.
func TestImportSkipsGroups(t *testing.T) {
	t.Parallel()
	s := start(t, importFlags("1")...)
	us, them := s.org(t), s.org(t)
	alice, bob, carol := us.agent("alice"), us.agent("bob"), them.agent("carol")
	whole := alice.groupWithPolicy("closed", bob)
	whole.broadcast(alice)
	invited := alice.group(obj{"enrollment_policy": "closed"})
	invited.invited(alice, carol, "invited")
	shared := alice.groupWithPolicy("closed", bob, carol)
	shared.broadcast(carol)
	alice.reply(alice.inbox("?limit=1").items()[0])
	theirs := carol.groupWithPolicy("open", alice)
	theirs.broadcast(alice)
	sealed := alice.mlsGroup(bob)
	export := exportBytes(t, us)
	dir := t.TempDir()
	file, data := filepath.Join(dir, "export.ndjson"), filepath.Join(dir, "data")
	refused := func(export []byte, said ...string) {
		t.Helper()
		if err := os.WriteFile(file, export, 0o600); err != nil {
			t.Fatal(err)
		}
		_, told, code := command(t, "import", file, "--data", data)
		for _, word := range append(said, "--skip-groups") {
			if code == 0 || !strings.Contains(told, word) {
				t.Errorf("exit code %d, want a refusal with %q: %s", code, word, told)
			}
		}
	}
	without := func(drop func(kind, id string) bool) (kept []byte) {
		for line := range bytes.Lines(export) {
			var r struct {
				Type string
				Data struct{ ID string }
			}
			if _ = json.Unmarshal(line, &r); !drop(r.Type, r.Data.ID) {
				kept = append(kept, line...)
			}
		}
		return kept
	}
	for _, r := range []*group{invited, shared} {
		refused(without(func(kind, id string) bool { return kind == "group" && id != r.id }), r.id, carol.id)
	}
	refused(without(func(kind, id string) bool { return kind == "group" && id != sealed.id }), sealed.id, "MLS")
	refused(without(func(kind, id string) bool { return kind == "group" }), "another organization owns it")
	if err := os.WriteFile(file, export, 0o600); err != nil {
		t.Fatal(err)
	}
	made := succeeds(t, "import", file, "--data", data, "--skip-groups")
	if skipped := made["skipped"].(obj); made["groups"] != 1.0 || skipped["group"] != 3.0 || skipped["message"] == nil || skipped["group_membership"] == nil {
		t.Errorf("imported %v", made)
	}
	if v := succeeds(t, "verify", "--data", data); v["faults"] != 0.0 {
		t.Errorf("verify: %v", v)
	}
}
