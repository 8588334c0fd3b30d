package persistence

import (
	"errors"
	"testing"
	"time"

	"parley/journal"
	"parley/persistence/apply"
)

func ignoreQueue(journal.Stream) {}

func ignoreTimer(journal.Stream, time.Time) {}

// startQuietly starts a store without housekeeping, which would dominate a short
// test.
func startQuietly(s *Store) error {
	s.onQueue, s.onTimer = ignoreQueue, ignoreTimer
	for _, j := range s.lead.Load().journals {
		if err := j.resumeOutboxes(); err != nil {
			return err
		}
	}
	for _, j := range s.lead.Load().journals {
		j.lead.loops.Go(j.write)
		j.lead.loops.Go(j.acknowledge)
	}
	s.disk.Watch(&s.loops, !s.opts.Unsynced)
	return nil
}

// activate passes activation 1 of streams through a journal that is not started.
func activate(t testing.TB, j *journalState, streams ...journal.Stream) {
	t.Helper()
	batch := j.store.db.NewBatch()
	ev := j.state.Begin(j.rows, batch)
	for _, stream := range streams {
		it := apply.Item{Entry: &journal.Entry{Slot: stream.Slot(), Stream: stream, Activation: 1, Activate: true}}
		if err := errors.Join(ev.Apply(&it), it.Refusal); err != nil {
			t.Fatal(err)
		}
	}
	if err := batch.Close(); err != nil {
		t.Fatal(err)
	}
}
