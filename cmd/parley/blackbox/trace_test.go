package blackbox

import (
	"strings"
	"testing"
)

// traced reads a message's trace and checks its form.
func (g *Agent) traced(m obj) *Answer {
	g.T.Helper()
	a := g.Get("/messages/" + Text(m, "id") + "/trace").Want(200)
	Shaped(g.T, "the trace", a.Body, "message_id:uuid accepted_at:time position:int? attempts:arr delivered_at:time? read_at:time? pending_reason:str?")
	Exactly(g.T, "the trace", a.Body, "message_id accepted_at position attempts delivered_at read_at pending_reason")
	a.Is("message_id", m["id"], "accepted_at", m["created_at"])
	if (a.At("pending_reason") == nil) == (a.At("delivered_at") == nil) {
		a.Errorf("pending_reason must be set exactly while the message is not delivered")
	}
	for _, row := range a.attempts() {
		Shaped(g.T, "an attempt", row, "channel:str at:time outcome:str detail:str?")
		Exactly(g.T, "an attempt", row, "channel at outcome detail")
	}
	return a
}

func (a *Answer) attempts() []obj {
	rows, _ := a.At("attempts").([]any)
	return Objects(rows)
}

// checkAttempts checks the attempts of a trace: channel and outcome of each.
func (a *Answer) checkAttempts(want ...string) *Answer {
	a.T.Helper()
	var got []string
	for _, row := range a.attempts() {
		got = append(got, Text(row, "channel")+" "+Text(row, "outcome"))
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		a.Errorf("attempts are %q, want %q", got, want)
	}
	return a
}

// checkReason checks the text of the reason.
func (a *Answer) checkReason(parts ...string) *Answer {
	a.T.Helper()
	why, _ := a.At("pending_reason").(string)
	for _, part := range parts {
		if !strings.Contains(why, part) {
			a.Errorf("the reason does not contain %q", part)
		}
	}
	return a
}

func TestTraceByChannel(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		for channel, take := range map[string]func(m obj){
			"inbox": func(obj) { b.Inbox("") },
			"wait":  func(m obj) { Given(b.Get(b.Path("/wait?timeout_ms=1000")), 0, m) },
			"stream": func(m obj) {
				st := b.Stream("")
				defer st.Close()
				st.Messages(Text(m, "id"))
			},
		} {
			m := a.Send(b)
			b.traced(m).checkAttempts().checkReason("Nobody has fetched it", "no stream of the agent is open", "it has no webhook")
			a.traced(m).checkAttempts().checkReason("has not fetched it yet").Is("position", nil)
			take(m)
			Marked(t, a, m, "delivered")
			near := b.traced(m).checkAttempts(channel + " carried")
			far := a.traced(m).checkAttempts(channel+" carried").Is("position", nil)
			near.Is("delivered_at", far.At("delivered_at"))
			if near.At("position") == nil || near.attempts()[0]["detail"] == nil || far.attempts()[0]["detail"] != nil {
				near.Errorf("the position and details are the recipient's; the sender is told %s", far.Raw)
			}
			near.Is("delivered_at", near.attempts()[0]["at"])
		}
		m := a.Send(b)
		b.Post("/messages/"+Text(m, "id")+"/read", nil).Want(200)
		if read := b.traced(m).checkAttempts(); read.At("read_at") == nil {
			read.Errorf("it is read")
		}
		s.Org(t).Get("/messages/"+Text(m, "id")+"/trace").Refused(403, "not_owner")
		a.Get("/messages/"+Nobody+"/trace").Refused(404, "not_found")
	})
}

func TestTraceOfASyncReply(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		asked := a.Ask(b, "?timeout_ms=30000", nil)
		reply := b.Reply(b.Arrival(1))
		Judged(<-asked, "replied")
		a.traced(reply).checkAttempts("sync carried")
	})
}

func TestTraceOfWebhooks(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		h := b.listens(says(500), says(204))
		m := a.Send(b)
		h.to.waitForDelivery(t, 1)
		Eventually(t, "the failure is in the trace", func() bool { return len(b.traced(m).attempts()) == 1 })
		failed := b.traced(m).checkAttempts("webhook failed").checkReason("1 attempt of its webhook failed, the last with status 500", "the next is due at")
		if detail := Text(failed.attempts()[0], "detail"); !strings.Contains(detail, "status 500") || !strings.Contains(detail, h.id) {
			failed.Errorf("the detail is %q", detail)
		}
		a.traced(m).checkAttempts().checkReason("has not fetched it yet")
		h.setActive(false)
		b.traced(m).checkReason("it is switched off")
		second := a.Send(b)
		b.traced(second).checkAttempts().checkReason("its webhook is switched off")
		h.setActive(true)
		h.agent.Post(h.path("/deliveries/"+Text(h.jobs("failed")[0], "id")+"/retry"), nil).Want(200)
		Marked(t, a, m, "delivered")
		b.Inbox("")
		Eventually(t, "both attempts are in the trace", func() bool { return len(b.traced(m).attempts()) == 3 })
		b.traced(m).checkAttempts("webhook failed", "webhook announced", "inbox carried")
		a.traced(m).checkAttempts("inbox carried")
		b.wants("message.read")
		third := b.Org.Agent("other")
		third.wants("message.read")
		b.traced(second).checkAttempts("inbox carried")
		third.traced(a.Send(third)).checkReason("none of its webhooks asks for messages received")
	})
}
