package groups

import (
	"fmt"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// restrict restarts the server with the quotas of the public profile.
func restrict(t *testing.T, s *kit.Server) {
	t.Helper()
	s.Kill()
	s.Flags[len(s.Flags)-1] = "public"
	s.Restart(t)
}

// TestSeatCeiling: a group of a tier-1 organization has at most 64 members, even under
// concurrent joins.
func TestSeatCeiling(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals, "--quota-profile", "open")
		o := s.Org(t)
		a := o.Agent("a")
		r := grouptest.New(a, obj{"enrollment_policy": "majority", "visibility": "private"})
		x, invitee := o.Agent("applicant"), o.Agent("invitee")
		application := kit.Text(r.Applied(x), "id")
		members := o.NewAgents(70, "m")
		r.Patch(obj{"enrollment_policy": "open"}).Want(200)
		r.JoinAll(members[:60])
		restrict(t, s)
		o.Get("/org/quotas").Want(200).Is("quotas.group_members.limit", 64)
		joined := 0
		for _, answered := range kit.Concurrently(10, func(i int) *kit.Answer { return r.Join(members[60+i]) }) {
			if answered.Status == 200 {
				joined++
			} else {
				answered.Refused(403, "quota_exceeded").Is("quota", "group_members", "limit", 64, "used", 64)
			}
		}
		if joined != 3 {
			t.Errorf("%d of 10 agents were seated in the last 3 seats", joined)
		}
		r.Read(a).Is("member_count", 64)
		if status := voted(r, a, application, "approve"); status != "canceled" {
			t.Errorf("an approval in a full group: %s", status)
		}
		checkRequest(r, "an approval in a full group", a, application, "status", "canceled", "reason", "group_full")
		r.Patch(obj{"enrollment_policy": "closed"}).Want(200)
		batch := a.Request("POST", r.Path("/invite"), obj{"agents": []string{invitee.ID}}).Want(200).Is("skipped", 1)
		if row := kit.Objects(batch.At("results").([]any))[0]; row["reason"] != "group_full" || row["request_id"] != nil {
			batch.Errorf("want group_full")
		}
		r.Remove(a, members[0]).Want(204)
		r.Patch(obj{"enrollment_policy": "open"}).Want(200)
		r.Joined(invitee)
		r.Join(members[0]).As("full again").Refused(403, "quota_exceeded")
	})
}

// TestGroupQuota: an organization of tier 1 has at most 5 groups.
func TestGroupQuota(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals, "--quota-profile", "open")
		g := s.Org(t).Agent("g")
		groups := []*grouptest.Group{grouptest.New(g), grouptest.New(g)}
		used := func(n int) {
			t.Helper()
			g.Get("/org/quotas").Want(200).Is("quotas.groups.used", n)
		}
		used(2)
		restrict(t, s)
		for range 3 {
			groups = append(groups, grouptest.New(g))
		}
		grouptest.TryCreate(g, obj{"name": "sixth"}).Refused(403, "quota_exceeded").Is("quota", "groups", "limit", 5, "used", 5)
		grouptest.TryCreate(g, obj{"name": groups[0].Name}).As("state before quota").Refused(409, "name_taken")
		used(5)
		g.Request("DELETE", groups[0].Path(""), nil).Want(204)
		used(4)
		made := 0
		for _, a := range kit.Concurrently(6, func(i int) *kit.Answer { return grouptest.TryCreate(g, obj{"name": fmt.Sprintf("at-once-%d", i)}) }) {
			if a.Status == 201 {
				made++
			} else {
				a.Refused(403, "quota_exceeded")
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
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals, "--quota-profile", "open")
		o, other := s.Org(t), s.Org(t)
		g, members := o.Agent("g"), other.NewAgents(9, "m")
		r := grouptest.NewWithPolicy(g, "closed", members...)
		guest := other.Agent("guest")
		restrict(t, s)
		slots := func(what string, by *kit.Agent, n float64) {
			t.Helper()
			if got := by.Get("/org/quotas").Want(200).Is("quotas.messages_per_day.limit", 100).At("quotas.messages_per_day.used"); got != n {
				t.Errorf("%s: %v messages count towards the quota, want %v", what, got, n)
			}
		}
		slots("nothing sent", g, 0)
		r.TryBroadcast(g, nil, "Idempotency-Key", "k").First()
		slots("a broadcast to nine", g, 1)
		r.TryBroadcast(g, nil, "Idempotency-Key", "k").Want(200)
		slots("the same again", g, 1)
		r.Broadcast(members[0])
		slots("a broadcast by a member, to its own organization", members[0], 1)
		slots("a broadcast by a member, to the owner", g, 1)
		members[1].Reply(grouptest.CopiesOf(members[1])[0])
		slots("a reply", members[1], 2)
		r.Invited(g, guest, "invited")
		slots("an invitation", g, 1)
		for i := 2; i <= 100; i++ {
			r.Broadcast(g)
		}
		slots("a hundred broadcasts", g, 100)
		r.TryBroadcast(g, nil).As("the 101st").Refused(403, "quota_exceeded").Is("quota", "messages_per_day", "limit", 100, "used", 100)
		r.TryBroadcast(g, nil, "Idempotency-Key", "k").As("the key wins over the quota").Want(200)
	})
}
