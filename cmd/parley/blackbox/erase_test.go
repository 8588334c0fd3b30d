package blackbox

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// erased is a scene: the organization of gone and twin is erased, stays has talked with
// it, far has not.
type erased struct {
	t              *testing.T
	s              *server
	gone, twin     *agent
	stays, far     *agent
	sent, received obj // a message from gone to stays, and its reply
	within         obj // a message from gone to twin
	key            string
	own, others    *group // of gone, with stays; of stays, with gone and far
	cast, said     obj    // broadcasts of gone and of stays in others
	told           obj    // a broadcast of stays in own
}

func newErased(t *testing.T, s *server) *erased {
	t.Helper()
	x := &erased{t: t, s: s, key: "key-" + randomHex(6)}
	org := s.org(t)
	x.gone, x.twin, x.stays, x.far = org.agent("gone"), org.agent("twin"), s.org(t).agent("stays"), s.org(t).agent("far")
	x.sent = x.gone.send(x.stays)
	x.received = x.stays.reply(x.sent)
	x.gone.send(x.stays)
	x.within = x.gone.send(x.twin)
	x.stays.trySend(x.gone, nil, "Idempotency-Key", x.key).want(201)
	x.far.send(x.stays)
	x.own = x.gone.groupWithPolicy("open", x.stays, x.far)
	x.others = x.stays.groupWithPolicy("open", x.gone, x.far)
	x.cast = x.others.broadcast(x.gone)
	x.said = x.others.broadcast(x.stays)
	x.told = x.own.broadcast(x.stays)
	for _, g := range []*agent{x.stays, x.far} { // from now on the server has it in memory
		s.polled(t, g.pollURL, "").want(200)
	}
	return x
}

// erasedMessages are those of gone and twin: three from gone and a reply, one with the
// key, a copy of cast for each of two, and one of said and of told.
const erasedMessages = 4 + 1 + 2 + 1 + 1

// erasedConversations are three with stays, one within, and that of the own group.
const erasedConversations = 3 + 1 + 1

// TestErase: the answer counts what was there, nothing of the organization works any more,
// and others see nothing of it but that it is gone.
func TestErase(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		x := newErased(t, s)
		live, watching := x.gone.stream(""), x.stays.stream("")
		live.opening()
		watching.opening()
		x.far.delete("/orgs/"+x.gone.org.id).refused(403, "not_owner")

		a := x.gone.delete("/orgs/" + x.gone.org.id).want(200)
		exactly(t, "erasure result", a.body, "org_id erased_at messages_deleted agents_deleted conversations_deleted groups_deleted")
		x.counted(a, 0)
		live.ends(5 * time.Second)
		x.closed()
		x.seenByOthers()
		x.groupsOfOthers()
		x.counted(x.gone.delete("/orgs/"+x.gone.org.id).is("erased_at", a.at("erased_at")), 0)
	})
}

// counted: an erasure counted what was there, and more conversations of one message.
func (x *erased) counted(a *answer, more int) {
	x.t.Helper()
	a.want(200).is("org_id", x.gone.org.id, "agents_deleted", 2, "groups_deleted", 1,
		"messages_deleted", erasedMessages+more, "conversations_deleted", erasedConversations+more)
}

// closed: the organization's credentials and tokens work no more, but for the same request.
func (x *erased) closed() {
	x.t.Helper()
	for _, path := range []string{"/org", "/agents", x.gone.path("/messages"), "/messages/" + text(x.sent, "id"), x.gone.path("/stream")} {
		x.gone.get(path).as("as the erased organization").refused(401, "not_authenticated")
	}
	x.gone.trySend(x.stays, nil).refused(401, "not_authenticated")
	x.gone.delete("/orgs/"+x.stays.org.id).refused(401, "not_authenticated")
	x.far.delete("/orgs/"+x.gone.org.id).refused(403, "not_owner")
	x.s.grant(x.t, x.gone.client, x.gone.secret).want(401)
	challenge := x.s.call(x.t, "", "POST", "/auth/register", obj{"email": "ops@" + x.gone.slug + ".example", "org_slug": x.gone.slug})
	if challenge.status == 201 {
		challenge = x.s.call(x.t, "", "POST", "/auth/register/solve", challenge.solution())
	}
	challenge.want(409)
}

// seenByOthers: messages with the organization are gone, and everything else is there.
func (x *erased) seenByOthers() {
	x.t.Helper()
	for _, id := range []string{text(x.sent, "id"), text(x.received, "id")} {
		x.stays.get("/messages/"+id).refused(410, "gone")
		x.far.get("/messages/"+id).refused(404, "not_found")
	}
	x.far.get("/messages/"+text(x.within, "id")).refused(404, "not_found")
	x.stays.get("/conversations/"+text(x.sent, "conversation_id")).refused(410, "gone")
	x.far.get("/conversations/"+text(x.sent, "conversation_id")).refused(404, "not_found")
	x.far.get("/agents/"+x.gone.id).refused(410, "gone")
	x.far.get("/agents/"+x.gone.handle+"/keys").refused(410, "gone")
	x.s.call(x.t, "", "GET", "/.well-known/webfinger?resource=acct:"+x.gone.handle, nil).want(404)
	x.stays.trySend(x.gone, nil).refused(410, "gone")
	x.stays.trySend(x.gone, nil, "Idempotency-Key", x.key).refused(410, "gone")
	x.stays.tryReply(x.sent, nil).refused(410, "gone")
	// stays has far's message, far the copies of said and told.
	for g, n := range map[*agent]int{x.stays: 1, x.far: 2} {
		x.s.polled(x.t, g.pollURL, "").want(200).is("count", n)
		if waiting := g.get(g.path("/wait?timeout_ms=1000")).want(200); bytes.Contains(waiting.raw, []byte(x.gone.id)) {
			waiting.errorf("a message of the erased organization waits")
		}
		if all := g.pages(g.path("/messages"), "?limit=2"); len(all) != n || text(all[0], "from_agent_id") == x.gone.id {
			x.t.Errorf("the inbox of %s has %d messages: %v", g.name, len(all), all)
		}
	}
	for _, g := range []*agent{x.stays, x.far} {
		listed := map[string]bool{}
		for _, c := range g.pages(g.path("/conversations"), "?limit=2") {
			listed[text(c, "id")] = true
		}
		if listed[text(x.sent, "conversation_id")] || !listed[text(x.cast, "conversation_id")] || !listed[text(x.told, "conversation_id")] {
			x.t.Errorf("%s has the conversations %v", g.name, listed)
		}
	}
}

// groupsOfOthers: its agents have left, its broadcast is gone, and what others said stays;
// in its own group nobody can speak any more.
func (x *erased) groupsOfOthers() {
	x.t.Helper()
	x.others.read(x.stays).is("member_count", 2)
	transcript := func(m obj) (ids []string) {
		for _, shown := range x.stays.pages("/conversations/"+text(m, "conversation_id")+"/messages", "?limit=5") {
			ids = append(ids, text(shown, "id"))
		}
		return ids
	}
	if ids := transcript(x.said); len(ids) != 1 || ids[0] != text(x.said, "id") {
		x.t.Errorf("the transcript of the group of others has %v, want %s", ids, text(x.said, "id"))
	}
	x.stays.request("GET", x.own.path(""), nil).refused(410, "gone").is("detail", "It was erased with the organization that it belonged to.")
	x.own.tryBroadcast(x.stays, nil).refused(410, "gone")
	for _, g := range x.stays.list("/groups", "?limit=5") {
		if text(g, "id") == x.own.id {
			x.t.Error("the group of the erased organization is listed")
		}
	}
	x.stays.get("/conversations/"+text(x.told, "conversation_id")).want(200).is("status", "canceled")
	if ids := transcript(x.told); len(ids) != 1 || ids[0] != text(x.told, "id") {
		x.t.Errorf("the transcript of its own group has %v, want %s", ids, text(x.told, "id"))
	}
	copies := x.far.pages(x.far.path("/messages"), "?limit=5")
	for _, m := range copies {
		if text(m, "conversation_id") == text(x.told, "conversation_id") {
			x.far.tryReply(m, nil).refused(409, "conversation_closed")
		}
	}
	x.stays.patch("/conversations/"+text(x.told, "conversation_id")+"/status", obj{"status": "completed"}).refused(409, "invalid_transition")
}

// TestEraseSurvivesKills: a server that is killed while it erases goes on when it starts
// again, and gives the answer that it would have given.
func TestEraseSurvivesKills(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		s := start(t, "--journals", journals)
		x := newErased(t, s)
		const more = 200
		for range more {
			x.gone.send(x.stays)
		}
		for pause := time.Millisecond; ; pause *= 2 {
			answered := make(chan *answer, 1)
			go func() { answered <- x.gone.delete("/orgs/" + x.gone.org.id) }()
			time.Sleep(pause)
			s.kill()
			a := <-answered
			s.restart(t)
			if a.err == nil { // it was answered before the kill
				x.counted(a, more)
				break
			}
			if pause > time.Minute {
				t.Fatalf("no answer within %v", pause)
			}
		}
		x.counted(x.gone.delete("/orgs/"+x.gone.org.id), more)
		x.seenByOthers()
		x.groupsOfOthers()
	})
}

// TestEraseAgainAfterRestore: a server on a backup that still has the organization erases
// it before it listens if the list says so; without the list it is there (control).
func TestEraseAgainAfterRestore(t *testing.T) {
	oneServerOnly(t, "it works on the directory of a stopped server")
	own(t, func(t *testing.T, journals string) {
		dir := t.TempDir()
		list, backup := filepath.Join(dir, "list"), filepath.Join(dir, "backup")
		s := start(t, "--journals", journals, "--erasure-list", list)
		x := newErased(t, s)
		s.kill()
		succeeds(t, "backup", "--data", s.dir, "--to", backup)
		s.restart(t)
		x.gone.delete("/orgs/" + x.gone.org.id).want(200)
		s.kill()
		for _, with := range []bool{false, true} {
			data, flags := filepath.Join(dir, "restored"), []string{"--journals", journals}
			if with {
				data, flags = data+" with the list", append(flags, "--erasure-list", list)
			}
			succeeds(t, "restore", "--from", backup, "--data", data)
			restored, err := launch(s.addr, data, flags...)
			if err != nil {
				t.Fatal(err)
			}
			if with {
				x.seenByOthers()
				x.groupsOfOthers()
			} else {
				x.gone.get("/messages/" + text(x.sent, "id")).want(200)
			}
			restored.kill()
			if err := restored.log.trouble(); err != nil {
				t.Error(err)
			}
		}
		x.listIsClear(list)
	})
}

// listIsClear: the list has the organization's id and not its name.
func (x *erased) listIsClear(path string) {
	x.t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		x.t.Fatal(err)
	}
	if !bytes.Contains(content, []byte(x.gone.org.id)) || bytes.Contains(content, []byte(x.gone.slug)) {
		x.t.Errorf("the list has %s", content)
	}
	if info, err := os.Stat(path); err != nil || info.Mode()&fs.FileMode(0o077) != 0 {
		x.t.Errorf("others may read the list: %v", err)
	}
}
