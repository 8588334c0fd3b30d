package blackbox

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// groupEvents reads the wanted group events and checks that no other follows shortly after.
// Concurrent events may come in any order.
func (st *Stream) groupEvents(what string, r *group, want ...string) {
	st.T.Helper()
	var got []string
	for range want {
		got = append(got, st.groupEvent(r, st.Next()))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		st.T.Errorf("%s: the stream has %q, want %q", what, got, want)
	}
	st.Quiet()
}

// groupEvent checks the form of an event and returns its kind and request.
func (st *Stream) groupEvent(r *group, e Event) string {
	st.T.Helper()
	for name := range e.Data {
		if !slices.Contains([]string{"group_id", "request_id", "kind"}, name) {
			st.T.Errorf("a group event has a field %s: %s", name, e.Raw)
		}
	}
	if e.Name != "group" || e.ID != "" || e.Data["group_id"] != r.id {
		st.T.Errorf("want an event of group %s without id, got %q id %q: %s", r.id, e.Name, e.ID, e.Raw)
	}
	return strings.TrimSpace(Text(e.Data, "kind") + " " + Text(e.Data, "request_id"))
}

// TestGroupEvents: the events of a group appear on the streams of the agents concerned.
// Request events go to the applicant and the admins; membership events go to the admins
// and the member. Other members receive none.
func TestGroupEvents(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		o := s.Org(t)
		a, b, c := o.Agent("a"), o.Agent("b"), o.Agent("c")
		x, y := s.Org(t).Agent("x"), s.Org(t).Agent("y")
		r := a.groupWithPolicy("majority", b, c)
		r.role(a, b, "admin").Want(200)
		streams := map[*Agent]*Stream{}
		for _, g := range []*Agent{a, b, c, x, y} {
			streams[g] = g.Stream("")
			streams[g].Opening()
		}
		tell := func(what string, heard map[*Agent][]string) {
			t.Helper()
			for g, st := range streams {
				if len(heard[g]) > 0 {
					st.groupEvents(what+", to "+g.Name, r, heard[g]...)
				}
			}
		}
		id := Text(r.applied(x), "id")
		created := []string{"request.created " + id}
		tell("an application", map[*Agent][]string{a: created, b: created, x: created})
		r.voted(a, id, "approve")
		r.voted(b, id, "approve")
		resolved := []string{"request.resolved " + id, "member.joined"}
		tell("an approval", map[*Agent][]string{a: resolved, b: resolved, x: resolved})
		r.remove(x, x).Want(204)
		tell("leaving", map[*Agent][]string{a: {"member.left"}, b: {"member.left"}, x: {"member.left"}})
		id = Text(r.applied(x), "id")
		created = []string{"request.created " + id}
		tell("another application", map[*Agent][]string{a: created, b: created, x: created})
		r.voted(a, id, "deny")
		r.voted(b, id, "deny")
		resolved = []string{"request.resolved " + id}
		tell("a denial", map[*Agent][]string{a: resolved, b: resolved, x: resolved})
		r.remove(a, c).Want(204)
		tell("a kick", map[*Agent][]string{a: {"member.left"}, b: {"member.left"}, c: {"member.left"}})
		r.seats(c)
		tell("joining", map[*Agent][]string{a: {"member.joined"}, b: {"member.joined"}, c: {"member.joined"}})
		for g, st := range streams {
			if g != a && g != b {
				st.Quiet()
			}
		}
	})
}

// TestInvitedEvent: the invitee gets an event in addition to the message in its inbox.
func TestInvitedEvent(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, y := s.Org(t).Agent("a"), s.Org(t).Agent("y")
		r := a.groupWithPolicy("closed")
		st := y.Stream("")
		st.Opening()
		id := r.invited(a, y, "invited")
		heard := map[string]int{}
		for deadline := time.Now().Add(30 * time.Second); heard["message"] == 0 || heard["invited "+id] == 0; {
			e := st.Next()
			if e.Name == "message" {
				heard[e.Name]++
				if e.Data["type"] != "svc.v1.group_invite" {
					t.Errorf("on the stream: %s", e.Raw)
				}
			} else {
				heard[st.groupEvent(r, e)]++
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
	Each(t, func(t *testing.T, s *Server) {
		a, x := Pair(t, s)
		r := a.groupWithPolicy("open")
		one := a.Send(x)
		r.joined(x)
		two := a.Send(x)
		r.remove(x, x).Want(204)
		three := a.Send(x)
		sequence := func(st *Stream, from int) {
			t.Helper()
			steps := []string{Text(one, "id"), "member.joined", Text(two, "id"), "member.left", Text(three, "id")}
			for _, want := range steps[from:] {
				if e := st.Next(); e.Name == "message" && e.ID != want || e.Name != "message" && st.groupEvent(r, e) != want {
					t.Fatalf("got %s %s, want %s", e.Name, e.Raw, want)
				}
			}
			st.Quiet()
			if st.Last() != Text(three, "id") {
				t.Errorf("the last id is %s", st.Last())
			}
		}
		sequence(x.Stream(NilUUID), 0)
		sequence(x.Stream(Text(one, "id")), 1)
		sequence(x.Stream(Text(two, "id")), 3)
	})
}
