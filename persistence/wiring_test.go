package persistence

import (
	"time"

	"parley/journal"
)

func ignoreTray(journal.Stream) {}

func ignoreTimer(journal.Stream, time.Time) {}

// startQuietly starts a store without its housekeeping, which costs more than
// the rest of a short life.
func startQuietly(s *Store) error {
	s.onQueue, s.onTimer = ignoreTray, ignoreTimer
	for _, j := range s.journals {
		if err := j.resumeOutboxes(); err != nil {
			return err
		}
	}
	for _, j := range s.journals {
		s.loops.Add(2)
		go j.write()
		go j.acknowledge()
	}
	s.disk.Watch(&s.loops, !s.opts.Unsynced)
	return nil
}
