package persistence

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley"
	"parley/journal"
	"parley/persistence/layout"
)

// application turns items into one batch. It is the only place that assigns
// positions, checks activations and sequences, and writes.
type application struct {
	j     *journalState
	batch *pebble.Batch
	// lengths are those of streams that this batch created or retired: the store
	// does not show them yet.
	lengths  map[journal.Stream]uint64
	counts   map[string]uint64
	counter  uint64
	received []bool
	// parts of one block of a fan-out, by home; reused.
	parts [][]parley.Seat
	order []uint32
}

func newApplication(j *journalState) *application {
	return &application{j: j, batch: j.store.db.NewBatch(), counter: j.counter}
}

// apply checks one item and, unless it is refused, writes all of it. The refusal is
// kept in it.err; an error is the engine's.
func (a *application) apply(it *item) error {
	if it.outbox != nil {
		return a.applyOutboxMessage(it)
	}
	refusal, err := a.check(it.Entry)
	if err != nil {
		return err
	}
	if it.err = refusal; refusal != nil {
		return nil
	}
	return a.write(it)
}

// check refuses an entry whose sender is no longer the current activation of its
// stream, and one that creates a stream that exists.
func (a *application) check(e *journal.Entry) (refusal, err error) {
	have, known := a.j.activations[e.Stream]
	switch {
	case e.Activate && known && have.number > e.Activation:
		return journal.ErrStale, nil
	case e.Activate || e.Stream.Zero():
	case !known || have.number != e.Activation || !have.unknown && have.seq != e.Expect:
		return journal.ErrStale, nil
	case have.unknown:
		if agrees, err := a.ends(e.Stream, e.Expect); err != nil || !agrees {
			return journal.ErrStale, err
		}
		a.j.activations[e.Stream] = activation{number: e.Activation, seq: e.Expect}
	}
	if agrees, err := a.continues(e.Hosted); err != nil || !agrees {
		return journal.ErrStale, err
	}
	for i, w := range e.Effects {
		bear, ok := w.(journal.CreateStream)
		if !ok || bear.Fresh || !a.j.store.SameHome(e.Slot, bear.Stream.Slot()) {
			continue
		}
		seq, err := a.length(bear.Stream)
		if err != nil {
			return nil, err
		}
		if seq != 0 || slices.ContainsFunc(e.Effects[:i], begins(bear.Stream)) {
			return journal.ErrExists, nil
		}
	}
	if e.Activate {
		// A reborn stream keeps the sequence its predecessor reached.
		a.j.activations[e.Stream] = activation{number: e.Activation, seq: have.seq, unknown: !known || have.unknown}
	}
	return nil, nil
}

// continues reports whether the appends to hosted streams begin where those end.
func (a *application) continues(hosted []journal.StreamAppend) (bool, error) {
	for i := range hosted {
		c := &hosted[i]
		if again := slices.IndexFunc(hosted[:i], func(x journal.StreamAppend) bool { return x.Stream == c.Stream }); again >= 0 {
			return false, nil // one append to a stream per entry
		}
		if agrees, err := a.ends(c.Stream, c.Expect); err != nil || !agrees {
			return false, err
		}
	}
	return true, nil
}

// begins recognizes the effect that creates s.
func begins(s journal.Stream) func(journal.Effect) bool {
	return func(w journal.Effect) bool {
		bear, ok := w.(journal.CreateStream)
		return ok && bear.Stream == s
	}
}

// length is the number of events of a stream, this batch included.
func (a *application) length(s journal.Stream) (uint64, error) {
	if have, ok := a.j.activations[s]; ok && !have.unknown {
		return have.seq, nil
	}
	if n, ok := a.lengths[s]; ok {
		return n, nil
	}
	return streamLength(a.j.store.db, s)
}

// ends reports whether a stream has n events, this batch included. Usually it has:
// two look-ups confirm it.
func (a *application) ends(s journal.Stream, n uint64) (bool, error) {
	if have, ok := a.lengths[s]; ok {
		return have == n, nil
	}
	if _, next, err := layout.Get(a.j.store.db, layout.EventKey(s, n+1)); err != nil || next || n == 0 {
		return !next, err
	}
	_, last, err := layout.Get(a.j.store.db, layout.EventKey(s, n))
	return last, err
}

// remember keeps the length of a stream for the rest of the batch.
func (a *application) remember(s journal.Stream, n uint64) {
	if a.lengths == nil {
		a.lengths = map[journal.Stream]uint64{}
	}
	a.lengths[s] = n
}

// streamLength reads the number of the last event of a stream. A stream that
// does not exist is the usual question: one filtered lookup answers it.
func streamLength(r pebble.Reader, s journal.Stream) (uint64, error) {
	_, found, err := layout.Get(r, layout.EventKey(s, 1))
	if err != nil || !found {
		return 0, err
	}
	prefix := layout.StreamKey(layout.EventFamily, s, 0)
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
	if err != nil {
		return 0, err
	}
	seq := uint64(0)
	if iter.Last() {
		seq = layout.Number(iter.Key()[len(prefix):])
	}
	return seq, iter.Close()
}

func (a *application) write(it *item) error {
	e := it.Entry
	stamp := a.arrival(e.At)
	if err := a.writeStream(e, stamp); err != nil {
		return err
	}
	for i := range e.Hosted {
		c := &e.Hosted[i]
		a.remember(c.Stream, c.Expect+uint64(len(c.Events)))
		if err := a.writeEvents(c.Stream, c.Expect, c.Events, c.State, stamp); err != nil {
			return err
		}
	}
	for i := range e.Rows {
		if err := a.writeRow(&e.Rows[i]); err != nil {
			return err
		}
	}
	for _, n := range e.Handled {
		if err := a.batch.Delete(layout.QueueKey(e.Stream, n), nil); err != nil {
			return err
		}
	}
	if err := a.writeEffects(it, stamp); err != nil {
		return err
	}
	if err := a.writeTimers(e); err != nil {
		return err
	}
	for _, c := range e.Counts {
		if a.counts == nil {
			a.counts = map[string]uint64{}
		}
		a.counts[string(layout.QuotaKey(a.j.number, c.Org, c.Day))] += uint64(c.N)
	}
	if e.Retire {
		if have := a.j.activations[e.Stream]; !have.unknown {
			a.remember(e.Stream, have.seq)
		}
		delete(a.j.activations, e.Stream)
	}
	return nil
}

// arrival stamps feed entries: never before the entry that made them, never
// before the arrival stamped last.
func (a *application) arrival(at time.Time) int64 {
	a.j.arrival = max(a.j.arrival, at.UnixMilli())
	return a.j.arrival
}

func (a *application) next() uint64 {
	a.counter++
	return a.counter
}

func (a *application) writeStream(e *journal.Entry, at int64) error {
	if e.Stream.Zero() || e.Activate {
		return nil
	}
	have := a.j.activations[e.Stream]
	if err := a.writeEvents(e.Stream, have.seq, e.Events, e.State, at); err != nil {
		return err
	}
	have.seq += uint64(len(e.Events))
	a.j.activations[e.Stream] = have
	if !e.Purge {
		return nil
	}
	prefix := layout.StreamKey(layout.EventFamily, e.Stream, 0)
	if err := a.batch.DeleteRange(prefix, layout.After(prefix), nil); err != nil {
		return err
	}
	a.j.activations[e.Stream] = activation{number: have.number}
	return a.batch.Delete(layout.StateKey(e.Stream), nil)
}

func (a *application) writeEvents(s journal.Stream, seq uint64, facts []journal.StoredEvent, state []byte, at int64) error {
	for _, f := range facts {
		seq++
		value := make([]byte, 0, 9+len(f.Data))
		value = append(value, f.Tag)
		value = binary.BigEndian.AppendUint64(value, uint64(at))
		if err := a.batch.Set(layout.EventKey(s, seq), append(value, f.Data...), nil); err != nil {
			return err
		}
	}
	if state == nil {
		return nil
	}
	value := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(state)), seq)
	return a.batch.Set(layout.StateKey(s), append(value, state...), nil)
}

func (a *application) writeRow(r *journal.Row) error {
	if r.Beneath {
		low := layout.RowKey(r.Slot, r.Table, r.Key)
		return a.batch.DeleteRange(low, layout.After(low), nil)
	}
	if r.Delete {
		return a.batch.Delete(layout.RowKey(r.Slot, r.Table, r.Key), nil)
	}
	return a.batch.Set(layout.RowKey(r.Slot, r.Table, r.Key), r.Value, nil)
}

// writeEffects performs the effects at this home and packs the others into one
// outbox message per home.
func (a *application) writeEffects(it *item, at int64) error {
	it.behind = a.j.behind(it.Stream)
	for _, w := range it.Effects {
		if err := a.route(it, w, at); err != nil {
			return err
		}
		// A mark is kept where the recipient reads it and, if that is another
		// home, where the conversation does; that of a copy only there.
		if m, ok := w.(journal.RecordReceipt); ok && !m.Copy && !a.j.store.SameHome(m.Home(), m.Message.Slot()) {
			m.Recipient = parley.AgentID{}
			if err := a.route(it, m, at); err != nil {
				return err
			}
		}
	}
	for _, r := range it.Records {
		if err := a.writeRecord(r.ID.Slot(), r, it.position(r.ID)); err != nil {
			return err
		}
	}
	return a.ship(it, at)
}

func (a *application) route(it *item, w journal.Effect, at int64) error {
	if many, ok := w.(journal.Fanout); ok {
		return a.fanOut(it, many, at)
	}
	home := a.j.store.home(w.Home())
	if home != a.j {
		it.pack(a.j.number, home.number, w)
		return nil
	}
	// Feed entries of a stream keep their order.
	if say, ok := w.(journal.AppendFeed); ok && (it.behind || it.packed(home.number)) {
		it.behind = true
		it.pack(a.j.number, home.number, say)
		return nil
	}
	return a.perform(it, w, at)
}

// perform performs one effect at this home.
func (a *application) perform(it *item, w journal.Effect, at int64) error {
	switch w := w.(type) {
	case journal.AppendFeed:
		return a.appendFeed(it, w, at)
	case journal.Fanout:
		return a.fan(it, w, at)
	case journal.RecordReceipt:
		return a.recordReceipt(w)
	case journal.EnqueueFor:
		it.queued = append(it.queued, w.To)
		return a.batch.Set(layout.QueueKey(w.To, a.next()), w.Data, nil)
	case journal.PutRow:
		return a.writeRow(&w.Row)
	case journal.AddToList:
		return a.addToList(w.Agent, w.Conversation)
	case journal.CreateStream:
		return a.createStream(it, w, at)
	}
	return fmt.Errorf("persistence: unknown effect %T", w)
}

// enlist appends to the list of an agent's conversations.
func (a *application) addToList(agent parley.AgentID, conversation parley.ConversationID) error {
	k := binary.BigEndian.AppendUint64(append(make([]byte, 0, 24), agent[:]...), a.next())
	return a.batch.Set(layout.RowKey(agent.Slot(), journal.ConversationTable, k), conversation[:], nil)
}

func (a *application) appendFeed(it *item, w journal.AppendFeed, at int64) error {
	n := a.next()
	entry := journal.FeedEntry{Position: n, Kind: w.Kind, Ref: w.Ref, Note: w.Note, At: at}
	if w.Kind == journal.MessageEntry {
		entry.Record = it.record(parley.MessageID(w.Ref))
	}
	it.announced = append(it.announced, announced{w.To, entry})
	if err := a.batch.Set(layout.FeedKey(layout.FeedFamily, w.To, n), layout.EncodeFeed(entry), nil); err != nil {
		return err
	}
	if w.Kind != journal.MessageEntry {
		return nil
	}
	return a.batch.Set(layout.FeedKey(layout.UntransferredFamily, w.To, n), w.Ref[:], nil)
}

// writeRecord keeps a message for those who live in this home; position is
// where its recipient's feed has it, 0 if that is elsewhere.
func (a *application) writeRecord(slot parley.Slot, r journal.Record, position uint64) error {
	k := layout.MessageKey(layout.RecordFamily, slot, r.ID)
	op := a.batch.SetDeferred(len(k), 8+len(r.Data))
	copy(op.Key, k)
	binary.BigEndian.PutUint64(op.Value, position)
	copy(op.Value[8:], r.Data)
	return op.Finish()
}

// mark merges marks and strikes the message from what its recipient has not seen.
func (a *application) recordReceipt(w journal.RecordReceipt) error {
	if err := a.batch.Merge(layout.ReceiptKey(w), layout.EncodeReceipts(w.Receipts), nil); err != nil {
		return err
	}
	if w.Recipient.Zero() || w.Copy || w.Receipts.AnnouncedAt != 0 && !w.Receipts.Transferred() {
		return nil
	}
	return a.batch.Delete(layout.FeedKey(layout.UntransferredFamily, w.Recipient, w.Position), nil)
}

// bear begins a stream. Whether it exists was judged with the entry, but for a
// word that came by lane: too late to refuse, it leaves what exists as it is.
func (a *application) createStream(it *item, w journal.CreateStream, at int64) error {
	if it.outbox != nil {
		if n, err := a.length(w.Stream); err != nil || n != 0 {
			return err
		}
	}
	if have, ok := a.j.activations[w.Stream]; ok {
		have.seq, have.unknown = uint64(len(w.Events)), false
		a.j.activations[w.Stream] = have
	}
	a.remember(w.Stream, uint64(len(w.Events)))
	return a.writeEvents(w.Stream, 0, w.Events, w.State, at)
}

func (a *application) writeTimers(e *journal.Entry) error {
	for _, t := range e.Timers {
		k := layout.TimerKey(a.j.number, uint64(t.Due.UnixMilli()), t.Stream)
		var err error
		if t.Cancel {
			err = a.batch.Delete(k, nil)
		} else {
			err = a.batch.Set(k, nil, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// finish writes what the batch holds once: counters, outbox numbers, quotas.
func (a *application) finish() error {
	if a.counter != a.j.counter {
		a.j.counter = a.counter
		value := binary.BigEndian.AppendUint64(make([]byte, 0, 16), a.counter)
		value = binary.BigEndian.AppendUint64(value, uint64(a.j.arrival))
		if err := a.batch.Set(layout.MetaKey(layout.CounterFamily, a.j.number, 0), value, nil); err != nil {
			return err
		}
	}
	for k, n := range a.counts {
		if err := a.batch.Merge([]byte(k), binary.BigEndian.AppendUint64(nil, n), nil); err != nil {
			return err
		}
	}
	return a.finishOutboxes()
}
