package api

import (
	"encoding/json"
	"fmt"
	"net"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

func TestSyncReplied(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		answered := a.Ask(b, "?timeout_ms=20000", nil)
		began := time.Now()
		r := b.Reply(b.Arrival(1), obj{"encrypted_payload": "YW5zd2Vy"})
		got := kit.Judged(<-answered, "replied").Is("reply.id", r["id"], "reply.encrypted_payload", "YW5zd2Vy", "reply.from_agent_id", b.ID)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("the reply took %v to arrive", took)
		}
		a.Get("/conversations/"+got.Str("conversation_id")).Want(200).Is("status", "open")
		kit.Eventually(t, "the reply was carried by the sync answer", func() bool {
			return b.Peek(r).At("delivered_at") != nil
		})
	})
}

func TestSyncTimeout(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		began := time.Now()
		got := kit.Judged(<-a.Ask(b, "?timeout_ms=1000", nil), "timeout").Is("reply", nil)
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
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		for _, status := range []string{"rejected", "canceled", "failed"} {
			answered := a.Ask(b, "?timeout_ms=20000", nil)
			var m obj
			kit.Eventually(t, "the message arrives", func() bool {
				rows := b.Inbox("?limit=1").Items()
				if len(rows) == 1 {
					m = rows[0]
				}
				return m != nil && b.Conversation(m).At("status") == "submitted"
			})
			b.Patch("/conversations/"+kit.Text(m, "conversation_id")+"/status", obj{"status": status}).Want(200)
			kit.Judged(<-answered, "closed").Is("reply", nil, "conversation_status", status)
		}
	})
}

func TestSyncAnswersTheFirstReplyOnly(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		answered := a.Ask(b, "?timeout_ms=20000", nil)
		m := b.Arrival(1)
		own := a.Reply(m) // a message by the sender of the sync is not a reply
		select {
		case r := <-answered:
			r.Errorf("the asker's own turn %s ended the call", own["id"])
		case <-time.After(200 * time.Millisecond):
			r := b.Reply(m)
			kit.Judged(<-answered, "replied").Is("reply.id", r["id"])
		}
	})
}

// TestSyncOfOneThatHasGone: the reply to a sync whose client closed its connection is not
// carried, so wait brings it.
func TestSyncOfOneThatHasGone(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		body, err := json.Marshal(kit.Message(b, nil))
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /messages/sync?timeout_ms=60000 HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nX-Svc-Agent: %s\r\nContent-Length: %d\r\n\r\n%s", s.Addr, a.Token, a.ID, len(body), body)
		m := b.Arrival(1)
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond) // the server is notified about it
		r := b.Reply(m)
		b.Peek(r).Is("delivered_at", nil)
		got := a.Get(a.Path("/wait?timeout_ms=5000")).Want(200)
		if items, _ := got.At("items").([]any); len(items) != 1 || kit.Objects(items)[0]["id"] != r["id"] {
			got.Errorf("wait does not bring the reply %s", r["id"])
		}
	})
}

func TestSyncIsIdempotent(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		first := kit.Judged(<-a.Ask(b, "?timeout_ms=1000", nil, "Idempotency-Key", "k"), "timeout")
		waiting := a.Ask(b, "?timeout_ms=20000", nil, "Idempotency-Key", "k")
		r := b.Reply(first.At("message").(obj))
		again := kit.Judged(<-waiting, "replied").Is("message.id", first.At("message.id"), "reply.id", r["id"])
		if again.Header.Get("Idempotency-Replayed") != "true" {
			again.Errorf("no Idempotency-Replayed")
		}
		at := time.Now()
		kit.Judged(<-a.Ask(b, "?timeout_ms=20000", nil, "Idempotency-Key", "k"), "replied").Is("reply.id", r["id"])
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
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		post := func(query string, body any) *kit.Answer { return a.Post("/messages/sync"+query, body) }
		for query, kind := range map[string]string{
			"?timeout_ms=999": "greater_than_equal", "?timeout_ms=0": "greater_than_equal", "?timeout_ms=-1": "greater_than_equal",
			"?timeout_ms=300001": "less_than_equal", "?timeout_ms=x": "int_parsing", "?timeout_ms=1e3": "int_parsing",
		} {
			post(query, kit.Message(b)).As("%s", query).Invalid("query.timeout_ms", kind)
		}
		group := post("?timeout_ms=1000", kit.ToHandle("#unknown@"+b.Slug+".localhost"))
		if group.Status != 422 || group.At("error") != "validation_error" {
			group.Errorf("want 422 for a group handle")
		}
		post("", kit.Message(b, obj{"to_agent_id": kit.Nobody})).Refused(404, "not_found")
		post("", kit.Message(a)).RefusedByRule("self_message")
		post("", kit.Message(b, obj{"type": "x"})).Invalid("body.type", "")
		post("", kit.ToHandle(b.Handle, obj{"to_agent_id": b.ID})).Invalid("body", "")
		a.Post("/messages/sync", kit.Message(b), "X-Svc-Agent", kit.Nobody).Refused(403, "not_owner")
		b.Patch(b.Path(""), obj{"incoming_policy": "groups_only"}).Want(200)
		post("?timeout_ms=1000", kit.Message(b)).Refused(403, "incoming_policy")
		b.Delete(b.Path("")).Want(204)
		post("?timeout_ms=1000", kit.Message(b)).Refused(410, "gone")
		if n := len(b.Everything()); n != 0 {
			t.Errorf("%d messages arrived", n)
		}
	})
}
