package api

import (
	"net/url"
	"slices"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

func TestTranscript(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m := a.Send(b, obj{"self_encrypted_payload": "bWluZQ"})
		path := "/conversations/" + kit.Text(m, "conversation_id") + "/messages"
		want := []string{kit.Text(m, "id")}
		for i := range 6 {
			g := []*kit.Agent{b, a}[i%2]
			want = append(want, kit.Text(g.Reply(m, obj{"self_encrypted_payload": "bWluZQ"}), "id"))
		}
		for _, g := range []*kit.Agent{a, b} {
			page := g.Get(path).Want(200).Is("has_more", false)
			rows := page.Items()
			if !slices.Equal(kit.IDs(rows), want) {
				page.Errorf("oldest first: want %v", want)
			}
			for _, r := range rows {
				kit.Shaped(t, "row", r, kit.MessageShape)
				direction, own := "received", any(nil)
				if r["from_agent_id"] == g.ID {
					direction, own = "sent", "bWluZQ"
				}
				if r["direction"] != direction || r["self_encrypted_payload"] != own {
					t.Errorf("row to %s: direction %v, self payload %v", g.Name, r["direction"], r["self_encrypted_payload"])
				}
			}
			if got := kit.IDs(g.Pages(path, "?limit=2")); !slices.Equal(got, want) {
				t.Errorf("page by page: got %v, want %v", got, want)
			}
			backwards := slices.Clone(want)
			slices.Reverse(backwards)
			if got := kit.IDs(g.Pages(path, "?order=desc&limit=3")); !slices.Equal(got, backwards) {
				t.Errorf("descending: got %v, want %v", got, backwards)
			}
		}
		a.Get(path+"?order=sideways").Invalid("query.order", "enum")
	})
}

func TestTranscriptCursorLeadsToNewerRows(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m := a.Send(b)
		path := "/conversations/" + kit.Text(m, "conversation_id") + "/messages"
		b.Reply(m)
		page := a.Get(path+"?limit=1").Want(200).Is("has_more", true)
		late := b.Reply(m)
		rest := a.Get(path + "?limit=100&cursor=" + url.QueryEscape(page.Str("next_cursor"))).Want(200).Items()
		if len(rest) != 2 || rest[1]["id"] != late["id"] {
			t.Errorf("the rest of the transcript: %v", kit.IDs(rest))
		}
		a.Get(path+"?cursor=nonsense").Refused(400, "invalid_cursor")
		other := a.Send(b)
		a.Get("/conversations/"+kit.Text(other, "conversation_id")+"/messages?cursor="+url.QueryEscape(page.Str("next_cursor"))).
			As("cursor of another conversation").Refused(400, "invalid_cursor")
	})
}

func TestTranscriptLimit(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m := a.Send(b)
		path := "/conversations/" + kit.Text(m, "conversation_id") + "/messages"
		for range 52 {
			b.Reply(m)
		}
		page := a.Get(path).Want(200)
		if n := len(page.Items()); n != 50 || page.At("has_more") != true {
			t.Errorf("the default page has %d rows, want at least 50", n)
		}
		if n := len(a.Get(path + "?limit=200").Want(200).Items()); n != 53 {
			t.Errorf("%d rows, want 53", n)
		}
		a.Get(path+"?limit=0").Invalid("query.limit", "greater_than_equal")
		a.Get(path+"?limit=201").Invalid("query.limit", "less_than_equal")
		a.Get(path+"?limit=x").Invalid("query.limit", "int_parsing")
	})
}

func TestTranscriptOfBothEnds(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		m := a.Send(b)
		b.Reply(m)
		path := "/conversations/" + kit.Text(m, "conversation_id") + "/messages"
		directions := func(want []any, headers ...string) {
			t.Helper()
			r := o.Get(path, headers...).Want(200)
			var got []any
			for _, row := range r.Items() {
				got = append(got, row["direction"])
			}
			if !slices.Equal(got, want) {
				r.Errorf("directions %v, want %v", got, want)
			}
		}
		directions([]any{"sent", "received"})
		directions([]any{"sent", "received"}, "X-Svc-Agent", "a")
		directions([]any{"received", "sent"}, "X-Svc-Agent", "b")
	})
}

func TestSelfPayload(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		own := obj{"self_encrypted_payload": "bWluZQ"}
		m := a.TrySend(b, own).Want(201).Is("self_encrypted_payload", "bWluZQ").Body
		r := b.TryReply(m, own).Want(201).Is("self_encrypted_payload", "bWluZQ").Body
		for _, c := range []struct {
			g    *kit.Agent
			m    obj
			want any
		}{{a, m, "bWluZQ"}, {b, m, nil}, {a, r, nil}, {b, r, "bWluZQ"}} {
			c.g.Get("/messages/"+kit.Text(c.m, "id")).Want(200).Is("self_encrypted_payload", c.want)
		}
		for _, row := range append(b.Everything(), a.Everything()...) {
			if row["self_encrypted_payload"] != nil {
				t.Errorf("an inbox shows the sender's copy: %v", row)
			}
		}
		got := a.Stream(kit.NilUUID).Message()
		if got["id"] != r["id"] || got["self_encrypted_payload"] != nil {
			t.Errorf("a stream shows the sender's copy: %v", got)
		}
	})
}
