package groups

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// largeGroupSize is the number of members of the groups that this file broadcasts to.
const largeGroupSize = 300

// sentBroadcast is an acknowledged broadcast.
type sentBroadcast struct {
	from    *kit.Agent
	payload string
}

// inboxFaults compares what arrived at each member, oldest first, with what was
// acknowledged to each sender in order. Every member must have every broadcast of the
// others exactly once, and all members must have the same order.
func inboxFaults(broadcasts []sentBroadcast, arrived map[*kit.Agent][]string) (faults []string) {
	complain := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	by := map[string]*kit.Agent{}
	for _, sh := range broadcasts {
		by[sh.payload] = sh.from
	}
	order := longestOrder(arrived)
	place := map[string]int{}
	for i, payload := range order {
		place[payload] = i
	}
	for g, got := range arrived {
		seen, last := map[string]bool{}, -1
		for _, payload := range got {
			from, known := by[payload]
			switch {
			case !known:
				complain("%s has %s, which no sender sent", g.Name, payload)
				continue
			case from == g:
				complain("%s has a copy of its own %s", g.Name, payload)
			case seen[payload]:
				complain("%s has %s twice", g.Name, payload)
			}
			seen[payload] = true
			if at, ok := place[payload]; ok && at < last {
				complain("%s has %s after %s, others before", g.Name, payload, order[last])
			} else if ok {
				last = at
			}
		}
		for _, sh := range broadcasts {
			if sh.from != g && !seen[sh.payload] {
				complain("%s lacks %s", g.Name, sh.payload)
			}
		}
	}
	return append(faults, senderFaults(broadcasts, place)...)
}

// longestOrder returns the order at the member that received most: one that sent nothing
// itself.
func longestOrder(arrived map[*kit.Agent][]string) (order []string) {
	for _, got := range arrived {
		if len(got) > len(order) {
			order = got
		}
	}
	return order
}

// senderFaults returns the consecutive broadcasts of one sender that arrived in another
// order.
func senderFaults(broadcasts []sentBroadcast, place map[string]int) (faults []string) {
	last := map[*kit.Agent]int{}
	for _, sh := range broadcasts {
		at, ok := place[sh.payload]
		if ok && at < last[sh.from] {
			faults = append(faults, sh.from.Name+" sent "+sh.payload+" later than it arrived")
		}
		last[sh.from] = max(last[sh.from], at)
	}
	return faults
}

// TestInboxFaultsControl: the check finds the faults that a broken fan-out would cause.
func TestInboxFaultsControl(t *testing.T) {
	t.Parallel()
	a, b, c, d := &kit.Agent{Name: "a"}, &kit.Agent{Name: "b"}, &kit.Agent{Name: "c"}, &kit.Agent{Name: "d"}
	broadcasts := []sentBroadcast{{a, "a1"}, {a, "a2"}, {b, "b1"}}
	sound := func() map[*kit.Agent][]string {
		return map[*kit.Agent][]string{a: {"b1"}, b: {"a1", "a2"}, c: {"a1", "b1", "a2"}, d: {"a1", "b1", "a2"}}
	}
	if faults := inboxFaults(broadcasts, sound()); len(faults) != 0 {
		t.Error(faults)
	}
	for name, got := range map[string][]string{
		"a hole": {"a1", "b1"}, "a double": {"a1", "b1", "a2", "a2"}, "another order": {"b1", "a1", "a2"}, "a stranger": {"a1", "b1", "a2", "x"}, "nothing": nil,
	} {
		for _, who := range []*kit.Agent{c, d} {
			arrived := sound()
			arrived[who] = got
			if faults := inboxFaults(broadcasts, arrived); len(faults) == 0 {
				t.Errorf("%s at %s was not found", name, who.Name)
			}
		}
	}
	for name, got := range map[string][]string{"a sender's own": {"a1", "b1"}, "none for a sender": nil} {
		arrived := sound()
		arrived[a] = got
		if faults := inboxFaults(broadcasts, arrived); len(faults) == 0 {
			t.Errorf("%s was not found", name)
		}
	}
	backwards := sound()
	backwards[b], backwards[c], backwards[d] = []string{"a2", "a1"}, []string{"a2", "b1", "a1"}, []string{"a2", "b1", "a1"}
	if faults := inboxFaults(broadcasts, backwards); len(faults) == 0 {
		t.Error("the wrong order of one sender's broadcasts was not found")
	}
}

// largeGroup is a group with many members of two organizations.
type largeGroup struct {
	*grouptest.Group
	members    []*kit.Agent
	broadcasts atomic.Int64
}

func newLargeGroup(t *testing.T, s *kit.Server) *largeGroup {
	t.Helper()
	one, two := s.Org(t), s.Org(t)
	founder := one.Agent("founder")
	c := &largeGroup{Group: grouptest.New(founder, obj{"enrollment_policy": "open", "visibility": "private"})}
	c.members = slices.Concat(one.NewAgents(largeGroupSize/2-1, "one-"), two.NewAgents(largeGroupSize/2, "two-"))
	c.JoinAll(c.members)
	c.members = append(c.members, founder)
	c.Read(founder).Is("member_count", largeGroupSize)
	return c
}

// payload returns a new unique payload.
func (c *largeGroup) payload() string { return "n" + strconv.FormatInt(c.broadcasts.Add(1), 10) }

// arrived reads every inbox and returns the payloads, oldest first.
func (c *largeGroup) arrived() map[*kit.Agent][]string {
	all := make([][]string, len(c.members))
	kit.ForEachBounded(len(all), func(i int) {
		for _, m := range grouptest.CopiesOf(c.members[i]) {
			all[i] = append(all[i], kit.Text(m, "encrypted_payload"))
		}
	})
	arrived := map[*kit.Agent][]string{}
	for i, g := range c.members {
		arrived[g] = all[i]
	}
	return arrived
}

// checkInboxes waits until the inboxes are free of faults. Effects may follow an answer
// after a short delay.
func (c *largeGroup) checkInboxes(what string, broadcasts []sentBroadcast) {
	c.T.Helper()
	var faults []string
	for deadline := time.Now().Add(30 * time.Second); ; {
		if faults = inboxFaults(broadcasts, c.arrived()); len(faults) == 0 {
			return
		}
		if time.Now().After(deadline) {
			break
		}
	}
	slices.Sort(faults)
	c.T.Fatalf("%s: %d faults: %q", what, len(faults), faults[:min(len(faults), 12)])
}

// TestBroadcastToManyMembers: each member receives each broadcast exactly once, within a
// second, and all in the same order, even with concurrent senders.
func TestBroadcastToManyMembers(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals)
		c := newLargeGroup(t, s)
		sender := c.members[7]
		payload := c.payload()
		sent := c.Group.Broadcast(sender, obj{"encrypted_payload": payload})
		answered := time.Now()
		if !kit.Same(sent["recipient_count"], largeGroupSize-1) {
			t.Errorf("recipient_count is %v", sent["recipient_count"])
		}
		var copyIDs sync.Map
		kit.ForEachBounded(len(c.members), func(i int) {
			if g := c.members[i]; g != sender {
				for {
					asked := time.Since(answered)
					rows := grouptest.CopiesOf(g)
					if len(rows) == 1 {
						if _, twice := copyIDs.LoadOrStore(rows[0]["id"], g); twice || rows[0]["to_agent_id"] != g.ID {
							t.Errorf("the copy of %s is %v", g.Name, rows[0])
						}
						return
					}
					if asked > time.Second || len(rows) > 1 {
						t.Errorf("%s has %d copies in a read %v after the answer", g.Name, len(rows), asked)
						return
					}
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
		broadcasts := []sentBroadcast{{sender, payload}}
		for _, some := range kit.Concurrently(3, func(i int) []sentBroadcast { return c.broadcastAll(c.members[20*i], 12) }) {
			broadcasts = append(broadcasts, some...)
		}
		if len(broadcasts) != 37 {
			t.Fatalf("%d broadcasts, want 37", len(broadcasts))
		}
		c.checkInboxes("three senders at once", broadcasts)
		reader := c.members[150]
		transcript := reader.List("/conversations/"+kit.Text(sent, "conversation_id")+"/messages", "?limit=200")
		var order []string
		for _, m := range transcript {
			order = append(order, kit.Text(m, "encrypted_payload"))
		}
		if want := c.arrived()[reader]; !slices.Equal(order, want) || !slices.IsSorted(kit.IDs(transcript)) {
			t.Errorf("the transcript is %v\n  the inbox %v", order, want)
		}
		kit.VerifyDirectory(t, s)
	})
}

// broadcastAll broadcasts n times in sequence.
func (c *largeGroup) broadcastAll(by *kit.Agent, n int) (broadcasts []sentBroadcast) {
	for range n {
		payload := c.payload()
		a := c.TryBroadcast(by, obj{"encrypted_payload": payload})
		if a.Err != nil || a.Status != 201 {
			a.Errorf("want a broadcast")
			return broadcasts
		}
		broadcasts = append(broadcasts, sentBroadcast{by, payload})
	}
	return broadcasts
}

// TestBroadcastsSurviveKills kills the server while members broadcast. Unanswered
// broadcasts are repeated with their keys. At the end every member has every broadcast of
// the others exactly once.
func TestBroadcastsSurviveKills(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals)
		c := newLargeGroup(t, s)
		senders := []*kit.Agent{c.members[0], c.members[50], c.members[200]}
		var broadcasts []sentBroadcast
		before, unknown := 0, 0
		for kill := range 4 {
			var dying atomic.Bool
			acked := make([][]sentBroadcast, len(senders))
			lost := make([]string, len(senders))
			var working sync.WaitGroup
			for i, by := range senders {
				working.Go(func() { acked[i], lost[i] = c.broadcastUntilLost(by, &dying) })
			}
			enough := c.broadcasts.Load() + 8 + rand.Int64N(16)
			for began := time.Now(); c.broadcasts.Load() < enough && time.Since(began) < 2*time.Second; {
				time.Sleep(time.Millisecond)
			}
			dying.Store(true)
			s.Kill()
			working.Wait()
			s.Restart(t)
			for i, by := range senders {
				broadcasts = append(broadcasts, acked[i]...)
				if lost[i] == "" {
					continue
				}
				unknown++
				a := c.TryBroadcast(by, obj{"encrypted_payload": lost[i]}, "Idempotency-Key", lost[i])
				if a.Status == 200 {
					before++
				} else {
					a.Want(201)
				}
				broadcasts = append(broadcasts, sentBroadcast{by, lost[i]})
			}
			c.checkInboxes(fmt.Sprintf("kill %d", kill+1), broadcasts)
		}
		t.Logf("%d broadcasts to %d members, %d unknown when the server died, of which %d had been committed", len(broadcasts), largeGroupSize, unknown, before)
		if len(broadcasts) < 12 {
			t.Errorf("only %d broadcasts: too little load", len(broadcasts))
		}
		kit.VerifyDirectory(t, s)
	})
}

// broadcastUntilLost broadcasts until the server dies. The payload of the unanswered
// broadcast is its idempotency key.
func (c *largeGroup) broadcastUntilLost(by *kit.Agent, dying *atomic.Bool) (acked []sentBroadcast, lost string) {
	for range 15 {
		payload := c.payload()
		a := c.TryBroadcast(by, obj{"encrypted_payload": payload}, "Idempotency-Key", payload)
		switch {
		case a.Err == nil && a.Status == 201:
			acked = append(acked, sentBroadcast{by, payload})
		case a.Err != nil && dying.Load(), a.At("code") == "outcome_unknown":
			return acked, payload
		default:
			a.Errorf("want a broadcast")
			return acked, payload
		}
	}
	return acked, ""
}
