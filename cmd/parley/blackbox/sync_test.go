package blackbox

import (
	"testing"
	"time"
)

// ask makes a sync call in the background.
func (g *agent) ask(to *agent, query string, more obj, headers ...string) <-chan *answer {
	out := make(chan *answer, 1)
	go func() {
		out <- g.post("/messages/sync"+query, message(to, more), append([]string{"X-Svc-Agent", g.id}, headers...)...)
	}()
	return out
}

// judged checks the form of a sync answer and returns it.
func judged(a *answer, status string) *answer {
	a.t.Helper()
	a.want(200).is("status", status)
	for _, field := range []string{"message", "reply", "conversation_id", "status"} {
		if _, ok := a.body[field]; !ok {
			a.errorf("no field %s", field)
		}
	}
	m, _ := a.at("message").(obj)
	shaped(a.t, "message", m, messageShape)
	a.is("conversation_id", m["conversation_id"], "message.direction", "sent", "message.metadata.provenance.via", "sync")
	if r, ok := a.at("reply").(obj); ok {
		shaped(a.t, "reply", r, messageShape)
		a.is("reply.direction", "received", "reply.conversation_id", m["conversation_id"])
	} else if status == "replied" {
		a.errorf("no reply")
	}
	return a
}

// arrival waits until the inbox has count messages and returns the newest.
func (g *agent) arrival(count int) obj {
	g.t.Helper()
	var rows []obj
	eventually(g.t, "a message arrives", func() bool {
		rows = g.inbox("").items()
		return len(rows) >= count
	})
	return rows[0]
}

func TestSyncReplied(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		answered := a.ask(b, "?timeout_ms=20000", nil)
		began := time.Now()
		r := b.reply(b.arrival(1), obj{"encrypted_payload": "YW5zd2Vy"})
		got := judged(<-answered, "replied").is("reply.id", r["id"], "reply.encrypted_payload", "YW5zd2Vy", "reply.from_agent_id", b.id)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("the reply took %v to arrive", took)
		}
		a.get("/conversations/"+got.str("conversation_id")).want(200).is("status", "open")
		eventually(t, "the reply was carried by the sync answer", func() bool {
			return b.peek(r).at("delivered_at") != nil
		})
	})
}

func TestSyncTimeout(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		began := time.Now()
		got := judged(<-a.ask(b, "?timeout_ms=1000", nil), "timeout").is("reply", nil)
		if took := time.Since(began); took < 950*time.Millisecond || took > 20*time.Second {
			t.Errorf("a timeout of 1 s took %v", took)
		}
		if rows := b.everything(); len(rows) != 1 || rows[0]["id"] != got.at("message.id") {
			t.Errorf("the message was recalled: %v", rows)
		}
		r := b.reply(got.at("message").(obj))
		if rows := a.everything(); len(rows) != 1 || rows[0]["id"] != r["id"] {
			t.Errorf("the late reply is in the inbox: %v", rows)
		}
	})
}

func TestSyncClosed(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		for _, status := range []string{"rejected", "canceled", "failed"} {
			answered := a.ask(b, "?timeout_ms=20000", nil)
			var m obj
			eventually(t, "the message arrives", func() bool {
				rows := b.inbox("?limit=1").items()
				if len(rows) == 1 {
					m = rows[0]
				}
				return m != nil && b.talk(m).at("status") == "submitted"
			})
			b.patch("/conversations/"+text(m, "conversation_id")+"/status", obj{"status": status}).want(200)
			judged(<-answered, "closed").is("reply", nil, "conversation_status", status)
		}
	})
}

func TestSyncAnswersTheFirstReplyOnly(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		answered := a.ask(b, "?timeout_ms=20000", nil)
		m := b.arrival(1)
		own := a.reply(m) // a message by the sender of the sync is not a reply
		select {
		case r := <-answered:
			r.errorf("the asker's own turn %s ended the call", own["id"])
		case <-time.After(200 * time.Millisecond):
			r := b.reply(m)
			judged(<-answered, "replied").is("reply.id", r["id"])
		}
	})
}

func TestSyncIsIdempotent(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		first := judged(<-a.ask(b, "?timeout_ms=1000", nil, "Idempotency-Key", "k"), "timeout")
		waiting := a.ask(b, "?timeout_ms=20000", nil, "Idempotency-Key", "k")
		r := b.reply(first.at("message").(obj))
		again := judged(<-waiting, "replied").is("message.id", first.at("message.id"), "reply.id", r["id"])
		if again.header.Get("Idempotency-Replayed") != "true" {
			again.errorf("no Idempotency-Replayed")
		}
		at := time.Now()
		judged(<-a.ask(b, "?timeout_ms=20000", nil, "Idempotency-Key", "k"), "replied").is("reply.id", r["id"])
		if took := time.Since(at); took > 15*time.Second {
			t.Errorf("a reply that already existed took %v", took)
		}
		a.trySend(b, nil, "Idempotency-Key", "k").as("sends share the scope").want(200).is("id", first.at("message.id"))
		(<-a.ask(b, "", obj{"type": "a.b.c"}, "Idempotency-Key", "k")).refused(409, "idempotency_mismatch")
		if n := len(b.everything()); n != 1 {
			t.Errorf("%d messages arrived, want 1", n)
		}
	})
}

func TestSyncRefusals(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		post := func(query string, body any) *answer { return a.post("/messages/sync"+query, body) }
		for query, kind := range map[string]string{
			"?timeout_ms=999": "greater_than_equal", "?timeout_ms=0": "greater_than_equal", "?timeout_ms=-1": "greater_than_equal",
			"?timeout_ms=300001": "less_than_equal", "?timeout_ms=x": "int_parsing", "?timeout_ms=1e3": "int_parsing",
		} {
			post(query, message(b)).as("%s", query).invalid("query.timeout_ms", kind)
		}
		group := post("?timeout_ms=1000", toHandle("#unknown@"+b.slug+".localhost"))
		if group.status != 422 || group.at("error") != "validation_error" {
			group.errorf("want 422 for a group handle")
		}
		post("", message(b, obj{"to_agent_id": nobody})).refused(404, "not_found")
		post("", message(a)).refusedByRule("self_message")
		post("", message(b, obj{"type": "x"})).invalid("body.type", "")
		post("", toHandle(b.handle, obj{"to_agent_id": b.id})).invalid("body", "")
		a.post("/messages/sync", message(b), "X-Svc-Agent", nobody).refused(403, "not_owner")
		b.patch(b.path(""), obj{"incoming_policy": "groups_only"}).want(200)
		post("?timeout_ms=1000", message(b)).refused(403, "incoming_policy")
		b.delete(b.path("")).want(204)
		post("?timeout_ms=1000", message(b)).refused(410, "gone")
		if n := len(b.everything()); n != 0 {
			t.Errorf("%d messages arrived", n)
		}
	})
}
