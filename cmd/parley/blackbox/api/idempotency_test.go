package api

import (
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

func TestIdempotentSend(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		c := s.Org(t).Agent("carol")
		key := func(g *kit.Agent, more obj, k string) *kit.Answer { return a.TrySend(g, more, "Idempotency-Key", k) }
		m := key(b, nil, "k1").First().Body
		key(b, nil, "k1").Repeated(m).Shaped(kit.MessageShape).Is("direction", "sent")
		key(b, obj{"encrypted_payload": "c2VhbGVkIGFuZXc"}, "k1").As("sealed anew").Repeated(m)
		a.Post("/messages", kit.ToHandle(b.Handle), "Idempotency-Key", "k1").As("by handle").Repeated(m)
		key(c, nil, "k1").As("another recipient").Refused(409, "idempotency_mismatch")
		key(b, obj{"type": "svc.v1.receipt"}, "k1").As("another type").Refused(409, "idempotency_mismatch")
		key(b, obj{"type": "nonsense"}, "k1").As("schema first").Invalid("body.type", "")
		key(b, nil, "K1").As("keys are exact").First()
		key(b, nil, strings.Repeat("k", 255)).As("255").First()
		key(b, nil, strings.Repeat("k", 255)).As("255").Want(200)
		key(b, nil, strings.Repeat("k", 256)).As("256").Invalid("header.Idempotency-Key", "string_too_long")
		if n := len(b.Everything()); n != 3 {
			t.Errorf("%d messages arrived, want 3", n)
		}
		if n := len(c.Everything()); n != 0 {
			t.Errorf("%d messages arrived at another agent, want none", n)
		}
	})
}

func TestIdempotencyScopes(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, b := s.Org(t), s.Org(t).Agent("bob")
		a1, a2 := o.Agent("a1"), o.Agent("a2")
		const k = "shared"
		m1 := a1.TrySend(b, nil, "Idempotency-Key", k).First().Body
		m2 := a2.TrySend(b, nil, "Idempotency-Key", k).As("another sender").First().Body
		a1.TrySend(b, nil, "Idempotency-Key", k).Repeated(m1)
		a2.TrySend(b, nil, "Idempotency-Key", k).Repeated(m2)
		b.TrySend(a1, nil, "Idempotency-Key", k).As("the recipient as sender").First()

		r1 := b.TryReply(m1, nil, "Idempotency-Key", k).As("reply").First().Body
		r2 := b.TryReply(m2, nil, "Idempotency-Key", k).As("reply in another conversation").First().Body
		b.TryReply(m1, obj{"encrypted_payload": "bmV3"}, "Idempotency-Key", k).As("reply again").Repeated(r1)
		b.TryReply(m2, nil, "Idempotency-Key", k).As("other reply again").Repeated(r2)
		b.TryReply(m1, obj{"type": "a.b.c"}, "Idempotency-Key", k).As("another type").Refused(409, "idempotency_mismatch")
		own := a1.TryReply(r1, nil, "Idempotency-Key", k).As("the other participant").First().Body
		b.TryReply(own, nil, "Idempotency-Key", k).As("another replied-to message").Refused(409, "idempotency_mismatch")
		a1.TryReply(r1, nil, "Idempotency-Key", strings.Repeat("k", 256)).Invalid("header.Idempotency-Key", "string_too_long")
		if n := len(a1.Everything()); n != 2 {
			t.Errorf("%d messages arrived at a1, want the send and the reply", n)
		}
	})
}

func TestRefusalsAreNotRemembered(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		b.Patch(b.Path(""), obj{"incoming_policy": "groups_only"}).Want(200)
		a.TrySend(b, nil, "Idempotency-Key", "k").Refused(403, "incoming_policy")
		a.TrySend(b, obj{"to_agent_id": kit.Nobody}, "Idempotency-Key", "k").Refused(404, "not_found")
		b.Patch(b.Path(""), obj{"incoming_policy": "accept_all"}).Want(200)
		m := a.TrySend(b, nil, "Idempotency-Key", "k").First().Body
		b.Patch(b.Path(""), obj{"incoming_policy": "groups_only"}).Want(200)
		a.TrySend(b, nil, "Idempotency-Key", "k").As("the key wins over the policy").Repeated(m)
		a.Patch(a.Path(""), obj{"outgoing_policy": "groups_only"}).Want(200)
		a.TrySend(b, nil, "Idempotency-Key", "k").As("the key wins over the own policy").Repeated(m)
	})
}

func TestKeyWinsOverState(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m := a.TrySend(b, nil, "Idempotency-Key", "k").First().Body
		r := b.TryReply(m, nil, "Idempotency-Key", "k").First().Body
		a.Patch("/conversations/"+kit.Text(m, "conversation_id")+"/status", obj{"status": "completed"}).Want(200)
		b.TryReply(m, nil, "Idempotency-Key", "k").As("closed since").Repeated(r)
		b.TryReply(m, nil, "Idempotency-Key", "new").Refused(409, "conversation_closed")
		b.Delete(b.Path("")).Want(204)
		a.TrySend(b, nil, "Idempotency-Key", "k").As("recipient revoked since").Repeated(m)
		a.TrySend(b, nil, "Idempotency-Key", "new").Refused(410, "gone")
	})
}

func TestSameKeyAtOnce(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		once := func(answers []*kit.Answer) obj {
			t.Helper()
			var first obj
			for _, r := range answers {
				if r.Status == 201 && first == nil {
					first = r.First().Body
				} else if r.Status == 201 {
					r.Errorf("a second message for one key")
				}
			}
			if first == nil {
				answers[0].Fatalf("nobody made the message")
			}
			for _, r := range answers {
				if r.Status != 201 {
					r.Repeated(first)
				}
			}
			return first
		}
		m := once(kit.Concurrently(20, func(int) *kit.Answer { return a.TrySend(b, nil, "Idempotency-Key", "k") }))
		if rows := b.Everything(); len(rows) != 1 {
			t.Errorf("%d messages arrived, want 1", len(rows))
		}
		once(kit.Concurrently(20, func(int) *kit.Answer { return b.TryReply(m, nil, "Idempotency-Key", "k") }))
		if rows := a.Everything(); len(rows) != 1 {
			t.Errorf("%d replies arrived, want 1", len(rows))
		}
		if rows := a.Pages("/conversations/"+kit.Text(m, "conversation_id")+"/messages", "?limit=100"); len(rows) != 2 {
			t.Errorf("the transcript has %d rows, want 2", len(rows))
		}
	})
}

func TestKeysSurviveACrash(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals)
		a, b := kit.Pair(t, s)
		m := a.TrySend(b, nil, "Idempotency-Key", "k").First().Body
		r := b.TryReply(m, nil, "Idempotency-Key", "k").First().Body
		s.Kill()
		s.Restart(t)
		a.TrySend(b, nil, "Idempotency-Key", "k").Repeated(m)
		b.TryReply(m, nil, "Idempotency-Key", "k").Repeated(r)
		a.TrySend(b, obj{"type": "a.b.c"}, "Idempotency-Key", "k").Refused(409, "idempotency_mismatch")
		if n := len(b.Everything()) + len(a.Everything()); n != 2 {
			t.Errorf("%d messages arrived, want 2", n)
		}
	})
}
