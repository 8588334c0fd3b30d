package streams

import (
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

func TestStreamOpening(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		opening := func(st *kit.Stream, id string) {
			t.Helper()
			lines := st.Opening()
			comment := slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, ":") })
			if !slices.Contains(lines, "retry: 3000") || !comment || !slices.Contains(lines, "id: "+id) {
				t.Errorf("the stream opens with %q, want retry: 3000, a comment and id: %s", lines, id)
			}
		}
		st := b.Stream("")
		for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"} {
			if got := st.Resp.Header.Get(name); !strings.HasPrefix(got, want) {
				t.Errorf("%s is %q", name, got)
			}
		}
		if st.Resp.Header.Get("X-Request-ID") == "" {
			t.Error("no X-Request-ID")
		}
		opening(st, kit.NilUUID)
		st.Quiet()
		st.Close()

		m1 := a.Send(b)
		b.Inbox("")
		kit.Marked(t, a, m1, "delivered")
		idle := b.Stream("")
		opening(idle, kit.Text(m1, "id"))
		idle.Quiet()
		idle.Close()
		m2 := a.Send(b)
		replaying := b.Stream("")
		replaying.Messages(kit.Text(m2, "id"))
		if lines := replaying.Opening(); !slices.Contains(lines, "id: "+kit.Text(m1, "id")) {
			t.Errorf("the resume point before the replay is not %s: %q", m1["id"], lines)
		}
	})
}

func TestStreamRefusals(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		b := s.Org(t).Agent("bob")
		s.Call(t, "", "GET", b.Path("/stream"), nil).Refused(401, "not_authenticated")
		b.Get("/agents/"+kit.Nobody+"/stream").Refused(404, "not_found")
		s.Org(t).Get(b.Path("/stream")).Refused(403, "not_owner")
		b.Delete(b.Path("")).Want(204)
		b.Get(b.Path("/stream")).Refused(410, "gone")
	})
}

func TestStreamCatchUp(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		var sent []string
		for range 25 {
			sent = append(sent, kit.Text(a.Send(b), "id"))
		}
		st := b.Stream("")
		st.Messages(sent...)
		live := a.Send(b)
		sent = append(sent, kit.Text(live, "id"))
		st.Messages(kit.Text(live, "id"))
		st.Quiet()
		kit.Marked(t, a, live, "delivered")
		st.Close()

		again := b.Stream("")
		again.Opening()
		again.Quiet()
		after := b.Stream(sent[9])
		after.Messages(sent[10:]...)
		after.Quiet()
		b.Stream(kit.NilUUID).Messages(sent...)
		last := b.Stream(sent[25])
		last.Opening()
		last.Quiet()
		next := a.Send(b)
		for _, st := range []*kit.Stream{again, after, last} {
			st.Messages(kit.Text(next, "id"))
		}
	})
}

func TestStreamCarriesWhatTheInboxShows(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		st := b.Stream("")
		st.Opening()
		a.Send(b, obj{"type": "acme.v1.order", "metadata": kit.Object(300), "encrypted_payload": strings.Repeat("x", 100_000), "payload_schema": "https://e.x/s"})
		got := st.Message()
		row := b.Inbox("").Items()[0]
		for name, v := range row {
			if name != "delivered_at" && name != "status" && !kit.Same(got[name], v) {
				t.Errorf("%s is %v on the stream, %v in the inbox", name, got[name], v)
			}
		}
	})
}

func TestStreamUnknownID(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		carried := a.Send(b)
		b.Inbox("")
		kit.Marked(t, a, carried, "delivered")
		m1, m2 := a.Send(b), a.Send(b)
		foreign := kit.Text(b.Send(a), "id")
		for i, id := range []string{kit.Nobody, foreign} {
			st := b.Stream(id)
			gap := st.Next()
			if gap.Name != "gap" || gap.ID != "" || kit.Text(gap.Data, "reason") == "" {
				t.Fatalf("want a gap event with a reason, got %q id %q: %s", gap.Name, gap.ID, gap.Raw)
			}
			if i == 0 {
				st.Messages(kit.Text(m1, "id"), kit.Text(m2, "id"))
				kit.Marked(t, a, m2, "delivered")
			}
			st.Quiet()
			st.Close()
		}
	})
}

func TestStreamStatusEvents(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		atA, atB := a.Stream(""), b.Stream("")
		atA.Opening()
		atB.Opening()
		m := a.Send(b)
		conversation := kit.Text(m, "conversation_id")
		atB.Messages(kit.Text(m, "id"))
		r := b.Reply(m)
		atA.Messages(kit.Text(r, "id"))
		atA.Status(conversation, "open")
		atB.Status(conversation, "open")
		for i, status := range []string{"paused", "open", "input_required", "open", "completed"} {
			[]*kit.Agent{a, b}[i%2].Patch("/conversations/"+conversation+"/status", obj{"status": status}).Want(200)
			atA.Status(conversation, status)
			atB.Status(conversation, status)
		}
		b.Patch("/conversations/"+conversation+"/status", obj{"status": "open"}).Refused(409, "invalid_transition")
		atA.Quiet()
		atB.Quiet()
		if atA.Last() != kit.Text(r, "id") || atB.Last() != kit.Text(m, "id") {
			t.Errorf("the last ids are %s and %s, want those of the last messages", atA.Last(), atB.Last())
		}
		self := b.Send(a)
		a.Reply(self)
		atA.Messages(kit.Text(self, "id"))
		atA.Status(kit.Text(self, "conversation_id"), "open")
	})
}

func TestStreamReplaysStatusInItsPlace(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		earlier := a.Send(b)
		b.Reply(earlier)
		m1 := a.Send(b)
		conversation := kit.Text(m1, "conversation_id")
		r := b.Reply(m1)
		a.Patch("/conversations/"+conversation+"/status", obj{"status": "paused"}).Want(200)
		m2 := a.Send(b)
		a.Patch("/conversations/"+kit.Text(m2, "conversation_id")+"/status", obj{"status": "canceled"}).Want(200)

		resumed := b.Stream(kit.Text(m1, "id"))
		resumed.Status(conversation, "open")
		resumed.Status(conversation, "paused")
		resumed.Messages(kit.Text(m2, "id"))
		resumed.Status(kit.Text(m2, "conversation_id"), "canceled")
		resumed.Quiet()

		fromFirst := a.Stream(kit.NilUUID)
		fromFirst.Message()
		fromFirst.Status(kit.Text(earlier, "conversation_id"), "open")
		fromFirst.Messages(kit.Text(r, "id"))
		fromFirst.Status(conversation, "open")
		fromFirst.Status(conversation, "paused")
		fromFirst.Status(kit.Text(m2, "conversation_id"), "canceled")
		fromFirst.Quiet()
	})
}

func TestStreamWithoutIDSkipsStatusOfOldMessages(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m1 := a.Send(b)
		b.Reply(m1) // reads m1 and opens the conversation
		m2 := a.Send(b)
		b.Patch("/conversations/"+kit.Text(m2, "conversation_id")+"/status", obj{"status": "rejected"}).Want(200)
		kit.Marked(t, a, m1, "read")
		st := b.Stream("")
		st.Messages(kit.Text(m2, "id"))
		st.Status(kit.Text(m2, "conversation_id"), "rejected")
		st.Quiet()
	})
}

func TestStreamEndsWithItsCredential(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		g := o.Agent("streamer")
		second := o.Post("/org/credentials", nil).Want(201)
		token := o.Token
		g.Org = &kit.Org{T: t, S: s, ID: o.ID, Slug: o.Slug, Token: s.Grant(t, second.Str("client_id"), second.Str("client_secret")).Want(200).Str("access_token")}
		st := g.Stream("")
		st.Opening()
		g.Org.Token = token
		stays := g.Stream("")
		stays.Opening()
		o.Delete("/org/credentials/" + second.Str("client_id")).Want(204)
		st.Ends(60 * time.Second)
		stays.Quiet()
	})
}

func TestSeveralStreamsOfOneAgent(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		var all []*kit.Stream
		for range 5 {
			st := b.Stream("")
			st.Opening()
			all = append(all, st)
		}
		m1, m2 := a.Send(b), a.Send(b)
		for _, st := range all {
			st.Messages(kit.Text(m1, "id"), kit.Text(m2, "id"))
		}
	})
}
