package persistence

import (
	"slices"
	"sync"
	"sync/atomic"

	"parley"
	"parley/journal"
)

// observers are those that Observe has added. Journals read them without a lock.
type observers struct {
	mu  sync.Mutex
	all atomic.Pointer[[]*journal.Observer]
}

// Observe calls o for each change that is durable, until stop is called.
func (s reader) Observe(o journal.Observer) (stop func()) {
	s.observers.change(func(all []*journal.Observer) []*journal.Observer { return append(all, &o) })
	return func() {
		s.observers.change(func(all []*journal.Observer) []*journal.Observer {
			return slices.DeleteFunc(all, func(x *journal.Observer) bool { return x == &o })
		})
	}
}

func (x *observers) change(f func([]*journal.Observer) []*journal.Observer) {
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

// report reports the changes of an item that is durable.
func (x *observers) report(it *item) {
	all := x.all.Load()
	if all == nil || it.Refusal != nil {
		return
	}
	for i := range it.Rows {
		reportRow(*all, &it.Rows[i])
	}
	for _, w := range it.Effects {
		switch w := w.(type) {
		case journal.PutRow:
			reportRow(*all, &w.Row)
		case journal.CreateStream:
			reportStream(*all, w.Stream, len(w.Events) > 0 || w.State != nil)
		case journal.DropFeed:
			x.reportDropped(w.Of)
		case journal.AddToList, journal.AppendFeed, journal.EnqueueFor, journal.Fanout, journal.RecordReceipt:
		}
	}
	for i := range it.Hosted {
		reportStream(*all, it.Hosted[i].Stream, len(it.Hosted[i].Events) > 0 || it.Hosted[i].State != nil)
	}
	reportStream(*all, it.Stream, len(it.Events) > 0 || it.State != nil)
}

// reportChanges reports changes that another replica made.
func (x *observers) reportChanges(changes []journal.Change) {
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

// reportDropped reports that a feed lost entries.
func (x *observers) reportDropped(agent parley.AgentID) {
	if all := x.all.Load(); all != nil {
		for _, o := range *all {
			if o.Dropped != nil {
				o.Dropped(agent)
			}
		}
	}
}

// reportReplaced reports that everything may have changed.
func (x *observers) reportReplaced() {
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
