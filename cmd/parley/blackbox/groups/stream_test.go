package groups

import (
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// groupEvents reads the wanted group events and checks that no other follows shortly after.
// Concurrent events may come in any order.
func groupEvents(st *kit.Stream, what string, r *grouptest.Group, want ...string) {
	st.T.Helper()
	var got []string
	for range want {
		got = append(got, groupEvent(st, r, st.Next()))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		st.T.Errorf("%s: the stream has %q, want %q", what, got, want)
	}
	st.Quiet()
}

// groupEvent checks the form of an event and returns its kind and request.
func groupEvent(st *kit.Stream, r *grouptest.Group, e kit.Event) string {
	st.T.Helper()
	for name := range e.Data {
		if !slices.Contains([]string{"group_id", "request_id", "kind"}, name) {
			st.T.Errorf("a group event has a field %s: %s", name, e.Raw)
		}
	}
	if e.Name != "group" || e.ID != "" || e.Data["group_id"] != r.ID {
		st.T.Errorf("want an event of group %s without id, got %q id %q: %s", r.ID, e.Name, e.ID, e.Raw)
	}
	return strings.TrimSpace(kit.Text(e.Data, "kind") + " " + kit.Text(e.Data, "request_id"))
}

// TestGroupEvents: the events of a group appear on the streams of the agents concerned.
// Request events go to the applicant and the admins; membership events go to the admins
// and the member. Other members receive none.
func TestGroupEvents(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		a, b, c := o.Agent("a"), o.Agent("b"), o.Agent("c")
		x, y := s.Org(t).Agent("x"), s.Org(t).Agent("y")
		r := grouptest.NewWithPolicy(a, "majority", b, c)
		r.Role(a, b, "admin").Want(200)
		streams := map[*kit.Agent]*kit.Stream{}
		for _, g := range []*kit.Agent{a, b, c, x, y} {
			streams[g] = g.Stream("")
			streams[g].Opening()
		}
		tell := func(what string, heard map[*kit.Agent][]string) {
			t.Helper()
			for g, st := range streams {
				if len(heard[g]) > 0 {
					groupEvents(st, what+", to "+g.Name, r, heard[g]...)
				}
			}
		}
		id := kit.Text(r.Applied(x), "id")
		created := []string{"request.created " + id}
		tell("an application", map[*kit.Agent][]string{a: created, b: created, x: created})
		voted(r, a, id, "approve")
		voted(r, b, id, "approve")
		resolved := []string{"request.resolved " + id, "member.joined"}
		tell("an approval", map[*kit.Agent][]string{a: resolved, b: resolved, x: resolved})
		r.Remove(x, x).Want(204)
		tell("leaving", map[*kit.Agent][]string{a: {"member.left"}, b: {"member.left"}, x: {"member.left"}})
		id = kit.Text(r.Applied(x), "id")
		created = []string{"request.created " + id}
		tell("another application", map[*kit.Agent][]string{a: created, b: created, x: created})
		voted(r, a, id, "deny")
		voted(r, b, id, "deny")
		resolved = []string{"request.resolved " + id}
		tell("a denial", map[*kit.Agent][]string{a: resolved, b: resolved, x: resolved})
		r.Remove(a, c).Want(204)
		tell("a kick", map[*kit.Agent][]string{a: {"member.left"}, b: {"member.left"}, c: {"member.left"}})
		r.Seats(c)
		tell("joining", map[*kit.Agent][]string{a: {"member.joined"}, b: {"member.joined"}, c: {"member.joined"}})
		for g, st := range streams {
			if g != a && g != b {
				st.Quiet()
			}
		}
	})
}

// TestInvitedEvent: the invitee gets an event in addition to the message in its inbox.
func TestInvitedEvent(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, y := s.Org(t).Agent("a"), s.Org(t).Agent("y")
		r := grouptest.NewWithPolicy(a, "closed")
		st := y.Stream("")
		st.Opening()
		id := r.Invited(a, y, "invited")
		heard := map[string]int{}
		for deadline := time.Now().Add(30 * time.Second); heard["message"] == 0 || heard["invited "+id] == 0; {
			e := st.Next()
			if e.Name == "message" {
				heard[e.Name]++
				if e.Data["type"] != "svc.v1.group_invite" {
					t.Errorf("on the stream: %s", e.Raw)
				}
			} else {
				heard[groupEvent(st, r, e)]++
			}
			if time.Now().After(deadline) {
				t.Fatalf("the invitee received %v", heard)
			}
		}
		if heard["message"] != 1 || heard["invited "+id] != 1 {
			t.Errorf("the invitee received %v", heard)
		}
	})
}

// TestGroupEventsInTheirPlace: group events are replayed at their place among the
// messages. They have no id to resume from.
func TestGroupEventsInTheirPlace(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, x := kit.Pair(t, s)
		r := grouptest.NewWithPolicy(a, "open")
		one := a.Send(x)
		r.Joined(x)
		two := a.Send(x)
		r.Remove(x, x).Want(204)
		three := a.Send(x)
		sequence := func(st *kit.Stream, from int) {
			t.Helper()
			steps := []string{kit.Text(one, "id"), "member.joined", kit.Text(two, "id"), "member.left", kit.Text(three, "id")}
			for _, want := range steps[from:] {
				if e := st.Next(); e.Name == "message" && e.ID != want || e.Name != "message" && groupEvent(st, r, e) != want {
					t.Fatalf("got %s %s, want %s", e.Name, e.Raw, want)
				}
			}
			st.Quiet()
			if st.Last() != kit.Text(three, "id") {
				t.Errorf("the last id is %s", st.Last())
			}
		}
		sequence(x.Stream(kit.NilUUID), 0)
		sequence(x.Stream(kit.Text(one, "id")), 1)
		sequence(x.Stream(kit.Text(two, "id")), 3)
	})
}
