package actors

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"parley/client/parley"
	"parley/journal"
)

// pagesOf reads an agent's list page by page.
func pagesOf(t *testing.T, r *testNode, agent parley.AgentID, limit int) (list []parley.ConversationID) {
	t.Helper()
	for before := uint64(0); ; {
		page, next, err := r.node.Messages.Conversations(context.Background(), agent, before, limit)
		if err != nil || len(page) > limit {
			t.Errorf("a page of %d conversations, limit %d: %v", len(page), limit, err)
			return nil
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

// TestListingsShowWhatWasSent compares pages of agents' lists with what was sent, latest
// first. Pages are cut after a few entries, and rows are written for a few entries at a
// time, by several listings at once.
func TestListingsShowWhatWasSent(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprint(journals), func(t *testing.T) {
			draw := rand.New(rand.NewPCG(3, uint64(journals)))
			r := newTestNode(t, withJournals(journals), withTuning(func(n *Node) {
				limits := n.queries.Limits()
				limits.ListedStep, limits.ListedMax, limits.ListRows = 4, 9, 5
			}))
			owner, ids := r.agents("acme", 4)
			sent := map[parley.AgentID][]parley.ConversationID{}
			for n := range 120 {
				from, to := ids[draw.IntN(4)], ids[draw.IntN(3)]
				if from == to {
					to = ids[3]
				}
				p := must(r.send(direct(owner, from, to, fmt.Sprint("hello ", n), "")))(t)
				id := p.Message.Conversation()
				eventually(t, "the message has arrived", func() bool {
					m, err := r.node.Messages.GetFor(context.Background(), to.Slot(), p.Message.MessageID())
					return err == nil && m.Position != 0
				})
				for _, who := range []parley.AgentID{from, to} {
					sent[who] = slices.Insert(sent[who], 0, id)
				}
				for range draw.IntN(4) { // entries that begin no conversation
					must(r.reply(answerTo(owner, p.Message, "answer", "")))(t)
				}
				who := ids[draw.IntN(4)]
				var listings sync.WaitGroup
				for range 1 + draw.IntN(2) {
					limit := 1 + draw.IntN(9)
					listings.Go(func() {
						if got := pagesOf(t, r, who, limit); !slices.Equal(got, sent[who]) {
							t.Errorf("after %d messages the list of agent %s has %d conversations, not %d:\n%v\n%v", n+1, who, len(got), len(sent[who]), got, sent[who])
						}
					})
				}
				if listings.Wait(); t.Failed() {
					return
				}
			}
			for _, id := range ids {
				if _, found, err := r.store.Row(id.Slot(), journal.ListedTable, id[:]); err != nil || !found {
					t.Errorf("no listing has stored rows for agent %s: %v", id, err)
				}
			}
		})
	}
}
