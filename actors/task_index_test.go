package actors

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"parley/actors/conversation"
	"parley/client/parley"
	"parley/journal"
)

// tasksOf returns the conversations that an agent has begun with another one, by id.
func tasksOf(t *testing.T, r *testNode, from, with parley.AgentID) (ids []parley.ConversationID) {
	t.Helper()
	for { // a list that was too long is prepared further with each attempt
		ids = nil
		err := r.node.Messages.EachTask(context.Background(), from, with, func(s *conversation.State) error {
			ids = append(ids, s.ConversationID())
			return nil
		})
		if err == nil {
			break
		}
		if !parley.ErrOverloaded.Is(err) {
			t.Error(err)
			return nil
		}
	}
	slices.SortFunc(ids, func(a, b parley.ConversationID) int { return bytes.Compare(a[:], b[:]) })
	return ids
}

// TestTasksAreFound compares the conversations that are found by both agents with what was
// sent. Rows are written for few conversations at a time, by several queries at once.
func TestTasksAreFound(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprint(journals), func(t *testing.T) {
			draw := rand.New(rand.NewPCG(5, uint64(journals)))
			r := newTestNode(t, withJournals(journals), withTuning(func(n *Node) { n.queries.Limits().TaskedStep = 4 }))
			owner, ids := r.agents("acme", 4)
			type pair struct{ from, with parley.AgentID }
			sent := map[pair][]parley.ConversationID{}
			for n := range 150 {
				from, to := ids[draw.IntN(4)], ids[draw.IntN(3)]
				if from == to {
					to = ids[3]
				}
				p := must(r.send(direct(owner, from, to, fmt.Sprint("hello ", n), "")))(t)
				sent[pair{from, to}] = append(sent[pair{from, to}], p.Message.Conversation())
				var lists sync.WaitGroup
				for range draw.IntN(3) {
					of := pair{ids[draw.IntN(4)], ids[draw.IntN(4)]}
					lists.Go(func() {
						want := slices.Clone(sent[of])
						slices.SortFunc(want, func(a, b parley.ConversationID) int { return bytes.Compare(a[:], b[:]) })
						if got := tasksOf(t, r, of.from, of.with); !slices.Equal(got, want) {
							t.Errorf("after %d messages %v has %d conversations, not %d", n+1, of, len(got), len(want))
						}
					})
				}
				if lists.Wait(); t.Failed() {
					return
				}
			}
			for _, id := range ids {
				if _, found, err := r.store.Row(id.Slot(), journal.TaskedTable, id[:]); err != nil || !found {
					t.Errorf("no query has stored rows for agent %s: %v", id, err)
				}
			}
		})
	}
}

// TestTasksOfALongList: a list that is too long for one query is read by several.
func TestTasksOfALongList(t *testing.T) {
	r := newTestNode(t, withTuning(func(n *Node) { n.queries.Limits().TaskedMax = 1 }))
	owner, ids := r.agents("acme", 3)
	const all = 1100 // more than a query reads at a time
	for n := range all {
		to := ids[1]
		if n%100 == 7 {
			to = ids[2]
		}
		must(r.send(direct(owner, ids[0], to, "hello", "")))(t)
	}
	err := r.node.Messages.EachTask(t.Context(), ids[0], ids[2], func(*conversation.State) error { return nil })
	if !parley.ErrOverloaded.Is(err) {
		t.Errorf("the first attempt: %v", err)
	}
	if got := tasksOf(t, r, ids[0], ids[2]); len(got) != 11 {
		t.Errorf("%d conversations", len(got))
	}
	if got := tasksOf(t, r, ids[0], ids[1]); len(got) != all-11 {
		t.Errorf("%d conversations with the other", len(got))
	}
}

// TestNewestTasks: the newest conversations of an agent with another one are found, whether rows
// name them or not, within a number of conversations and since an instant.
func TestNewestTasks(t *testing.T) {
	clock := newManualClock(noon)
	r := newTestNode(t, withClock(clock.now), withTuning(func(n *Node) { n.queries.Limits().TaskedStep = 4 }))
	owner, ids := r.agents("acme", 3)
	var sent []parley.ConversationID // with ids[1], oldest first
	send := func(to parley.AgentID) {
		clock.advance(time.Minute)
		p := must(r.send(direct(owner, ids[0], to, "hello", "")))(t)
		if to == ids[1] {
			sent = append(sent, p.Message.Conversation())
		}
	}
	newest := func(limit int, since time.Time) (found []parley.ConversationID, read int) {
		read, err := r.node.Messages.NewestTasks(t.Context(), ids[0], ids[1], since, limit, func(s *conversation.State) error {
			found = append(found, s.ConversationID())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return found, read
	}
	for n := range 40 {
		send(ids[1+n%2])
		if n == 20 {
			tasksOf(t, r, ids[0], ids[1]) // which writes rows
		}
		for _, limit := range []int{1, 7, 1000} {
			found, read := newest(limit, time.Time{})
			want := slices.Clone(sent)
			slices.Reverse(want)
			if read > limit || len(found) > len(want) || !slices.Equal(found, want[:len(found)]) || limit == 1000 && len(found) != len(want) {
				t.Fatalf("after %d messages, %d of %d are found within %d; read %d", n+1, len(found), len(want), limit, read)
			}
		}
	}
	if found, _ := newest(1000, sent[15].Time()); len(found) != 5 {
		t.Errorf("%d of 5 are found since the fifth last", len(found))
	}
}
