package sealed

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/seal"
)

// writer seals what it appends.
type writer struct {
	journal.Writer
	cipher cipher
	// appending counts the calls of Append under way, by the generation in which they
	// began. Settle begins a generation and waits for the one before.
	appending  [2]atomic.Int64
	generation atomic.Uint32
	settling   sync.Mutex
}

// reader opens what it reads.
type reader struct {
	journal.Reader
	cipher cipher
}

// New returns a layer in front of j. All of j's contents must have been written through
// such a layer with the same keys.
func New(j journal.Journal, s *seal.Sealer) journal.Journal {
	j.Writer = &writer{Writer: j.Writer, cipher: cipher{s}}
	j.Reader = &reader{j.Reader, cipher{s}}
	return j
}

// Append seals the contents of an entry and appends it. An entry that cannot be sealed is
// released at once and not appended: with journal.ErrErased if an owner was erased.
func (w *writer) Append(e *journal.Entry) {
	defer w.appending[w.enter()].Add(-1)
	if err := w.cipher.sealEntry(e); err != nil {
		if e.Release != nil {
			e.Release(err)
		}
		return
	}
	w.Writer.Append(e)
}

// enter counts a call of Append in, and returns its generation.
func (w *writer) enter() uint32 {
	for {
		now := w.generation.Load()
		w.appending[now%2].Add(1)
		if w.generation.Load() == now {
			return now % 2
		}
		w.appending[now%2].Add(-1) // Settle may not have seen it
	}
}

// settlePause is the pause between two looks at the calls under way.
const settlePause = time.Millisecond

// Settle implements journal.Writer. Entries that were sealed before the call, and not yet
// given to the store, settle too.
func (w *writer) Settle(ctx context.Context) error {
	w.settling.Lock()
	defer w.settling.Unlock()
	before := (w.generation.Add(1) - 1) % 2
	for w.appending[before].Load() != 0 {
		select {
		case <-time.After(settlePause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return w.Writer.Settle(ctx)
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
func (r *reader) Row(slot parley.Slot, table journal.Table, key []byte) ([]byte, bool, error) {
	return r.cipher.row(r.Reader, slot, table, key)
}

// View opens a view that opens contents.
func (r *reader) View() journal.View { return r.cipher.view(r.Reader.View()) }

// Latest is View for the latest rows.
func (r *reader) Latest() journal.View { return r.cipher.view(r.Reader.Latest()) }
