package persistence

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley"
	"parley/journal"
	"parley/persistence/disk"
	"parley/persistence/layout"
)

// storeView shows the store as it was at one instant, across all journals; a view
// by Latest shows it as it is at each read. What it shows may not be durable yet:
// callers call Durable before they answer from it.
type storeView struct {
	store *Store
	// rows is a snapshot if isInstant is set, or the engine itself; nil if the store is closed.
	rows      pebble.Reader
	isInstant bool
	// applied is the number of a commit that is at or after everything that a
	// snapshot shows.
	applied uint64
	// atLeast is the number of a commit that a snapshot shows; 0 in a view by Latest.
	atLeast uint64
	// idle is an iterator of a snapshot between two scans, nil if there is none. To open
	// one for each scan costs several times as much as a short scan.
	idle atomic.Pointer[scanner]
}

// What a view shows, by kind: the parts of a journal.View.
type (
	streamsAt  struct{ *storeView }
	messagesAt struct{ *storeView }
	feedsAt    struct{ *storeView }
	rowsAt     struct{ *storeView }
)

// parts is the view as its readers see it.
func (v *storeView) parts() journal.View {
	return journal.View{Instant: v, StreamReader: streamsAt{v}, MessageReader: messagesAt{v}, FeedReader: feedsAt{v}, RowReader: rowsAt{v}}
}

// scanner is an iterator that several scans use, one after the other.
type scanner struct {
	*pebble.Iterator
	scans int
}

// scansMax bounds the scans of one iterator, which keeps files and tables in memory that
// the engine has replaced since.
const scansMax = 1024

// durablePatience is how long a reader waits for a disk that hangs.
const durablePatience = 5 * time.Second

// View opens a view, which must be closed. A view of a closed store returns
// journal.ErrClosed.
func (s reader) View() journal.View { return s.view().parts() }

func (s *Store) view() *storeView {
	if !s.enter() {
		return &storeView{store: s}
	}
	atLeast := s.visible.Load()
	v := &storeView{store: s, isInstant: true, atLeast: atLeast}
	if s.replica != nil {
		v.rows = s.instant()
	} else {
		v.rows = s.db.NewSnapshot()
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
		return &storeView{store: s}
	}
	return &storeView{store: s, rows: s.db}
}

// Close releases the view.
func (v *storeView) Close() {
	if v.rows == nil {
		return
	}
	if iter := v.idle.Swap(nil); iter != nil {
		_ = iter.Close()
	}
	if v.isInstant {
		_ = v.rows.Close()
	}
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

func (v *storeView) get(k []byte) ([]byte, bool, error) {
	if v.rows == nil {
		return nil, false, journal.ErrClosed
	}
	return layout.Get(v.rows, k)
}

// Durable returns once everything that the view shows is on stable storage.
func (v *storeView) Durable(ctx context.Context) error {
	if v.store.opts.Sequencer != nil {
		return nil // what a replica shows was committed
	}
	applied := v.applied
	if !v.isInstant {
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
	value, found, err := v.get(layout.HeadKey(number))
	if err != nil || !found {
		return err != nil
	}
	h, err := disk.DecodeHead(value)
	return err != nil || h.Number == number
}

// scan calls fn for each key within [low, high), last first if reverse, until
// fn returns false. Key and value are only valid during the call.
func (v *storeView) scan(low, high []byte, reverse bool, fn func(k, value []byte) (bool, error)) error {
	if v.rows == nil {
		return journal.ErrClosed
	}
	iter, err := v.scanner(low, high)
	if err != nil {
		return err
	}
	first, next := iter.First, iter.Next
	if reverse {
		first, next = iter.Last, iter.Prev
	}
	more := true
	for ok := first(); ok && more && err == nil; ok = next() {
		var value []byte
		if value, err = iter.ValueAndErr(); err == nil {
			more, err = fn(iter.Key(), value)
		}
	}
	if closeErr := v.release(iter); err == nil {
		err = closeErr
	}
	return err
}

// scanner returns an iterator for one scan of [low, high).
func (v *storeView) scanner(low, high []byte) (*scanner, error) {
	if iter := v.idle.Swap(nil); iter != nil {
		iter.SetBounds(low, high)
		return iter, nil
	}
	iter, err := v.iterator(low, high)
	return &scanner{Iterator: iter}, err
}

// iterOptions keeps options between iterators, which copy them: 192 bytes for each would be
// garbage.
var iterOptions = sync.Pool{New: func() any { return new(pebble.IterOptions) }}

// iterator returns an iterator over the rows of [low, high).
func (v *storeView) iterator(low, high []byte) (*pebble.Iterator, error) {
	o := iterOptions.Get().(*pebble.IterOptions)
	o.LowerBound, o.UpperBound = low, high
	iter, err := v.rows.NewIter(o)
	o.LowerBound, o.UpperBound = nil, nil
	iterOptions.Put(o)
	return iter, err
}

// release takes an iterator back after a scan, and returns the error that ended the scan.
func (v *storeView) release(iter *scanner) error {
	iter.scans++
	if v.isInstant && iter.scans < scansMax && iter.Error() == nil && v.idle.CompareAndSwap(nil, iter) {
		return nil
	}
	return iter.Close()
}

// State returns a stream's stored state and the number of events folded into it;
// nil if there is none.
func (v streamsAt) State(s journal.Stream) (seq uint64, state []byte, err error) {
	value, found, err := v.get(layout.StateKey(s))
	if err != nil || !found {
		return 0, nil, err
	}
	if len(value) < 8 {
		return 0, nil, fmt.Errorf("state of %d bytes", len(value))
	}
	return layout.Number(value), value[8:], nil
}

// Version returns a hash of what is stored as a stream's state, 0 if there is nothing.
func (v streamsAt) Version(s journal.Stream) (uint64, error) {
	if v.rows == nil {
		return 0, journal.ErrClosed
	}
	value, closer, err := v.rows.Get(layout.StateKey(s))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	h := fnv.New64a()
	_, _ = h.Write(value) // never fails
	return max(h.Sum64(), 1), closer.Close()
}

// Events calls fn with the stream's events, from number from (counted from 1) on in
// order, or down from it if reverse, until fn returns false.
func (v streamsAt) Events(s journal.Stream, from uint64, reverse bool, fn func(seq uint64, at int64, f journal.StoredEvent) bool) error {
	low, high := layout.EventKey(s, from), layout.After(layout.StreamKey(layout.EventFamily, s, 0))
	if reverse {
		low, high = layout.EventKey(s, 1), layout.After(layout.EventKey(s, from))
	}
	return v.scan(low, high, reverse, func(k, value []byte) (bool, error) {
		if len(value) < 9 {
			return false, fmt.Errorf("event of %d bytes", len(value))
		}
		f := journal.StoredEvent{Tag: value[0], Data: append([]byte(nil), value[9:]...)}
		return fn(layout.Number(k[len(k)-8:]), int64(layout.NumberAt(value, 1)), f), nil
	})
}

// Message calls read with a message's record as stored for a reader at slot, and
// returns the message's position in the feed of a recipient who lives there. The
// record is only valid during the call. Without a record, read is not called.
func (v messagesAt) Message(slot parley.Slot, id parley.MessageID, read func(record []byte) error) (position uint64, err error) {
	if v.rows == nil {
		return 0, journal.ErrClosed
	}
	_, err = v.record(v.store.homes.Residence(slot, id), id, func(at uint64, record []byte) error {
		position = at
		return read(record)
	})
	return position, err
}

// record calls read with the record of a message that is stored under slot, if
// there is one.
func (v messagesAt) record(slot parley.Slot, id parley.MessageID, read func(position uint64, record []byte) error) (found bool, err error) {
	value, closer, err := v.rows.Get(layout.MessageKey(layout.RecordFamily, slot, id))
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	case len(value) < 8: // or it could not be fetched: then Close says why
		return true, cmp.Or(closer.Close(), fmt.Errorf("record of %d bytes", len(value)))
	}
	err = read(layout.Number(value), value[8:])
	return true, errors.Join(err, closer.Close())
}

// Receipts returns the receipts of m's message: those stored beside the recipient's
// feed, by position, or, if m has no recipient, those stored at the home of the
// conversation.
func (v feedsAt) Receipts(m journal.RecordReceipt) (journal.Receipts, error) {
	value, found, err := v.get(layout.ReceiptKey(m))
	if err != nil || !found {
		return journal.Receipts{}, err
	}
	return layout.DecodeReceipts(value)
}

// FeedReceipts calls fn with the receipts of agent's messages at positions from low
// to high, oldest first. Messages without receipts are left out.
func (v feedsAt) FeedReceipts(agent parley.AgentID, low, high uint64, fn func(position uint64, m journal.Receipts)) error {
	lowKey, highKey := layout.FeedKey(layout.ReceiptFamily, agent, low), layout.After(layout.FeedKey(layout.ReceiptFamily, agent, high))
	return v.scan(lowKey, highKey, false, func(k, value []byte) (bool, error) {
		receipts, err := layout.DecodeReceipts(value)
		if err == nil {
			fn(layout.Number(k[len(k)-8:]), receipts)
		}
		return true, err
	})
}

// Feed calls fn with agent's feed entries of positions (from, upTo], oldest
// first, until fn returns false.
func (v feedsAt) Feed(agent parley.AgentID, from, upTo uint64, fn func(journal.FeedEntry) bool) error {
	if from >= upTo {
		return nil
	}
	if v.rows == nil {
		return journal.ErrClosed
	}
	low, high := feedBounds(agent, from+1, upTo)
	iter, err := v.scanner(low, high)
	if err != nil {
		return err
	}
	rows, err := newFeedRows(iter.Iterator)
	if err != nil {
		return errors.Join(err, v.release(iter))
	}
	err = rows.scan(low, high, func(k, value []byte) (bool, error) { return giveFeed(k, value, fn) })
	return errors.Join(err, rows.close(), v.release(iter))
}

// Inbox calls fn with the entries of agent's feed that bring messages, of positions (from,
// upTo], oldest first, until fn returns false.
func (v feedsAt) Inbox(agent parley.AgentID, from, upTo uint64, fn func(journal.FeedEntry) bool) error {
	if from >= upTo {
		return nil
	}
	return v.inbox(agent, from+1, upTo, false, fn)
}

// InboxBefore calls fn with the entries of agent's feed that bring messages, of positions
// below before, newest first, until fn returns false. before 0 is the end of the feed.
func (v feedsAt) InboxBefore(agent parley.AgentID, before uint64, fn func(journal.FeedEntry) bool) error {
	return v.inbox(agent, 0, before-1, true, fn)
}

func (v feedsAt) inbox(agent parley.AgentID, from, upTo uint64, reverse bool, fn func(journal.FeedEntry) bool) error {
	low, high := feedBounds(agent, from, upTo)
	return v.scan(low, high, reverse, func(k, value []byte) (bool, error) {
		return giveFeed(k, value, fn)
	})
}

// feedBounds are the keys between which the messages of positions from to upTo are.
func feedBounds(agent parley.AgentID, from, upTo uint64) (low, high []byte) {
	return layout.FeedKey(layout.FeedFamily, agent, from), layout.After(layout.FeedKey(layout.FeedFamily, agent, upTo))
}

// giveFeed calls fn with an entry, unless it was dropped.
func giveFeed(k, value []byte, fn func(journal.FeedEntry) bool) (more bool, err error) {
	if len(value) > 0 && layout.Dropped(value) {
		return true, nil
	}
	e, err := layout.DecodeFeed(layout.Number(k[len(k)-8:]), value)
	return err == nil && fn(e), err
}

// Row returns the value of one row.
func (v rowsAt) Row(slot parley.Slot, table journal.Table, k []byte) ([]byte, bool, error) {
	return v.get(layout.RowKey(slot, table, k))
}

// RowSize returns the length of the stored value of one row, 0 if there is none.
func (v rowsAt) RowSize(slot parley.Slot, table journal.Table, k []byte) (int, error) {
	if v.rows == nil {
		return 0, journal.ErrClosed
	}
	value, closer, err := v.rows.Get(layout.RowKey(slot, table, k))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return len(value), closer.Close()
}

// Rows calls fn with the rows whose keys begin with prefix, after the key beyond
// (nil: from the first, or from the last if reverse), until fn returns false.
func (v rowsAt) Rows(slot parley.Slot, table journal.Table, prefix, beyond []byte, reverse bool, fn func(k, value []byte) bool) error {
	low, head := layout.RowKey(slot, table, prefix), len(layout.RowKey(slot, table, nil))
	high := layout.After(low)
	switch {
	case beyond != nil && reverse:
		high = slices.MinFunc([][]byte{high, layout.RowKey(slot, table, beyond)}, bytes.Compare)
	case beyond != nil:
		low = slices.MaxFunc([][]byte{low, append(layout.RowKey(slot, table, beyond), 0)}, bytes.Compare)
	}
	return v.scan(low, high, reverse, func(k, value []byte) (bool, error) { return fn(k[head:], value), nil })
}

// Table calls fn with all rows of a table, in all journals, until fn returns false.
func (v rowsAt) Table(table journal.Table, fn func(k, value []byte) bool) error {
	return v.table(table, func(k []byte, iter *pebble.Iterator) (bool, error) {
		value, err := iter.ValueAndErr()
		return err == nil && fn(k, value), err
	})
}

// Keys calls fn with the keys of all rows of a table, in all journals, until fn returns
// false. It reads no values.
func (v rowsAt) Keys(table journal.Table, fn func(k []byte) bool) error {
	return v.table(table, func(k []byte, _ *pebble.Iterator) (bool, error) { return fn(k), nil })
}

func (v rowsAt) table(table journal.Table, fn func(k []byte, at *pebble.Iterator) (bool, error)) error {
	if v.rows == nil {
		return journal.ErrClosed
	}
	iter, err := v.rows.NewIter(nil)
	if err != nil {
		return err
	}
	for slot := parley.Slot(0); slot < parley.Slots; {
		low := layout.RowKey(slot, table, nil)
		ok := iter.SeekGE(low)
		for ; ok && bytes.HasPrefix(iter.Key(), low); ok = iter.Next() {
			if more, err := fn(iter.Key()[len(low):], iter); err != nil || !more {
				return errors.Join(err, iter.Close())
			}
		}
		if !ok {
			break
		}
		slot++
		if next, _ := layout.FamilyOf(iter.Key()); next > slot { // the slots between have no rows
			slot = next
		}
	}
	return errors.Join(iter.Error(), iter.Close())
}

// Queue calls fn with the messages queued for an actor after the given number,
// oldest first. An actor that passes the last number it handled spares the engine
// the deleted rows before it.
func (v streamsAt) Queue(s journal.Stream, beyond uint64, fn func(journal.QueuedMessage) bool) error {
	return v.scan(layout.QueueKey(s, beyond+1), layout.After(layout.StreamKey(layout.QueueFamily, s, 0)), false, func(k, value []byte) (bool, error) {
		return fn(journal.QueuedMessage{Number: layout.Number(k[len(k)-8:]), Data: append([]byte(nil), value...)}), nil
	})
}

// Used is what an organization used on a day, over all journals. It reads all rows of the
// organization, one for each day and journal.
func (v rowsAt) Used(org parley.OrgID, day uint32) (u journal.Usage, err error) {
	for n := range int(v.store.homes) {
		from := v.store.homes.QuotasKey(n, org)
		err = errors.Join(err, v.scan(from, layout.After(from), false, func(k, value []byte) (bool, error) {
			q, ok := layout.QuotaOf(k)
			if !ok {
				return true, nil
			}
			count, bytes := layout.DecodeCount(q.Of, layout.Number(value))
			u.Stored += bytes
			if q.Day == day {
				u.Add(q.Of, count)
			}
			return true, nil
		}))
	}
	return u, err
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
func (v feedsAt) Commit() uint64 { return v.atLeast }

// FeedUnchanged implements journal.FeedReader. All commits that the snapshot shows have been
// noted: a feed without a later one than commit is as it was then.
func (v feedsAt) FeedUnchanged(agent parley.AgentID, commit uint64) bool {
	return commit > 0 && commit <= v.atLeast && v.store.feeds.Last(agent) <= commit
}
