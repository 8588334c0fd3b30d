package disk

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// spaceEvery is how often free space is measured.
	spaceEvery = 250 * time.Millisecond
	// FloorShare bounds what is kept free: at most one part in FloorShare of the disk.
	FloorShare = 8
	// reserveShare: below one part in reserveShare of the floor, compactions may
	// write no more. The rest is for the log.
	reserveShare = 2
)

// space knows how much the disk has free, and refuses writes while that is too little.
type space struct {
	o    Options
	full atomic.Bool
	// free is what the disk had free when it was last measured, less what was
	// written since; floor is where refusals begin. Both are 0 where the file
	// system does not report its space.
	free, floor atomic.Int64
	// ballast is restored when there is room, until nothing of it is missing.
	ballast *Ballast
	// look requests a measurement before the next one is due.
	look chan struct{}
}

// Keep has the monitor restore a ballast when there is room. It is called before Watch.
func (s *space) Keep(b *Ballast) { s.ballast = b }

// Space gives the bytes that are free and the bytes below which writes are
// refused; both 0 where the file system does not report its space.
func (s *space) Space() (free, floor int64) { return s.free.Load(), s.floor.Load() }

// watch measures free space until the store closes. The engine cannot go on
// without any, so writes are refused while some is left.
func (s *space) watch() {
	tick := time.NewTicker(spaceEvery)
	defer tick.Stop()
	for s.measure() {
		s.restoreBallast()
		select {
		case <-s.o.Closing:
			return
		case <-tick.C:
		case <-s.look:
		}
	}
}

// measure reports whether the file system reports its space at all.
func (s *space) measure() bool {
	usage, err := s.o.FS.GetDiskUsage(s.o.Dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return false
	}
	if err != nil {
		s.o.Logger.Warn("free space of the data directory's disk is not known", "error", err)
		return true
	}
	floor := min(uint64(max(s.o.FreeBytesMin, 0)), usage.TotalBytes/FloorShare)
	s.floor.Store(int64(floor))
	s.free.Store(int64(min(usage.AvailBytes, math.MaxInt64)))
	was := s.full.Load()
	if was {
		floor += floor / 8 // so that the state does not flap
	}
	if full := usage.AvailBytes < floor; full != was {
		s.full.Store(full)
		level := slog.LevelInfo
		if full {
			level = slog.LevelWarn
		}
		s.o.Logger.Log(context.Background(), level, "free space of the data directory's disk", "writes_refused", full, "free", usage.AvailBytes, "floor", floor)
	}
	return true
}

// restoreBallast restores the ballast when there is so much room that writes are not refused for it.
func (s *space) restoreBallast() {
	if s.ballast == nil || s.full.Load() {
		return
	}
	floor := uint64(s.floor.Load())
	whole, err := s.ballast.Restore(floor + floor/4)
	if err != nil {
		s.o.Logger.Warn("no space is kept for a start on a full disk", "error", err)
	}
	if whole || err != nil {
		s.ballast = nil
	}
}

// spend subtracts n bytes written from the free space. Crossing the floor
// requests a measurement: a fast disk fills up between two of them.
func (s *space) spend(n int) {
	left, floor := s.free.Add(-int64(n)), s.floor.Load()
	if left < floor && left+int64(n) >= floor {
		select {
		case s.look <- struct{}{}:
		default:
		}
	}
}

// scarce reports whether the space that is left is reserved for the log.
func (s *space) scarce() bool {
	floor := s.floor.Load()
	return floor > 0 && s.free.Load() < floor/reserveShare
}
