package blackbox

import (
	"strings"
	"testing"
)

// repeated checks that an answer repeats a stored message.
func (a *answer) repeated(m obj) *answer {
	a.t.Helper()
	a.want(200).is("id", m["id"], "encrypted_payload", m["encrypted_payload"], "created_at", m["created_at"], "conversation_id", m["conversation_id"])
	if a.header.Get("Idempotency-Replayed") != "true" {
		a.errorf("Idempotency-Replayed is %q", a.header.Get("Idempotency-Replayed"))
	}
	return a
}

// first checks that an answer is the first for its message.
func (a *answer) first() *answer {
	a.t.Helper()
	a.want(201)
	if a.header.Get("Idempotency-Replayed") != "" {
		a.errorf("a first send says that it is a repeat")
	}
	return a
}

func TestIdempotentSend(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		c := s.org(t).agent("carol")
		key := func(g *agent, more obj, k string) *answer { return a.trySend(g, more, "Idempotency-Key", k) }
		m := key(b, nil, "k1").first().body
		key(b, nil, "k1").repeated(m).shaped(messageShape).is("direction", "sent")
		key(b, obj{"encrypted_payload": "c2VhbGVkIGFuZXc"}, "k1").as("sealed anew").repeated(m)
		a.post("/messages", toHandle(b.handle), "Idempotency-Key", "k1").as("by handle").repeated(m)
		key(c, nil, "k1").as("another recipient").refused(409, "idempotency_mismatch")
		key(b, obj{"type": "svc.v1.receipt"}, "k1").as("another type").refused(409, "idempotency_mismatch")
		key(b, obj{"type": "nonsense"}, "k1").as("schema first").invalid("body.type", "")
		key(b, nil, "K1").as("keys are exact").first()
		key(b, nil, strings.Repeat("k", 255)).as("255").first()
		key(b, nil, strings.Repeat("k", 255)).as("255").want(200)
		key(b, nil, strings.Repeat("k", 256)).as("256").invalid("header.Idempotency-Key", "string_too_long")
		if n := len(b.everything()); n != 3 {
			t.Errorf("%d messages arrived, want 3", n)
		}
		if n := len(c.everything()); n != 0 {
			t.Errorf("%d messages arrived at another agent, want none", n)
		}
	})
}

func TestIdempotencyScopes(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o, b := s.org(t), s.org(t).agent("bob")
		a1, a2 := o.agent("a1"), o.agent("a2")
		const k = "shared"
		m1 := a1.trySend(b, nil, "Idempotency-Key", k).first().body
		m2 := a2.trySend(b, nil, "Idempotency-Key", k).as("another sender").first().body
		a1.trySend(b, nil, "Idempotency-Key", k).repeated(m1)
		a2.trySend(b, nil, "Idempotency-Key", k).repeated(m2)
		b.trySend(a1, nil, "Idempotency-Key", k).as("the recipient as sender").first()

		r1 := b.tryReply(m1, nil, "Idempotency-Key", k).as("reply").first().body
		r2 := b.tryReply(m2, nil, "Idempotency-Key", k).as("reply in another conversation").first().body
		b.tryReply(m1, obj{"encrypted_payload": "bmV3"}, "Idempotency-Key", k).as("reply again").repeated(r1)
		b.tryReply(m2, nil, "Idempotency-Key", k).as("other reply again").repeated(r2)
		b.tryReply(m1, obj{"type": "a.b.c"}, "Idempotency-Key", k).as("another type").refused(409, "idempotency_mismatch")
		own := a1.tryReply(r1, nil, "Idempotency-Key", k).as("the other participant").first().body
		b.tryReply(own, nil, "Idempotency-Key", k).as("another replied-to message").refused(409, "idempotency_mismatch")
		a1.tryReply(r1, nil, "Idempotency-Key", strings.Repeat("k", 256)).invalid("header.Idempotency-Key", "string_too_long")
		if n := len(a1.everything()); n != 2 {
			t.Errorf("%d messages arrived at a1, want the send and the reply", n)
		}
	})
}

func TestRefusalsAreNotRemembered(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		b.patch(b.path(""), obj{"incoming_policy": "groups_only"}).want(200)
		a.trySend(b, nil, "Idempotency-Key", "k").refused(403, "incoming_policy")
		a.trySend(b, obj{"to_agent_id": nobody}, "Idempotency-Key", "k").refused(404, "not_found")
		b.patch(b.path(""), obj{"incoming_policy": "accept_all"}).want(200)
		m := a.trySend(b, nil, "Idempotency-Key", "k").first().body
		b.patch(b.path(""), obj{"incoming_policy": "groups_only"}).want(200)
		a.trySend(b, nil, "Idempotency-Key", "k").as("the key wins over the policy").repeated(m)
		a.patch(a.path(""), obj{"outgoing_policy": "groups_only"}).want(200)
		a.trySend(b, nil, "Idempotency-Key", "k").as("the key wins over the own policy").repeated(m)
	})
}

func TestKeyWinsOverState(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m := a.trySend(b, nil, "Idempotency-Key", "k").first().body
		r := b.tryReply(m, nil, "Idempotency-Key", "k").first().body
		a.patch("/conversations/"+text(m, "conversation_id")+"/status", obj{"status": "completed"}).want(200)
		b.tryReply(m, nil, "Idempotency-Key", "k").as("closed since").repeated(r)
		b.tryReply(m, nil, "Idempotency-Key", "new").refused(409, "conversation_closed")
		b.delete(b.path("")).want(204)
		a.trySend(b, nil, "Idempotency-Key", "k").as("recipient revoked since").repeated(m)
		a.trySend(b, nil, "Idempotency-Key", "new").refused(410, "gone")
	})
}

func TestSameKeyAtOnce(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		once := func(answers []*answer) obj {
			t.Helper()
			var first obj
			for _, r := range answers {
				if r.status == 201 && first == nil {
					first = r.first().body
				} else if r.status == 201 {
					r.errorf("a second message for one key")
				}
			}
			if first == nil {
				answers[0].fatalf("nobody made the message")
			}
			for _, r := range answers {
				if r.status != 201 {
					r.repeated(first)
				}
			}
			return first
		}
		m := once(concurrently(20, func(int) *answer { return a.trySend(b, nil, "Idempotency-Key", "k") }))
		if rows := b.everything(); len(rows) != 1 {
			t.Errorf("%d messages arrived, want 1", len(rows))
		}
		once(concurrently(20, func(int) *answer { return b.tryReply(m, nil, "Idempotency-Key", "k") }))
		if rows := a.everything(); len(rows) != 1 {
			t.Errorf("%d replies arrived, want 1", len(rows))
		}
		if rows := a.pages("/conversations/"+text(m, "conversation_id")+"/messages", "?limit=100"); len(rows) != 2 {
			t.Errorf("the transcript has %d rows, want 2", len(rows))
		}
	})
}

func TestKeysSurviveACrash(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		s := start(t, "--journals", journals)
		a, b := pair(t, s)
		m := a.trySend(b, nil, "Idempotency-Key", "k").first().body
		r := b.tryReply(m, nil, "Idempotency-Key", "k").first().body
		s.kill()
		s.restart(t)
		a.trySend(b, nil, "Idempotency-Key", "k").repeated(m)
		b.tryReply(m, nil, "Idempotency-Key", "k").repeated(r)
		a.trySend(b, obj{"type": "a.b.c"}, "Idempotency-Key", "k").refused(409, "idempotency_mismatch")
		if n := len(b.everything()) + len(a.everything()); n != 2 {
			t.Errorf("%d messages arrived, want 2", n)
		}
	})
}
