package blackbox

import "testing"

// marked waits until both sides see a message in a status. The sender's look
// leaves no mark of its own.
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

func TestReadingLeavesMarksOfTheRecipientOnly(t *testing.T) {
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

func TestReplyReads(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m := a.send(b)
		a.reply(m)
		marked(t, a, m, "new")
		b.reply(m)
		marked(t, a, m, "read")
		second := a.send(b)
		b.answerTo(second, obj{"type": "svc.v1.receipt"}).want(201)
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
