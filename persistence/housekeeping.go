package persistence

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"time"

	"parley"
	"parley/journal"
	"parley/persistence/layout"
)

const (
	// timerEvery is how late a timer may be.
	timerEvery = time.Second
	// timersPerTick bounds how many actors one tick wakes. The next tick goes on
	// from there: timers that cannot be handled hold up no others.
	timersPerTick = 256
	// forgetEvery is how often past days of idempotency keys are looked for.
	forgetEvery = time.Hour
)

// housekeeping hints actors that were left with words unheard, fires due
// timers, and forgets what is kept for a time only. Nothing waits for it.
func (j *journalState) housekeeping() {
	defer j.store.loops.Done()
	if err := j.hintQueues(); err != nil {
		j.store.opts.Logger.Error("looking for words unheard", "journal", j.number, "error", err)
	}
	tick := time.NewTicker(cmp.Or(j.store.opts.TimerEvery, timerEvery))
	defer tick.Stop()
	var forgot time.Time
	for {
		select {
		case <-j.store.closing:
			return
		case <-tick.C:
		}
		now := j.store.opts.Clock()
		if err := j.fireTimers(now); err != nil {
			j.store.opts.Logger.Error("reading timers", "journal", j.number, "error", err)
		}
		if now.Sub(forgot) >= forgetEvery {
			forgot = now
			if err := j.forgetKeys(now); err != nil {
				j.store.opts.Logger.Error("forgetting idempotency keys", "journal", j.number, "error", err)
			}
		}
	}
}

// slots calls fn for every slot of the journal until the store closes.
func (j *journalState) slots(fn func(parley.Slot) error) error {
	for slot := j.number; slot < parley.Slots; slot += int(j.store.homes) {
		select {
		case <-j.store.closing:
			return nil
		default:
		}
		if err := fn(parley.Slot(slot)); err != nil {
			return err
		}
	}
	return nil
}

// hintQueues hints every actor that has words in its tray. Hints are lost with
// the process that gave them; the words are not.
func (j *journalState) hintQueues() error {
	iter, err := j.store.db.NewIter(nil)
	if err != nil {
		return err
	}
	err = j.slots(func(slot parley.Slot) error {
		low := layout.Key(slot, layout.QueueFamily, 0)
		for ok := iter.SeekGE(low); ok && bytes.HasPrefix(iter.Key(), low); {
			s := layout.StreamOf(iter.Key())
			j.store.onQueue(s)
			ok = iter.SeekGE(layout.After(layout.StreamKey(layout.QueueFamily, s, 0))) // past its other words
		}
		return iter.Error()
	})
	return errors.Join(err, iter.Close())
}

func (j *journalState) fireTimers(now time.Time) error {
	v := j.store.view()
	defer v.Close()
	low := layout.MetaKey(layout.TimerFamily, j.number, 0)
	if j.fired != nil {
		low = append(j.fired, 0) // those before have had their turn
	}
	high := layout.TimerKey(j.number, uint64(now.UnixMilli())+1, journal.Stream{})
	fired := 0
	j.fired = nil
	return v.scan(low, high, false, func(k, _ []byte) (bool, error) {
		due := int64(binary.BigEndian.Uint64(k[5:]))
		s := journal.Stream{Kind: journal.StreamKind(k[13]), ID: parley.IDFromBytes[parley.AnyID](k[14:30])}
		j.store.onTimer(s, time.UnixMilli(due).UTC())
		if fired++; fired == timersPerTick {
			j.fired = append([]byte(nil), k...)
		}
		return fired < timersPerTick, nil
	})
}

// forgetRows is how many deletions of past days one entry carries.
const forgetRows = 64

// datedTables are those whose keys begin with a day, and whose rows are looked up
// for journal.OnceDays.
var datedTables = [...]journal.Table{journal.OnceTable, journal.SpentTable}

// forgetKeys drops the rows of days that are looked up no more. It does so by an
// entry, as every writer does, so that a follower of the journal's batches drops
// the same rows.
func (j *journalState) forgetKeys(now time.Time) error {
	today := journal.Day(now)
	if today < journal.OnceDays {
		return nil
	}
	kept := today - journal.OnceDays + 1
	iter, err := j.store.db.NewIter(nil)
	if err != nil {
		return err
	}
	var rows []journal.Row
	forget := func() {
		if len(rows) > 0 {
			j.store.Append(&journal.Entry{Slot: rows[0].Slot, Rows: rows, At: now})
			rows = nil
		}
	}
	err = j.slots(func(slot parley.Slot) error {
		for _, table := range datedTables {
			low := layout.RowKey(slot, table, nil)
			for ok := iter.SeekGE(low); ok && bytes.HasPrefix(iter.Key(), low) && len(iter.Key()) >= len(low)+4; {
				day := bytes.Clone(iter.Key()[len(low) : len(low)+4])
				if binary.BigEndian.Uint32(day) >= kept {
					break
				}
				rows = append(rows, journal.Row{Slot: slot, Table: table, Key: day, Delete: true, Beneath: true})
				if len(rows) == forgetRows {
					forget()
				}
				ok = iter.SeekGE(layout.After(layout.RowKey(slot, table, day)))
			}
		}
		return iter.Error()
	})
	forget()
	return errors.Join(err, iter.Close())
}
