package persistence

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley"
)

const (
	// stallPatience is how long the engine may stall writes, or a sync take,
	// before the doors refuse writes and the server is reported sick.
	stallPatience = 800 * time.Millisecond
	// spaceEvery is how often free space is looked at.
	spaceEvery = 250 * time.Millisecond
	// floorShare of a disk is the most that is kept free.
	floorShare = 8
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
	full    atomic.Bool
	// damage is where rot was met first.
	damage atomic.Pointer[string]
}

// age of the opened store in nanoseconds, never 0.
func (s *Store) age() int64 { return int64(s.opts.Clock().Sub(s.disk.began)) + 1 }

// Trouble is why no writes are taken, nil if they are: the engine stalls writes
// or a sync hangs, or the disk is nearly full. It passes when its cause does.
func (s *Store) Trouble() *parley.Refusal {
	oldest := s.disk.stalled.Load()
	for _, j := range s.journals {
		oldest = earliest(oldest, j.syncing.Load())
	}
	switch {
	case oldest != 0 && time.Duration(s.age()-oldest) > stallPatience:
		return errStalled
	case s.disk.full.Load():
		return errFull
	}
	return nil
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
		BackgroundError: func(err error) { log.Error("storage engine: background work failed", "error", err) },
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
		}
	}
}

// lookAtSpace reports whether the file system tells of its space at all.
func (s *Store) lookAtSpace() bool {
	usage, err := s.opts.FS.GetDiskUsage(s.dir)
	if err != nil {
		return false
	}
	floor := min(uint64(max(s.opts.FreeBytesMin, 0)), usage.TotalBytes/floorShare)
	was := s.disk.full.Load()
	if was {
		floor += floor / 8 // so that it does not flutter
	}
	if full := usage.AvailBytes < floor; full != was {
		s.disk.full.Store(full)
		s.opts.Logger.Warn("free space of the data directory's disk", "writes_refused", full, "free", usage.AvailBytes, "floor", floor)
	}
	return true
}
