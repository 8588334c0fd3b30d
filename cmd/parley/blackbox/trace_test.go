package blackbox

import (
	"strings"
	"testing"
)

// traced reads a message's trace and checks its form.
func (g *agent) traced(m obj) *answer {
	g.t.Helper()
	a := g.get("/messages/" + text(m, "id") + "/trace").want(200)
	shaped(g.t, "the trace", a.body, "message_id:uuid accepted_at:time position:int? attempts:arr delivered_at:time? read_at:time? pending_reason:str?")
	exactly(g.t, "the trace", a.body, "message_id accepted_at position attempts delivered_at read_at pending_reason")
	a.is("message_id", m["id"], "accepted_at", m["created_at"])
	if (a.at("pending_reason") == nil) == (a.at("delivered_at") == nil) {
		a.errorf("pending_reason must be set exactly while the message is not delivered")
	}
	for _, row := range a.attempts() {
		shaped(g.t, "an attempt", row, "channel:str at:time outcome:str detail:str?")
		exactly(g.t, "an attempt", row, "channel at outcome detail")
	}
	return a
}

func (a *answer) attempts() []obj {
	rows, _ := a.at("attempts").([]any)
	return objects(rows)
}

// checkAttempts checks the attempts of a trace: channel and outcome of each.
func (a *answer) checkAttempts(want ...string) *answer {
	a.t.Helper()
	var got []string
	for _, row := range a.attempts() {
		got = append(got, text(row, "channel")+" "+text(row, "outcome"))
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		a.errorf("attempts are %q, want %q", got, want)
	}
	return a
}

// checkReason checks the text of the reason.
func (a *answer) checkReason(parts ...string) *answer {
	a.t.Helper()
	why, _ := a.at("pending_reason").(string)
	for _, part := range parts {
		if !strings.Contains(why, part) {
			a.errorf("the reason does not contain %q", part)
		}
	}
	return a
}

func TestTraceByChannel(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		for channel, take := range map[string]func(m obj){
			"inbox": func(obj) { b.inbox("") },
			"wait":  func(m obj) { given(b.get(b.path("/wait?timeout_ms=1000")), 0, m) },
			"stream": func(m obj) {
				st := b.stream("")
				defer st.close()
				st.messages(text(m, "id"))
			},
		} {
			m := a.send(b)
			b.traced(m).checkAttempts().checkReason("Nobody has fetched it", "no stream of the agent is open", "it has no webhook")
			a.traced(m).checkAttempts().checkReason("has not fetched it yet").is("position", nil)
			take(m)
			marked(t, a, m, "delivered")
			near := b.traced(m).checkAttempts(channel + " carried")
			far := a.traced(m).checkAttempts(channel+" carried").is("position", nil)
			near.is("delivered_at", far.at("delivered_at"))
			if near.at("position") == nil || near.attempts()[0]["detail"] == nil || far.attempts()[0]["detail"] != nil {
				near.errorf("the position and details are the recipient's; the sender is told %s", far.raw)
			}
			near.is("delivered_at", near.attempts()[0]["at"])
		}
		m := a.send(b)
		b.post("/messages/"+text(m, "id")+"/read", nil).want(200)
		if read := b.traced(m).checkAttempts(); read.at("read_at") == nil {
			read.errorf("it is read")
		}
		s.org(t).get("/messages/"+text(m, "id")+"/trace").refused(403, "not_owner")
		a.get("/messages/"+nobody+"/trace").refused(404, "not_found")
	})
}

func TestTraceOfASyncReply(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		asked := a.ask(b, "?timeout_ms=30000", nil)
		reply := b.reply(b.arrival(1))
		judged(<-asked, "replied")
		a.traced(reply).checkAttempts("sync carried")
	})
}

func TestTraceOfWebhooks(t *testing.T) {
	hooks(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		h := b.listens(says(500), says(204))
		m := a.send(b)
		h.to.waitForDelivery(t, 1)
		eventually(t, "the failure is in the trace", func() bool { return len(b.traced(m).attempts()) == 1 })
		failed := b.traced(m).checkAttempts("webhook failed").checkReason("1 attempt of its webhook failed, the last with status 500", "the next is due at")
		if detail := text(failed.attempts()[0], "detail"); !strings.Contains(detail, "status 500") || !strings.Contains(detail, h.id) {
			failed.errorf("the detail is %q", detail)
		}
		a.traced(m).checkAttempts().checkReason("has not fetched it yet")
		h.setActive(false)
		b.traced(m).checkReason("it is switched off")
		second := a.send(b)
		b.traced(second).checkAttempts().checkReason("its webhook is switched off")
		h.setActive(true)
		h.agent.post(h.path("/deliveries/"+text(h.jobs("failed")[0], "id")+"/retry"), nil).want(200)
		marked(t, a, m, "delivered")
		b.inbox("")
		eventually(t, "both attempts are in the trace", func() bool { return len(b.traced(m).attempts()) == 3 })
		b.traced(m).checkAttempts("webhook failed", "webhook announced", "inbox carried")
		a.traced(m).checkAttempts("inbox carried")
		b.wants("message.read")
		third := b.org.agent("other")
		third.wants("message.read")
		b.traced(second).checkAttempts("inbox carried")
		third.traced(a.send(third)).checkReason("none of its webhooks asks for messages received")
	})
}
