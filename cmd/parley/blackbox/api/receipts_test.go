package api

import (
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

func TestInboxPageDelivers(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		first, second := a.Send(b), a.Send(b)
		kit.Marked(t, a, first, "new")
		b.Inbox("?limit=1").Items()
		kit.Marked(t, a, second, "delivered")
		kit.Marked(t, a, first, "new")
		before := kit.Marked(t, a, second, "delivered")
		rows := b.Inbox("").Items()
		kit.Marked(t, a, first, "delivered")
		if rows[0]["status"] != "delivered" || rows[0]["delivered_at"] != before["delivered_at"] {
			t.Errorf("the second page shows %v, first delivered at %v", rows[0], before["delivered_at"])
		}
		if after := kit.Marked(t, a, second, "delivered"); after["delivered_at"] != before["delivered_at"] {
			t.Errorf("delivered_at moved from %v to %v", before["delivered_at"], after["delivered_at"])
		}
	})
}

func TestOnlyTheRecipientsReadsLeaveReceipts(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m := a.Send(b)
		a.Peek(m)
		a.Get("/messages/" + kit.Text(m, "id")).Want(200)
		a.Get("/conversations/" + kit.Text(m, "conversation_id") + "/messages").Want(200)
		s.Org(t).Get("/messages/"+kit.Text(m, "id")).Refused(403, "not_owner")
		b.Inbox("?type=some.other.type")
		kit.Marked(t, a, m, "new")
		b.Get("/messages/" + kit.Text(m, "id")).Want(200)
		read := kit.Marked(t, a, m, "read")
		b.Get("/messages/"+kit.Text(m, "id")).Want(200).Is("status", "read", "read_at", read["read_at"], "delivered_at", read["delivered_at"])
		if read["delivered_at"].(string) > read["read_at"].(string) {
			t.Errorf("read before it was delivered: %v", read)
		}
		if rows := b.Inbox("").Items(); rows[0]["status"] != "read" || rows[0]["read_at"] != read["read_at"] {
			t.Errorf("the inbox shows %v", rows[0])
		}
	})
}

// TestGetByAnotherAgentOfTheRecipient: only a GET in which the recipient acts hands the message
// over. // docs: delivery.md
func TestGetByAnotherAgentOfTheRecipient(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		colleague := b.Org.Agent("colleague")
		m := a.Send(b)
		b.Get("/messages/"+kit.Text(m, "id"), "X-Svc-Agent", colleague.ID).Want(200)
		kit.Marked(t, a, m, "new")
		b.Get("/messages/"+kit.Text(m, "id"), "X-Svc-Agent", b.Handle).Want(200)
		kit.Marked(t, a, m, "read")
	})
}

func TestGetByAnOwnerOfBothEnds(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		m := a.Send(b)
		o.Get("/messages/" + kit.Text(m, "id")).Want(200)
		kit.Marked(t, a, m, "new")
		o.Get("/messages/"+kit.Text(m, "id"), "X-Svc-Agent", a.ID).Want(200)
		kit.Marked(t, a, m, "new")
		o.Get("/messages/"+kit.Text(m, "id"), "X-Svc-Agent", b.ID).Want(200)
		kit.Marked(t, a, m, "read")
	})
}

// TestReadByAnOwnerOfBothSides: only the recipient can mark a message as read, so it is
// the acting agent if the request names none.
func TestReadByAnOwnerOfBothSides(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		for _, headers := range [][]string{nil, {"X-Svc-Agent", b.ID}} {
			m := a.Send(b)
			o.Post("/messages/"+kit.Text(m, "id")+"/read", nil, "X-Svc-Agent", a.ID).Refused(403, "not_owner")
			kit.Marked(t, a, m, "new")
			o.Post("/messages/"+kit.Text(m, "id")+"/read", nil, headers...).Want(200).Is("direction", "received", "status", "read")
			kit.Marked(t, a, m, "read")
		}
	})
}

func TestReplyReads(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m := a.Send(b)
		a.Reply(m)
		kit.Marked(t, a, m, "new")
		b.Reply(m)
		kit.Marked(t, a, m, "read")
		second := a.Send(b)
		b.TryReply(second, obj{"type": "svc.v1.receipt"}).Want(201)
		kit.Marked(t, a, second, "read")
	})
}

// TestTranscriptDelivers: a transcript in which the recipient acts hands over its messages, all of
// a page, and reads none.
func TestTranscriptDelivers(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		colleague := b.Org.Agent("colleague")
		first := a.Send(b)
		second := b.Reply(first)
		talk := "/conversations/" + kit.Text(first, "conversation_id") + "/messages"
		a.Get(talk).Want(200)
		kit.Marked(t, b, second, "delivered")
		third := a.Reply(second)
		b.Get(talk + "?peek=true").Want(200)
		b.Get(talk, "X-Svc-Agent", colleague.ID).Refused(403, "not_owner")
		kit.Marked(t, a, third, "new")
		rows := b.Get(talk).Want(200).Items()
		if rows[2]["status"] != "delivered" || rows[2]["delivered_at"] == nil {
			t.Errorf("the page shows %v", rows[2])
		}
		kit.Marked(t, a, third, "delivered")
		if by := kit.Objects(a.Get("/messages/" + kit.Text(third, "id") + "/trace").Want(200).At("attempts").([]any)); len(by) != 1 || by[0]["channel"] != "transcript" {
			t.Errorf("the trace shows %v", by)
		}
		o := s.Org(t)
		c, d := o.Agent("c"), o.Agent("d")
		own := c.Send(d)
		talk = "/conversations/" + kit.Text(own, "conversation_id") + "/messages"
		o.Get(talk).Want(200)
		o.Get(talk, "X-Svc-Agent", c.ID).Want(200)
		kit.Marked(t, c, own, "new")
		o.Get(talk, "X-Svc-Agent", d.ID).Want(200)
		kit.Marked(t, c, own, "delivered")
	})
}

// TestPeek: who only looks, or acts as another agent, leaves all as it is.
func TestPeek(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		colleague := b.Org.Agent("colleague")
		m := a.Send(b)
		id := kit.Text(m, "id")
		for _, path := range []string{"/messages/" + id, b.Path("/messages"), b.Path("/wait?after=" + kit.NilUUID)} {
			peek := path + "?peek=true"
			if strings.Contains(path, "?") {
				peek = path + "&peek=true"
			}
			b.Get(peek).Want(200)
			b.Get(path, "X-Svc-Agent", colleague.ID).Want(200)
			kit.Marked(t, a, m, "new")
		}
		b.Get("/messages/"+id+"?peek=maybe").Invalid("query.peek", "")
		waited := make(chan *kit.Answer, 1)
		go func() { waited <- b.Get(b.Path("/wait?peek=true&timeout_ms=20000")) }()
		var next string
		for begun := false; !begun; { // until the wait has begun
			next = kit.Text(a.Send(b), "id")
			select {
			case w := <-waited:
				if rows := itemsOf(w); len(rows) == 0 || rows[0]["id"] == id {
					t.Errorf("a wait that peeks is answered with %v", rows)
				}
				begun = true
			case <-time.After(50 * time.Millisecond):
			}
		}
		if rows := itemsOf(b.Get(b.Path("/wait"))); len(rows) == 0 || rows[0]["id"] != id {
			t.Errorf("after peeks, a wait is answered with %v", rows)
		}
		kit.Marked(t, a, obj{"id": next}, "delivered")
	})
}

// itemsOf returns the messages that a wait was answered with.
func itemsOf(a *kit.Answer) []obj {
	rows, _ := a.Want(200).At("items").([]any)
	return kit.Objects(rows)
}

// TestUnreadInbox pages through what is not read.
func TestUnreadInbox(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		var ids, unread []string
		for i := range 12 {
			m := a.TrySend(b, obj{"type": []string{"svc.v1.dm", "svc.v1.error"}[i%2]}).Want(201).Body
			ids = append(ids, kit.Text(m, "id"))
			if i%3 == 0 {
				unread = append([]string{ids[i]}, unread...)
			} else {
				b.Post("/messages/"+ids[i]+"/read", nil).Want(200)
			}
		}
		list := func(query string) (got []string) {
			for path := b.Path("/messages?limit=1" + query); ; {
				page := b.Get(path).Want(200)
				for _, m := range page.Items() {
					got = append(got, kit.Text(m, "id"))
				}
				if page.At("next_cursor") == nil {
					return got
				}
				path = b.Path("/messages?limit=1" + query + "&cursor=" + page.Str("next_cursor"))
			}
		}
		if got := list("&unread=true"); !slices.Equal(got, unread) {
			t.Errorf("unread: %q instead of %q", got, unread)
		}
		if got := list("&unread=true&type=svc.v1.error"); !slices.Equal(got, []string{ids[9], ids[3]}) {
			t.Errorf("unread of a type: %q", got)
		}
		if got := list("&unread=false"); len(got) != len(ids) {
			t.Errorf("all: %q", got)
		}
		cursor := b.Get(b.Path("/messages?limit=1&unread=true")).Want(200).Str("next_cursor")
		b.Get(b.Path("/messages?limit=1&cursor="+cursor)).Refused(400, "invalid_cursor")
		b.Post(b.Path("/messages/ack"), obj{"up_to": ids[11]}).Want(200)
		if got := list("&unread=true"); len(got) != 0 {
			t.Errorf("after all were read: %q", got)
		}
	})
}

func TestStreamDelivers(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		waiting := a.Send(b)
		st := b.Stream("")
		st.Messages(kit.Text(waiting, "id"))
		kit.Marked(t, a, waiting, "delivered")
		live := a.Send(b)
		st.Messages(kit.Text(live, "id"))
		kit.Marked(t, a, live, "delivered")
		st.Close()
		kit.Marked(t, a, a.Send(b), "new")
	})
}

func TestOnlyTheRecipientMarksAsRead(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m := a.Send(b)
		path := "/messages/" + kit.Text(m, "id") + "/read"
		a.Post(path, nil).Refused(403, "not_owner")
		s.Org(t).Post(path, nil).Refused(403, "not_owner")
		b.Post("/messages/"+kit.Nobody+"/read", nil).Refused(404, "not_found")
		b.Post("/messages/x/read", nil).Invalid("path.id", "uuid_parsing")
		b.Post(path, nil, "X-Svc-Agent", b.Org.Agent("colleague").ID).Refused(403, "not_owner")
		kit.Marked(t, a, m, "new")
		read := b.Post(path, nil).Want(200).Shaped(kit.MessageShape).Is("id", m["id"], "status", "read", "direction", "received").Body
		again := b.Post(path, obj{}, "X-Svc-Agent", b.Name).Want(200)
		again.Is("read_at", read["read_at"], "delivered_at", read["delivered_at"])
		kit.Marked(t, a, m, "read")
		b.Stream("").Quiet()
	})
}

func TestAckOfSome(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		ms := []obj{a.Send(b), a.Send(b), a.Send(b)}
		theirs := b.Send(a)
		ack := func(ids ...any) *kit.Answer { return b.Post(b.Path("/messages/ack"), obj{"ids": ids}) }
		ack(ms[0]["id"], kit.Nobody).Refused(404, "not_found")
		ack(ms[0]["id"], theirs["id"]).Refused(404, "not_found")
		ack("x").Invalid("body.ids.0", "uuid_parsing")
		ack(slices.Repeat([]any{ms[0]["id"]}, 101)...).Invalid("body.ids", "too_long")
		for _, bad := range []obj{{}, {"up_to": ms[0]["id"], "ids": []any{ms[0]["id"]}}, {"up_to": nil}} {
			b.Post(b.Path("/messages/ack"), bad).As("%v", bad).Invalid("body.up_to", "value_error")
		}
		a.Post(b.Path("/messages/ack"), obj{"ids": []any{ms[0]["id"]}}).Refused(403, "not_owner")
		kit.Marked(t, a, ms[0], "new")
		b.Acked(obj{"ids": []any{ms[0]["id"], ms[2]["id"], ms[0]["id"]}}, 2)
		b.Acked(obj{"ids": []any{ms[0]["id"], ms[1]["id"]}}, 1)
		b.Acked(obj{"ids": []any{}}, 0)
		for _, m := range ms {
			kit.Marked(t, a, m, "read")
		}
	})
}

func TestAckUpTo(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		var ms []obj
		for range 30 {
			ms = append(ms, a.Send(b))
		}
		theirs := b.Send(a)
		for _, id := range []any{kit.Nobody, theirs["id"]} {
			b.Post(b.Path("/messages/ack"), obj{"up_to": id}).Refused(404, "not_found")
		}
		b.Get("/messages/" + kit.Text(ms[3], "id")).Want(200)
		b.Acked(obj{"up_to": ms[9]["id"]}, 9)
		b.Acked(obj{"up_to": ms[9]["id"]}, 0)
		kit.Marked(t, a, ms[9], "read")
		kit.Marked(t, a, ms[10], "new")
		b.Acked(obj{"up_to": ms[4]["id"]}, 0)
		b.Acked(obj{"up_to": ms[29]["id"]}, 20)
		for _, m := range b.Everything() {
			if m["status"] != "read" || m["delivered_at"] == nil {
				t.Errorf("after all were acknowledged: %v", m)
			}
		}
	})
}

func TestReceiptReads(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m := a.Send(b)
		receipt := b.Reply(m, obj{"type": "svc.v1.receipt"})
		kit.Marked(t, a, m, "read")
		got := a.Inbox("?type=svc.v1.receipt").Items()
		if len(got) != 1 || got[0]["id"] != receipt["id"] || got[0]["encrypted_payload"] != receipt["encrypted_payload"] {
			t.Errorf("the receipt payload arrived changed: %v", got)
		}
		if n := len(b.Everything()); n != 1 {
			t.Errorf("the recipient has %d messages: the server must not send receipts", n)
		}
	})
}

func TestAckOfCopies(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		r := grouptest.New(a)
		r.Seats(b)
		r.Broadcast(a)
		direct := a.Send(b)
		r.Broadcast(a)
		b.Acked(obj{"up_to": direct["id"]}, 2)
		rows := b.Everything()
		if rows[0]["status"] == "read" || rows[1]["status"] != "read" || rows[2]["status"] != "read" {
			t.Errorf("after the second of three: %v", rows)
		}
		b.Acked(obj{"ids": []any{rows[0]["id"]}}, 1)
	})
}
