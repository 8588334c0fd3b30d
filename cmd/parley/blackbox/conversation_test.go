package blackbox

import (
	"slices"
	"testing"
)

func TestParticipants(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m := a.send(b)
		for _, g := range []*agent{a, b} {
			r := g.get("/conversations/" + text(m, "conversation_id") + "/participants").want(200)
			roles := map[string]any{}
			for _, p := range objects(r.list) {
				shaped(t, "participant", p, partyShape)
				roles[text(p, "agent_id")] = p["role"]
			}
			if len(r.list) != 2 || roles[a.id] != "initiator" || roles[b.id] != "responder" {
				r.errorf("want the sender as initiator and the recipient as responder")
			}
		}
	})
}

func TestEverySendStartsAConversation(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m1, m2 := a.send(b), a.send(b)
		if m1["conversation_id"] == m2["conversation_id"] || m1["id"] == m2["id"] {
			t.Errorf("two sends share ids: %v %v", m1, m2)
		}
		var inOrder []string
		for range 10 {
			inOrder = append(inOrder, text(b.reply(m1), "id"), text(a.reply(m1), "id"))
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
func into(t testing.TB, status string, a, b *agent) (obj, string) {
	t.Helper()
	m := a.send(b)
	path := "/conversations/" + text(m, "conversation_id") + "/status"
	switch status {
	case "submitted":
	case "open":
		b.reply(m)
	case "rejected":
		b.patch(path, obj{"status": status}).want(200)
	default:
		b.reply(m)
		b.patch(path, obj{"status": status}).want(200)
	}
	return m, path
}

func TestStatusTable(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		for from, allowed := range legal {
			for to := range legal {
				m, path := into(t, from, a, b)
				r := b.patch(path, obj{"status": to}).as("%s to %s", from, to)
				if slices.Contains(allowed, to) {
					r.want(200).shaped(talkShape+" updated_at:time").is("id", m["conversation_id"], "status", to)
					a.talk(m).is("status", to)
					continue
				}
				r.refused(409, "invalid_transition").is("current_status", from)
				got, _ := r.at("allowed").([]any)
				slices.SortFunc(got, func(x, y any) int { return slices.Compare([]byte(x.(string)), []byte(y.(string))) })
				if want := slices.Sorted(slices.Values(allowed)); len(got) != len(want) || len(want) > 0 && !same(got, want) {
					r.errorf("allowed should be %v", want)
				}
				a.talk(m).is("status", from)
			}
		}
	})
}

func TestStatusRoles(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m, path := into(t, "submitted", a, b)
		a.patch(path, obj{"status": "rejected"}).as("the initiator declines").refused(403, "role_not_allowed")
		a.talk(m).is("status", "submitted")
		b.patch(path, obj{"status": "rejected"}).want(200)
		for _, to := range []string{"canceled", "failed"} {
			_, path := into(t, "submitted", a, b)
			a.patch(path, obj{"status": to}).as("the initiator").want(200)
			_, path = into(t, "submitted", a, b)
			b.patch(path, obj{"status": to}).as("the responder").want(200)
		}
		_, path = into(t, "open", a, b)
		for i, to := range []string{"paused", "open", "input_required", "open", "completed"} {
			[]*agent{a, b}[i%2].patch(path, obj{"status": to}).as("turn %d", i).want(200)
		}
	})
}

func TestStatusByAnOwnerOfBothEnds(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		a, b, other := o.agent("a"), o.agent("b"), o.agent("other")
		_, path := into(t, "submitted", a, b)
		o.patch(path, obj{"status": "rejected"}, "X-Svc-Agent", a.id).as("as the initiator").refused(403, "role_not_allowed")
		o.patch(path, obj{"status": "paused"}, "X-Svc-Agent", other.id).as("as an outsider").want(403)
		o.patch(path, obj{"status": "rejected"}).as("one of its agents may").want(200)
		_, path = into(t, "submitted", a, b)
		o.patch(path, obj{"status": "rejected"}, "X-Svc-Agent", b.id).as("as the responder").want(200)
	})
}

func TestStatusFields(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m, path := into(t, "open", a, b)
		a.patch(path, obj{}).invalid("body.status", "missing")
		a.patch(path, nil).as("no body").invalid("body", "")
		a.patch(path, obj{"status": nil}).invalid("body.status", "")
		for _, word := range []any{"", "OPEN", "done", "reject", 5} {
			kind := "enum"
			if word == 5 {
				kind = ""
			}
			a.patch(path, obj{"status": word}).as("%v", word).invalid("body.status", kind)
		}
		a.patch(path, obj{"status": "paused", "reason": longText(501)}).invalid("body.reason", "string_too_long")
		a.talk(m).is("status", "open")
		a.patch(path, obj{"status": "paused", "reason": longText(500), "unheard_of": 1}).want(200)
		a.patch(path, obj{"status": "open", "reason": nil}).want(200)
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
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m, path := into(t, "open", a, b)
		ends := []string{"completed", "failed", "canceled"}
		winner := ""
		for i, r := range concurrently(12, func(i int) *answer {
			return []*agent{a, b}[i%2].patch(path, obj{"status": ends[i%3]})
		}) {
			if r.status == 200 && winner == "" {
				winner = ends[i%3]
				continue
			}
			r.refused(409, "invalid_transition").is("allowed", []any{})
		}
		a.talk(m).is("status", winner)
	})
}

func TestAgentConversations(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		c := s.org(t).agent("carol")
		var newestFirst, withCarol []string
		for i := range 7 {
			to := b
			if i%3 == 0 {
				to = c
			}
			id := text(a.send(to), "conversation_id")
			newestFirst = append([]string{id}, newestFirst...)
			if to == c {
				withCarol = append([]string{id}, withCarol...)
			}
		}
		page := a.get(a.path("/conversations")).want(200)
		for _, row := range page.items() {
			shaped(t, "conversation", row, talkShape)
		}
		if got := ids(page.items()); !slices.Equal(got, newestFirst) {
			t.Errorf("newest first: got %v, want %v", got, newestFirst)
		}
		if got := ids(a.pages(a.path("/conversations"), "?limit=2")); !slices.Equal(got, newestFirst) {
			t.Errorf("page by page: got %v, want %v", got, newestFirst)
		}
		if got := ids(c.pages(c.path("/conversations"), "?limit=2")); !slices.Equal(got, withCarol) {
			t.Errorf("the recipient's: got %v, want %v", got, withCarol)
		}
		a.get(a.path("/conversations?limit=0")).invalid("query.limit", "greater_than_equal")
		a.get(a.path("/conversations?cursor=nonsense")).refused(400, "invalid_cursor")
	})
}
