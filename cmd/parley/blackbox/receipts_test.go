package blackbox

import (
	"slices"
	"testing"
)

// Marked waits until both sides see a message in a status. The sender's read records no
// receipt.
func Marked(t testing.TB, sender *Agent, m obj, status string) obj {
	t.Helper()
	var got *Answer
	Eventually(t, "message "+Text(m, "id")+" is "+status, func() bool {
		got = sender.Peek(m)
		return got.At("status") == status
	})
	if delivered := got.At("delivered_at"); (delivered == nil) != (status == "new") {
		got.Errorf("delivered_at does not fit %s", status)
	}
	if read := got.At("read_at"); (read == nil) != (status != "read") {
		got.Errorf("read_at does not fit %s", status)
	}
	got.Shaped(MessageShape)
	return got.Body
}

func TestInboxPageDelivers(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		first, second := a.Send(b), a.Send(b)
		Marked(t, a, first, "new")
		b.Inbox("?limit=1").Items()
		Marked(t, a, second, "delivered")
		Marked(t, a, first, "new")
		before := Marked(t, a, second, "delivered")
		rows := b.Inbox("").Items()
		Marked(t, a, first, "delivered")
		if rows[0]["status"] != "delivered" || rows[0]["delivered_at"] != before["delivered_at"] {
			t.Errorf("the second page shows %v, first delivered at %v", rows[0], before["delivered_at"])
		}
		if after := Marked(t, a, second, "delivered"); after["delivered_at"] != before["delivered_at"] {
			t.Errorf("delivered_at moved from %v to %v", before["delivered_at"], after["delivered_at"])
		}
	})
}

func TestOnlyTheRecipientsReadsLeaveReceipts(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		m := a.Send(b)
		a.Peek(m)
		a.Get("/messages/" + Text(m, "id")).Want(200)
		a.Get("/conversations/" + Text(m, "conversation_id") + "/messages").Want(200)
		s.Org(t).Get("/messages/"+Text(m, "id")).Refused(403, "not_owner")
		b.Inbox("?type=some.other.type")
		Marked(t, a, m, "new")
		b.Get("/messages/" + Text(m, "id")).Want(200)
		read := Marked(t, a, m, "read")
		b.Get("/messages/"+Text(m, "id")).Want(200).Is("status", "read", "read_at", read["read_at"], "delivered_at", read["delivered_at"])
		if read["delivered_at"].(string) > read["read_at"].(string) {
			t.Errorf("read before it was delivered: %v", read)
		}
		if rows := b.Inbox("").Items(); rows[0]["status"] != "read" || rows[0]["read_at"] != read["read_at"] {
			t.Errorf("the inbox shows %v", rows[0])
		}
	})
}

func TestGetByAnotherAgentOfTheRecipientDelivers(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		colleague := b.Org.Agent("colleague")
		m := a.Send(b)
		b.Get("/messages/"+Text(m, "id"), "X-Svc-Agent", colleague.ID).Want(200)
		Marked(t, a, m, "delivered")
		b.Get("/messages/"+Text(m, "id"), "X-Svc-Agent", b.Handle).Want(200)
		Marked(t, a, m, "read")
	})
}

func TestGetByAnOwnerOfBothEnds(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		o := s.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		m := a.Send(b)
		o.Get("/messages/" + Text(m, "id")).Want(200)
		Marked(t, a, m, "delivered")
		o.Get("/messages/"+Text(m, "id"), "X-Svc-Agent", a.ID).Want(200)
		Marked(t, a, m, "delivered")
		o.Get("/messages/"+Text(m, "id"), "X-Svc-Agent", b.ID).Want(200)
		Marked(t, a, m, "read")
	})
}

// TestReadByAnOwnerOfBothSides: only the recipient can mark a message as read, so it is
// the acting agent if the request names none.
func TestReadByAnOwnerOfBothSides(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		o := s.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		for _, headers := range [][]string{nil, {"X-Svc-Agent", b.ID}} {
			m := a.Send(b)
			o.Post("/messages/"+Text(m, "id")+"/read", nil, "X-Svc-Agent", a.ID).Refused(403, "not_owner")
			Marked(t, a, m, "delivered") // caused by the read itself
			o.Post("/messages/"+Text(m, "id")+"/read", nil, headers...).Want(200).Is("direction", "received", "status", "read")
			Marked(t, a, m, "read")
		}
	})
}

func TestReplyReads(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		m := a.Send(b)
		a.Reply(m)
		Marked(t, a, m, "new")
		b.Reply(m)
		Marked(t, a, m, "read")
		second := a.Send(b)
		b.TryReply(second, obj{"type": "svc.v1.receipt"}).Want(201)
		Marked(t, a, second, "read")
	})
}

func TestStreamDelivers(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		waiting := a.Send(b)
		st := b.Stream("")
		st.Messages(Text(waiting, "id"))
		Marked(t, a, waiting, "delivered")
		live := a.Send(b)
		st.Messages(Text(live, "id"))
		Marked(t, a, live, "delivered")
		st.Close()
		Marked(t, a, a.Send(b), "new")
	})
}

func TestOnlyTheRecipientMarksAsRead(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		m := a.Send(b)
		path := "/messages/" + Text(m, "id") + "/read"
		a.Post(path, nil).Refused(403, "not_owner")
		s.Org(t).Post(path, nil).Refused(403, "not_owner")
		b.Post("/messages/"+Nobody+"/read", nil).Refused(404, "not_found")
		b.Post("/messages/x/read", nil).Invalid("path.id", "uuid_parsing")
		b.Post(path, nil, "X-Svc-Agent", b.Org.Agent("colleague").ID).Refused(403, "not_owner")
		Marked(t, a, m, "new")
		read := b.Post(path, nil).Want(200).Shaped(MessageShape).Is("id", m["id"], "status", "read", "direction", "received").Body
		again := b.Post(path, obj{}, "X-Svc-Agent", b.Name).Want(200)
		again.Is("read_at", read["read_at"], "delivered_at", read["delivered_at"])
		Marked(t, a, m, "read")
		b.Stream("").Quiet()
	})
}

// Acked acknowledges and checks the form of the answer.
func (g *Agent) Acked(body obj, count int) {
	g.T.Helper()
	a := g.Post(g.Path("/messages/ack"), body).Want(200)
	Exactly(g.T, "the answer", a.Body, "acked up_to")
	a.Is("acked", float64(count), "up_to", body["up_to"])
}

func TestAckOfSome(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		ms := []obj{a.Send(b), a.Send(b), a.Send(b)}
		theirs := b.Send(a)
		ack := func(ids ...any) *Answer { return b.Post(b.Path("/messages/ack"), obj{"ids": ids}) }
		ack(ms[0]["id"], Nobody).Refused(404, "not_found")
		ack(ms[0]["id"], theirs["id"]).Refused(404, "not_found")
		ack("x").Invalid("body.ids.0", "uuid_parsing")
		ack(slices.Repeat([]any{ms[0]["id"]}, 101)...).Invalid("body.ids", "too_long")
		for _, bad := range []obj{{}, {"up_to": ms[0]["id"], "ids": []any{ms[0]["id"]}}, {"up_to": nil}} {
			b.Post(b.Path("/messages/ack"), bad).As("%v", bad).Invalid("body.up_to", "value_error")
		}
		a.Post(b.Path("/messages/ack"), obj{"ids": []any{ms[0]["id"]}}).Refused(403, "not_owner")
		Marked(t, a, ms[0], "new")
		b.Acked(obj{"ids": []any{ms[0]["id"], ms[2]["id"], ms[0]["id"]}}, 2)
		b.Acked(obj{"ids": []any{ms[0]["id"], ms[1]["id"]}}, 1)
		b.Acked(obj{"ids": []any{}}, 0)
		for _, m := range ms {
			Marked(t, a, m, "read")
		}
	})
}

func TestAckUpTo(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		var ms []obj
		for range 30 {
			ms = append(ms, a.Send(b))
		}
		theirs := b.Send(a)
		for _, id := range []any{Nobody, theirs["id"]} {
			b.Post(b.Path("/messages/ack"), obj{"up_to": id}).Refused(404, "not_found")
		}
		b.Get("/messages/" + Text(ms[3], "id")).Want(200)
		b.Acked(obj{"up_to": ms[9]["id"]}, 9)
		b.Acked(obj{"up_to": ms[9]["id"]}, 0)
		Marked(t, a, ms[9], "read")
		Marked(t, a, ms[10], "new")
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
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		m := a.Send(b)
		receipt := b.Reply(m, obj{"type": "svc.v1.receipt"})
		Marked(t, a, m, "read")
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
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		r := a.group()
		r.seats(b)
		r.broadcast(a)
		direct := a.Send(b)
		r.broadcast(a)
		b.Acked(obj{"up_to": direct["id"]}, 2)
		rows := b.Everything()
		if rows[0]["status"] == "read" || rows[1]["status"] != "read" || rows[2]["status"] != "read" {
			t.Errorf("after the second of three: %v", rows)
		}
		b.Acked(obj{"ids": []any{rows[0]["id"]}}, 1)
	})
}
