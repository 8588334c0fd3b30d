package actors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"parley/actors/query"
	"parley/client/parley"
	"parley/journal"
)

// unreadOf returns the numbers of an agent's messages without a read receipt, oldest
// first, as its inbox shows them.
func (r *testNode) unreadOf(of parley.AgentID) (all []string) {
	for _, m := range slices.Backward(r.inbox(of)) {
		if m.Receipts.ReadAt == 0 {
			all = append(all, string(m.Record.GetContent()))
		}
	}
	return all
}

func contents(w query.Waiting) (all []string) {
	for _, m := range w.Items {
		all = append(all, string(m.Record.GetContent()))
	}
	return all
}

// wait returns the messages after a position of a feed, in as many scans as needed.
func (r *testNode) wait(at query.Awaited, limit int) (w query.Waiting) {
	r.t.Helper()
	for more := true; more; {
		var err error
		if w, more, err = at.Look(context.Background(), limit, nil); err != nil {
			r.t.Fatal(err)
		}
	}
	return w
}

// waitingAgrees compares the results of waits from each position with the inbox: all
// newer messages, and how many of the rest are unread.
func (r *testNode) waitingAgrees(of parley.AgentID, limit int) error {
	r.t.Helper()
	inbox := r.inbox(of)
	slices.Reverse(inbox)
	for i := -1; i < len(inbox); i++ {
		after, rest := uint64(0), inbox[i+1:]
		if i >= 0 {
			after = inbox[i].Position
		}
		given, unread := rest[:min(limit, len(rest))], 0
		for _, m := range rest[len(given):] {
			if m.Receipts.ReadAt == 0 {
				unread++
			}
		}
		w := r.wait(r.node.Feeds.After(of, after), limit)
		if !slices.EqualFunc(w.Items, given, func(a, b query.Message) bool { return a.Position == b.Position && a.Receipts == b.Receipts }) || w.Unread != unread {
			return fmt.Errorf("after %d: %v and %d unread, want %d and %d", i, contents(w), w.Unread, len(given), unread)
		}
	}
	return nil
}

func TestReadUpTo(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprint(journals), func(t *testing.T) {
			r := newTestNode(t, withJournals(journals), withTuning(func(n *Node) { n.Receipts.ReadStep = 7 }))
			owner, ids := r.agents("acme", 2)
			ctx, to := context.Background(), ids[1]
			for i := range 60 {
				must(r.send(direct(owner, ids[0], to, fmt.Sprint(i), "")))(t)
			}
			inbox := r.inbox(to)
			slices.Reverse(inbox)
			random := rand.New(rand.NewPCG(1, 2))
			read := func(i int) {
				mark := journal.RecordReceipt{
					Recipient: to, Message: inbox[i].Record.MessageID(), Position: inbox[i].Position, Sender: ids[0],
					Receipts: journal.Receipts{TransferredAt: 3, ReadAt: 3},
				}
				if err := r.node.Receipts.Record(ctx, to, []journal.RecordReceipt{mark}); err != nil {
					t.Fatal(err)
				}
			}
			for range 12 {
				read(random.IntN(60))
			}
			for _, upTo := range []int{0, 33, 12, 33, 34, 59, 59} {
				want := 0
				for _, m := range r.inbox(to) {
					if m.Position <= inbox[upTo].Position && m.Receipts.ReadAt == 0 {
						want++
					}
				}
				if n := must(r.node.Receipts.ReadUpTo(ctx, to, inbox[upTo].Position, nil))(t); n != want {
					t.Errorf("up to %d: %d were read, want %d", upTo, n, want)
				}
				for i, m := range slices.Backward(r.inbox(to)) {
					if i := 59 - i; i <= upTo && (m.Receipts.ReadAt == 0 || m.Receipts.DeliveredAt() == 0) {
						t.Errorf("up to %d: message %d has receipts %+v", upTo, i, m.Receipts)
					}
				}
				if err := r.waitingAgrees(to, 4); err != nil {
					t.Errorf("up to %d: %v", upTo, err)
				}
			}
			must(r.send(direct(owner, ids[0], to, "new", "")))(t)
			r.restart()
			if got := r.unreadOf(to); !slices.Equal(got, []string{"new"}) {
				t.Errorf("unread after all were read: %v", got)
			}
			if err := r.waitingAgrees(to, 4); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWaitingAgreesControl stores a read position that is too high, which must be
// detected.
func TestWaitingAgreesControl(t *testing.T) {
	r := newTestNode(t)
	owner, ids := r.agents("acme", 2)
	for i := range 5 {
		must(r.send(direct(owner, ids[0], ids[1], fmt.Sprint(i), "")))(t)
	}
	if err := r.waitingAgrees(ids[1], 2); err != nil {
		t.Fatal(err)
	}
	r.node.Feeds.KeepRead(ids[1], r.inbox(ids[1])[2].Position)
	eventually(t, "the note is found out", func() bool { return r.waitingAgrees(ids[1], 2) != nil })
}

func TestReadUpToEndsEarly(t *testing.T) {
	r := newTestNode(t)
	owner, ids := r.agents("acme", 2)
	must(r.send(direct(owner, ids[0], ids[1], "m", "")))(t)
	stop := make(chan struct{})
	close(stop)
	if n, err := r.node.Receipts.ReadUpTo(context.Background(), ids[1], r.inbox(ids[1])[0].Position, stop); n != 0 || !errors.Is(err, parley.ErrOutcomeUnknown) {
		t.Errorf("%d were read, %v", n, err)
	}
}

func TestWaitingForUntransferredMessages(t *testing.T) {
	r := newTestNode(t)
	owner, ids := r.agents("acme", 2)
	to := ids[1]
	for i := range 5 {
		must(r.send(direct(owner, ids[0], to, fmt.Sprint(i), "")))(t)
	}
	r.setReceipts(to, journal.Receipts{AnnouncedAt: 3})                                              // 4: announced, not transferred
	r.setReceiptsOf(r.inbox(to)[2], journal.Receipts{TransferredAt: 3, TransferredBy: 1})            // 2: transferred, not read
	r.setReceiptsOf(r.inbox(to)[4], journal.Receipts{TransferredAt: 3, TransferredBy: 1, ReadAt: 3}) // 0
	place := r.node.Feeds.Untransferred(to)
	w := r.wait(place, 2)
	if got := contents(w); !slices.Equal(got, []string{"1", "3"}) || w.Unread != 1 {
		t.Errorf("first: %v and %d more", got, w.Unread)
	}
	w = r.wait(place, 2)
	if got := contents(w); !slices.Equal(got, []string{"4"}) || w.Unread != 0 {
		t.Errorf("then: %v and %d more", got, w.Unread)
	}
}

func (r *testNode) setReceiptsOf(m query.Message, marks journal.Receipts) {
	r.t.Helper()
	if err := r.node.Receipts.Record(context.Background(), m.Record.Recipient(), []journal.RecordReceipt{{
		Recipient: m.Record.Recipient(), Message: m.Record.MessageID(), Position: m.Position, Receipts: marks, Sender: m.Record.Sender(),
		Copy: m.Record.Copied(),
	}}); err != nil {
		r.t.Fatal(err)
	}
}
