package persistence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"

	"parley/journal"
	"parley/persistence/disk"
	"parley/persistence/layout"
)

// receivedPrefix begins the names of directories with snapshots that were received, in the
// store's own directory, where links cost nothing. Open removes what a crash left.
const receivedPrefix = "received."

// receivedTableBytes is the size of rows from which on the next table is begun.
const receivedTableBytes = 32 << 20

// received numbers the directories of a process.
var received atomic.Uint64

// Received is a snapshot of another replica, which lies beside the rows of this one. It must
// be closed.
type Received struct {
	store  *Store
	dir    string
	tables []string
	at     layout.GroupPosition
}

// Receive reads a snapshot, checks it, and stores it durably beside the replica's rows. It
// needs memory for one frame and one block of a table.
func (r *Replica) Receive(from io.Reader) (*Received, error) {
	s := r.store
	x := &Received{store: s, dir: s.plain.PathJoin(s.dir, fmt.Sprint(receivedPrefix, received.Add(1)))}
	if err := x.read(from); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// Position is the place of the order whose content it is.
func (x *Received) Position() layout.GroupPosition { return x.at }

// Close removes what was received.
func (x *Received) Close() error { return x.store.plain.RemoveAll(x.dir) }

func (x *Received) read(from io.Reader) (err error) {
	if err := disk.MakeDirectory(x.store.plain, x.dir); err != nil {
		return err
	}
	options := opening{x.store}.engineOptions()
	options.EnsureDefaults()
	to := tableWriter{
		received: x,
		options:  options.MakeWriterOptions(len(options.Levels)-1, x.store.db.FormatMajorVersion().MaxTableFormat()),
	}
	found := false
	if err = readSnapshot(from, x.store.homes, func(key, value []byte) error {
		if bytes.Equal(key, layout.GroupKey()) {
			at, err := layout.DecodeGroupPosition(value)
			if err != nil {
				return err
			}
			x.at, found = at, true
		}
		return to.add(key, value)
	}); err == nil && !found {
		err = fmt.Errorf("%w: it has no position", errSnapshot)
	}
	if err = errors.Join(err, to.end()); err != nil {
		return err
	}
	return disk.SyncDirectory(x.store.plain, x.dir)
}

// tableWriter writes rows into tables.
type tableWriter struct {
	received *Received
	options  sstable.WriterOptions
	table    *sstable.Writer // nil between two tables
	bytes    int
}

func (t *tableWriter) add(key, value []byte) error {
	if t.table == nil {
		x := t.received
		path := x.store.plain.PathJoin(x.dir, fmt.Sprintf("%06d.sst", len(x.tables)))
		file, err := x.store.plain.Create(path, "snapshot")
		if err != nil {
			return err
		}
		t.table, t.bytes = sstable.NewWriter(objstorageprovider.NewFileWritable(file), t.options), 0
		x.tables = append(x.tables, path)
	}
	if err := t.table.Set(key, value); err != nil {
		return err
	}
	if t.bytes += len(key) + len(value); t.bytes < receivedTableBytes {
		return nil
	}
	return t.end()
}

// end finishes and syncs a table.
func (t *tableWriter) end() error {
	if t.table == nil {
		return nil
	}
	err := t.table.Close()
	t.table = nil
	return err
}

// Restore replaces the content of the replica by a snapshot, in one step that is durable when
// it returns. The replica must not lead, and the snapshot must be newer than its content.
// After an error the replica must not go on.
func (r *Replica) Restore(x *Received) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.store
	switch {
	case s.lead.Load() != nil:
		return errors.New("persistence: a replica that leads cannot take a snapshot")
	case x.at.Number <= r.last.Number:
		return fmt.Errorf("persistence: a snapshot of place %d comes after place %d", x.at.Number, r.last.Number)
	}
	s.replacements.Add(1) // odd: reads of snapshots fail
	defer s.replacements.Add(1)
	if err := r.replaceRows(x); err != nil {
		return err
	}
	r.last = x.at
	for n, p := range s.positions {
		applied, err := s.homes.ReadApplied(s.db, n)
		if err != nil {
			return err
		}
		p.assigned.Store(applied.Position)
		p.durable.Raise(applied.Position)
	}
	s.hub.rereadAll()
	s.observers.ReportReplaced()
	s.durable.Raise(x.at.Number) // a caller that waits for it finds everything published
	return nil
}

// replaceRows takes all rows of the group away and puts those of a snapshot in their place.
// What the engine holds in memory is flushed first: otherwise it would keep the tables there
// beside it, and a crash would lose them.
func (r *Replica) replaceRows(x *Received) error {
	s := r.store
	s.commit.Lock()
	defer s.commit.Unlock()
	defer s.endOfEngine()
	if err := s.db.Flush(); err != nil {
		return err
	}
	s.applied.Store(x.at.Number)
	s.feeds.NoteAll(x.at.Number)
	if _, err := s.db.IngestAndExcise(context.Background(), x.tables, nil, nil, groupSpan()); err != nil {
		return err
	}
	s.visible.Store(x.at.Number)
	return nil
}

// instantRows are the rows of a replica at one instant. Where the content of the replica is
// replaced the engine takes rows away from its snapshots too, so reads fail from then on. An
// iterator that was opened before keeps its rows.
type instantRows struct {
	*pebble.Snapshot
	store *Store
	// replacements of the store when the snapshot was opened.
	replacements uint64
}

func (s *Store) instant() *instantRows {
	replacements := s.replacements.Load()
	return &instantRows{s.db.NewSnapshot(), s, replacements}
}

// check returns journal.ErrBehind if rows may be missing in what was read.
func (r *instantRows) check() error {
	if now := r.store.replacements.Load(); now != r.replacements || now%2 != 0 {
		return journal.ErrBehind
	}
	return nil
}

// Get implements pebble.Reader.
func (r *instantRows) Get(key []byte) ([]byte, io.Closer, error) {
	value, closer, err := r.Snapshot.Get(key)
	if stale := r.check(); stale != nil {
		if err == nil {
			_ = closer.Close()
		}
		return nil, nil, stale
	}
	return value, closer, err
}

// NewIter implements pebble.Reader.
func (r *instantRows) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	return r.NewIterWithContext(context.Background(), o)
}

// NewIterWithContext implements pebble.Reader.
func (r *instantRows) NewIterWithContext(ctx context.Context, o *pebble.IterOptions) (*pebble.Iterator, error) {
	iter, err := r.Snapshot.NewIterWithContext(ctx, o)
	if stale := r.check(); stale != nil && err == nil {
		return nil, errors.Join(stale, iter.Close())
	}
	return iter, err
}
