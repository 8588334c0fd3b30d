package actors

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"parley"
	"parley/actors/conversation"
	"parley/journal"
)

// scanList lists an agent's conversations by reading every entry of its feed and every
// row of its list, latest first.
func scanList(t *testing.T, r *testNode, agent parley.AgentID) []parley.ConversationID {
	t.Helper()
	places := map[uint64]parley.ConversationID{}
	v := r.store.View()
	defer v.Close()
	err := v.Rows(agent.Slot(), journal.ConversationTable, agent[:], nil, false, func(key, value []byte) bool {
		places[binary.BigEndian.Uint64(key[16:])] = parley.IDFromBytes[parley.ConversationID](value)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Feed(agent, 0, ^uint64(0), func(e journal.FeedEntry) bool {
		if e.Begins {
			id := conversation.StartedBy(parley.MessageID(e.Ref))
			if had, ok := places[e.Position]; ok && had != id {
				t.Errorf("the row at position %d lists %s, its entry begins %s", e.Position, had, id)
			}
			places[e.Position] = id
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	var positions []uint64
	for at := range places {
		positions = append(positions, at)
	}
	slices.Sort(positions)
	slices.Reverse(positions)
	list := make([]parley.ConversationID, len(positions))
	for i, at := range positions {
		list[i] = places[at]
	}
	return list
}

// pagesOf reads an agent's list page by page.
func pagesOf(t *testing.T, r *testNode, agent parley.AgentID, limit int) (list []parley.ConversationID) {
	t.Helper()
	for before := uint64(0); ; {
		page, next, err := r.node.Messages.Conversations(context.Background(), agent, before, limit)
		if err != nil || len(page) > limit {
			t.Fatalf("a page of %d conversations, limit %d: %v", len(page), limit, err)
		}
		for _, c := range page {
			list = append(list, c.ConversationID())
		}
		if next == 0 {
			return list
		}
		before = next
	}
}

// TestListingsAgreeWithAScan compares pages of agents' lists, whose rows are written by
// earlier listings, with a scan of all rows and entries.
func TestListingsAgreeWithAScan(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprint(journals), func(t *testing.T) {
			draw := rand.New(rand.NewPCG(3, uint64(journals)))
			r := newTestNode(t, withJournals(journals), withTuning(func(n *Node) { n.queries.Limits().ListedStep = 7 }))
			owner, ids := r.agents("acme", 4)
			folded := false
			for n := range 120 {
				from, to := ids[draw.IntN(4)], ids[draw.IntN(3)]
				if from == to {
					to = ids[3]
				}
				p := must(r.send(direct(owner, from, to, fmt.Sprint("hello ", n), "")))(t)
				eventually(t, "the message has arrived", func() bool {
					m, err := r.node.Messages.GetFor(context.Background(), to.Slot(), p.Message.MessageID())
					return err == nil && m.Position != 0
				})
				if n%5 == 0 {
					must(r.reply(answerTo(owner, p.Message, "answer", "")))(t)
				}
				who := ids[draw.IntN(4)]
				want, got := scanList(t, r, who), pagesOf(t, r, who, 1+draw.IntN(9))
				if !slices.Equal(got, want) {
					t.Fatalf("after %d messages agent %s has %d conversations in its list, a scan finds %d:\n%v\n%v", n+1, who, len(got), len(want), got, want)
				}
				row, _, err := r.store.Row(who.Slot(), journal.ListedTable, who[:])
				folded = folded || err == nil && !bytes.Equal(row, nil)
			}
			if !folded {
				t.Error("no listing has stored rows: only entries were compared")
			}
		})
	}
}
