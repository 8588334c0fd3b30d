package orgs

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// erased is a scene: the organization of gone and twin is erased, stays has talked with
// it, far has not.
type erased struct {
	t              *testing.T
	s              *kit.Server
	gone, twin     *kit.Agent
	stays, far     *kit.Agent
	sent, received obj // a message from gone to stays, and its reply
	within         obj // a message from gone to twin
	key            string
	own, others    *grouptest.Group // of gone, with stays; of stays, with gone and far
	cast, said     obj              // broadcasts of gone and of stays in others
	told           obj              // a broadcast of stays in own
}

func newErased(t *testing.T, s *kit.Server) *erased {
	t.Helper()
	x := &erased{t: t, s: s, key: "key-" + kit.RandomHex(6)}
	org := s.Org(t)
	x.gone, x.twin, x.stays, x.far = org.Agent("gone"), org.Agent("twin"), s.Org(t).Agent("stays"), s.Org(t).Agent("far")
	x.sent = x.gone.Send(x.stays)
	x.received = x.stays.Reply(x.sent)
	x.gone.Send(x.stays)
	x.within = x.gone.Send(x.twin)
	x.stays.TrySend(x.gone, nil, "Idempotency-Key", x.key).Want(201)
	x.far.Send(x.stays)
	x.own = grouptest.NewWithPolicy(x.gone, "open", x.stays, x.far)
	x.others = grouptest.NewWithPolicy(x.stays, "open", x.gone, x.far)
	x.cast = x.others.Broadcast(x.gone)
	x.said = x.others.Broadcast(x.stays)
	x.told = x.own.Broadcast(x.stays)
	for _, g := range []*kit.Agent{x.stays, x.far} { // from now on the server has it in memory
		s.Polled(t, g.PollURL, "").Want(200)
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
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		x := newErased(t, s)
		live, watching := x.gone.Stream(""), x.stays.Stream("")
		live.Opening()
		watching.Opening()
		x.far.Delete("/orgs/"+x.gone.Org.ID).Refused(403, "not_owner")

		a := x.gone.Delete("/orgs/" + x.gone.Org.ID).Want(200)
		kit.Exactly(t, "erasure result", a.Body, "org_id erased_at messages_deleted agents_deleted conversations_deleted groups_deleted")
		x.counted(a, 0)
		live.Ends(5 * time.Second)
		x.closed()
		x.seenByOthers()
		x.groupsOfOthers()
		x.counted(x.gone.Delete("/orgs/"+x.gone.Org.ID).Is("erased_at", a.At("erased_at")), 0)
	})
}

// counted: an erasure counted what was there, and more conversations of one message.
func (x *erased) counted(a *kit.Answer, more int) {
	x.t.Helper()
	a.Want(200).Is("org_id", x.gone.Org.ID, "agents_deleted", 2, "groups_deleted", 1,
		"messages_deleted", erasedMessages+more, "conversations_deleted", erasedConversations+more)
}

// closed: the organization's credentials and tokens work no more, but for the same request.
func (x *erased) closed() {
	x.t.Helper()
	for _, path := range []string{"/org", "/agents", x.gone.Path("/messages"), "/messages/" + kit.Text(x.sent, "id"), x.gone.Path("/stream")} {
		x.gone.Get(path).As("as the erased organization").Refused(401, "not_authenticated")
	}
	x.gone.TrySend(x.stays, nil).Refused(401, "not_authenticated")
	x.gone.Delete("/orgs/"+x.stays.Org.ID).Refused(401, "not_authenticated")
	x.far.Delete("/orgs/"+x.gone.Org.ID).Refused(403, "not_owner")
	x.s.Grant(x.t, x.gone.Client, x.gone.Secret).Want(401)
	challenge := x.s.Call(x.t, "", "POST", "/auth/register", obj{"email": "ops@" + x.gone.Slug + ".example", "org_slug": x.gone.Slug})
	if challenge.Status == 201 {
		challenge = x.s.Call(x.t, "", "POST", "/auth/register/solve", challenge.Solution())
	}
	challenge.Want(409)
}

// seenByOthers: messages with the organization are gone, and everything else is there.
func (x *erased) seenByOthers() {
	x.t.Helper()
	for _, id := range []string{kit.Text(x.sent, "id"), kit.Text(x.received, "id")} {
		x.stays.Get("/messages/"+id).Refused(410, "gone")
		x.far.Get("/messages/"+id).Refused(404, "not_found")
	}
	x.far.Get("/messages/"+kit.Text(x.within, "id")).Refused(404, "not_found")
	x.stays.Get("/conversations/"+kit.Text(x.sent, "conversation_id")).Refused(410, "gone")
	x.far.Get("/conversations/"+kit.Text(x.sent, "conversation_id")).Refused(404, "not_found")
	x.far.Get("/agents/"+x.gone.ID).Refused(410, "gone")
	x.far.Get("/agents/"+x.gone.Handle+"/keys").Refused(410, "gone")
	x.s.Call(x.t, "", "GET", "/.well-known/webfinger?resource=acct:"+x.gone.Handle, nil).Want(404)
	x.stays.TrySend(x.gone, nil).Refused(410, "gone")
	x.stays.TrySend(x.gone, nil, "Idempotency-Key", x.key).Refused(410, "gone")
	x.stays.TryReply(x.sent, nil).Refused(410, "gone")
	// stays has far's message, far the copies of said and told.
	for g, n := range map[*kit.Agent]int{x.stays: 1, x.far: 2} {
		x.s.Polled(x.t, g.PollURL, "").Want(200).Is("count", n)
		if waiting := g.Get(g.Path("/wait?timeout_ms=1000")).Want(200); bytes.Contains(waiting.Raw, []byte(x.gone.ID)) {
			waiting.Errorf("a message of the erased organization waits")
		}
		if all := g.Pages(g.Path("/messages"), "?limit=2"); len(all) != n || kit.Text(all[0], "from_agent_id") == x.gone.ID {
			x.t.Errorf("the inbox of %s has %d messages: %v", g.Name, len(all), all)
		}
	}
	for _, g := range []*kit.Agent{x.stays, x.far} {
		listed := map[string]bool{}
		for _, c := range g.Pages(g.Path("/conversations"), "?limit=2") {
			listed[kit.Text(c, "id")] = true
		}
		if listed[kit.Text(x.sent, "conversation_id")] || !listed[kit.Text(x.cast, "conversation_id")] || !listed[kit.Text(x.told, "conversation_id")] {
			x.t.Errorf("%s has the conversations %v", g.Name, listed)
		}
	}
}

// groupsOfOthers: its agents have left, its broadcast is gone, and what others said stays;
// in its own group nobody can speak any more.
func (x *erased) groupsOfOthers() {
	x.t.Helper()
	x.others.Read(x.stays).Is("member_count", 2)
	transcript := func(m obj) (ids []string) {
		for _, shown := range x.stays.Pages("/conversations/"+kit.Text(m, "conversation_id")+"/messages", "?limit=5") {
			ids = append(ids, kit.Text(shown, "id"))
		}
		return ids
	}
	if ids := transcript(x.said); len(ids) != 1 || ids[0] != kit.Text(x.said, "id") {
		x.t.Errorf("the transcript of the group of others has %v, want %s", ids, kit.Text(x.said, "id"))
	}
	x.stays.Request("GET", x.own.Path(""), nil).Refused(410, "gone").Is("detail", "It was erased with the organization that it belonged to.")
	x.own.TryBroadcast(x.stays, nil).Refused(410, "gone")
	for _, g := range x.stays.List("/groups", "?limit=5") {
		if kit.Text(g, "id") == x.own.ID {
			x.t.Error("the group of the erased organization is listed")
		}
	}
	x.stays.Get("/conversations/"+kit.Text(x.told, "conversation_id")).Want(200).Is("status", "canceled")
	if ids := transcript(x.told); len(ids) != 1 || ids[0] != kit.Text(x.told, "id") {
		x.t.Errorf("the transcript of its own group has %v, want %s", ids, kit.Text(x.told, "id"))
	}
	copies := x.far.Pages(x.far.Path("/messages"), "?limit=5")
	for _, m := range copies {
		if kit.Text(m, "conversation_id") == kit.Text(x.told, "conversation_id") {
			x.far.TryReply(m, nil).Refused(409, "conversation_closed")
		}
	}
	x.stays.Patch("/conversations/"+kit.Text(x.told, "conversation_id")+"/status", obj{"status": "completed"}).Refused(409, "invalid_transition")
}

// TestEraseSurvivesKills: a server that is killed while it erases goes on when it starts
// again, and gives the answer that it would have given.
func TestEraseSurvivesKills(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals)
		x := newErased(t, s)
		const more = 200
		for range more {
			x.gone.Send(x.stays)
		}
		for pause := time.Millisecond; ; pause *= 2 {
			answered := make(chan *kit.Answer, 1)
			go func() { answered <- x.gone.Delete("/orgs/" + x.gone.Org.ID) }()
			time.Sleep(pause)
			s.Kill()
			a := <-answered
			s.Restart(t)
			if a.Err == nil { // it was answered before the kill
				x.counted(a, more)
				break
			}
			if pause > time.Minute {
				t.Fatalf("no answer within %v", pause)
			}
		}
		x.counted(x.gone.Delete("/orgs/"+x.gone.Org.ID), more)
		x.seenByOthers()
		x.groupsOfOthers()
	})
}

// TestEraseAgainAfterRestore: a server on a backup that still has the organization erases
// it before it listens if the list says so; without the list it is there (control).
func TestEraseAgainAfterRestore(t *testing.T) {
	kit.OneServerOnly(t, "it works on the directory of a stopped server")
	kit.Own(t, func(t *testing.T, journals string) {
		dir := t.TempDir()
		list, backup := filepath.Join(dir, "list"), filepath.Join(dir, "backup")
		s := kit.Start(t, "--journals", journals, "--erasure-list", list)
		x := newErased(t, s)
		s.Kill()
		kit.Succeeds(t, "backup", "--data", s.Dir, "--to", backup)
		s.Restart(t)
		x.gone.Delete("/orgs/" + x.gone.Org.ID).Want(200)
		s.Kill()
		for _, with := range []bool{false, true} {
			data, flags := filepath.Join(dir, "restored"), []string{"--journals", journals}
			if with {
				data, flags = data+" with the list", append(flags, "--erasure-list", list)
			}
			kit.Succeeds(t, "restore", "--from", backup, "--data", data)
			restored, err := kit.Launch(s.Addr, data, flags...)
			if err != nil {
				t.Fatal(err)
			}
			if with {
				x.seenByOthers()
				x.groupsOfOthers()
			} else {
				x.gone.Get("/messages/" + kit.Text(x.sent, "id")).Want(200)
			}
			restored.Kill()
			if err := restored.Log.Trouble(); err != nil {
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
	if !bytes.Contains(content, []byte(x.gone.Org.ID)) || bytes.Contains(content, []byte(x.gone.Slug)) {
		x.t.Errorf("the list has %s", content)
	}
	if info, err := os.Stat(path); err != nil || info.Mode()&fs.FileMode(0o077) != 0 {
		x.t.Errorf("others may read the list: %v", err)
	}
}
