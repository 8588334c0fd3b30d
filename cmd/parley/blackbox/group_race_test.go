package blackbox

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// rivals are two groups that cannot both have the same agent: one is isolated.
type rivals [2]*group

func newRivals(o *org, plain *agent) rivals {
	open := obj{"enrollment_policy": "open", "visibility": "private"}
	hermit := o.agent("hermit-" + randomHex(4))
	return rivals{plain.group(open), hermit.group(merged(open, obj{"isolated": true}))}
}

// admissions joins both at once and returns those that admitted the agent.
func (v rivals) admissions(g *agent) (in []*group) {
	g.t.Helper()
	for i, a := range concurrently(2, func(i int) *answer { return v[i].join(g) }) {
		if a.status == 200 && a.at("status") == "joined" {
			in = append(in, v[i])
		} else {
			a.refused(409, "isolation_conflict")
		}
	}
	return in
}

// admitted joins both at once and returns the one that admitted the agent.
func (v rivals) admitted(g *agent) *group {
	g.t.Helper()
	in := v.admissions(g)
	if len(in) != 1 {
		g.t.Errorf("%s was admitted by %d of two groups at once", g.name, len(in))
		return nil
	}
	return in[0]
}

// TestRivalsControl: two groups that do not exclude each other both admit an agent. The
// race test would notice.
func TestRivalsControl(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		g, x := o.agent("g"), o.agent("x")
		open := obj{"enrollment_policy": "open"}
		v := rivals{g.group(open), g.group(open)}
		if in := v.admissions(x); len(in) != 2 || !v[0].has(x) || !v[1].has(x) {
			t.Errorf("%d of two groups that are not isolated admitted an agent", len(in))
		}
	})
}

// has reports whether the group lists an agent as a member.
func (r *group) has(g *agent) bool {
	a := r.by.request("GET", r.path(""), nil)
	inside, _ := a.at("member_agent_ids").([]any)
	return slices.Contains(inside, any(g.id))
}

// TestRaceForIsolation makes two groups admit one agent at the same instant, 1,000 times:
// exactly one succeeds. After the agent leaves, the next race is as open.
func TestRaceForIsolation(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		const racers, rounds, places = 50, 20, 10
		s := start(t, "--journals", journals)
		o := s.org(t)
		plain := o.agent("plain")
		var pairs []rivals
		for range places {
			pairs = append(pairs, newRivals(o, plain))
		}
		agents := s.org(t).newAgents(racers, "racer-")
		var races, isolated atomic.Int64
		began := time.Now()
		concurrently(racers, func(k int) bool {
			for round := range rounds {
				v, g := pairs[(k+round)%places], agents[k]
				in := v.admitted(g)
				if in == nil {
					return false
				}
				if in == v[1] {
					isolated.Add(1)
				}
				if round%5 == 0 && (v[0].has(g) == v[1].has(g) || !in.has(g)) {
					t.Errorf("%s was admitted by %s; it is in %s %v, in %s %v", g.name, in.name, v[0].name, v[0].has(g), v[1].name, v[1].has(g))
				}
				if a := in.remove(g, g); a.status != 204 {
					a.errorf("want to leave")
					return false
				}
				races.Add(1)
			}
			return true
		})
		t.Logf("%d races in %v; the isolated group won %d", races.Load(), time.Since(began).Round(time.Millisecond), isolated.Load())
		if races.Load() != racers*rounds {
			t.Errorf("%d races, want %d", races.Load(), racers*rounds)
		}
		for _, v := range pairs {
			v[0].checkMembers("after the races", plain)
			v[1].checkMembers("after the races", v[1].by)
		}
	})
}

// TestRaceOfApprovalAndJoin: approval by vote in one group races with a join in the
// other.
func TestRaceOfApprovalAndJoin(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		const racers = 20
		o := s.org(t)
		plain := o.agent("plain")
		for voting := range 2 {
			v := newRivals(o, plain)
			r, other := v[voting], v[1-voting]
			r.patch(obj{"enrollment_policy": "majority"}).want(200)
			agents := s.org(t).newAgents(racers, "racer-")
			applications := make([]string, racers)
			for k, g := range agents {
				applications[k] = text(r.applied(g), "id")
			}
			concurrently(racers, func(k int) bool {
				g := agents[k]
				answers := concurrently(2, func(i int) *answer {
					if i == 0 {
						return r.vote(r.by, applications[k], "approve")
					}
					return other.join(g)
				})
				joined := answers[1].status == 200
				if !joined {
					answers[1].refused(409, "isolation_conflict")
				}
				if status := answers[0].at("status"); status != map[bool]any{true: "canceled", false: "approved"}[joined] {
					answers[0].errorf("%s joined the other group: %v", g.name, joined)
				}
				if r.has(g) == joined || other.has(g) != joined {
					t.Errorf("%s joined the other group %v; its membership there is %v, in the group that voted %v", g.name, joined, other.has(g), r.has(g))
				}
				return joined
			})
		}
	})
}

// TestVotesAtOnce: the electors of several requests vote at the same instant. The outcome
// of each request follows from its votes in any order.
func TestVotesAtOnce(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		electors := o.newAgents(9, "e")
		for _, row := range []struct {
			policy   string
			approve  int // of nine
			requests int
			want     string
		}{
			{"majority", 5, 6, "approved"}, {"majority", 4, 6, "denied"}, {"unanimity", 9, 4, "approved"}, {"unanimity", 8, 4, "denied"},
		} {
			r := electors[0].groupWithPolicy(row.policy, electors[1:]...)
			applicants := s.org(t).newAgents(row.requests, "x")
			requests := make([]string, row.requests)
			for i, x := range applicants {
				requests[i] = text(r.applied(x), "id")
			}
			concurrently(9*row.requests, func(i int) bool {
				word := map[bool]string{true: "approve", false: "deny"}[(i/row.requests+i)%9 < row.approve]
				a := r.vote(electors[i/row.requests], requests[i%row.requests], word)
				if a.status != 200 {
					a.refused(409, "request_closed") // earlier votes have decided it
				}
				return a.status == 200
			})
			for _, id := range requests {
				r.checkRequest(row.policy, electors[0], id, "status", row.want)
			}
			in := electors
			if row.want == "approved" {
				in = slices.Concat(electors, applicants)
			}
			r.checkMembers(row.policy, in...)
		}
	})
}

// TestOneOfSeveralAtOnce: of several requests that exclude each other, exactly one
// succeeds.
func TestOneOfSeveralAtOnce(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o, guests := s.org(t), s.org(t)
		a, b, c := o.agent("a"), o.agent("b"), o.agent("c")
		one := func(what, code string, n int, ask func(i int) *answer) {
			t.Helper()
			succeeded := 0
			for _, a := range concurrently(n, ask) {
				if a.status < 300 {
					succeeded++
				} else {
					a.as("%s", what).matches(code)
				}
			}
			if succeeded != 1 {
				t.Errorf("%s: %d succeeded", what, succeeded)
			}
		}
		open := a.group(obj{"enrollment_policy": "open"})
		x := guests.agent("x")
		for _, a := range concurrently(8, func(int) *answer { return open.join(x) }) {
			if a.status != 200 || a.at("status") != "joined" {
				a.refused(409, "already_member")
			}
		}
		open.checkMembers("one agent joins eight times", a, x)

		closed := a.groupWithPolicy("closed", b)
		closed.role(a, b, "admin").want(200)
		y := guests.agent("y")
		one("two admins invite one agent", "409:already_invited", 8, func(i int) *answer { return closed.invite([]*agent{a, b}[i%2], y) })
		if n := len(y.everything()); n != 1 {
			t.Errorf("%d messages of one invitation", n)
		}
		one("two admins leave", "422:last_admin", 2, func(i int) *answer { g := []*agent{a, b}[i]; return closed.remove(g, g) })

		voting := a.groupWithPolicy("majority", b, c)
		z := guests.agent("z")
		var filed []string
		for _, a := range concurrently(8, func(int) *answer { return voting.join(z) }) {
			filed = append(filed, a.want(200).is("status", "pending").str("request.id"))
		}
		slices.Sort(filed)
		if len(slices.Compact(filed)) != 1 || len(voting.requests(a, "all")) != 1 {
			t.Errorf("one agent applied eight times at once: %v", filed)
		}
	})
}

// TestSeatsSurviveKills kills the server while agents join rival groups: no
// agent is ever in both, every confirmed join holds, and all groups remain usable.
func TestSeatsSurviveKills(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		const racers = 30
		s := start(t, "--journals", journals)
		o := s.org(t)
		plain := o.agent("plain")
		pairs := []rivals{newRivals(o, plain), newRivals(o, plain), newRivals(o, plain)}
		agents := s.org(t).newAgents(racers, "racer-")
		for kill := range 3 {
			told := make([]*group, racers)
			var answered atomic.Int64
			done := make(chan struct{})
			go func() {
				defer close(done)
				concurrently(racers, func(k int) bool {
					v := pairs[(k+kill)%len(pairs)]
					for i, a := range concurrently(2, func(i int) *answer { return v[i].join(agents[k]) }) {
						if a.err == nil && a.status == 200 {
							told[k] = v[i]
							answered.Add(1)
						}
					}
					return true
				})
			}()
			for began := time.Now(); answered.Load() < int64(1+5*kill) && time.Since(began) < 2*time.Second; {
				time.Sleep(time.Millisecond)
			}
			s.kill()
			<-done
			s.restart(t)
			in := 0
			for k, g := range agents {
				v := pairs[(k+kill)%len(pairs)]
				if told[k] != nil && !told[k].has(g) {
					t.Errorf("kill %d: %s was acknowledged as a member of %s, and is not", kill, g.name, told[k].name)
				}
				if told[k] == nil {
					told[k] = v.settled(g)
				} else {
					in++
				}
				if v[0].has(g) == v[1].has(g) {
					t.Errorf("kill %d: %s is in both or neither: %v", kill, g.name, v[0].has(g))
				}
			}
			t.Logf("kill %d: %d of %d joins had been acknowledged", kill, in, racers)
			for k, g := range agents {
				if told[k] != nil {
					told[k].remove(g, g).want(204)
				}
			}
		}
		for _, v := range pairs {
			v[0].checkMembers("after the kills", plain)
			v[1].checkMembers("after the kills", v[1].by)
		}
		verifyDirectory(t, s)
	})
}

// settled returns the group that an agent is in after an unanswered join: it repeats the
// join, first in one group, then in the other.
func (v rivals) settled(g *agent) *group {
	g.t.Helper()
	for _, r := range v {
		switch a := r.join(g); {
		case a.status == 200, a.at("code") == "already_member":
			return r
		default:
			a.refused(409, "isolation_conflict")
		}
	}
	g.t.Errorf("%s was admitted by neither group", g.name)
	return nil
}
