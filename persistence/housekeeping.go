package persistence

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley"
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
func (j *journal) housekeeping() {
	defer j.store.loops.Done()
	if err := j.hintTrays(); err != nil {
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
			if err := j.forgetKeys(parley.Day(now)); err != nil {
				j.store.opts.Logger.Error("forgetting idempotency keys", "journal", j.number, "error", err)
			}
		}
	}
}

// slots calls fn for every slot of the journal until the store closes.
func (j *journal) slots(fn func(parley.Slot) error) error {
	for slot := j.number; slot < parley.Slots; slot += j.store.count {
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

// hintTrays hints every actor that has words in its tray. Hints are lost with
// the process that gave them; the words are not.
func (j *journal) hintTrays() error {
	iter, err := j.store.db.NewIter(nil)
	if err != nil {
		return err
	}
	err = j.slots(func(slot parley.Slot) error {
		low := key(slot, trayFamily, 0)
		last := parley.Stream{}
		for ok := iter.SeekGE(low); ok && bytes.HasPrefix(iter.Key(), low); ok = iter.Next() {
			k := iter.Key()
			s := parley.Stream{Kind: parley.StreamKind(k[3]), ID: parley.IDFromBytes[parley.AnyID](k[4:20])}
			if s != last {
				last = s
				j.store.onTray(s)
			}
		}
		return iter.Error()
	})
	return errors.Join(err, iter.Close())
}

func (j *journal) fireTimers(now time.Time) error {
	v := j.store.View()
	defer v.Close()
	low := metaKey(timerFamily, j.number, 0)
	if j.fired != nil {
		low = append(j.fired, 0) // those before have had their turn
	}
	high := timerKey(j.number, uint64(now.UnixMilli())+1, parley.Stream{})
	fired := 0
	j.fired = nil
	return v.scan(low, high, false, func(k, _ []byte) (bool, error) {
		due := int64(binary.BigEndian.Uint64(k[5:]))
		s := parley.Stream{Kind: parley.StreamKind(k[13]), ID: parley.IDFromBytes[parley.AnyID](k[14:30])}
		j.store.onTimer(s, time.UnixMilli(due).UTC())
		if fired++; fired == timersPerTick {
			j.fired = append([]byte(nil), k...)
		}
		return fired < timersPerTick, nil
	})
}

// forgetKeys drops the idempotency keys of days that are looked up no more.
func (j *journal) forgetKeys(today uint32) error {
	defer j.store.endOfEngine()
	if today < parley.OnceDays {
		return nil
	}
	kept := binary.BigEndian.AppendUint32(nil, today-parley.OnceDays+1)
	return j.slots(func(slot parley.Slot) error {
		low, high := rowKey(slot, parley.OnceTable, nil), rowKey(slot, parley.OnceTable, kept)
		iter, err := j.store.db.NewIter(&pebble.IterOptions{LowerBound: low, UpperBound: high})
		if err != nil {
			return err
		}
		found := iter.First()
		if err := iter.Close(); err != nil || !found {
			return err
		}
		return j.store.db.DeleteRange(low, high, pebble.NoSync)
	})
}
