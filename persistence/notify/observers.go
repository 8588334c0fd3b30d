// Package notify holds those who wait for a number or want to know what changed. It knows
// neither rows nor journals.
package notify

import (
	"slices"
	"sync"
	"sync/atomic"

	"parley/client/parley"
	"parley/journal"
)

// Observers are those that Add has added. Journals read them without a lock.
type Observers struct {
	mu  sync.Mutex
	all atomic.Pointer[[]*journal.Observer]
}

// Add has o called for each change, until stop is called.
func (x *Observers) Add(o journal.Observer) (stop func()) {
	x.change(func(all []*journal.Observer) []*journal.Observer { return append(all, &o) })
	return func() {
		x.change(func(all []*journal.Observer) []*journal.Observer {
			return slices.DeleteFunc(all, func(x *journal.Observer) bool { return x == &o })
		})
	}
}

func (x *Observers) change(f func([]*journal.Observer) []*journal.Observer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []*journal.Observer
	if now := x.all.Load(); now != nil {
		all = slices.Clone(*now)
	}
	if all = f(all); len(all) == 0 {
		x.all.Store(nil)
		return
	}
	x.all.Store(&all)
}

// Report reports the changes of an entry that is durable.
func (x *Observers) Report(e *journal.Entry) {
	all := x.all.Load()
	if all == nil {
		return
	}
	for i := range e.Rows {
		reportRow(*all, &e.Rows[i])
	}
	for _, w := range e.Effects {
		switch w := w.(type) {
		case journal.PutRow:
			reportRow(*all, &w.Row)
		case journal.CreateStream:
			reportStream(*all, w.Stream, len(w.Events) > 0 || w.State != nil)
		case journal.DropFeed:
			x.ReportDropped(w.Of)
		case journal.AddToList, journal.AppendFeed, journal.EnqueueFor, journal.Fanout, journal.RecordReceipt:
		}
	}
	for i := range e.Hosted {
		reportStream(*all, e.Hosted[i].Stream, len(e.Hosted[i].Events) > 0 || e.Hosted[i].State != nil)
	}
	reportStream(*all, e.Stream, len(e.Events) > 0 || e.State != nil)
}

// ReportChanges reports changes that another replica made.
func (x *Observers) ReportChanges(changes []journal.Change) {
	all := x.all.Load()
	if all == nil {
		return
	}
	for i := range changes {
		for _, o := range *all {
			if c := &changes[i]; c.Table != 0 && slices.Contains(o.Tables, c.Table) || c.Table == 0 && slices.Contains(o.Streams, c.Stream.Kind) {
				o.Changed(*c)
			}
		}
	}
}

// ReportDropped reports that a feed lost entries.
func (x *Observers) ReportDropped(agent parley.AgentID) {
	if all := x.all.Load(); all != nil {
		for _, o := range *all {
			if o.Dropped != nil {
				o.Dropped(agent)
			}
		}
	}
}

// ReportReplaced reports that everything may have changed.
func (x *Observers) ReportReplaced() {
	if all := x.all.Load(); all != nil {
		for _, o := range *all {
			o.Replaced()
		}
	}
}

func reportRow(all []*journal.Observer, r *journal.Row) {
	for _, o := range all {
		if slices.Contains(o.Tables, r.Table) {
			o.Changed(journal.Change{Table: r.Table, Slot: r.Slot, Key: r.Key})
		}
	}
}

func reportStream(all []*journal.Observer, s journal.Stream, changed bool) {
	for _, o := range all {
		if changed && slices.Contains(o.Streams, s.Kind) {
			o.Changed(journal.Change{Stream: s})
		}
	}
}
