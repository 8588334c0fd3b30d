package persistence

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/layout"
)

const (
	// timerEvery bounds the delay of a timer.
	timerEvery = time.Second
	// timersPerTick bounds how many actors one tick wakes. The next tick continues
	// from there, so that timers that cannot be handled delay no others.
	timersPerTick = 256
	// forgetEvery is how often rows of past days are looked for.
	forgetEvery = time.Hour
)

// housekeeping wakes actors that were left with queued messages, fires due timers,
// and deletes rows that have expired. Nothing waits for it.
func (j *journalState) housekeeping() {
	if err := j.hintQueues(); err != nil {
		j.store.opts.Logger.Error("reading queues", "journal", j.number, "error", err)
	}
	tick := time.NewTicker(cmp.Or(j.store.opts.TimerEvery, timerEvery))
	defer tick.Stop()
	var forgot time.Time
	for {
		select {
		case <-j.lead.over:
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
				j.store.opts.Logger.Error("deleting rows of past days", "journal", j.number, "error", err)
			}
		}
	}
}

// slots calls fn for every slot of the journal until the leadership ends.
func (j *journalState) slots(fn func(parley.Slot) error) error {
	homes := j.store.homes
	for slot := homes.First(j.number); slot < homes.First(j.number+1); slot++ {
		select {
		case <-j.lead.over:
			return nil
		default:
		}
		if err := fn(slot); err != nil {
			return err
		}
	}
	return nil
}

// hintQueues wakes every actor that has queued messages. The calls that announced
// them were lost with the last process; the messages were not.
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
			ok = iter.SeekGE(layout.After(layout.StreamKey(layout.QueueFamily, s, 0))) // skip its other messages
		}
		return iter.Error()
	})
	return errors.Join(err, iter.Close())
}

func (j *journalState) fireTimers(now time.Time) error {
	v := j.store.view()
	defer v.Close()
	low := j.store.homes.JournalKey(layout.TimerFamily, j.number, 0)
	if j.fired != nil {
		low = append(j.fired, 0) // the ones before were woken
	}
	high := j.store.homes.TimerKey(j.number, uint64(now.UnixMilli())+1, journal.Stream{})
	fired := 0
	j.fired = nil
	return v.Scan(low, high, false, func(k, _ []byte) (bool, error) {
		s, due, ok := layout.TimerOf(k)
		if !ok {
			j.store.opts.Logger.Error("a timer that cannot be read is left out", "journal", j.number, "key", fmt.Sprintf("%x", k))
			return true, nil
		}
		j.store.onTimer(s, due)
		if fired++; fired == timersPerTick {
			j.fired = append([]byte(nil), k...)
		}
		return fired < timersPerTick, nil
	})
}

// forgetRows is how many deletions one entry carries.
const forgetRows = 64

// datedTables are the tables whose keys begin with a day, and for how many days their rows are
// needed, that day included.
var datedTables = [...]struct {
	journal.Table
	days uint32
}{{journal.OnceTable, journal.OnceDays}, {journal.SpentTable, journal.OnceDays}, {journal.ClosedReportTable, 1 + journal.ReportDays}}

// forgetKeys deletes the rows of days that are no longer needed. It appends
// entries, as every writer does, so that a follower of the journal's batches
// deletes the same rows.
func (j *journalState) forgetKeys(now time.Time) error {
	today := journal.Day(now)
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
		for _, dated := range datedTables {
			table := dated.Table
			low := layout.RowKey(slot, table, nil)
			for ok := iter.SeekGE(low); ok && bytes.HasPrefix(iter.Key(), low) && len(iter.Key()) >= len(low)+4; {
				day := bytes.Clone(iter.Key()[len(low) : len(low)+4])
				if binary.BigEndian.Uint32(day)+dated.days > today {
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
