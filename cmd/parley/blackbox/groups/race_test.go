package groups

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// rivals are two groups that cannot both have the same agent: one is isolated.
type rivals [2]*grouptest.Group

func newRivals(o *kit.Org, plain *kit.Agent) rivals {
	open := obj{"enrollment_policy": "open", "visibility": "private"}
	hermit := o.Agent("hermit-" + kit.RandomHex(4))
	return rivals{grouptest.New(plain, open), grouptest.New(hermit, kit.Merged(open, obj{"isolated": true}))}
}

// admissions joins both at once and returns those that admitted the agent.
func (v rivals) admissions(g *kit.Agent) (in []*grouptest.Group) {
	g.T.Helper()
	for i, a := range kit.Concurrently(2, func(i int) *kit.Answer { return v[i].Join(g) }) {
		if a.Status == 200 && a.At("status") == "joined" {
			in = append(in, v[i])
		} else {
			a.Refused(409, "isolation_conflict")
		}
	}
	return in
}

// admitted joins both at once and returns the one that admitted the agent.
func (v rivals) admitted(g *kit.Agent) *grouptest.Group {
	g.T.Helper()
	in := v.admissions(g)
	if len(in) != 1 {
		g.T.Errorf("%s was admitted by %d of two groups at once", g.Name, len(in))
		return nil
	}
	return in[0]
}

// TestRivalsControl: two groups that do not exclude each other both admit an agent. The
// race test would notice.
func TestRivalsControl(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		g, x := o.Agent("g"), o.Agent("x")
		open := obj{"enrollment_policy": "open"}
		v := rivals{grouptest.New(g, open), grouptest.New(g, open)}
		if in := v.admissions(x); len(in) != 2 || !hasMember(v[0], x) || !hasMember(v[1], x) {
			t.Errorf("%d of two groups that are not isolated admitted an agent", len(in))
		}
	})
}

// hasMember reports whether the group lists an agent as a member.
func hasMember(r *grouptest.Group, g *kit.Agent) bool {
	a := r.By.Request("GET", r.Path(""), nil)
	inside, _ := a.At("member_agent_ids").([]any)
	return slices.Contains(inside, any(g.ID))
}

// TestRaceForIsolation makes two groups admit one agent at the same instant, 1,000 times:
// exactly one succeeds. After the agent leaves, the next race is as open.
func TestRaceForIsolation(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		const racers, rounds, places = 50, 20, 10
		s := kit.Start(t, "--journals", journals)
		o := s.Org(t)
		plain := o.Agent("plain")
		var pairs []rivals
		for range places {
			pairs = append(pairs, newRivals(o, plain))
		}
		agents := s.Org(t).NewAgents(racers, "racer-")
		var races, isolated atomic.Int64
		began := time.Now()
		kit.Concurrently(racers, func(k int) bool {
			for round := range rounds {
				v, g := pairs[(k+round)%places], agents[k]
				in := v.admitted(g)
				if in == nil {
					return false
				}
				if in == v[1] {
					isolated.Add(1)
				}
				if round%5 == 0 && (hasMember(v[0], g) == hasMember(v[1], g) || !hasMember(in, g)) {
					t.Errorf("%s was admitted by %s; it is in %s %v, in %s %v", g.Name, in.Name, v[0].Name, hasMember(v[0], g), v[1].Name, hasMember(v[1], g))
				}
				if a := in.Remove(g, g); a.Status != 204 {
					a.Errorf("want to leave")
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
			v[0].CheckMembers("after the races", plain)
			v[1].CheckMembers("after the races", v[1].By)
		}
	})
}

// TestRaceOfApprovalAndJoin: approval by vote in one group races with a join in the
// other.
func TestRaceOfApprovalAndJoin(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		const racers = 20
		o := s.Org(t)
		plain := o.Agent("plain")
		for voting := range 2 {
			v := newRivals(o, plain)
			r, other := v[voting], v[1-voting]
			r.Patch(obj{"enrollment_policy": "majority"}).Want(200)
			agents := s.Org(t).NewAgents(racers, "racer-")
			applications := make([]string, racers)
			for k, g := range agents {
				applications[k] = kit.Text(r.Applied(g), "id")
			}
			kit.Concurrently(racers, func(k int) bool {
				g := agents[k]
				answers := kit.Concurrently(2, func(i int) *kit.Answer {
					if i == 0 {
						return r.Vote(r.By, applications[k], "approve")
					}
					return other.Join(g)
				})
				joined := answers[1].Status == 200
				if !joined {
					answers[1].Refused(409, "isolation_conflict")
				}
				if status := answers[0].At("status"); status != map[bool]any{true: "canceled", false: "approved"}[joined] {
					answers[0].Errorf("%s joined the other group: %v", g.Name, joined)
				}
				if hasMember(r, g) == joined || hasMember(other, g) != joined {
					t.Errorf("%s joined the other group %v; its membership there is %v, in the group that voted %v", g.Name, joined, hasMember(other, g), hasMember(r, g))
				}
				return joined
			})
		}
	})
}

// TestVotesAtOnce: the electors of several requests vote at the same instant. The outcome
// of each request follows from its votes in any order.
func TestVotesAtOnce(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		electors := o.NewAgents(9, "e")
		for _, row := range []struct {
			policy   string
			approve  int // of nine
			requests int
			want     string
		}{
			{"majority", 5, 6, "approved"}, {"majority", 4, 6, "denied"}, {"unanimity", 9, 4, "approved"}, {"unanimity", 8, 4, "denied"},
		} {
			r := grouptest.NewWithPolicy(electors[0], row.policy, electors[1:]...)
			applicants := s.Org(t).NewAgents(row.requests, "x")
			requests := make([]string, row.requests)
			for i, x := range applicants {
				requests[i] = kit.Text(r.Applied(x), "id")
			}
			kit.Concurrently(9*row.requests, func(i int) bool {
				word := map[bool]string{true: "approve", false: "deny"}[(i/row.requests+i)%9 < row.approve]
				a := r.Vote(electors[i/row.requests], requests[i%row.requests], word)
				if a.Status != 200 {
					a.Refused(409, "request_closed") // earlier votes have decided it
				}
				return a.Status == 200
			})
			for _, id := range requests {
				checkRequest(r, row.policy, electors[0], id, "status", row.want)
			}
			in := electors
			if row.want == "approved" {
				in = slices.Concat(electors, applicants)
			}
			r.CheckMembers(row.policy, in...)
		}
	})
}

// TestOneOfSeveralAtOnce: of several requests that exclude each other, exactly one
// succeeds.
func TestOneOfSeveralAtOnce(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, guests := s.Org(t), s.Org(t)
		a, b, c := o.Agent("a"), o.Agent("b"), o.Agent("c")
		one := func(what, code string, n int, ask func(i int) *kit.Answer) {
			t.Helper()
			succeeded := 0
			for _, a := range kit.Concurrently(n, ask) {
				if a.Status < 300 {
					succeeded++
				} else {
					matches(a.As("%s", what), code)
				}
			}
			if succeeded != 1 {
				t.Errorf("%s: %d succeeded", what, succeeded)
			}
		}
		open := grouptest.New(a, obj{"enrollment_policy": "open"})
		x := guests.Agent("x")
		for _, a := range kit.Concurrently(8, func(int) *kit.Answer { return open.Join(x) }) {
			if a.Status != 200 || a.At("status") != "joined" {
				a.Refused(409, "already_member")
			}
		}
		open.CheckMembers("one agent joins eight times", a, x)

		closed := grouptest.NewWithPolicy(a, "closed", b)
		closed.Role(a, b, "admin").Want(200)
		y := guests.Agent("y")
		one("two admins invite one agent", "409:already_invited", 8, func(i int) *kit.Answer { return closed.Invite([]*kit.Agent{a, b}[i%2], y) })
		if n := len(y.Everything()); n != 1 {
			t.Errorf("%d messages of one invitation", n)
		}
		one("two admins leave", "422:last_admin", 2, func(i int) *kit.Answer { g := []*kit.Agent{a, b}[i]; return closed.Remove(g, g) })

		voting := grouptest.NewWithPolicy(a, "majority", b, c)
		z := guests.Agent("z")
		var filed []string
		for _, a := range kit.Concurrently(8, func(int) *kit.Answer { return voting.Join(z) }) {
			filed = append(filed, a.Want(200).Is("status", "pending").Str("request.id"))
		}
		slices.Sort(filed)
		if len(slices.Compact(filed)) != 1 || len(voting.Requests(a, "all")) != 1 {
			t.Errorf("one agent applied eight times at once: %v", filed)
		}
	})
}

// TestSeatsSurviveKills kills the server while agents join rival groups: no
// agent is ever in both, every confirmed join holds, and all groups remain usable.
func TestSeatsSurviveKills(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		const racers = 30
		s := kit.Start(t, "--journals", journals)
		o := s.Org(t)
		plain := o.Agent("plain")
		pairs := []rivals{newRivals(o, plain), newRivals(o, plain), newRivals(o, plain)}
		agents := s.Org(t).NewAgents(racers, "racer-")
		for kill := range 3 {
			told := make([]*grouptest.Group, racers)
			var answered atomic.Int64
			done := make(chan struct{})
			go func() {
				defer close(done)
				kit.Concurrently(racers, func(k int) bool {
					v := pairs[(k+kill)%len(pairs)]
					for i, a := range kit.Concurrently(2, func(i int) *kit.Answer { return v[i].Join(agents[k]) }) {
						if a.Err == nil && a.Status == 200 {
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
			s.Kill()
			<-done
			s.Restart(t)
			in := 0
			for k, g := range agents {
				v := pairs[(k+kill)%len(pairs)]
				if told[k] != nil && !hasMember(told[k], g) {
					t.Errorf("kill %d: %s was acknowledged as a member of %s, and is not", kill, g.Name, told[k].Name)
				}
				if told[k] == nil {
					told[k] = v.settled(g)
				} else {
					in++
				}
				if hasMember(v[0], g) == hasMember(v[1], g) {
					t.Errorf("kill %d: %s is in both or neither: %v", kill, g.Name, hasMember(v[0], g))
				}
			}
			t.Logf("kill %d: %d of %d joins had been acknowledged", kill, in, racers)
			for k, g := range agents {
				if told[k] != nil {
					told[k].Remove(g, g).Want(204)
				}
			}
		}
		for _, v := range pairs {
			v[0].CheckMembers("after the kills", plain)
			v[1].CheckMembers("after the kills", v[1].By)
		}
		kit.VerifyDirectory(t, s)
	})
}

// settled returns the group that an agent is in after an unanswered join: it repeats the
// join, first in one group, then in the other.
func (v rivals) settled(g *kit.Agent) *grouptest.Group {
	g.T.Helper()
	for _, r := range v {
		switch a := r.Join(g); {
		case a.Status == 200, a.At("code") == "already_member":
			return r
		default:
			a.Refused(409, "isolation_conflict")
		}
	}
	g.T.Errorf("%s was admitted by neither group", g.Name)
	return nil
}
