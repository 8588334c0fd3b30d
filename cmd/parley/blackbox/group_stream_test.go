package blackbox

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// groupEvents reads the wanted group events and checks that no other follows shortly after.
// Concurrent events may come in any order.
func (st *stream) groupEvents(what string, r *group, want ...string) {
	st.t.Helper()
	var got []string
	for range want {
		got = append(got, st.groupEvent(r, st.next()))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		st.t.Errorf("%s: the stream has %q, want %q", what, got, want)
	}
	st.quiet()
}

// groupEvent checks the form of an event and returns its kind and request.
func (st *stream) groupEvent(r *group, e event) string {
	st.t.Helper()
	for name := range e.data {
		if !slices.Contains([]string{"group_id", "request_id", "kind"}, name) {
			st.t.Errorf("a group event has a field %s: %s", name, e.raw)
		}
	}
	if e.name != "group" || e.id != "" || e.data["group_id"] != r.id {
		st.t.Errorf("want an event of group %s without id, got %q id %q: %s", r.id, e.name, e.id, e.raw)
	}
	return strings.TrimSpace(text(e.data, "kind") + " " + text(e.data, "request_id"))
}

// TestGroupEvents: the events of a group appear on the streams of the agents concerned.
// Request events go to the applicant and the admins; membership events go to the admins
// and the member. Other members receive none.
func TestGroupEvents(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		a, b, c := o.agent("a"), o.agent("b"), o.agent("c")
		x, y := s.org(t).agent("x"), s.org(t).agent("y")
		r := a.groupWithPolicy("majority", b, c)
		r.role(a, b, "admin").want(200)
		streams := map[*agent]*stream{}
		for _, g := range []*agent{a, b, c, x, y} {
			streams[g] = g.stream("")
			streams[g].opening()
		}
		tell := func(what string, heard map[*agent][]string) {
			t.Helper()
			for g, st := range streams {
				if len(heard[g]) > 0 {
					st.groupEvents(what+", to "+g.name, r, heard[g]...)
				}
			}
		}
		id := text(r.applied(x), "id")
		created := []string{"request.created " + id}
		tell("an application", map[*agent][]string{a: created, b: created, x: created})
		r.voted(a, id, "approve")
		r.voted(b, id, "approve")
		resolved := []string{"request.resolved " + id, "member.joined"}
		tell("an approval", map[*agent][]string{a: resolved, b: resolved, x: resolved})
		r.remove(x, x).want(204)
		tell("leaving", map[*agent][]string{a: {"member.left"}, b: {"member.left"}, x: {"member.left"}})
		id = text(r.applied(x), "id")
		created = []string{"request.created " + id}
		tell("another application", map[*agent][]string{a: created, b: created, x: created})
		r.voted(a, id, "deny")
		r.voted(b, id, "deny")
		resolved = []string{"request.resolved " + id}
		tell("a denial", map[*agent][]string{a: resolved, b: resolved, x: resolved})
		r.remove(a, c).want(204)
		tell("a kick", map[*agent][]string{a: {"member.left"}, b: {"member.left"}, c: {"member.left"}})
		r.seats(c)
		tell("joining", map[*agent][]string{a: {"member.joined"}, b: {"member.joined"}, c: {"member.joined"}})
		for g, st := range streams {
			if g != a && g != b {
				st.quiet()
			}
		}
	})
}

// TestInvitedEvent: the invitee gets an event in addition to the message in its inbox.
func TestInvitedEvent(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, y := s.org(t).agent("a"), s.org(t).agent("y")
		r := a.groupWithPolicy("closed")
		st := y.stream("")
		st.opening()
		id := r.invited(a, y, "invited")
		heard := map[string]int{}
		for deadline := time.Now().Add(30 * time.Second); heard["message"] == 0 || heard["invited "+id] == 0; {
			e := st.next()
			if e.name == "message" {
				heard[e.name]++
				if e.data["type"] != "svc.v1.group_invite" {
					t.Errorf("on the stream: %s", e.raw)
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
	each(t, func(t *testing.T, s *server) {
		a, x := pair(t, s)
		r := a.groupWithPolicy("open")
		one := a.send(x)
		r.joined(x)
		two := a.send(x)
		r.remove(x, x).want(204)
		three := a.send(x)
		sequence := func(st *stream, from int) {
			t.Helper()
			steps := []string{text(one, "id"), "member.joined", text(two, "id"), "member.left", text(three, "id")}
			for _, want := range steps[from:] {
				if e := st.next(); e.name == "message" && e.id != want || e.name != "message" && st.groupEvent(r, e) != want {
					t.Fatalf("got %s %s, want %s", e.name, e.raw, want)
				}
			}
			st.quiet()
			if st.last() != text(three, "id") {
				t.Errorf("the last id is %s", st.last())
			}
		}
		sequence(x.stream(nilUUID), 0)
		sequence(x.stream(text(one, "id")), 1)
		sequence(x.stream(text(two, "id")), 3)
	})
}
