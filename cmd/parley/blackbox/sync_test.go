package blackbox

import (
	"testing"
	"time"
)

// Ask makes a sync call in the background.
func (g *Agent) Ask(to *Agent, query string, more obj, headers ...string) <-chan *Answer {
	out := make(chan *Answer, 1)
	go func() {
		out <- g.Post("/messages/sync"+query, Message(to, more), append([]string{"X-Svc-Agent", g.ID}, headers...)...)
	}()
	return out
}

// Judged checks the form of a sync answer and returns it.
func Judged(a *Answer, status string) *Answer {
	a.T.Helper()
	a.Want(200).Is("status", status)
	for _, field := range []string{"message", "reply", "conversation_id", "status"} {
		if _, ok := a.Body[field]; !ok {
			a.Errorf("no field %s", field)
		}
	}
	m, _ := a.At("message").(obj)
	Shaped(a.T, "message", m, MessageShape)
	a.Is("conversation_id", m["conversation_id"], "message.direction", "sent", "message.metadata.provenance.via", "sync")
	if r, ok := a.At("reply").(obj); ok {
		Shaped(a.T, "reply", r, MessageShape)
		a.Is("reply.direction", "received", "reply.conversation_id", m["conversation_id"])
	} else if status == "replied" {
		a.Errorf("no reply")
	}
	return a
}

// Arrival waits until the inbox has count messages and returns the newest.
func (g *Agent) Arrival(count int) obj {
	g.T.Helper()
	var rows []obj
	Eventually(g.T, "a message arrives", func() bool {
		rows = g.Inbox("").Items()
		return len(rows) >= count
	})
	return rows[0]
}

func TestSyncReplied(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		answered := a.Ask(b, "?timeout_ms=20000", nil)
		began := time.Now()
		r := b.Reply(b.Arrival(1), obj{"encrypted_payload": "YW5zd2Vy"})
		got := Judged(<-answered, "replied").Is("reply.id", r["id"], "reply.encrypted_payload", "YW5zd2Vy", "reply.from_agent_id", b.ID)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("the reply took %v to arrive", took)
		}
		a.Get("/conversations/"+got.Str("conversation_id")).Want(200).Is("status", "open")
		Eventually(t, "the reply was carried by the sync answer", func() bool {
			return b.Peek(r).At("delivered_at") != nil
		})
	})
}

func TestSyncTimeout(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		began := time.Now()
		got := Judged(<-a.Ask(b, "?timeout_ms=1000", nil), "timeout").Is("reply", nil)
		if took := time.Since(began); took < 950*time.Millisecond || took > 20*time.Second {
			t.Errorf("a timeout of 1 s took %v", took)
		}
		if rows := b.Everything(); len(rows) != 1 || rows[0]["id"] != got.At("message.id") {
			t.Errorf("the message was recalled: %v", rows)
		}
		r := b.Reply(got.At("message").(obj))
		if rows := a.Everything(); len(rows) != 1 || rows[0]["id"] != r["id"] {
			t.Errorf("the late reply is in the inbox: %v", rows)
		}
	})
}

func TestSyncClosed(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		for _, status := range []string{"rejected", "canceled", "failed"} {
			answered := a.Ask(b, "?timeout_ms=20000", nil)
			var m obj
			Eventually(t, "the message arrives", func() bool {
				rows := b.Inbox("?limit=1").Items()
				if len(rows) == 1 {
					m = rows[0]
				}
				return m != nil && b.Talk(m).At("status") == "submitted"
			})
			b.Patch("/conversations/"+Text(m, "conversation_id")+"/status", obj{"status": status}).Want(200)
			Judged(<-answered, "closed").Is("reply", nil, "conversation_status", status)
		}
	})
}

func TestSyncAnswersTheFirstReplyOnly(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		answered := a.Ask(b, "?timeout_ms=20000", nil)
		m := b.Arrival(1)
		own := a.Reply(m) // a message by the sender of the sync is not a reply
		select {
		case r := <-answered:
			r.Errorf("the asker's own turn %s ended the call", own["id"])
		case <-time.After(200 * time.Millisecond):
			r := b.Reply(m)
			Judged(<-answered, "replied").Is("reply.id", r["id"])
		}
	})
}

func TestSyncIsIdempotent(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		first := Judged(<-a.Ask(b, "?timeout_ms=1000", nil, "Idempotency-Key", "k"), "timeout")
		waiting := a.Ask(b, "?timeout_ms=20000", nil, "Idempotency-Key", "k")
		r := b.Reply(first.At("message").(obj))
		again := Judged(<-waiting, "replied").Is("message.id", first.At("message.id"), "reply.id", r["id"])
		if again.Header.Get("Idempotency-Replayed") != "true" {
			again.Errorf("no Idempotency-Replayed")
		}
		at := time.Now()
		Judged(<-a.Ask(b, "?timeout_ms=20000", nil, "Idempotency-Key", "k"), "replied").Is("reply.id", r["id"])
		if took := time.Since(at); took > 15*time.Second {
			t.Errorf("a reply that already existed took %v", took)
		}
		a.TrySend(b, nil, "Idempotency-Key", "k").As("sends share the scope").Want(200).Is("id", first.At("message.id"))
		(<-a.Ask(b, "", obj{"type": "a.b.c"}, "Idempotency-Key", "k")).Refused(409, "idempotency_mismatch")
		if n := len(b.Everything()); n != 1 {
			t.Errorf("%d messages arrived, want 1", n)
		}
	})
}

func TestSyncRefusals(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		post := func(query string, body any) *Answer { return a.Post("/messages/sync"+query, body) }
		for query, kind := range map[string]string{
			"?timeout_ms=999": "greater_than_equal", "?timeout_ms=0": "greater_than_equal", "?timeout_ms=-1": "greater_than_equal",
			"?timeout_ms=300001": "less_than_equal", "?timeout_ms=x": "int_parsing", "?timeout_ms=1e3": "int_parsing",
		} {
			post(query, Message(b)).As("%s", query).Invalid("query.timeout_ms", kind)
		}
		group := post("?timeout_ms=1000", ToHandle("#unknown@"+b.Slug+".localhost"))
		if group.Status != 422 || group.At("error") != "validation_error" {
			group.Errorf("want 422 for a group handle")
		}
		post("", Message(b, obj{"to_agent_id": Nobody})).Refused(404, "not_found")
		post("", Message(a)).RefusedByRule("self_message")
		post("", Message(b, obj{"type": "x"})).Invalid("body.type", "")
		post("", ToHandle(b.Handle, obj{"to_agent_id": b.ID})).Invalid("body", "")
		a.Post("/messages/sync", Message(b), "X-Svc-Agent", Nobody).Refused(403, "not_owner")
		b.Patch(b.Path(""), obj{"incoming_policy": "groups_only"}).Want(200)
		post("?timeout_ms=1000", Message(b)).Refused(403, "incoming_policy")
		b.Delete(b.Path("")).Want(204)
		post("?timeout_ms=1000", Message(b)).Refused(410, "gone")
		if n := len(b.Everything()); n != 0 {
			t.Errorf("%d messages arrived", n)
		}
	})
}
