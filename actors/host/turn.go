package host

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"parley/actors/encoding"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// Turn is the handling of one message by an actor: what it decides, and the entry that
// will store it.
type Turn[S rules.State, C any, E rules.Event] struct {
	entity *entity[S, C, E]
	// State is the actor's state, its own events included.
	State S
	// Now is the instant of the turn, and of its entry.
	Now time.Time
	// Entry is what the turn appends.
	Entry *journal.Entry
	// Payer pays for what the request stores, nil if nobody does.
	Payer *parley.Payer
	// stored is what the meter is told.
	stored []Stored
	// afterJournal: the answer depends on rows that other actors write, so on every
	// entry that the journal was given before.
	afterJournal bool
	// dependsOn are entries that the answer waits for if the turn appends nothing.
	dependsOn []dependency
	// own is the turn's own entry, once anything depends on it.
	own *Pending
	// durable runs when the entry is durable, before the answer.
	durable []func()
	// Events are what the turn has decided so far.
	Events []E
	// spoiled: the state has changed, and the meter refused what would store that.
	spoiled bool
}

// dependency is an entry that an answer waits for. If it is the actor's own, the answer fails
// with it.
type dependency struct {
	entry *Pending
	own   bool
}

func (e *entity[S, C, E]) begin() *Turn[S, C, E] {
	now := e.engine.clock()
	return &Turn[S, C, E]{
		entity: e, State: e.state, Now: now,
		Entry: &journal.Entry{
			Slot: e.handle.stream.Slot(), Stream: e.handle.stream, Activation: e.activation, Expect: e.seq, At: now,
		},
	}
}

// Decide decides a command of the actor's own aggregate and evolves the state by the
// events. The events are stored also if the result is a refusal.
func (t *Turn[S, C, E]) Decide(c C) error { return t.DecideIf(c, nil) }

// DecideIf is Decide with a last check, such as a quota that the command uses up. The
// check is called only if the aggregate accepts the command.
func (t *Turn[S, C, E]) DecideIf(c C, grant func() error) error {
	events, refusal := t.entity.kind.Rules.Decide(t.State, c, t.Now)
	if refusal == nil && grant != nil {
		if err := grant(); err != nil {
			return err
		}
	}
	if len(events) == 0 {
		return refusal
	}
	stored, err := t.entity.kind.Rules.Encode(events)
	if err != nil {
		return err
	}
	for _, e := range events {
		t.entity.kind.Rules.Evolve(t.State, e)
	}
	t.Entry.Events = append(t.Entry.Events, stored...)
	t.Events = append(t.Events, events...)
	return refusal
}

// Seq is the sequence number of the actor's newest event, those of the turn included.
func (t *Turn[S, C, E]) Seq() uint64 { return t.entity.seq + uint64(len(t.Entry.Events)) }

// Reader reads the journal that the turn's entry goes to.
func (t *Turn[S, C, E]) Reader() journal.Reader { return t.entity.engine.journal.Reader }

// Idle reports whether everything that the actor has appended is durable.
func (t *Turn[S, C, E]) Idle() bool { return t.entity.last == nil || t.entity.last.Released() }

// OnDurable runs fn when the turn's entry is durable, before the answer.
func (t *Turn[S, C, E]) OnDurable(fn func()) { t.durable = append(t.durable, fn) }

// DependOn makes the answer wait for entries of other actors, whether they succeed or not.
func (t *Turn[S, C, E]) DependOn(entries []*Pending) {
	for _, entry := range entries {
		t.dependsOn = append(t.dependsOn, dependency{entry: entry})
	}
}

// dependOnOwn makes the answer wait for an entry of the actor's own. Rows that were written
// together are often read together.
func (t *Turn[S, C, E]) dependOnOwn(entry *Pending) {
	if last := len(t.dependsOn) - 1; last < 0 || t.dependsOn[last].entry != entry {
		t.dependsOn = append(t.dependsOn, dependency{entry, true})
	}
}

// DependOnJournal makes the answer wait for every entry that the journal was given
// before: it depends on rows that other actors write.
func (t *Turn[S, C, E]) DependOnJournal() { t.afterJournal = true }

// AddEffects adds effects on other streams, feeds and rows.
func (t *Turn[S, C, E]) AddEffects(effects ...journal.Effect) {
	t.Entry.Effects = append(t.Entry.Effects, effects...)
}

// PutRow writes a row of the actor's own, which belongs to the owners of its state.
func (t *Turn[S, C, E]) PutRow(table journal.Table, key, value []byte) {
	t.PutOwnedRow(table, key, value, t.Owners())
}

// PutOwnedRow is PutRow for a row that belongs to others.
func (t *Turn[S, C, E]) PutOwnedRow(table journal.Table, key, value []byte, owners journal.Owners) {
	t.Entry.Rows = append(t.Entry.Rows, journal.Row{Slot: t.Entry.Slot, Table: table, Key: key, Value: value, Owners: owners})
}

// Owners returns the owners of the actor's state.
func (t *Turn[S, C, E]) Owners() journal.Owners { return t.entity.kind.Rules.OwnersOf(t.State) }

// DeleteRow removes a row of the actor's own.
func (t *Turn[S, C, E]) DeleteRow(table journal.Table, key []byte) {
	t.Entry.Rows = append(t.Entry.Rows, journal.Row{Slot: t.Entry.Slot, Table: table, Key: key, Delete: true})
}

// Enqueue adds a message to the durable queue of another actor.
func (t *Turn[S, C, E]) Enqueue(to journal.Stream, m *record.SagaMessage) {
	data, _ := m.MarshalVT() // no field of it can fail
	t.AddEffects(journal.EnqueueFor{To: to, Data: data})
}

// Row reads one of the actor's own rows, pending writes included.
func (t *Turn[S, C, E]) Row(table journal.Table, key []byte) ([]byte, bool, error) {
	if o, ok := t.entity.overlay[overlayKey(table, key)]; ok {
		t.dependOnOwn(o.pending)
		return o.value, !o.deleted, nil
	}
	return t.entity.engine.journal.Row(t.Entry.Slot, table, key)
}

// Rows calls fn with the actor's own rows whose keys begin with prefix, pending writes
// included, in no order.
func (t *Turn[S, C, E]) Rows(table journal.Table, prefix []byte, fn func(key, value []byte)) error {
	v := t.entity.engine.journal.View()
	defer v.Close()
	over := t.entity.overlay
	err := v.Rows(t.Entry.Slot, table, prefix, nil, false, func(key, value []byte) bool {
		if _, laid := over[overlayKey(table, key)]; !laid {
			fn(bytes.Clone(key), bytes.Clone(value))
		}
		return true
	})
	for key, o := range over {
		if o.deleted || !strings.HasPrefix(key, overlayKey(table, prefix)) {
			continue
		}
		fn([]byte(key)[1:], o.value)
	}
	return err
}

// FirstKeys gives the first limit keys of the actor's own rows that begin with prefix,
// in order, pending writes included.
func (t *Turn[S, C, E]) FirstKeys(table journal.Table, prefix []byte, limit int) (keys [][]byte, err error) {
	v := t.entity.engine.journal.View()
	defer v.Close()
	over := t.entity.overlay
	err = v.Rows(t.Entry.Slot, table, prefix, nil, false, func(key, _ []byte) bool {
		if _, laid := over[overlayKey(table, key)]; !laid {
			keys = append(keys, slices.Clone(key))
		}
		return len(keys) < limit
	})
	head := overlayKey(table, prefix)
	for key, o := range over {
		if !o.deleted && len(key) >= len(head) && key[:len(head)] == head {
			keys = append(keys, []byte(key)[1:])
		}
	}
	slices.SortFunc(keys, slices.Compare)
	return keys[:min(limit, len(keys))], err
}

func overlayKey(table journal.Table, key []byte) string { return string(byte(table)) + string(key) }

func (t *Turn[S, C, E]) empty() bool { return !t.adds() && !t.afterJournal }

// adds reports whether the turn stores anything.
func (t *Turn[S, C, E]) adds() bool {
	e := t.Entry
	nothing := len(e.Events) == 0 && len(e.Rows) == 0 && len(e.Effects) == 0 && len(e.Handled) == 0 &&
		len(e.Timers) == 0 && len(e.Hosted) == 0
	return !nothing
}

// commit appends the turn's entry and calls release when it is durable. The answer of a
// turn that appends nothing depends on what the actor appended before.
func (t *Turn[S, C, E]) commit(release func(error)) {
	e := t.entity
	if t.empty() {
		if e.last != nil {
			t.dependOnOwn(e.last)
		}
		engine, handle, activation := e.engine, e.handle, e.activation
		releaseAfter(t.dependsOn, func(err error) {
			if err != nil {
				release(err)
				return
			}
			engine.journal.Confirm(activation, func(err error) {
				if err != nil { // another node decides
					engine.drop(handle, errStopped)
				}
				release(err)
			})
		})
		return
	}
	e.seq += uint64(len(t.Entry.Events))
	e.stored += uint64(len(t.Entry.Events))
	if len(t.Entry.Events) > 0 && e.stored >= e.kind.storeAfter(t.State) {
		stored, err := encoding.Marshal(t.State)
		if err == nil {
			t.Entry.State, e.stored = stored, 0
		}
	}
	t.Entry.Owners = t.Owners()
	own := t.Pending()
	t.own = nil // the journal's, from now on
	e.last = own
	e.overlayRows(t.Entry.Rows, own)
	engine, handle, durable := e.engine, e.handle, t.durable
	t.Entry.Release = func(err error) {
		if err != nil {
			engine.drop(handle, errStopped)
		} else {
			for _, fn := range durable {
				fn()
			}
			engine.watches.notify(handle.stream)
		}
		own.release(err)
		release(err)
	}
	e.engine.journal.Append(t.Entry)
}

// Pending is the turn's entry, for the answers of others to depend on.
func (t *Turn[S, C, E]) Pending() *Pending {
	if t.own == nil {
		t.own = &Pending{}
	}
	return t.own
}

// abandon releases what depends on a turn that failed.
func (t *Turn[S, C, E]) abandon() {
	if t.own != nil {
		t.own.release(errStopped)
	}
}

// releaseAfter calls release when all dependencies have been released, or when one of the
// actor's own has failed. The journal calls it, beside later turns.
func releaseAfter(all []dependency, release func(error)) {
	if len(all) == 0 {
		release(nil)
		return
	}
	all[0].entry.then(func(err error) {
		if err != nil && all[0].own {
			release(err)
			return
		}
		releaseAfter(all[1:], release)
	})
}

// overlayRows keeps rows at hand until their entry is released, and forgets those whose
// entries have been.
func (e *entity[S, C, E]) overlayRows(rows []journal.Row, tk *Pending) {
	for len(e.recent) > 0 && e.recent[0].Released() {
		for _, k := range e.recent[0].keys {
			if e.overlay[k].pending == e.recent[0] {
				delete(e.overlay, k)
			}
		}
		if e.recent = e.recent[1:]; len(e.recent) == 0 {
			e.recent, e.overlay = nil, nil
		}
	}
	if len(rows) == 0 {
		return
	}
	if e.overlay == nil {
		e.overlay = map[string]overlaidRow{}
	}
	for _, r := range rows {
		k := overlayKey(r.Table, r.Key)
		tk.keys = append(tk.keys, k)
		e.overlay[k] = overlaidRow{value: r.Value, deleted: r.Delete, pending: tk}
	}
	e.recent = append(e.recent, tk)
}
