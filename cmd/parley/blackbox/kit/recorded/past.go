package recorded

import (
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/history"
)

// PastInbox is an inbox of a past era, in the order that was checked.
type PastInbox struct {
	of    *Participant
	order []history.ID // newest first
}

// AddTo adds the counts to those of a longer run.
func (y *Tally) AddTo(sum *Tally) {
	sum.Kills += y.Kills
	sum.Retried += y.Retried
	sum.before += y.before
	sum.Acked.Add(y.Acked.Load())
	sum.Lived += y.Lived
	sum.Restarts = append(sum.Restarts, y.Restarts...)
}

// Keep remembers the inboxes of an era.
func (w *Server) Keep() []PastInbox {
	var all []PastInbox
	for _, p := range w.Parties() {
		page, err := w.Page(p, 100, 1<<20)
		if err != nil {
			w.T.Fatal(err)
		}
		k := PastInbox{of: p}
		for _, m := range page.Rows {
			k.order = append(k.order, m.ID)
		}
		all = append(all, k)
	}
	return all
}

// Read reads an inbox of a past era again: it must be unchanged.
func Read(t *testing.T, s *kit.Server, k PastInbox) {
	t.Helper()
	k.of.Token = s.Grant(t, k.of.Client, k.of.Secret).Want(200).Str("access_token")
	w := &Server{T: t, S: s, H: history.New(kit.SettleWait), Began: time.Now()}
	page, err := w.Page(k.of, 100, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range k.order {
		if i >= len(page.Rows) || page.Rows[i].ID != id {
			t.Fatalf("row %d of the inbox of %s was %s; it now has %d rows of %d", i, k.of.ID, id, len(page.Rows), len(k.order))
		}
	}
	if len(page.Rows) != len(k.order) {
		t.Fatalf("the inbox of %s has %d rows, and had %d", k.of.ID, len(page.Rows), len(k.order))
	}
}
