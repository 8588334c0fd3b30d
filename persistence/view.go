package persistence

import (
	"context"
	"time"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/disk"
	"parley/persistence/layout"
	"parley/persistence/rows"
)

// storeView shows the store as it was at one instant, across all journals; a view
// by Latest shows it as it is at each read. What it shows may not be durable yet:
// callers call Durable before they answer from it.
type storeView struct {
	store *Store
	// View reads a snapshot if Instant is set, or the engine itself; none if the store is closed.
	rows.View
	// applied is the number of a commit that is at or after everything that a
	// snapshot shows.
	applied uint64
	// atLeast is the number of a commit that a snapshot shows; 0 in a view by Latest.
	atLeast uint64
	// feeds are the part that knows commits.
	feeds feedReader
}

// feedReader is the part of a view that reads feeds, and knows what changed in them.
type feedReader struct {
	rows.FeedReader
	view *storeView
}

// parts is the view as its readers see it.
func (v *storeView) parts() journal.View {
	r := &v.View
	v.feeds = feedReader{rows.FeedReader{View: r}, v}
	return journal.View{
		Instant: v, StreamReader: rows.StreamReader{View: r}, MessageReader: rows.MessageReader{View: r}, FeedReader: &v.feeds,
		RowReader: rows.TableReader{View: r},
	}
}

// durablePatience is how long a reader waits for a disk that hangs.
const durablePatience = 5 * time.Second

// View opens a view, which must be closed. A view of a closed store returns
// journal.ErrClosed.
func (s reader) View() journal.View { return s.view().parts() }

func (s *Store) view() *storeView {
	if !s.enter() {
		return &storeView{store: s, View: rows.View{Homes: s.homes}}
	}
	atLeast := s.visible.Load()
	v := &storeView{store: s, View: rows.View{Homes: s.homes, Instant: true}, atLeast: atLeast}
	if s.replica != nil {
		v.Reader = s.instant()
	} else {
		v.Reader = s.db.NewSnapshot()
	}
	v.applied = s.applied.Load()
	return v
}

// Latest opens a view in which each read sees what is applied by then: two reads
// may see two instants. It needs no snapshot, and suits a caller that reads one row
// or scans once.
func (s reader) Latest() journal.View { return s.latest().parts() }

func (s *Store) latest() *storeView {
	if !s.enter() {
		return &storeView{store: s, View: rows.View{Homes: s.homes}}
	}
	return &storeView{store: s, View: rows.View{Homes: s.homes, Reader: s.db}}
}

// Close releases the view.
func (v *storeView) Close() {
	if v.Reader == nil {
		return
	}
	v.View.Close()
	v.store.readers.Add(-1)
}

// enter counts a reader in, unless the store is closing.
func (s *Store) enter() bool {
	s.readers.Add(1)
	if s.shut.Load() {
		s.readers.Add(-1)
		return false
	}
	return true
}

// Durable returns once everything that the view shows is on stable storage.
func (v *storeView) Durable(ctx context.Context) error {
	if v.store.opts.Sequencer != nil {
		return nil // what a replica shows was committed
	}
	applied := v.applied
	if !v.Instant {
		applied = v.store.applied.Load() // at or after everything that was read
	}
	if v.store.durable.Level() < applied && !v.shows(applied) {
		applied-- // that commit is still under way, perhaps for long
	}
	if !v.store.durable.Wait(ctx, applied, durablePatience) {
		return parley.ErrOverloaded
	}
	return nil
}

// shows reports whether the view has the commit of that number.
func (v *storeView) shows(number uint64) bool {
	value, found, err := v.Get(layout.HeadKey(number))
	if err != nil || !found {
		return err != nil
	}
	h, err := disk.DecodeHead(value)
	return err != nil || h.Number == number
}

// Row reads one row as last applied, durable or not.
func (s reader) Row(slot parley.Slot, table journal.Table, k []byte) ([]byte, bool, error) {
	if !s.enter() {
		return nil, false, journal.ErrClosed
	}
	defer s.readers.Add(-1)
	return layout.Get(s.db, layout.RowKey(slot, table, k))
}

// Commit is the number of a commit that a snapshot shows, and all before it.
func (r *feedReader) Commit() uint64 { return r.view.atLeast }

// FeedUnchanged implements journal.FeedReader. All commits that the snapshot shows have been
// noted: a feed without a later one than commit is as it was then.
func (r *feedReader) FeedUnchanged(agent parley.AgentID, commit uint64) bool {
	return commit > 0 && commit <= r.view.atLeast && r.view.store.feeds.Last(agent) <= commit
}
