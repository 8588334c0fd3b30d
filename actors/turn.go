package actors

import (
	"bytes"
	"strings"
	"time"

	"parley"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/journal"
)

// turn is one message's passage through an actor: what it decides, and the
// entry that will keep it.
type turn[S rules.State, C any, E rules.Event] struct {
	entity *entity[S, C, E]
	state  S
	now    time.Time
	entry  *journal.Entry
	// exists is the refusal to answer with if a stream that the entry begins
	// turns out to exist.
	exists error
	// behind: the answer rests on rows that others keep, and waits for all that
	// the journal was told before.
	behind bool
	// rests is the entry of a row that the answer rests on, if it is on its way.
	rests *ticket
	// waits are others' entries that the answer waits for, whatever becomes of them.
	waits []*ticket
	// ticket is the entry's own, once anything rests on it.
	ticket *ticket
	// after runs when the entry is released without fault, before the answer.
	after []func()
	// events are what the turn has decided so far.
	events []E
}

func (e *entity[S, C, E]) begin() *turn[S, C, E] {
	now := e.engine.clock()
	return &turn[S, C, E]{
		entity: e, state: e.state, now: now,
		entry: &journal.Entry{
			Slot: e.handle.stream.Slot(), Stream: e.handle.stream, Activation: e.activation, Expect: e.seq, At: now,
		},
	}
}

// decide judges a command of the actor's own aggregate and folds what follows.
// Events are kept also where the answer is a refusal.
func (t *turn[S, C, E]) decide(c C) error { return t.decideIf(c, nil) }

// decideIf is decide with a last judgement that only a command that nothing
// else speaks against comes to, such as a quota that it would use up.
func (t *turn[S, C, E]) decideIf(c C, grant func() error) error {
	events, refusal := t.entity.kind.rules.Decide(t.state, c, t.now)
	if refusal == nil && grant != nil {
		if err := grant(); err != nil {
			return err
		}
	}
	if len(events) == 0 {
		return refusal
	}
	facts, err := t.entity.kind.rules.Encode(events)
	if err != nil {
		return err
	}
	for _, e := range events {
		t.entity.kind.rules.Evolve(t.state, e)
	}
	t.entry.Events = append(t.entry.Events, facts...)
	t.events = append(t.events, events...)
	return refusal
}

// say adds words for others.
func (t *turn[S, C, E]) say(words ...journal.Effect) {
	t.entry.Effects = append(t.entry.Effects, words...)
}

// keep adds a row of the actor's own.
func (t *turn[S, C, E]) keep(table journal.Table, key, value []byte) {
	t.entry.Rows = append(t.entry.Rows, journal.Row{Slot: t.entry.Slot, Table: table, Key: key, Value: value})
}

// strike removes a row of the actor's own.
func (t *turn[S, C, E]) strike(table journal.Table, key []byte) {
	t.entry.Rows = append(t.entry.Rows, journal.Row{Slot: t.entry.Slot, Table: table, Key: key, Delete: true})
}

// tell puts a word into the tray of another actor.
func (t *turn[S, C, E]) tell(to journal.Stream, said *record.SagaMessage) {
	data, _ := said.MarshalVT() // no field of it can fail
	t.say(journal.EnqueueFor{To: to, Data: data})
}

// row reads one of the actor's own rows, its unapplied ones included.
func (t *turn[S, C, E]) row(table journal.Table, key []byte) ([]byte, bool, error) {
	if o, ok := t.entity.overlay[overlayKey(table, key)]; ok {
		t.rests = o.ticket
		return o.value, !o.gone, nil
	}
	return t.entity.engine.journal.Row(t.entry.Slot, table, key)
}

// rows calls fn with the actor's own rows whose keys begin with prefix, its
// unapplied ones included, in no order.
func (t *turn[S, C, E]) rows(table journal.Table, prefix []byte, fn func(key, value []byte)) error {
	v := t.entity.engine.journal.View()
	defer v.Close()
	over := t.entity.overlay
	err := v.Rows(t.entry.Slot, table, prefix, nil, false, func(key, value []byte) bool {
		if _, laid := over[overlayKey(table, key)]; !laid {
			fn(bytes.Clone(key), bytes.Clone(value))
		}
		return true
	})
	for key, o := range over {
		if o.gone || !strings.HasPrefix(key, overlayKey(table, prefix)) {
			continue
		}
		fn([]byte(key)[1:], o.value)
	}
	return err
}

func overlayKey(table journal.Table, key []byte) string { return string(byte(table)) + string(key) }

func (t *turn[S, C, E]) empty() bool {
	e := t.entry
	return len(e.Events) == 0 && len(e.Rows) == 0 && len(e.Effects) == 0 && len(e.Handled) == 0 &&
		len(e.Timers) == 0 && len(e.Hosted) == 0 && !e.Purge && !t.behind
}

// finish appends what the turn has said and calls release when it is durable
// and settled. A turn that said nothing rests on what the actor said before.
func (t *turn[S, C, E]) finish(release func(error)) {
	e := t.entity
	if t.empty() {
		t.waitFor(t.waits, func() {
			t.restOn(t.rests, func(err error) {
				if err != nil {
					release(err)
					return
				}
				t.restOn(e.last, release)
			})
		})
		return
	}
	e.seq += uint64(len(t.entry.Events))
	e.stored += uint64(len(t.entry.Events))
	if len(t.entry.Events) > 0 && e.stored >= e.kind.storeAfter(t.state) {
		stored, err := t.state.MarshalVT()
		if err == nil {
			t.entry.State, e.stored = stored, 0
		}
	}
	tk := t.claim()
	t.ticket = nil // the journal's, from now on
	e.last = tk
	e.remember(t.entry.Rows, tk)
	engine, handle, after := e.engine, e.handle, t.after
	t.entry.Release = func(err error) {
		if err != nil {
			engine.drop(handle, errStopped)
		} else {
			for _, fn := range after {
				fn()
			}
		}
		tk.release(err)
		release(err)
	}
	e.engine.journal.Append(t.entry)
}

// claim is the ticket of the turn's entry, for others to rest on.
func (t *turn[S, C, E]) claim() *ticket {
	if t.ticket == nil {
		t.ticket = &ticket{}
	}
	return t.ticket
}

// abandon lets go what rests on a turn that came to nothing.
func (t *turn[S, C, E]) abandon() {
	if t.ticket != nil {
		t.ticket.release(errStopped)
	}
}

// grant takes a slot of the organization's day.
func (t *turn[S, C, E]) grant(q *dayQuota, org parley.OrgID, limit *int) error {
	rests, err := q.take(t.entity.engine.journal, org, limit, t.now, t.claim)
	t.waits = rests
	return err
}

// waitFor calls then when all entries have been released.
func (t *turn[S, C, E]) waitFor(entries []*ticket, then func()) {
	if len(entries) == 0 {
		then()
		return
	}
	entries[0].then(func(error) { t.waitFor(entries[1:], then) })
}

// restOn calls release when an entry has been released, at once if there is none.
func (t *turn[S, C, E]) restOn(tk *ticket, release func(error)) {
	if tk == nil {
		release(nil)
		return
	}
	tk.then(release)
}

// remember lays rows over what is applied until their entry is released, and
// forgets those whose entries have been.
func (e *entity[S, C, E]) remember(rows []journal.Row, tk *ticket) {
	for len(e.recent) > 0 && e.recent[0].released() {
		for _, k := range e.recent[0].keys {
			if e.overlay[k].ticket == e.recent[0] {
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
		e.overlay = map[string]overlaid{}
	}
	for _, r := range rows {
		k := overlayKey(r.Table, r.Key)
		tk.keys = append(tk.keys, k)
		e.overlay[k] = overlaid{value: r.Value, gone: r.Delete, ticket: tk}
	}
	e.recent = append(e.recent, tk)
}
