package persistence

import (
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley"
)

const (
	// stallPatience is how long the engine may stall writes, or a sync take,
	// before the doors refuse writes and the server is reported sick.
	stallPatience = 800 * time.Millisecond
	// A pulse that comes pulseLate or more after the last tells that the process
	// itself stood still, stopped or without a processor: no disk's fault.
	pulseEvery = 100 * time.Millisecond
	pulseLate  = 400 * time.Millisecond
	// spaceEvery is how often free space is looked at.
	spaceEvery = 250 * time.Millisecond
	// floorShare of a disk is the most that is kept free.
	floorShare = 8
	// reserveShare of the floor is what compactions leave to the log.
	reserveShare = 2
	// tableShare of a small disk is what the engine may gather in memory before
	// a flush: it keeps several times that in log files, made in advance.
	tableShare  = 64
	tableLeast  = 128 << 10
	targetLeast = 64 << 10
	// queueShare of the floor is what may wait in the queues of a small disk.
	queueShare = 4
	queueLeast = 2 << 20
)

// What keeps the doors from taking writes. Nothing was done in either case.
var (
	errStalled = parley.ErrOverloaded.Saying("The disk takes no writes at present; nothing was done. Try again shortly.")
	errFull    = parley.ErrOverloaded.Saying("The disk is nearly full; nothing was done. Try again when there is room.")
)

// disk is what is known of the disk's health.
type disk struct {
	// began is what stalls are timed from: a correction of the wall clock is none.
	began time.Time
	// stalled is since when the engine stalls writes, see age; 0 if it does not.
	stalled atomic.Int64
	// flushing is since when tables of what is in memory cannot be written,
	// witnessing since when the witness is being written; 0 if they are in order.
	flushing, witnessing atomic.Int64
	// pulse is when the process was last seen to run, woke when it had stood still
	// before; see age.
	pulse, woke atomic.Int64
	// Tables that could not be written since one could, and when the last failed.
	flushFailures, flushFailed, compactionFailures, compactionFailed atomic.Int64
	// starved counts the writes that wait for room.
	starved atomic.Int64
	full    atomic.Bool
	// room is what the disk had free at the last look, less what was written
	// since; floor is below which writes are refused. Both 0 where the file
	// system does not tell.
	room, floor atomic.Int64
	// look asks for a look before the next is due.
	look chan struct{}
	// watched is set while somebody looks: Trouble speaks.
	watched atomic.Bool
	// trouble is what the disk refused last.
	trouble atomic.Pointer[failure]
	// read is the file that was opened last for reading, while the store was not
	// open yet.
	read atomic.Pointer[string]
	// damage is where rot was met first.
	damage atomic.Pointer[string]
}

// age of the opened store in nanoseconds, never 0.
func (s *Store) age() int64 { return int64(s.opts.Clock().Sub(s.disk.began)) + 1 }

// Trouble is why no writes are taken, nil if they are: the engine stalls writes
// or a sync hangs, or the disk is nearly full. It passes when its cause does.
func (s *Store) Trouble() *parley.Refusal {
	d := &s.disk
	if d.full.Load() || d.starved.Load() > 0 {
		return errFull
	}
	oldest := earliest(earliest(d.stalled.Load(), d.flushing.Load()), d.witnessing.Load())
	for _, j := range s.journals {
		oldest = earliest(oldest, earliest(j.committing.Load(), j.syncing.Load()))
	}
	if oldest == 0 {
		return nil
	}
	now := s.age()
	if d.watched.Load() && time.Duration(now-d.pulse.Load()) >= pulseLate {
		return nil // the process has just come back, and the disk had no chance
	}
	if time.Duration(now-max(oldest, d.woke.Load())) > stallPatience {
		return errStalled
	}
	return nil
}

// feelPulse notes when the process runs, so that a second in which it was
// stopped is not taken for one in which the disk stood still.
func (s *Store) feelPulse() {
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for {
		now := s.age()
		if time.Duration(now-s.disk.pulse.Load()) >= pulseLate {
			s.disk.woke.Store(now)
		}
		s.disk.pulse.Store(now)
		select {
		case <-s.closing:
			return
		case <-tick.C:
		}
	}
}

// Damage is the file in which rot was met since the directory was opened, empty
// if none was. Whoever needs what lay there gets an error and never less than
// there was; the rest is served.
func (s *Store) Damage() string {
	if path := s.disk.damage.Load(); path != nil {
		return *path
	}
	return ""
}

// watchEngine is how the engine tells of its troubles.
func (s *Store) watchEngine() *pebble.EventListener {
	log := s.opts.Logger
	return &pebble.EventListener{
		BackgroundError: func(err error) { log.Error("storage engine: background work failed", "error", err.Error()) },
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			s.disk.damage.CompareAndSwap(nil, &i.Path)
			log.Error("a file of the data directory is damaged: what lies there is refused. Stop the server, "+
				"see how much it is with `parley verify`, and restore the last backup with `parley restore`",
				"file", i.Path, "error", i.Details)
		},
		WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
			s.disk.stalled.Store(s.age())
			log.Warn("storage engine: writes stall", "reason", i.Reason)
		},
		WriteStallEnd: func() { s.disk.stalled.Store(0) },
		FlushEnd:      func(i pebble.FlushInfo) { s.disk.flushed(i.Err) },
		CompactionEnd: func(i pebble.CompactionInfo) { s.disk.compacted(i.Err) },
		DiskSlow:      func(i pebble.DiskSlowInfo) { log.Warn("storage engine: slow disk", "info", i.String()) },
	}
}

// watchSpace keeps an eye on free space until the store closes: the engine has
// no way to go on without any, so writes are refused while some is left.
func (s *Store) watchSpace() {
	tick := time.NewTicker(spaceEvery)
	defer tick.Stop()
	for s.lookAtSpace() {
		select {
		case <-s.closing:
			return
		case <-tick.C:
		case <-s.disk.look:
		}
	}
}

// lookAtSpace reports whether the file system tells of its space at all.
func (s *Store) lookAtSpace() bool {
	d := &s.disk
	usage, err := s.opts.FS.GetDiskUsage(s.dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return false
	}
	if err != nil {
		s.opts.Logger.Warn("free space of the data directory's disk is not known", "error", err)
		return true
	}
	floor := min(uint64(max(s.opts.FreeBytesMin, 0)), usage.TotalBytes/floorShare)
	d.floor.Store(int64(floor))
	d.room.Store(int64(min(usage.AvailBytes, math.MaxInt64)))
	was := d.full.Load()
	if was {
		floor += floor / 8 // so that it does not flutter
	}
	if full := usage.AvailBytes < floor; full != was {
		d.full.Store(full)
		s.opts.Logger.Warn("free space of the data directory's disk", "writes_refused", full, "free", usage.AvailBytes, "floor", floor)
	}
	return true
}

// spend takes n bytes written from the room that is left. Where that crosses
// the floor it is time for a look: a fast disk fills up between two.
func (d *disk) spend(n int) {
	left, floor := d.room.Add(-int64(n)), d.floor.Load()
	if left < floor && left+int64(n) >= floor {
		select {
		case d.look <- struct{}{}:
		default:
		}
	}
}

// scarce reports whether what is left is kept for the log.
func (d *disk) scarce() bool {
	floor := d.floor.Load()
	return floor > 0 && d.room.Load() < floor/reserveShare
}

// fitDisk makes what the engine gathers before it writes a table, and what may
// wait to be written, fit a small disk.
func (s *Store) fitDisk() {
	usage, err := s.opts.FS.GetDiskUsage(s.dir)
	if err != nil || usage.TotalBytes == 0 {
		return
	}
	if fit := max(usage.TotalBytes/tableShare, tableLeast); fit < s.opts.MemTableBytes {
		s.opts.MemTableBytes, s.small = fit, true
	}
	if floor := usage.TotalBytes / floorShare; floor < uint64(max(s.opts.FreeBytesMin, 0)) {
		s.opts.QueueBytes = min(s.opts.QueueBytes, int(max(floor/queueShare, queueLeast)))
	}
}

// earliest is the smaller of two ages of which zero is none.
func earliest(a, b int64) int64 {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
