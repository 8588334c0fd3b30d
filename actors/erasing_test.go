package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/actors/erasure"
	"parley/actors/group"
	"parley/client/parley"
	"parley/journal"
)

// destroysKeys lets a node destroy the keys of an erasable test node.
func destroysKeys(r *testNode) {
	r.tune = func(n *Node) {
		n.destroyKey = func(id parley.OrgID, _ time.Time) error {
			r.keys.Erase(id)
			r.sealer.Forget(id)
			r.erased.Store(true)
			return nil
		}
	}
}

// newErasing is a scene for an erasure: messages both ways, and a group of each side with
// the other side and broadcasts in it.
func newErasing(t testing.TB, journals int) (x *erasureScene, ours, theirs *testGroup) {
	x = newErasure(t, journals, destroysKeys)
	for n := range 3 {
		first := x.say(x.g, x.k, fmt.Sprint("erased ", n))
		must(x.answer(first, "answer", ""))(t)
		x.say(x.l, x.k, fmt.Sprint("kept ", n))
	}
	ours = x.found(x.k, "ours", group.Open, x.g, x.l)
	theirs = x.found(x.g, "theirs", group.Open, x.k)
	for _, c := range []*testGroup{ours, theirs} {
		x.broadcastIn(c, x.g, "from the erased")
		x.broadcastIn(c, x.k, "from one that stays")
	}
	return x, ours, theirs
}

// broadcastIn broadcasts in a group.
func (x *erasureScene) broadcastIn(c *testGroup, from parley.AgentID, text string) {
	x.t.Helper()
	must(x.node.Messages.Broadcast(x.ctx, GroupSend{Content: x.content(from, x.k, text, ""), Group: c.id, From: from}))(x.t)
}

// erasedHere is what an erasure of newErasing counts: six direct messages; two copies of a
// broadcast in ours, one of the other there, and one of each in theirs. Three conversations
// and that of the own group.
var erasedHere = erasure.Result{Messages: 6 + 2 + 1 + 1 + 1, Agents: 1, Conversations: 3 + 1, Groups: 1}

// checkErased: the result is as expected, and others have what is theirs.
func (x *erasureScene) checkErased(got erasure.Result, ours *testGroup) {
	x.t.Helper()
	want := erasedHere
	want.Org, want.ErasedAt = x.gone, got.ErasedAt
	if got != want || got.ErasedAt.IsZero() {
		x.t.Errorf("erased: %+v, want %+v", got, want)
	}
	if n, err := x.node.Messages.CountSince(x.ctx, x.k, 0); n != 3 || err != nil {
		x.t.Errorf("the feed has %d messages (%v), want 3", n, err)
	}
	if n, err := x.node.Messages.CountSince(x.ctx, x.l, 0); n != 1 || err != nil {
		x.t.Errorf("the other feed has %d messages (%v), want 1", n, err)
	}
	members := must(readGroup(x.ctx, x.node.Groups, ours.id, func(s *group.State) int { return len(s.Members()) }))(x.t)
	if members != 2 {
		x.t.Errorf("the group of others has %d members, want 2", members)
	}
	_, err := x.node.Agents.Get(x.ctx, x.g)
	isGone(x.t, "the agent", err)
	k := must(x.node.Agents.Get(x.ctx, x.k))(x.t)
	eventually(x.t, "the seat in the erased group is gone", func() bool {
		k, err = x.node.Agents.Get(x.ctx, x.k)
		return err == nil && len(k.GetGroups()) == 1
	})
}

// An erasure counts what there was and leaves the rest as it was, however often it is
// asked for, also after a restart.
func TestErasure(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprint(journals), func(t *testing.T) {
			x, ours, _ := newErasing(t, journals)
			if n := must(x.node.Messages.CountSince(x.ctx, x.k, 0))(t); n != 3+3+2 {
				t.Errorf("control: the feed has %d messages", n)
			}
			for range 2 {
				x.checkErased(must(x.node.Erasures.Erase(x.ctx, x.gone, [32]byte{1}))(t), ours)
			}
			x.restart()
			x.checkErased(must(x.node.Erasures.Erase(x.ctx, x.gone, [32]byte{2}))(t), ours)
			for token, want := range map[[32]byte]bool{{1}: true, {2}: false, {}: false} {
				if by := must(x.node.Erasures.BegunBy(x.ctx, x.gone, token))(t); by != want {
					t.Errorf("begun with token %d: %v", token[0], by)
				}
			}
			x.awaitIdle()
			x.verifyErased()
		})
	}
}

// An erasure that stops after any of its steps goes on at the next start, and its result
// is the same.
func TestErasureGoesOn(t *testing.T) {
	stopped := 0
	for last := false; !last; stopped++ {
		x, ours, _ := newErasing(t, 1+3*(stopped%2))
		reached, steps := make(chan struct{}), 0
		x.node.Erasures.OnStep(func(string) error {
			if steps++; steps == stopped+1 {
				close(reached)
			}
			if steps > stopped {
				return errors.New("stopped by the test")
			}
			return nil
		})
		failed := make(chan error, 1)
		go func() {
			_, err := x.node.Erasures.Erase(context.Background(), x.gone, [32]byte{1})
			failed <- err
		}()
		select {
		case <-reached:
			x.restart()
			if err := <-failed; !errors.Is(err, parley.ErrOutcomeUnknown) {
				t.Fatalf("after %d steps: %v", stopped, err)
			}
			if err := x.node.Erasures.Resume(nil); err != nil {
				t.Fatal(err)
			}
		case err := <-failed:
			if last = true; err != nil {
				t.Fatal(err)
			}
		}
		x.checkErased(must(x.node.Erasures.Erase(x.ctx, x.gone, [32]byte{1}))(t), ours)
	}
	if stopped < 9 {
		t.Errorf("%d steps were interrupted", stopped-1)
	}
}

// Each of two organizations that are erased at once counts what it had when its key was
// destroyed, as if it were erased alone.
func TestErasuresAtOnce(t *testing.T) {
	for _, journals := range []int{1, 4} {
		alone := func(of func(*erasureScene) parley.OrgID) erasure.Result {
			x, _, _ := newErasing(t, journals)
			return must(x.node.Erasures.Erase(x.ctx, of(x), [32]byte{1}))(t)
		}
		x, _, _ := newErasing(t, journals)
		var fenced atomic.Int32
		all := make(chan struct{})
		x.node.Erasures.OnStep(func(step string) error {
			if step == "destroy the key" {
				if fenced.Add(1) == 2 {
					close(all)
				}
				<-all
			}
			return nil
		})
		var got [2]erasure.Result
		var both sync.WaitGroup
		for i, id := range []parley.OrgID{x.gone, x.kept} {
			both.Go(func() { got[i], _ = x.node.Erasures.Erase(x.ctx, id, [32]byte{1}) })
		}
		both.Wait()
		for i, want := range []erasure.Result{
			alone(func(x *erasureScene) parley.OrgID { return x.gone }), alone(func(x *erasureScene) parley.OrgID { return x.kept }),
		} {
			if got[i].Org, got[i].ErasedAt = want.Org, want.ErasedAt; got[i] != want {
				t.Errorf("%d journals: erased %+v, alone %+v", journals, got[i], want)
			}
		}
	}
}

// A subscriber that has a message in memory does not get it after the erasure.
func TestErasureReachesSubscribers(t *testing.T) {
	x := newErasure(t, 4, destroysKeys)
	follower := x.node.Feeds.Follow(x.k, 0, func() {})
	defer follower.Close()
	x.say(x.g, x.k, "erased")
	x.say(x.l, x.k, "kept")
	x.awaitIdle()
	must(x.node.Erasures.Erase(x.ctx, x.gone, [32]byte{1}))(t)
	entries := must(follower.Next(10))(t)
	if len(entries) != 1 || entries[0].Kind != journal.MessageEntry {
		t.Errorf("the subscriber gets %d entries, want 1", len(entries))
	}
}

// A group's conversation stays in the lists of its members when the organization that began
// it is erased, so that a later erasure finds what was sent there.
func TestErasuresOneAfterAnother(t *testing.T) {
	for _, journals := range []int{1, 4} {
		x := newErasure(t, journals, destroysKeys)
		ours := x.found(x.l, "ours", group.Open, x.g, x.k)
		x.broadcastIn(ours, x.g, "begins it")
		for range 2 {
			x.broadcastIn(ours, x.k, "goes on")
		}
		x.awaitIdle()
		for _, of := range []struct {
			org      parley.OrgID
			messages int64
			left     int
		}{{x.gone, 2 + 2, 2}, {x.kept, 2 * 2, 0}} {
			got := must(x.node.Erasures.Erase(x.ctx, of.org, [32]byte{1}))(t)
			if got.Messages != of.messages {
				t.Errorf("%d messages were erased, want %d", got.Messages, of.messages)
			}
			if n := must(x.node.Messages.CountSince(x.ctx, x.l, 0))(t); n != of.left {
				t.Errorf("the feed of the one that stays has %d messages, want %d", n, of.left)
			}
			page, _, err := x.node.Messages.Conversations(x.ctx, x.l, 0, 10)
			if err != nil || len(page) != 1 {
				t.Errorf("%d conversations are listed (%v), want 1", len(page), err)
			}
		}
	}
}
