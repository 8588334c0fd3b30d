package api

import (
	"slices"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

func TestParticipants(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m := a.Send(b)
		for _, g := range []*kit.Agent{a, b} {
			r := g.Get("/conversations/" + kit.Text(m, "conversation_id") + "/participants").Want(200)
			roles := map[string]any{}
			for _, p := range kit.Objects(r.List) {
				kit.Shaped(t, "participant", p, kit.PartyShape)
				roles[kit.Text(p, "agent_id")] = p["role"]
			}
			if len(r.List) != 2 || roles[a.ID] != "initiator" || roles[b.ID] != "responder" {
				r.Errorf("want the sender as initiator and the recipient as responder")
			}
		}
	})
}

func TestEverySendStartsAConversation(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m1, m2 := a.Send(b), a.Send(b)
		if m1["conversation_id"] == m2["conversation_id"] || m1["id"] == m2["id"] {
			t.Errorf("two sends share ids: %v %v", m1, m2)
		}
		var inOrder []string
		for range 10 {
			inOrder = append(inOrder, kit.Text(b.Reply(m1), "id"), kit.Text(a.Reply(m1), "id"))
		}
		if !slices.IsSorted(inOrder) {
			t.Errorf("the ids of one conversation do not sort in its order: %v", inOrder)
		}
	})
}

// legal is the table of status transitions in the specification.
var legal = map[string][]string{
	"submitted":      {"open", "rejected", "canceled", "failed"},
	"open":           {"paused", "input_required", "completed", "failed", "canceled"},
	"paused":         {"open", "completed", "failed", "canceled"},
	"input_required": {"open", "completed", "failed", "canceled"},
	"completed":      {}, "failed": {}, "canceled": {}, "rejected": {},
}

// into creates a conversation from a to b and moves it to a status.
func into(t testing.TB, status string, a, b *kit.Agent) (obj, string) {
	t.Helper()
	m := a.Send(b)
	path := "/conversations/" + kit.Text(m, "conversation_id") + "/status"
	switch status {
	case "submitted":
	case "open":
		b.Reply(m)
	case "rejected":
		b.Patch(path, obj{"status": status}).Want(200)
	default:
		b.Reply(m)
		b.Patch(path, obj{"status": status}).Want(200)
	}
	return m, path
}

func TestStatusTable(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		for from, allowed := range legal {
			for to := range legal {
				m, path := into(t, from, a, b)
				r := b.Patch(path, obj{"status": to}).As("%s to %s", from, to)
				if slices.Contains(allowed, to) {
					r.Want(200).Shaped(kit.ConversationShape+" updated_at:time").Is("id", m["conversation_id"], "status", to)
					a.Conversation(m).Is("status", to)
					continue
				}
				r.Refused(409, "invalid_transition").Is("current_status", from)
				got, _ := r.At("allowed").([]any)
				slices.SortFunc(got, func(x, y any) int { return slices.Compare([]byte(x.(string)), []byte(y.(string))) })
				if want := slices.Sorted(slices.Values(allowed)); len(got) != len(want) || len(want) > 0 && !kit.Same(got, want) {
					r.Errorf("allowed should be %v", want)
				}
				a.Conversation(m).Is("status", from)
			}
		}
	})
}

func TestStatusRoles(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m, path := into(t, "submitted", a, b)
		a.Patch(path, obj{"status": "rejected"}).As("the initiator declines").Refused(403, "role_not_allowed")
		a.Conversation(m).Is("status", "submitted")
		b.Patch(path, obj{"status": "rejected"}).Want(200)
		for _, to := range []string{"canceled", "failed"} {
			_, path := into(t, "submitted", a, b)
			a.Patch(path, obj{"status": to}).As("the initiator").Want(200)
			_, path = into(t, "submitted", a, b)
			b.Patch(path, obj{"status": to}).As("the responder").Want(200)
		}
		_, path = into(t, "open", a, b)
		for i, to := range []string{"paused", "open", "input_required", "open", "completed"} {
			[]*kit.Agent{a, b}[i%2].Patch(path, obj{"status": to}).As("turn %d", i).Want(200)
		}
	})
}

func TestStatusByAnOwnerOfBothEnds(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		a, b, other := o.Agent("a"), o.Agent("b"), o.Agent("other")
		_, path := into(t, "submitted", a, b)
		o.Patch(path, obj{"status": "rejected"}, "X-Svc-Agent", a.ID).As("as the initiator").Refused(403, "role_not_allowed")
		o.Patch(path, obj{"status": "paused"}, "X-Svc-Agent", other.ID).As("as an outsider").Want(403)
		o.Patch(path, obj{"status": "rejected"}).As("one of its agents may").Want(200)
		_, path = into(t, "submitted", a, b)
		o.Patch(path, obj{"status": "rejected"}, "X-Svc-Agent", b.ID).As("as the responder").Want(200)
	})
}

func TestStatusFields(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m, path := into(t, "open", a, b)
		a.Patch(path, obj{}).Invalid("body.status", "missing")
		a.Patch(path, nil).As("no body").Invalid("body", "")
		a.Patch(path, obj{"status": nil}).Invalid("body.status", "")
		for _, word := range []any{"", "OPEN", "done", "reject", 5} {
			kind := "enum"
			if word == 5 {
				kind = ""
			}
			a.Patch(path, obj{"status": word}).As("%v", word).Invalid("body.status", kind)
		}
		a.Patch(path, obj{"status": "paused", "reason": longText(501)}).Invalid("body.reason", "string_too_long")
		a.Conversation(m).Is("status", "open")
		a.Patch(path, obj{"status": "paused", "reason": longText(500), "unheard_of": 1}).Want(200)
		a.Patch(path, obj{"status": "open", "reason": nil}).Want(200)
	})
}

// longText returns n characters of two bytes each: limits on text count characters.
func longText(n int) string {
	out := make([]rune, n)
	for i := range out {
		out[i] = 'ü'
	}
	return string(out)
}

func TestStatusRace(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m, path := into(t, "open", a, b)
		ends := []string{"completed", "failed", "canceled"}
		winner := ""
		for i, r := range kit.Concurrently(12, func(i int) *kit.Answer {
			return []*kit.Agent{a, b}[i%2].Patch(path, obj{"status": ends[i%3]})
		}) {
			if r.Status == 200 && winner == "" {
				winner = ends[i%3]
				continue
			}
			r.Refused(409, "invalid_transition").Is("allowed", []any{})
		}
		a.Conversation(m).Is("status", winner)
	})
}

func TestAgentConversations(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		c := s.Org(t).Agent("carol")
		var newestFirst, withCarol []string
		for i := range 7 {
			to := b
			if i%3 == 0 {
				to = c
			}
			id := kit.Text(a.Send(to), "conversation_id")
			newestFirst = append([]string{id}, newestFirst...)
			if to == c {
				withCarol = append([]string{id}, withCarol...)
			}
		}
		page := a.Get(a.Path("/conversations")).Want(200)
		for _, row := range page.Items() {
			kit.Shaped(t, "conversation", row, kit.ConversationShape)
		}
		if got := kit.IDs(page.Items()); !slices.Equal(got, newestFirst) {
			t.Errorf("newest first: got %v, want %v", got, newestFirst)
		}
		if got := kit.IDs(a.Pages(a.Path("/conversations"), "?limit=2")); !slices.Equal(got, newestFirst) {
			t.Errorf("page by page: got %v, want %v", got, newestFirst)
		}
		if got := kit.IDs(c.Pages(c.Path("/conversations"), "?limit=2")); !slices.Equal(got, withCarol) {
			t.Errorf("the recipient's: got %v, want %v", got, withCarol)
		}
		a.Get(a.Path("/conversations?limit=0")).Invalid("query.limit", "greater_than_equal")
		a.Get(a.Path("/conversations?cursor=nonsense")).Refused(400, "invalid_cursor")
	})
}
