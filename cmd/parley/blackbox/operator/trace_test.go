package operator

import (
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/hooktest"
)

// traced reads a message's trace and checks its form.
func traced(g *kit.Agent, m obj) *kit.Answer {
	g.T.Helper()
	a := g.Get("/messages/" + kit.Text(m, "id") + "/trace").Want(200)
	kit.Shaped(g.T, "the trace", a.Body, "message_id:uuid accepted_at:time position:int? attempts:arr delivered_at:time? read_at:time? pending_reason:str?")
	kit.Exactly(g.T, "the trace", a.Body, "message_id accepted_at position attempts delivered_at read_at pending_reason")
	a.Is("message_id", m["id"], "accepted_at", m["created_at"])
	if (a.At("pending_reason") == nil) == (a.At("delivered_at") == nil) {
		a.Errorf("pending_reason must be set exactly while the message is not delivered")
	}
	for _, row := range attempts(a) {
		kit.Shaped(g.T, "an attempt", row, "channel:str at:time outcome:str detail:str?")
		kit.Exactly(g.T, "an attempt", row, "channel at outcome detail")
	}
	return a
}

func attempts(a *kit.Answer) []obj {
	rows, _ := a.At("attempts").([]any)
	return kit.Objects(rows)
}

// checkAttempts checks the attempts of a trace: channel and outcome of each.
func checkAttempts(a *kit.Answer, want ...string) *kit.Answer {
	a.T.Helper()
	var got []string
	for _, row := range attempts(a) {
		got = append(got, kit.Text(row, "channel")+" "+kit.Text(row, "outcome"))
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		a.Errorf("attempts are %q, want %q", got, want)
	}
	return a
}

// checkReason checks the text of the reason.
func checkReason(a *kit.Answer, parts ...string) *kit.Answer {
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
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		for channel, take := range map[string]func(m obj){
			"inbox": func(obj) { b.Inbox("") },
			"wait":  func(m obj) { kit.Given(b.Get(b.Path("/wait?timeout_ms=1000")), 0, m) },
			"stream": func(m obj) {
				st := b.Stream("")
				defer st.Close()
				st.Messages(kit.Text(m, "id"))
			},
		} {
			m := a.Send(b)
			checkReason(checkAttempts(traced(b, m)), "Nobody has fetched it", "no stream of the agent is open", "it has no webhook")
			checkReason(checkAttempts(traced(a, m)), "has not fetched it yet").Is("position", nil)
			take(m)
			kit.Marked(t, a, m, "delivered")
			near := checkAttempts(traced(b, m), channel+" carried")
			far := checkAttempts(traced(a, m), channel+" carried").Is("position", nil)
			near.Is("delivered_at", far.At("delivered_at"))
			if near.At("position") == nil || attempts(near)[0]["detail"] == nil || attempts(far)[0]["detail"] != nil {
				near.Errorf("the position and details are the recipient's; the sender is told %s", far.Raw)
			}
			near.Is("delivered_at", attempts(near)[0]["at"])
		}
		m := a.Send(b)
		b.Post("/messages/"+kit.Text(m, "id")+"/read", nil).Want(200)
		if read := checkAttempts(traced(b, m)); read.At("read_at") == nil {
			read.Errorf("it is read")
		}
		s.Org(t).Get("/messages/"+kit.Text(m, "id")+"/trace").Refused(403, "not_owner")
		a.Get("/messages/"+kit.Nobody+"/trace").Refused(404, "not_found")
	})
}

func TestTraceOfASyncReply(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		asked := a.Ask(b, "?timeout_ms=30000", nil)
		reply := b.Reply(b.Arrival(1))
		kit.Judged(<-asked, "replied")
		checkAttempts(traced(a, reply), "sync carried")
	})
}

func TestTraceOfWebhooks(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		h := hooktest.Listening(b, hooktest.Says(500), hooktest.Says(204))
		m := a.Send(b)
		h.To.WaitForDelivery(t, 1)
		kit.Eventually(t, "the failure is in the trace", func() bool { return len(attempts(traced(b, m))) == 1 })
		failed := checkReason(checkAttempts(traced(b, m), "webhook failed"), "1 attempt of its webhook failed, the last with status 500", "the next is due at")
		if detail := kit.Text(attempts(failed)[0], "detail"); !strings.Contains(detail, "status 500") || !strings.Contains(detail, h.ID) {
			failed.Errorf("the detail is %q", detail)
		}
		checkReason(checkAttempts(traced(a, m)), "has not fetched it yet")
		h.SetActive(false)
		checkReason(traced(b, m), "it is switched off")
		second := a.Send(b)
		checkReason(checkAttempts(traced(b, second)), "its webhook is switched off")
		h.SetActive(true)
		h.Agent.Post(h.Path("/deliveries/"+kit.Text(h.Jobs("failed")[0], "id")+"/retry"), nil).Want(200)
		kit.Marked(t, a, m, "delivered")
		b.Inbox("")
		kit.Eventually(t, "both attempts are in the trace", func() bool { return len(attempts(traced(b, m))) == 3 })
		checkAttempts(traced(b, m), "webhook failed", "webhook announced", "inbox carried")
		checkAttempts(traced(a, m), "inbox carried")
		hooktest.Wanting(b, "message.read")
		third := b.Org.Agent("other")
		hooktest.Wanting(third, "message.read")
		checkAttempts(traced(b, second), "inbox carried")
		checkReason(traced(third, a.Send(third)), "none of its webhooks asks for messages received")
	})
}
