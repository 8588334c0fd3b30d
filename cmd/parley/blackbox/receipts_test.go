package blackbox

import (
	"slices"
	"testing"
)

// marked waits until both sides see a message in a status. The sender's read records no
// receipt.
func marked(t testing.TB, sender *agent, m obj, status string) obj {
	t.Helper()
	var got *answer
	eventually(t, "message "+text(m, "id")+" is "+status, func() bool {
		got = sender.peek(m)
		return got.at("status") == status
	})
	if delivered := got.at("delivered_at"); (delivered == nil) != (status == "new") {
		got.errorf("delivered_at does not fit %s", status)
	}
	if read := got.at("read_at"); (read == nil) != (status != "read") {
		got.errorf("read_at does not fit %s", status)
	}
	got.shaped(messageShape)
	return got.body
}

func TestInboxPageDelivers(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		first, second := a.send(b), a.send(b)
		marked(t, a, first, "new")
		b.inbox("?limit=1").items()
		marked(t, a, second, "delivered")
		marked(t, a, first, "new")
		before := marked(t, a, second, "delivered")
		rows := b.inbox("").items()
		marked(t, a, first, "delivered")
		if rows[0]["status"] != "delivered" || rows[0]["delivered_at"] != before["delivered_at"] {
			t.Errorf("the second page shows %v, first delivered at %v", rows[0], before["delivered_at"])
		}
		if after := marked(t, a, second, "delivered"); after["delivered_at"] != before["delivered_at"] {
			t.Errorf("delivered_at moved from %v to %v", before["delivered_at"], after["delivered_at"])
		}
	})
}

func TestOnlyTheRecipientsReadsLeaveReceipts(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m := a.send(b)
		a.peek(m)
		a.get("/messages/" + text(m, "id")).want(200)
		a.get("/conversations/" + text(m, "conversation_id") + "/messages").want(200)
		s.org(t).get("/messages/"+text(m, "id")).refused(403, "not_owner")
		b.inbox("?type=some.other.type")
		marked(t, a, m, "new")
		b.get("/messages/" + text(m, "id")).want(200)
		read := marked(t, a, m, "read")
		b.get("/messages/"+text(m, "id")).want(200).is("status", "read", "read_at", read["read_at"], "delivered_at", read["delivered_at"])
		if read["delivered_at"].(string) > read["read_at"].(string) {
			t.Errorf("read before it was delivered: %v", read)
		}
		if rows := b.inbox("").items(); rows[0]["status"] != "read" || rows[0]["read_at"] != read["read_at"] {
			t.Errorf("the inbox shows %v", rows[0])
		}
	})
}

func TestGetByAnotherAgentOfTheRecipientDelivers(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		colleague := b.org.agent("colleague")
		m := a.send(b)
		b.get("/messages/"+text(m, "id"), "X-Svc-Agent", colleague.id).want(200)
		marked(t, a, m, "delivered")
		b.get("/messages/"+text(m, "id"), "X-Svc-Agent", b.handle).want(200)
		marked(t, a, m, "read")
	})
}

func TestGetByAnOwnerOfBothEnds(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		a, b := o.agent("a"), o.agent("b")
		m := a.send(b)
		o.get("/messages/" + text(m, "id")).want(200)
		marked(t, a, m, "delivered")
		o.get("/messages/"+text(m, "id"), "X-Svc-Agent", a.id).want(200)
		marked(t, a, m, "delivered")
		o.get("/messages/"+text(m, "id"), "X-Svc-Agent", b.id).want(200)
		marked(t, a, m, "read")
	})
}

// TestReadByAnOwnerOfBothSides: only the recipient can mark a message as read, so it is
// the acting agent if the request names none.
func TestReadByAnOwnerOfBothSides(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		a, b := o.agent("a"), o.agent("b")
		for _, headers := range [][]string{nil, {"X-Svc-Agent", b.id}} {
			m := a.send(b)
			o.post("/messages/"+text(m, "id")+"/read", nil, "X-Svc-Agent", a.id).refused(403, "not_owner")
			marked(t, a, m, "delivered") // caused by the read itself
			o.post("/messages/"+text(m, "id")+"/read", nil, headers...).want(200).is("direction", "received", "status", "read")
			marked(t, a, m, "read")
		}
	})
}

func TestReplyReads(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m := a.send(b)
		a.reply(m)
		marked(t, a, m, "new")
		b.reply(m)
		marked(t, a, m, "read")
		second := a.send(b)
		b.tryReply(second, obj{"type": "svc.v1.receipt"}).want(201)
		marked(t, a, second, "read")
	})
}

func TestStreamDelivers(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		waiting := a.send(b)
		st := b.stream("")
		st.messages(text(waiting, "id"))
		marked(t, a, waiting, "delivered")
		live := a.send(b)
		st.messages(text(live, "id"))
		marked(t, a, live, "delivered")
		st.close()
		marked(t, a, a.send(b), "new")
	})
}

func TestOnlyTheRecipientMarksAsRead(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m := a.send(b)
		path := "/messages/" + text(m, "id") + "/read"
		a.post(path, nil).refused(403, "not_owner")
		s.org(t).post(path, nil).refused(403, "not_owner")
		b.post("/messages/"+nobody+"/read", nil).refused(404, "not_found")
		b.post("/messages/x/read", nil).invalid("path.id", "uuid_parsing")
		b.post(path, nil, "X-Svc-Agent", b.org.agent("colleague").id).refused(403, "not_owner")
		marked(t, a, m, "new")
		read := b.post(path, nil).want(200).shaped(messageShape).is("id", m["id"], "status", "read", "direction", "received").body
		again := b.post(path, obj{}, "X-Svc-Agent", b.name).want(200)
		again.is("read_at", read["read_at"], "delivered_at", read["delivered_at"])
		marked(t, a, m, "read")
		b.stream("").quiet()
	})
}

// acked acknowledges and checks the form of the answer.
func (g *agent) acked(body obj, count int) {
	g.t.Helper()
	a := g.post(g.path("/messages/ack"), body).want(200)
	exactly(g.t, "the answer", a.body, "acked up_to")
	a.is("acked", float64(count), "up_to", body["up_to"])
}

func TestAckOfSome(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		ms := []obj{a.send(b), a.send(b), a.send(b)}
		theirs := b.send(a)
		ack := func(ids ...any) *answer { return b.post(b.path("/messages/ack"), obj{"ids": ids}) }
		ack(ms[0]["id"], nobody).refused(404, "not_found")
		ack(ms[0]["id"], theirs["id"]).refused(404, "not_found")
		ack("x").invalid("body.ids.0", "uuid_parsing")
		ack(slices.Repeat([]any{ms[0]["id"]}, 101)...).invalid("body.ids", "too_long")
		for _, bad := range []obj{{}, {"up_to": ms[0]["id"], "ids": []any{ms[0]["id"]}}, {"up_to": nil}} {
			b.post(b.path("/messages/ack"), bad).as("%v", bad).invalid("body.up_to", "value_error")
		}
		a.post(b.path("/messages/ack"), obj{"ids": []any{ms[0]["id"]}}).refused(403, "not_owner")
		marked(t, a, ms[0], "new")
		b.acked(obj{"ids": []any{ms[0]["id"], ms[2]["id"], ms[0]["id"]}}, 2)
		b.acked(obj{"ids": []any{ms[0]["id"], ms[1]["id"]}}, 1)
		b.acked(obj{"ids": []any{}}, 0)
		for _, m := range ms {
			marked(t, a, m, "read")
		}
	})
}

func TestAckUpTo(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		var ms []obj
		for range 30 {
			ms = append(ms, a.send(b))
		}
		theirs := b.send(a)
		for _, id := range []any{nobody, theirs["id"]} {
			b.post(b.path("/messages/ack"), obj{"up_to": id}).refused(404, "not_found")
		}
		b.get("/messages/" + text(ms[3], "id")).want(200)
		b.acked(obj{"up_to": ms[9]["id"]}, 9)
		b.acked(obj{"up_to": ms[9]["id"]}, 0)
		marked(t, a, ms[9], "read")
		marked(t, a, ms[10], "new")
		b.acked(obj{"up_to": ms[4]["id"]}, 0)
		b.acked(obj{"up_to": ms[29]["id"]}, 20)
		for _, m := range b.everything() {
			if m["status"] != "read" || m["delivered_at"] == nil {
				t.Errorf("after all were acknowledged: %v", m)
			}
		}
	})
}

func TestReceiptReads(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m := a.send(b)
		receipt := b.reply(m, obj{"type": "svc.v1.receipt"})
		marked(t, a, m, "read")
		got := a.inbox("?type=svc.v1.receipt").items()
		if len(got) != 1 || got[0]["id"] != receipt["id"] || got[0]["encrypted_payload"] != receipt["encrypted_payload"] {
			t.Errorf("the receipt payload arrived changed: %v", got)
		}
		if n := len(b.everything()); n != 1 {
			t.Errorf("the recipient has %d messages: the server must not send receipts", n)
		}
	})
}

func TestAckOfCopies(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		r := a.group()
		r.seats(b)
		r.broadcast(a)
		direct := a.send(b)
		r.broadcast(a)
		b.acked(obj{"up_to": direct["id"]}, 2)
		rows := b.everything()
		if rows[0]["status"] == "read" || rows[1]["status"] != "read" || rows[2]["status"] != "read" {
			t.Errorf("after the second of three: %v", rows)
		}
		b.acked(obj{"ids": []any{rows[0]["id"]}}, 1)
	})
}
