package blackbox

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestStreamOpening(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		opening := func(st *stream, id string) {
			t.Helper()
			lines := st.opening()
			comment := slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, ":") })
			if !slices.Contains(lines, "retry: 3000") || !comment || !slices.Contains(lines, "id: "+id) {
				t.Errorf("the stream opens with %q, want retry: 3000, a comment and id: %s", lines, id)
			}
		}
		st := b.stream("")
		for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"} {
			if got := st.resp.Header.Get(name); !strings.HasPrefix(got, want) {
				t.Errorf("%s is %q", name, got)
			}
		}
		if st.resp.Header.Get("X-Request-ID") == "" {
			t.Error("no X-Request-ID")
		}
		opening(st, nilUUID)
		st.quiet()
		st.close()

		m1 := a.send(b)
		b.inbox("")
		marked(t, a, m1, "delivered")
		idle := b.stream("")
		opening(idle, text(m1, "id"))
		idle.quiet()
		idle.close()
		m2 := a.send(b)
		replaying := b.stream("")
		replaying.messages(text(m2, "id"))
		if lines := replaying.opening(); !slices.Contains(lines, "id: "+text(m1, "id")) {
			t.Errorf("the resume point before the replay is not %s: %q", m1["id"], lines)
		}
	})
}

func TestStreamRefusals(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		b := s.org(t).agent("bob")
		s.call(t, "", "GET", b.path("/stream"), nil).refused(401, "not_authenticated")
		b.get("/agents/"+nobody+"/stream").refused(404, "not_found")
		s.org(t).get(b.path("/stream")).refused(403, "not_owner")
		b.delete(b.path("")).want(204)
		b.get(b.path("/stream")).refused(410, "gone")
	})
}

func TestStreamCatchUp(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		var sent []string
		for range 25 {
			sent = append(sent, text(a.send(b), "id"))
		}
		st := b.stream("")
		st.messages(sent...)
		live := a.send(b)
		sent = append(sent, text(live, "id"))
		st.messages(text(live, "id"))
		st.quiet()
		marked(t, a, live, "delivered")
		st.close()

		again := b.stream("")
		again.opening()
		again.quiet()
		after := b.stream(sent[9])
		after.messages(sent[10:]...)
		after.quiet()
		b.stream(nilUUID).messages(sent...)
		last := b.stream(sent[25])
		last.opening()
		last.quiet()
		next := a.send(b)
		for _, st := range []*stream{again, after, last} {
			st.messages(text(next, "id"))
		}
	})
}

func TestStreamCarriesWhatTheInboxShows(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		st := b.stream("")
		st.opening()
		a.send(b, obj{"type": "acme.v1.order", "metadata": object(300), "encrypted_payload": strings.Repeat("x", 100_000), "payload_schema": "https://e.x/s"})
		got := st.message()
		row := b.inbox("").items()[0]
		for name, v := range row {
			if name != "delivered_at" && name != "status" && !same(got[name], v) {
				t.Errorf("%s is %v on the stream, %v in the inbox", name, got[name], v)
			}
		}
	})
}

func TestStreamUnknownID(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		carried := a.send(b)
		b.inbox("")
		marked(t, a, carried, "delivered")
		m1, m2 := a.send(b), a.send(b)
		foreign := text(b.send(a), "id")
		for i, id := range []string{nobody, foreign} {
			st := b.stream(id)
			gap := st.next()
			if gap.name != "gap" || gap.id != "" || text(gap.data, "reason") == "" {
				t.Fatalf("want a gap event with a reason, got %q id %q: %s", gap.name, gap.id, gap.raw)
			}
			if i == 0 {
				st.messages(text(m1, "id"), text(m2, "id"))
				marked(t, a, m2, "delivered")
			}
			st.quiet()
			st.close()
		}
	})
}

func TestStreamStatusEvents(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		atA, atB := a.stream(""), b.stream("")
		atA.opening()
		atB.opening()
		m := a.send(b)
		conversation := text(m, "conversation_id")
		atB.messages(text(m, "id"))
		r := b.reply(m)
		atA.messages(text(r, "id"))
		atA.status(conversation, "open")
		atB.status(conversation, "open")
		for i, status := range []string{"paused", "open", "input_required", "open", "completed"} {
			[]*agent{a, b}[i%2].patch("/conversations/"+conversation+"/status", obj{"status": status}).want(200)
			atA.status(conversation, status)
			atB.status(conversation, status)
		}
		b.patch("/conversations/"+conversation+"/status", obj{"status": "open"}).refused(409, "invalid_transition")
		atA.quiet()
		atB.quiet()
		if atA.last() != text(r, "id") || atB.last() != text(m, "id") {
			t.Errorf("the last ids are %s and %s, want those of the last messages", atA.last(), atB.last())
		}
		self := b.send(a)
		a.reply(self)
		atA.messages(text(self, "id"))
		atA.status(text(self, "conversation_id"), "open")
	})
}

func TestStreamReplaysStatusInItsPlace(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		earlier := a.send(b)
		b.reply(earlier)
		m1 := a.send(b)
		conversation := text(m1, "conversation_id")
		r := b.reply(m1)
		a.patch("/conversations/"+conversation+"/status", obj{"status": "paused"}).want(200)
		m2 := a.send(b)
		a.patch("/conversations/"+text(m2, "conversation_id")+"/status", obj{"status": "canceled"}).want(200)

		resumed := b.stream(text(m1, "id"))
		resumed.status(conversation, "open")
		resumed.status(conversation, "paused")
		resumed.messages(text(m2, "id"))
		resumed.status(text(m2, "conversation_id"), "canceled")
		resumed.quiet()

		fromFirst := a.stream(nilUUID)
		fromFirst.message()
		fromFirst.status(text(earlier, "conversation_id"), "open")
		fromFirst.messages(text(r, "id"))
		fromFirst.status(conversation, "open")
		fromFirst.status(conversation, "paused")
		fromFirst.status(text(m2, "conversation_id"), "canceled")
		fromFirst.quiet()
	})
}

func TestStreamWithoutIDSkipsStatusOfOldMessages(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m1 := a.send(b)
		b.reply(m1) // reads m1 and opens the conversation
		m2 := a.send(b)
		b.patch("/conversations/"+text(m2, "conversation_id")+"/status", obj{"status": "rejected"}).want(200)
		marked(t, a, m1, "read")
		st := b.stream("")
		st.messages(text(m2, "id"))
		st.status(text(m2, "conversation_id"), "rejected")
		st.quiet()
	})
}

func TestStreamEndsWithItsCredential(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		g := o.agent("streamer")
		second := o.post("/org/credentials", nil).want(201)
		token := o.token
		g.org = &org{t: t, s: s, id: o.id, slug: o.slug, token: s.grant(t, second.str("client_id"), second.str("client_secret")).want(200).str("access_token")}
		st := g.stream("")
		st.opening()
		g.org.token = token
		stays := g.stream("")
		stays.opening()
		o.delete("/org/credentials/" + second.str("client_id")).want(204)
		st.ends(60 * time.Second)
		stays.quiet()
	})
}

func TestSeveralStreamsOfOneAgent(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		var all []*stream
		for range 5 {
			st := b.stream("")
			st.opening()
			all = append(all, st)
		}
		m1, m2 := a.send(b), a.send(b)
		for _, st := range all {
			st.messages(text(m1, "id"), text(m2, "id"))
		}
	})
}
