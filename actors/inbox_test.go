package actors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"parley/actors/query"
	"parley/client/parley"
	"parley/journal"
)

// TestInboxKeepsUp reads pages of inboxes, which may come from memory, while messages
// and receipts change them, and compares each page with the rows. The control
// takes every feed for unchanged.
func TestInboxKeepsUp(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprint(journals), func(t *testing.T) {
			if wrong := inboxErrors(t, newTestNode(t, withJournals(journals)), 1500); wrong != "" {
				t.Error(wrong)
			}
		})
	}
}

func TestInboxKeepsUpControl(t *testing.T) {
	blind := withWrap(func(j journal.Journal) journal.Journal { return journal.Of(unchangingJournal{j}) })
	if wrong := inboxErrors(t, newTestNode(t, blind), 1500); wrong == "" {
		t.Error("nobody notices a feed that is always unchanged")
	}
}

// inboxErrors describes the first page that differs from the rows, if any does.
func inboxErrors(t *testing.T, r *testNode, steps int) string {
	rng, ctx := rand.New(rand.NewPCG(1, 2)), context.Background()
	owner, ids := r.agents("acme", 4)
	for step := range steps {
		to := ids[rng.IntN(len(ids)-1)]
		switch rng.IntN(4) {
		case 0:
			must(r.send(direct(owner, ids[len(ids)-1], to, fmt.Sprint(step), "")))(t)
		case 1:
			if len(r.inbox(to)) > 0 {
				r.setReceipts(to, journal.Receipts{ReadAt: int64(step + 1)})
			}
		}
		limit, before := 1+rng.IntN(25), uint64(0)
		for range 3 {
			page, next, err := r.node.Messages.Inbox(ctx, to, before, limit, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := pageTexts(page), rowsBefore(t, r, to, before, limit); got != want {
				return fmt.Sprintf("step %d, limit %d, before %d:\n%s\nis not\n%s", step, limit, before, got, want)
			}
			if before = next; next == 0 {
				break
			}
		}
	}
	v := r.contents.View()
	defer v.Close()
	if !v.FeedUnchanged(ids[0], v.Commit()) {
		return "a feed at rest has changed"
	}
	return ""
}

func pageTexts(page []query.Message) (text string) {
	for _, m := range page {
		text += fmt.Sprintln(m.Position, m.Record.MessageID(), m.Receipts)
	}
	return text
}

// rowsBefore describes a page as the rows have it.
func rowsBefore(t *testing.T, r *testNode, of parley.AgentID, before uint64, limit int) string {
	v := r.contents.View()
	defer v.Close()
	var page []query.Message
	var err error
	scan := v.InboxBefore(of, before, func(e journal.FeedEntry) bool {
		if err == nil {
			var m query.Message
			m, err = query.ReadRecord(v, of.Slot(), parley.MessageID(e.Ref))
			m.Position = e.Position
			page = append(page, m)
		}
		return err == nil && len(page) < limit
	})
	for i := range page {
		at := page[i].Position
		err = errors.Join(err, v.FeedReceipts(of, at, at, func(_ uint64, receipts journal.Receipts) { page[i].Receipts = receipts }))
	}
	if err := errors.Join(scan, err); err != nil {
		t.Fatal(err)
	}
	return pageTexts(page)
}

// unchangingJournal takes every feed for unchanged.
type unchangingJournal struct{ journal.Journal }

func (j unchangingJournal) View() journal.View {
	return journal.ViewOf(unchangingView{j.Journal.View()})
}

type unchangingView struct{ journal.View }

func (unchangingView) FeedUnchanged(parley.AgentID, uint64) bool { return true }
