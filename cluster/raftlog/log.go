package raftlog

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"

	"parley/persistence/disk"
)

var (
	// ErrNone is returned by Open if the directory holds no log and none may be made.
	ErrNone = errors.New("there is no raft log")
	// ErrTooLarge is returned for a record of more than Options.RecordBytes. Nothing was
	// appended.
	ErrTooLarge = errors.New("the record is too large")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the raft log is closed")
)

// Options of a Log. Dir and ID are required. Sizes of 0 are the defaults, and so is a nil FS:
// the operating system's.
type Options struct {
	// FS holds the directory Dir, which belongs to the log alone. A write that fails is
	// not repeated, for instance on a full disk: a file system that waits for space may
	// be passed.
	FS  vfs.FS
	Dir string
	// ID identifies the replica. The files of another one are not taken for its log.
	ID uint64
	// New allows a log to be made if the directory holds none. A replica that has voted
	// must not come back with an empty log.
	New bool
	// SegmentBytes is the size from which on a segment is followed by the next one. It
	// exceeds that by less than PendingBytes and one record.
	SegmentBytes int64 // 64 MiB
	// CacheBytes bounds the recent entries in memory. Those that are not written yet are
	// there in any case.
	CacheBytes int64 // 64 MiB
	// PendingBytes is how much is appended before Append writes to the disk itself.
	PendingBytes int64 // 16 MiB
	// RecordBytes bounds one record, at most 1 GiB.
	RecordBytes int64 // 128 MiB
}

func (o *Options) setDefaults() {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	for _, size := range []struct {
		of      *int64
		without int64
	}{{&o.SegmentBytes, 64 << 20}, {&o.CacheBytes, 64 << 20}, {&o.PendingBytes, 16 << 20}, {&o.RecordBytes, 128 << 20}} {
		if *size.of <= 0 {
			*size.of = size.without
		}
	}
	o.RecordBytes = min(o.RecordBytes, 1<<30)
}

// Record is what one turn of the raft loop stores, in one piece: all of it is durable or
// nothing. It takes effect in the order of the fields.
type Record struct {
	// HardState replaces the former one unless it is empty.
	HardState *raftpb.HardState
	// Cut drops the entries up to that position. If the log holds no such entry, because
	// a snapshot was installed, all entries are dropped. Term may be 0 for an entry that
	// the log holds. A cut below the former one changes nothing.
	Cut Position
	// Note, unless nil, replaces the former one. It is for the owner of the log.
	Note []byte
	// Entries have consecutive indexes. They replace those from their first index on, and
	// must not be changed later.
	Entries []*raftpb.Entry
}

// Log is an open log. Its methods may be called from any goroutine. Once a write or a sync
// has failed it is unknown what is stored: Append, Sync and Close fail with that error
// from then on.
type Log struct {
	o       Options
	witness *disk.Witness
	keeper  sync.WaitGroup // of the witness
	closing chan struct{}

	// writing is held while records are written, and before mu. It guards tail and
	// before, the state before the next record.
	writing sync.Mutex
	tail    tail
	before  summary

	mu       sync.Mutex
	changed  sync.Cond // durable, syncing, inUse or err have changed
	err      error
	state    state
	cache    cache
	pending  batch
	spare    batch // its memory is used for the next pending
	segments []segment
	// tailBytes is the size of the last segment's file.
	tailBytes int64
	points    []point
	// overrides counts the turns that replaced entries.
	overrides uint64
	// Turns are counted from 1 since the opening. Each was appended before it was written,
	// then a sync of it began, then it was durable; claimed is up to where some sync will
	// go, needed is the last turn that must be durable soon.
	appended, written, started, durable, claimed, needed uint64
	// writtenLast is up to where the entries are in files; writingLast, where the present
	// write gets. Entries above that may be replaced meanwhile.
	writtenLast, writingLast  uint64
	inUse                     [syncsMax]bool // handles of the tail
	syncing                   int
	synced                    disk.Head // of the newest durable record
	syncedCut                 uint64
	removing, keeping, closed bool
	stats                     Stats
}

// Stats counts since the opening.
type Stats struct {
	// Turns are records that were appended, Bytes their size and that of base records.
	// Writes and Syncs are calls of the file system for them.
	Turns, Bytes, Writes, Syncs uint64
	// Segments are the files now, DiskBytes their size, CachedBytes the entries in memory.
	Segments               int
	DiskBytes, CachedBytes int64
}

// batch are records that are not written yet, one after the other, each with space for its
// header.
type batch struct {
	b      []byte
	starts []start
	after  summary // the state after them
}

// start is where a record begins, and the first of its entries, or 0.
type start struct {
	at    int
	first uint64
}

// Append adds a record and returns the turn to pass to Sync before anything is answered
// that depends on the record. If that is only the commit index or a cut it returns an
// earlier turn: the next sync includes it.
//
// Append does not touch the disk unless more than Options.PendingBytes are not written yet.
func (l *Log) Append(r Record) (uint64, error) {
	l.mu.Lock()
	err := l.err
	if err == nil {
		err = l.append(r)
	}
	needed, full := l.needed, int64(len(l.pending.b)) > l.o.PendingBytes
	l.mu.Unlock()
	if err == nil && full {
		l.writing.Lock()
		err = writer{l}.write()
		l.writing.Unlock()
	}
	return needed, err
}

func (l *Log) append(r Record) error {
	t, err := l.state.plan(r)
	if err != nil {
		return fmt.Errorf("raft log %s: %w", l.o.Dir, err)
	}
	size := int64(headerBytes + turnBytes + len(t.note))
	for _, e := range t.entries {
		size += int64(len(e.Data)) + entryBytes
	}
	switch {
	case t.parts == 0:
		return nil
	case size > l.o.RecordBytes:
		return fmt.Errorf("raft log %s: %w: up to %d bytes, more than %d", l.o.Dir, ErrTooLarge, size, l.o.RecordBytes)
	}
	lazy, last := l.state.lazy(t), l.state.last
	if err := l.state.apply(t); err != nil {
		return fmt.Errorf("raft log %s: %w", l.o.Dir, err)
	}
	l.appended++
	l.stats.Turns++
	if !lazy {
		l.needed = l.appended
	}
	if t.parts&(hasReset|hasEntries) != 0 {
		kept := l.state.cut().Index
		if t.parts&hasEntries != 0 {
			kept = t.first - 1
		}
		if kept < last {
			l.overrides++
		}
		l.writtenLast, l.writingLast = min(l.writtenLast, kept), min(l.writingLast, kept)
	}
	p := &l.pending
	p.starts = append(p.starts, start{len(p.b), t.first})
	p.b = t.append(append(p.b, make([]byte, headerBytes)...))
	p.after = l.state.summary()
	l.cache.add(t)
	l.cache.shrink(l.o.CacheBytes, l.writtenLast)
	return nil
}

// Stats returns the counters.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Segments, s.DiskBytes, s.CachedBytes = len(l.segments), l.tailBytes, l.cache.bytes
	for _, one := range l.segments {
		s.DiskBytes += one.bytes
	}
	return s
}

// fail notes the first error of the disk. mu is held.
func (l *Log) fail(err error) error {
	if l.err == nil {
		l.err = fmt.Errorf("raft log %s cannot go on: %w", l.o.Dir, err)
		l.changed.Broadcast()
	}
	return l.err
}

// Close makes durable what was appended and closes the files.
func (l *Log) Close() error {
	l.mu.Lock()
	err := l.err
	last := l.appended
	l.mu.Unlock()
	if err == nil {
		err = l.Sync(last)
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return l.err
	}
	l.closed = true
	if l.err == nil {
		l.err = ErrClosed
	}
	l.changed.Broadcast()
	for l.syncing > 0 {
		l.changed.Wait()
	}
	l.mu.Unlock()
	close(l.closing)
	l.keeper.Wait()
	if err != nil {
		return errors.Join(err, l.tail.close(), l.witness.Close())
	}
	return errors.Join(l.tail.close(), l.witness.Finish())
}
