package groups

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// stay is one membership of an agent, as timed by its own requests: it began between
// joining and joined and ended between leaving and left.
type stay struct{ joining, joined, leaving, left time.Duration }

// timedBroadcast is a broadcast with the times of its request and answer.
type timedBroadcast struct {
	payload         string
	asked, answered time.Duration
}

// stayFaults compares what an agent received, oldest first, with its stays. A broadcast
// sent while it was certainly a member must arrive exactly once; one sent while it
// certainly was not must never arrive. All must arrive in the order in which they were
// sent.
func stayFaults(stays []stay, said []timedBroadcast, got []string) (faults []string) {
	count, place := map[string]int{}, map[string]int{}
	for _, payload := range got {
		count[payload]++
	}
	for i, b := range said {
		place[b.payload] = i
		within, touched := false, false
		for _, st := range stays {
			within = within || st.joined <= b.asked && b.answered <= st.leaving
			touched = touched || st.joining <= b.answered && b.asked <= st.left
		}
		switch n := count[b.payload]; {
		case n > 1:
			faults = append(faults, fmt.Sprintf("%s arrived %d times", b.payload, n))
		case within && n == 0:
			faults = append(faults, b.payload+" did not arrive at a member")
		case !touched && n > 0:
			faults = append(faults, b.payload+" arrived at one who was no member")
		}
	}
	if !slices.IsSortedFunc(got, func(a, b string) int { return place[a] - place[b] }) {
		faults = append(faults, fmt.Sprintf("the order is %v", got))
	}
	return faults
}

func TestStayFaultsControl(t *testing.T) {
	t.Parallel()
	said := []timedBroadcast{{"1", 5, 6}, {"2", 15, 16}, {"3", 25, 26}, {"4", 35, 36}, {"5", 45, 46}}
	stays := []stay{{10, 12, 20, 22}, {24, 30, 40, 44}}
	for _, got := range [][]string{{"2", "4"}, {"2", "3", "4"}} {
		if faults := stayFaults(stays, said, got); len(faults) != 0 {
			t.Errorf("%v: %v", got, faults)
		}
	}
	for _, got := range [][]string{{"4"}, {"2", "2", "4"}, {"1", "2", "4"}, {"4", "2"}, {"2", "4", "5"}, nil} {
		if faults := stayFaults(stays, said, got); len(faults) == 0 {
			t.Errorf("%v was accepted", got)
		}
	}
}

// TestBroadcastsDuringMembershipChanges: every member at the moment of the send receives
// the broadcast, although other agents join and leave at the same time.
func TestBroadcastsDuringMembershipChanges(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		const walkers, broadcasts = 8, 60
		o := s.Org(t)
		g, stays := o.Agent("g"), o.Agent("stays")
		r := grouptest.New(g, obj{"enrollment_policy": "open", "visibility": "private"})
		r.Joined(stays)
		agents := s.Org(t).NewAgents(walkers, "w")
		began := time.Now()
		walked := make([][]stay, walkers)
		var over atomic.Bool
		var walking sync.WaitGroup
		for i, w := range agents {
			walking.Go(func() { walked[i] = comesAndGoes(r, w, began, &over) })
		}
		var said []timedBroadcast
		for i := range broadcasts {
			b := timedBroadcast{payload: fmt.Sprintf("n%03d", i), asked: time.Since(began)}
			if a := r.TryBroadcast(g, obj{"encrypted_payload": b.payload}); a.Status != 201 {
				a.Errorf("want a broadcast")
			}
			b.answered = time.Since(began)
			said = append(said, b)
		}
		over.Store(true)
		walking.Wait()
		arrived := 0
		for i, w := range append(agents, stays) {
			whole := []stay{{0, 0, time.Hour, time.Hour}}
			if w != stays {
				whole = walked[i]
			}
			var got []string
			for _, m := range grouptest.CopiesOf(w) {
				got = append(got, kit.Text(m, "encrypted_payload"))
			}
			arrived += len(got)
			for _, fault := range stayFaults(whole, said, got) {
				t.Errorf("%s: %s\n  stays %v", w.Name, fault, whole)
			}
		}
		if arrived < broadcasts+walkers {
			t.Errorf("%d copies arrived: the test checked nothing", arrived)
		}
	})
}

// comesAndGoes joins and leaves until the broadcasts end.
func comesAndGoes(r *grouptest.Group, g *kit.Agent, began time.Time, over *atomic.Bool) (stays []stay) {
	for !over.Load() {
		st := stay{joining: time.Since(began)}
		if a := r.Join(g); a.Status != 200 {
			a.Errorf("want to be seated")
			return stays
		}
		st.joined = time.Since(began)
		time.Sleep(time.Duration(rand.IntN(15)) * time.Millisecond)
		st.leaving = time.Since(began)
		if a := r.Remove(g, g); a.Status != 204 {
			a.Errorf("want to leave")
			return stays
		}
		st.left = time.Since(began)
		stays = append(stays, st)
		time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
	}
	return stays
}

// TestBroadcastsOnStreams: two members send at once; every stream and every inbox shows
// their broadcasts in the same order.
func TestBroadcastsOnStreams(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		const each = 15
		o := s.Org(t)
		senders, listeners := o.NewAgents(2, "s"), s.Org(t).NewAgents(4, "e")
		r := grouptest.NewWithPolicy(senders[0], "closed", append(listeners, senders[1])...)
		var streams []*kit.Stream
		for _, g := range listeners {
			st := g.Stream("")
			st.Opening()
			streams = append(streams, st)
		}
		kit.Concurrently(2, func(i int) bool {
			for range each {
				if a := r.TryBroadcast(senders[i], nil); a.Status != 201 {
					a.Errorf("want a broadcast")
				}
			}
			return true
		})
		var order []string
		for i, st := range streams {
			var heard, inbox []string
			for range 2 * each {
				m := st.Message()
				heard = append(heard, kit.Text(m, "created_at")+kit.Text(m, "from_agent_id"))
			}
			st.Quiet()
			for _, m := range grouptest.CopiesOf(listeners[i]) {
				inbox = append(inbox, kit.Text(m, "created_at")+kit.Text(m, "from_agent_id"))
			}
			if order == nil {
				order = heard
			}
			if !slices.Equal(heard, order) || !slices.Equal(inbox, order) {
				t.Errorf("the stream of %s has\n  %v\nits inbox\n  %v\nothers\n  %v", listeners[i].Name, heard, inbox, order)
			}
		}
	})
}

// TestGroupsSurviveAKill: the complete state of a group, with requests in every status,
// is the same after a kill.
func TestGroupsSurviveAKill(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals)
		o, guests := s.Org(t), s.Org(t)
		a, b, c := o.Agent("a"), o.Agent("b"), o.Agent("c")
		r := grouptest.NewWithPolicy(a, "majority", b, c)
		r.Patch(obj{"description": "kept", "visibility": "public", "vote_duration_hours": 7}).Want(200)
		r.Role(a, b, "admin").Want(200)
		pending, approved, denied, nominee := guests.Agent("pending"), guests.Agent("approved"), guests.Agent("denied"), guests.Agent("nominee")
		open := kit.Text(r.Applied(pending), "id")
		voted(r, a, open, "approve")
		for g, vote := range map[*kit.Agent]string{approved: "approve", denied: "deny"} {
			id := kit.Text(r.Applied(g), "id")
			voted(r, a, id, vote)
			voted(r, b, id, vote)
		}
		r.Invited(c, nominee, "pending")
		closed := grouptest.New(b, obj{"members": []string{nominee.ID}})
		gone := grouptest.New(b, obj{"name": "gone"})
		b.Request("DELETE", gone.Path(""), nil).Want(204)
		hermit := grouptest.New(guests.Agent("hermit"), obj{"isolated": true})
		said := r.Broadcast(a)
		r.TryBroadcast(a, nil, "Idempotency-Key", "k").First()
		approved.Reply(grouptest.CopiesOf(approved)[0])
		conversation := "/conversations/" + kit.Text(said, "conversation_id")
		paths := map[*kit.Agent][]string{
			a:        {r.Path(""), r.Path("/members"), r.Path("/requests?status=all"), "/groups", conversation, conversation + "/messages", a.Path(""), a.Path("/messages")},
			b:        {closed.Path("/requests?status=all"), r.Path("/requests?status=all")},
			approved: {"/groups?scope=seated", r.Path("/members"), conversation + "/messages", approved.Path("/messages")},
			nominee:  {"/groups/invites"},
		}
		look := func() map[string]any {
			out := map[string]any{}
			for g, list := range paths {
				for _, path := range list {
					out[g.Name+" "+path] = g.Request("GET", path, nil).Want(200).Value()
				}
			}
			out["profile"] = s.Call(t, "", "GET", "/directory/groups/"+r.ID, nil).Want(200).Value()
			return out
		}
		look() // the first read records receipts
		time.Sleep(20 * time.Millisecond)
		before := look()
		s.Kill()
		s.Restart(t)
		for what, now := range look() {
			if !kit.Same(now, before[what]) {
				t.Errorf("%s changed\nbefore %v\nafter  %v", what, before[what], now)
			}
		}
		r.TryBroadcast(a, nil, "Idempotency-Key", "k").Want(200)
		grouptest.TryCreate(b, obj{"name": "gone"}).Refused(409, "name_taken")
		b.Request("GET", gone.Path(""), nil).Refused(410, "gone")
		grouptest.TryCreate(hermit.By, nil).As("still isolated").Refused(409, "isolation_conflict")
		hermit.By.TrySend(a, nil).As("still isolated").Refused(403, "isolated_agent")
		r.Vote(a, open, "deny").Want(200).Is("status", "pending", "your_vote", "deny")
		voted(r, b, open, "deny")
		checkRequest(r, "votes go on", a, open, "status", "denied")
		closed.Joined(nominee)
		r.Broadcast(c)
		lonely := guests.Agent("lonely")
		over := grouptest.New(lonely, obj{"enrollment_policy": "majority"})
		over.Applied(pending)
		lonely.Delete(lonely.Path("")).Want(204)
		kit.Eventually(t, "a group without members is deleted", func() bool { return guests.Get(over.Path("")).Status == 410 })
		kit.VerifyDirectory(t, s)
	})
}
