package blackbox

import (
	"strconv"
	"testing"
	"time"
)

// settleWait is the maximum time that an answer waits for other homes. An answer that
// took longer may precede its effect.
const settleWait = 90 * time.Millisecond

// watcher counts answers whose effect need not be visible yet.
type watcher struct {
	t           testing.TB
	late, total int
}

// prompt reports whether all effects of a write must be visible now.
func (w *watcher) prompt(a *answer) bool {
	w.total++
	if a.took > settleWait {
		w.late++
		return false
	}
	return true
}

func (w *watcher) done() {
	w.t.Helper()
	if w.late*2 > w.total {
		w.t.Errorf("%d of %d answers took over %v: the test checked nothing", w.late, w.total, settleWait)
	}
}

func topmost(a *answer) any {
	rows := a.items()
	if len(rows) == 0 {
		return nil
	}
	return rows[0]["id"]
}

func TestReadsSeeSends(t *testing.T) {
	alone(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		w := &watcher{t: t}
		defer w.done()
		previous := nilUUID
		for i := range 200 {
			m := a.trySend(b, nil).want(201)
			id, conversation := m.str("id"), m.str("conversation_id")
			if !w.prompt(m) {
				eventually(t, "the inbox has it", func() bool { return topmost(b.inbox("?limit=1")) == id })
				previous = id
				continue
			}
			if page := b.inbox("?limit=1"); topmost(page) != id {
				page.fatalf("send %d, %s, is not in the inbox", i, id)
			}
			s.polled(t, b.pollURL, "").want(200).is("count", i+1)
			b.get("/conversations/"+conversation).want(200).is("status", "submitted")
			b.get("/messages/"+id).want(200).is("id", id)
			for _, g := range []*agent{a, b} {
				if page := g.get(g.path("/conversations?limit=1")).want(200); topmost(page) != conversation {
					page.fatalf("conversation %d, %s, is not in the list of %s", i, conversation, g.name)
				}
				if page := g.get("/conversations/" + conversation + "/messages").want(200); topmost(page) != id {
					page.fatalf("send %d is not in the transcript", i)
				}
			}
			if i%10 == 0 {
				st := b.stream(previous)
				st.messages(id)
				st.close()
			}
			previous = id
		}
	})
}

func TestReadsSeeReplies(t *testing.T) {
	alone(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		w := &watcher{t: t}
		defer w.done()
		for i := range 100 {
			m := a.send(b)
			path := "/conversations/" + text(m, "conversation_id")
			r := b.tryReply(m, nil).want(201)
			if !w.prompt(r) {
				continue
			}
			if page := a.inbox("?limit=1"); topmost(page) != r.str("id") {
				page.fatalf("reply %d, %s, is not in the inbox", i, r.str("id"))
			}
			for _, g := range []*agent{a, b} {
				g.get(path).want(200).is("status", "open")
				if rows := g.get(path + "/messages").want(200).items(); len(rows) != 2 || rows[1]["id"] != r.str("id") {
					t.Fatalf("reply %d is not in the transcript: %v", i, rows)
				}
			}
			change := a.patch(path+"/status", obj{"status": "paused"}).want(200)
			b.get(path).want(200).is("status", "paused")
			if w.prompt(change) && i%10 == 0 {
				st := b.stream(text(m, "id"))
				st.status(text(m, "conversation_id"), "open")
				st.status(text(m, "conversation_id"), "paused")
				st.close()
			}
		}
	})
}

func TestReadsSeeAgents(t *testing.T) {
	alone(t, func(t *testing.T, s *server) {
		o, peer := s.org(t), s.org(t).agent("peer")
		w := &watcher{t: t}
		defer w.done()
		for i := range 30 {
			r := o.post("/agents", newAgent("n"+strconv.Itoa(i))).want(201)
			g := &agent{org: o, id: r.str("id"), handle: r.str("handle")}
			if !w.prompt(r) {
				o.delete(g.path("")).want(204)
				eventually(t, "the agent leaves the list", func() bool { return len(o.get("/agents").want(200).list) == 0 })
				continue
			}
			o.get(g.path("")).want(200)
			if n := len(o.get("/agents").want(200).list); n != 1 {
				t.Fatalf("agent %d: the list has %d", i, n)
			}
			o.get("/org").want(200).is("agent_count", 1)
			s.call(t, "", "GET", g.path("/keys"), nil).want(200)
			s.call(t, "", "GET", "/agents/keys?ids="+g.id, nil).want(200).is("keys."+g.id+".handle", g.handle)
			peer.post("/messages", toHandle(g.handle)).want(201)
			o.post("/messages", message(peer), "X-Svc-Agent", "n"+strconv.Itoa(i)).want(201).is("from_agent_id", g.id)

			sign, _ := newKeys()
			rotated := o.post(g.path("/keys"), obj{"signing_public_key": signJWK(sign)}).want(200)
			if w.prompt(rotated) {
				s.call(t, "", "GET", g.path("/keys"), nil).want(200).is("signing_public_key.x", signJWK(sign)["x"])
			}
			closed := o.patch(g.path(""), obj{"incoming_policy": "groups_only"}).want(200)
			if w.prompt(closed) {
				peer.trySend(g, nil).refused(403, "incoming_policy")
			}
			revoked := o.delete(g.path("")).want(204)
			listed := func() int { return len(o.get("/agents").want(200).list) }
			if !w.prompt(revoked) {
				eventually(t, "the agent leaves the list", func() bool { return listed() == 0 })
				continue
			}
			if n := listed(); n != 0 {
				revoked.fatalf("the list still has %d agents, %v after the request began", n, time.Since(revoked.began))
			}
			peer.trySend(g, nil).refused(410, "gone")
			s.call(t, "", "GET", g.path("/keys"), nil).refused(404, "not_found")
			o.post("/messages", message(peer), "X-Svc-Agent", g.id).refused(403, "not_owner")
			o.get("/org").want(200).is("agent_count", 0)
			if t.Failed() {
				return
			}
		}
	})
}
