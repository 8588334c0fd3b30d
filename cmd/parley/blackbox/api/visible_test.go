package api

import (
	"strconv"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// watcher counts answers whose effect need not be visible yet.
type watcher struct {
	t           testing.TB
	late, total int
}

// prompt reports whether all effects of a write must be visible now.
func (w *watcher) prompt(a *kit.Answer) bool {
	w.total++
	if a.Took > kit.SettleWait {
		w.late++
		return false
	}
	return true
}

func (w *watcher) done() {
	w.t.Helper()
	if w.late*2 > w.total {
		w.t.Errorf("%d of %d answers took over %v: the test checked nothing", w.late, w.total, kit.SettleWait)
	}
}

func topmost(a *kit.Answer) any {
	rows := a.Items()
	if len(rows) == 0 {
		return nil
	}
	return rows[0]["id"]
}

func TestReadsSeeSends(t *testing.T) {
	kit.Alone(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		w := &watcher{t: t}
		defer w.done()
		previous := kit.NilUUID
		for i := range 200 {
			m := a.TrySend(b, nil).Want(201)
			id, conversation := m.Str("id"), m.Str("conversation_id")
			if !w.prompt(m) {
				kit.Eventually(t, "the inbox has it", func() bool { return topmost(b.Inbox("?limit=1")) == id })
				previous = id
				continue
			}
			if page := b.Inbox("?limit=1"); topmost(page) != id {
				page.Fatalf("send %d, %s, is not in the inbox", i, id)
			}
			s.Polled(t, b.PollURL, "").Want(200).Is("count", i+1)
			b.Get("/conversations/"+conversation).Want(200).Is("status", "submitted")
			b.Get("/messages/"+id).Want(200).Is("id", id)
			for _, g := range []*kit.Agent{a, b} {
				if page := g.Get(g.Path("/conversations?limit=1")).Want(200); topmost(page) != conversation {
					page.Fatalf("conversation %d, %s, is not in the list of %s", i, conversation, g.Name)
				}
				if page := g.Get("/conversations/" + conversation + "/messages").Want(200); topmost(page) != id {
					page.Fatalf("send %d is not in the transcript", i)
				}
			}
			if i%10 == 0 {
				st := b.Stream(previous)
				st.Messages(id)
				st.Close()
			}
			previous = id
		}
	})
}

func TestReadsSeeReplies(t *testing.T) {
	kit.Alone(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		w := &watcher{t: t}
		defer w.done()
		for i := range 100 {
			m := a.Send(b)
			path := "/conversations/" + kit.Text(m, "conversation_id")
			r := b.TryReply(m, nil).Want(201)
			if !w.prompt(r) {
				continue
			}
			if page := a.Inbox("?limit=1"); topmost(page) != r.Str("id") {
				page.Fatalf("reply %d, %s, is not in the inbox", i, r.Str("id"))
			}
			for _, g := range []*kit.Agent{a, b} {
				g.Get(path).Want(200).Is("status", "open")
				if rows := g.Get(path + "/messages").Want(200).Items(); len(rows) != 2 || rows[1]["id"] != r.Str("id") {
					t.Fatalf("reply %d is not in the transcript: %v", i, rows)
				}
			}
			change := a.Patch(path+"/status", obj{"status": "paused"}).Want(200)
			b.Get(path).Want(200).Is("status", "paused")
			if w.prompt(change) && i%10 == 0 {
				st := b.Stream(kit.Text(m, "id"))
				st.Status(kit.Text(m, "conversation_id"), "open")
				st.Status(kit.Text(m, "conversation_id"), "paused")
				st.Close()
			}
		}
	})
}

func TestReadsSeeAgents(t *testing.T) {
	kit.Alone(t, func(t *testing.T, s *kit.Server) {
		o, peer := s.Org(t), s.Org(t).Agent("peer")
		w := &watcher{t: t}
		defer w.done()
		for i := range 30 {
			r := o.Post("/agents", kit.NewAgent("n"+strconv.Itoa(i))).Want(201)
			g := &kit.Agent{Org: o, ID: r.Str("id"), Handle: r.Str("handle")}
			if !w.prompt(r) {
				o.Delete(g.Path("")).Want(204)
				kit.Eventually(t, "the agent leaves the list", func() bool { return len(o.Get("/agents").Want(200).List) == 0 })
				continue
			}
			o.Get(g.Path("")).Want(200)
			if n := len(o.Get("/agents").Want(200).List); n != 1 {
				t.Fatalf("agent %d: the list has %d", i, n)
			}
			o.Get("/org").Want(200).Is("agent_count", 1)
			s.Call(t, "", "GET", g.Path("/keys"), nil).Want(200)
			s.Call(t, "", "GET", "/agents/keys?ids="+g.ID, nil).Want(200).Is("keys."+g.ID+".handle", g.Handle)
			peer.Post("/messages", kit.ToHandle(g.Handle)).Want(201)
			o.Post("/messages", kit.Message(peer), "X-Svc-Agent", "n"+strconv.Itoa(i)).Want(201).Is("from_agent_id", g.ID)

			sign, _ := kit.NewKeys()
			rotated := o.Post(g.Path("/keys"), obj{"signing_public_key": kit.SignJWK(sign)}).Want(200)
			if w.prompt(rotated) {
				s.Call(t, "", "GET", g.Path("/keys"), nil).Want(200).Is("signing_public_key.x", kit.SignJWK(sign)["x"])
			}
			closed := o.Patch(g.Path(""), obj{"incoming_policy": "groups_only"}).Want(200)
			if w.prompt(closed) {
				peer.TrySend(g, nil).Refused(403, "incoming_policy")
			}
			revoked := o.Delete(g.Path("")).Want(204)
			listed := func() int { return len(o.Get("/agents").Want(200).List) }
			if !w.prompt(revoked) {
				kit.Eventually(t, "the agent leaves the list", func() bool { return listed() == 0 })
				continue
			}
			if n := listed(); n != 0 {
				revoked.Fatalf("the list still has %d agents, %v after the request began", n, time.Since(revoked.Began))
			}
			peer.TrySend(g, nil).Refused(410, "gone")
			s.Call(t, "", "GET", g.Path("/keys"), nil).Refused(404, "not_found")
			o.Post("/messages", kit.Message(peer), "X-Svc-Agent", g.ID).Refused(403, "not_owner")
			o.Get("/org").Want(200).Is("agent_count", 0)
			if t.Failed() {
				return
			}
		}
	})
}
