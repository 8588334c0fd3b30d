package blackbox

import (
	"fmt"
	"testing"
)

// restrict restarts the server with the quotas of the public profile.
func (s *server) restrict(t *testing.T) {
	t.Helper()
	s.kill()
	s.flags[len(s.flags)-1] = "public"
	s.restart(t)
}

// TestSeatCeiling: a group of a tier-1 organization has at most 64 members, even under
// concurrent joins.
func TestSeatCeiling(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		s := start(t, "--journals", journals, "--quota-profile", "open")
		o := s.org(t)
		a := o.agent("a")
		r := a.group(obj{"enrollment_policy": "majority", "visibility": "private"})
		x, invitee := o.agent("applicant"), o.agent("invitee")
		application := text(r.applied(x), "id")
		members := o.newAgents(70, "m")
		r.patch(obj{"enrollment_policy": "open"}).want(200)
		r.joinAll(members[:60])
		s.restrict(t)
		o.get("/org/quotas").want(200).is("quotas.group_members.limit", 64)
		joined := 0
		for _, answered := range concurrently(10, func(i int) *answer { return r.join(members[60+i]) }) {
			if answered.status == 200 {
				joined++
			} else {
				answered.refused(403, "quota_exceeded").is("quota", "group_members", "limit", 64, "used", 64)
			}
		}
		if joined != 3 {
			t.Errorf("%d of 10 agents were seated in the last 3 seats", joined)
		}
		r.read(a).is("member_count", 64)
		if status := r.voted(a, application, "approve"); status != "canceled" {
			t.Errorf("an approval in a full group: %s", status)
		}
		r.checkRequest("an approval in a full group", a, application, "status", "canceled", "reason", "group_full")
		r.patch(obj{"enrollment_policy": "closed"}).want(200)
		batch := a.request("POST", r.path("/invite"), obj{"agents": []string{invitee.id}}).want(200).is("skipped", 1)
		if row := objects(batch.at("results").([]any))[0]; row["reason"] != "group_full" || row["request_id"] != nil {
			batch.errorf("want group_full")
		}
		r.remove(a, members[0]).want(204)
		r.patch(obj{"enrollment_policy": "open"}).want(200)
		r.joined(invitee)
		r.join(members[0]).as("full again").refused(403, "quota_exceeded")
	})
}

// TestGroupQuota: an organization of tier 1 has at most 5 groups.
func TestGroupQuota(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		s := start(t, "--journals", journals, "--quota-profile", "open")
		g := s.org(t).agent("g")
		groups := []*group{g.group(), g.group()}
		used := func(n int) {
			t.Helper()
			g.get("/org/quotas").want(200).is("quotas.groups.used", n)
		}
		used(2)
		s.restrict(t)
		for range 3 {
			groups = append(groups, g.group())
		}
		g.tryCreateGroup(obj{"name": "sixth"}).refused(403, "quota_exceeded").is("quota", "groups", "limit", 5, "used", 5)
		g.tryCreateGroup(obj{"name": groups[0].name}).as("state before quota").refused(409, "name_taken")
		used(5)
		g.request("DELETE", groups[0].path(""), nil).want(204)
		used(4)
		made := 0
		for _, a := range concurrently(6, func(i int) *answer { return g.tryCreateGroup(obj{"name": fmt.Sprintf("at-once-%d", i)}) }) {
			if a.status == 201 {
				made++
			} else {
				a.refused(403, "quota_exceeded")
			}
		}
		if made != 1 {
			t.Errorf("%d groups took the last place", made)
		}
		used(5)
	})
}

// TestGroupMessageSlots: a broadcast counts as one message of the daily quota, whatever
// the number of recipients; an invitation does not count.
func TestGroupMessageSlots(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		s := start(t, "--journals", journals, "--quota-profile", "open")
		o, other := s.org(t), s.org(t)
		g, members := o.agent("g"), other.newAgents(9, "m")
		r := g.groupWithPolicy("closed", members...)
		guest := other.agent("guest")
		s.restrict(t)
		slots := func(what string, by *agent, n float64) {
			t.Helper()
			if got := by.get("/org/quotas").want(200).is("quotas.messages_per_day.limit", 100).at("quotas.messages_per_day.used"); got != n {
				t.Errorf("%s: %v messages count towards the quota, want %v", what, got, n)
			}
		}
		slots("nothing sent", g, 0)
		r.tryBroadcast(g, nil, "Idempotency-Key", "k").first()
		slots("a broadcast to nine", g, 1)
		r.tryBroadcast(g, nil, "Idempotency-Key", "k").want(200)
		slots("the same again", g, 1)
		r.broadcast(members[0])
		slots("a broadcast by a member, to its own organization", members[0], 1)
		slots("a broadcast by a member, to the owner", g, 1)
		members[1].reply(copiesOf(members[1])[0])
		slots("a reply", members[1], 2)
		r.invited(g, guest, "invited")
		slots("an invitation", g, 1)
		for i := 2; i <= 100; i++ {
			r.broadcast(g)
		}
		slots("a hundred broadcasts", g, 100)
		r.tryBroadcast(g, nil).as("the 101st").refused(403, "quota_exceeded").is("quota", "messages_per_day", "limit", 100, "used", 100)
		r.tryBroadcast(g, nil, "Idempotency-Key", "k").as("the key wins over the quota").want(200)
	})
}
