package blackbox

import (
	"net/url"
	"slices"
	"testing"
)

func TestTranscript(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m := a.send(b, obj{"self_encrypted_payload": "bWluZQ"})
		path := "/conversations/" + text(m, "conversation_id") + "/messages"
		want := []string{text(m, "id")}
		for i := range 6 {
			g := []*agent{b, a}[i%2]
			want = append(want, text(g.reply(m, obj{"self_encrypted_payload": "bWluZQ"}), "id"))
		}
		for _, g := range []*agent{a, b} {
			page := g.get(path).want(200).is("has_more", false)
			rows := page.items()
			if !slices.Equal(ids(rows), want) {
				page.errorf("oldest first: want %v", want)
			}
			for _, r := range rows {
				shaped(t, "row", r, messageShape)
				direction, own := "received", any(nil)
				if r["from_agent_id"] == g.id {
					direction, own = "sent", "bWluZQ"
				}
				if r["direction"] != direction || r["self_encrypted_payload"] != own {
					t.Errorf("row to %s: direction %v, self payload %v", g.name, r["direction"], r["self_encrypted_payload"])
				}
			}
			if got := ids(g.pages(path, "?limit=2")); !slices.Equal(got, want) {
				t.Errorf("page by page: got %v, want %v", got, want)
			}
			backwards := slices.Clone(want)
			slices.Reverse(backwards)
			if got := ids(g.pages(path, "?order=desc&limit=3")); !slices.Equal(got, backwards) {
				t.Errorf("descending: got %v, want %v", got, backwards)
			}
		}
		a.get(path+"?order=sideways").invalid("query.order", "enum")
	})
}

func TestTranscriptCursorLeadsToNewerRows(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m := a.send(b)
		path := "/conversations/" + text(m, "conversation_id") + "/messages"
		b.reply(m)
		page := a.get(path+"?limit=1").want(200).is("has_more", true)
		late := b.reply(m)
		rest := a.get(path + "?limit=100&cursor=" + url.QueryEscape(page.str("next_cursor"))).want(200).items()
		if len(rest) != 2 || rest[1]["id"] != late["id"] {
			t.Errorf("the rest of the transcript: %v", ids(rest))
		}
		a.get(path+"?cursor=nonsense").refused(400, "invalid_cursor")
		other := a.send(b)
		a.get("/conversations/"+text(other, "conversation_id")+"/messages?cursor="+url.QueryEscape(page.str("next_cursor"))).
			as("cursor of another conversation").refused(400, "invalid_cursor")
	})
}

func TestTranscriptLimit(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m := a.send(b)
		path := "/conversations/" + text(m, "conversation_id") + "/messages"
		for range 52 {
			b.reply(m)
		}
		page := a.get(path).want(200)
		if n := len(page.items()); n != 50 || page.at("has_more") != true {
			t.Errorf("the default page has %d rows, want at least 50", n)
		}
		if n := len(a.get(path + "?limit=200").want(200).items()); n != 53 {
			t.Errorf("%d rows, want 53", n)
		}
		a.get(path+"?limit=0").invalid("query.limit", "greater_than_equal")
		a.get(path+"?limit=201").invalid("query.limit", "less_than_equal")
		a.get(path+"?limit=x").invalid("query.limit", "int_parsing")
	})
}

func TestTranscriptOfBothEnds(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		a, b := o.agent("a"), o.agent("b")
		m := a.send(b)
		b.reply(m)
		path := "/conversations/" + text(m, "conversation_id") + "/messages"
		directions := func(want []any, headers ...string) {
			t.Helper()
			r := o.get(path, headers...).want(200)
			var got []any
			for _, row := range r.items() {
				got = append(got, row["direction"])
			}
			if !slices.Equal(got, want) {
				r.errorf("directions %v, want %v", got, want)
			}
		}
		directions([]any{"sent", "received"})
		directions([]any{"sent", "received"}, "X-Svc-Agent", "a")
		directions([]any{"received", "sent"}, "X-Svc-Agent", "b")
	})
}

func TestSelfPayload(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		own := obj{"self_encrypted_payload": "bWluZQ"}
		m := a.trySend(b, own).want(201).is("self_encrypted_payload", "bWluZQ").body
		r := b.tryReply(m, own).want(201).is("self_encrypted_payload", "bWluZQ").body
		for _, c := range []struct {
			g    *agent
			m    obj
			want any
		}{{a, m, "bWluZQ"}, {b, m, nil}, {a, r, nil}, {b, r, "bWluZQ"}} {
			c.g.get("/messages/"+text(c.m, "id")).want(200).is("self_encrypted_payload", c.want)
		}
		for _, row := range append(b.everything(), a.everything()...) {
			if row["self_encrypted_payload"] != nil {
				t.Errorf("an inbox shows the sender's copy: %v", row)
			}
		}
		got := a.stream(nilUUID).message()
		if got["id"] != r["id"] || got["self_encrypted_payload"] != nil {
			t.Errorf("a stream shows the sender's copy: %v", got)
		}
	})
}
