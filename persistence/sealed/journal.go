package sealed

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"parley"
	"parley/journal"
	"parley/persistence/seal"
)

// Journal is a journal whose contents are sealed.
type Journal struct {
	journal.Journal
	cipher cipher
	// appending counts the calls of Append under way, by the generation in which they
	// began. Settle begins a generation and waits for the one before.
	appending  [2]atomic.Int64
	generation atomic.Uint32
	settling   sync.Mutex
}

// New returns a layer in front of j. All of j's contents must have been written through
// such a layer with the same keys.
func New(j journal.Journal, s *seal.Sealer) *Journal { return &Journal{Journal: j, cipher: cipher{s}} }

// Append seals the contents of an entry and appends it. An entry that cannot be sealed is
// released at once and not appended: with journal.ErrErased if an owner was erased.
func (j *Journal) Append(e *journal.Entry) {
	defer j.appending[j.enter()].Add(-1)
	if err := j.cipher.sealEntry(e); err != nil {
		if e.Release != nil {
			e.Release(err)
		}
		return
	}
	j.Journal.Append(e)
}

// enter counts a call of Append in, and returns its generation.
func (j *Journal) enter() uint32 {
	for {
		now := j.generation.Load()
		j.appending[now%2].Add(1)
		if j.generation.Load() == now {
			return now % 2
		}
		j.appending[now%2].Add(-1) // Settle may not have seen it
	}
}

// settlePause is the pause between two looks at the calls under way.
const settlePause = time.Millisecond

// Settle implements journal.Journal. Entries that were sealed before the call, and not yet
// given to the store, settle too.
func (j *Journal) Settle(ctx context.Context) error {
	j.settling.Lock()
	defer j.settling.Unlock()
	before := (j.generation.Add(1) - 1) % 2
	for j.appending[before].Load() != 0 {
		select {
		case <-time.After(settlePause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return j.Journal.Settle(ctx)
}

// sealEntry replaces everything of an entry by what is stored of it.
func (c cipher) sealEntry(e *journal.Entry) (err error) {
	for i := range e.Records {
		if err := c.sealRecord(&e.Records[i]); err != nil {
			return err
		}
	}
	if e.State, err = c.sealStream(e.Stream, e.Expect, e.Events, e.State, e.Owners); err != nil {
		return err
	}
	for i := range e.Hosted {
		h := &e.Hosted[i]
		if h.State, err = c.sealStream(h.Stream, h.Expect, h.Events, h.State, h.Owners); err != nil {
			return err
		}
	}
	for i := range e.Rows {
		if err := c.sealRow(&e.Rows[i]); err != nil {
			return err
		}
	}
	for i, w := range e.Effects {
		switch w := w.(type) {
		case journal.CreateStream:
			w.State, err = c.sealStream(w.Stream, 0, w.Events, w.State, w.Owners)
			w.Stream = c.hideStream(w.Stream)
			e.Effects[i] = w
		case journal.PutRow:
			err = c.sealRow(&w.Row)
			e.Effects[i] = w
		case journal.AddToList, journal.AppendFeed, journal.DropFeed, journal.EnqueueFor, journal.Fanout, journal.RecordReceipt: // no content
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sealStream seals events in place, and returns the state as it is stored. The first
// event has number seq+1.
func (c cipher) sealStream(s journal.Stream, seq uint64, events []journal.StoredEvent, state []byte, owners journal.Owners) (_ []byte, err error) {
	for i := range events {
		f := &events[i]
		if seq++; f.Clear {
			continue
		}
		id := ofEvent(s, seq, f.Tag)
		f.Tag |= sealedTag
		if f.Data, err = c.sealParts(f.Data, owners, s.Kind, eventFamily, id.slice()); err != nil {
			return nil, err
		}
	}
	if state == nil || !s.Kind.HasContent() {
		return state, nil
	}
	id := ofState(s, seq)
	return c.sealParts(state, owners, s.Kind, stateFamily, id.slice())
}

func (c cipher) sealRow(r *journal.Row) (err error) {
	r.Key = c.hide(r.Table, r.Key)
	if r.Delete || r.Beneath || !r.Table.HasContent() {
		return nil
	}
	r.Value, err = c.seal(nil, r.Value, r.Owners, rowFamily, ofRow(r.Table, r.Key))
	return err
}

// Row opens a row.
func (j *Journal) Row(slot parley.Slot, table journal.Table, key []byte) ([]byte, bool, error) {
	return j.cipher.row(j.Journal, slot, table, key)
}

// View opens a view that opens contents.
func (j *Journal) View() journal.View { return view{j.Journal.View(), j.cipher} }

// Latest is View for the latest rows.
func (j *Journal) Latest() journal.View { return view{j.Journal.Latest(), j.cipher} }
