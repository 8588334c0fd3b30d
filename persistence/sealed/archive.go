package sealed

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"parley/client/parley"
	"parley/journal"
	"parley/journal/report"
	"parley/persistence"
	"parley/persistence/layout"
	"parley/persistence/seal"
)

// Archive opens what an archive of a store shows. A reading ends with journal.ErrErased,
// or an error that wraps ErrDamaged, at the first content that cannot be opened; Table
// leaves erased rows out.
type Archive struct {
	*persistence.Archive
	cipher cipher
}

// NewArchive returns a layer in front of a.
func NewArchive(a *persistence.Archive, s *seal.Sealer) *Archive { return &Archive{a, cipher{s}} }

// State opens the state of a stream.
func (a *Archive) State(s journal.Stream) (seq uint64, state []byte, err error) {
	return a.cipher.state(a.Archive, s)
}

// Events opens the events of a stream.
func (a *Archive) Events(s journal.Stream, from uint64, reverse bool, fn func(seq uint64, at int64, f journal.StoredEvent) bool) error {
	return a.cipher.events(a.Archive, s, from, reverse, fn)
}

// Message opens the record of a message.
func (a *Archive) Message(reader parley.Slot, id parley.MessageID, read func(record []byte) error) (position uint64, err error) {
	return a.Archive.Message(reader, id, a.cipher.opening(id, read))
}

// Broadcast opens the record of a broadcast.
func (a *Archive) Broadcast(reader parley.Slot, id parley.MessageID, read func(record []byte) error) (found bool, err error) {
	return a.Archive.Broadcast(reader, id, a.cipher.opening(id, read))
}

// Row opens a row.
func (a *Archive) Row(slot parley.Slot, table journal.Table, key []byte) ([]byte, bool, error) {
	return a.cipher.row(a.Archive, slot, table, key)
}

// Table calls fn with all rows of a table, until fn returns false.
func (a *Archive) Table(table journal.Table, fn func(key, value []byte) bool) error {
	return a.cipher.rows(table, fn, func(fn func(key, value []byte) bool) error { return a.Archive.Table(table, fn) })
}

// Streams lists every event of every stream, stream by stream in order.
func (a *Archive) Streams(fn func(s journal.Stream, seq uint64, f journal.StoredEvent) error) error {
	return a.Archive.Streams(func(s journal.Stream, seq uint64, f journal.StoredEvent) error {
		if err := a.cipher.openEvent(s, seq, &f); err != nil {
			return err
		}
		return fn(s, seq, f)
	})
}

// Records lists every message record, with the slot that keeps it.
func (a *Archive) Records(fn func(under parley.Slot, id parley.MessageID, position uint64, record []byte) error) error {
	return a.Archive.Records(func(under parley.Slot, id parley.MessageID, position uint64, stored []byte) error {
		return a.cipher.openRecord(id, stored, func(record []byte) error { return fn(under, id, position, record) })
	})
}

// Tables lists every row of every table. The names in keys are hashed, see HiddenKey.
func (a *Archive) Tables(fn func(slot parley.Slot, table journal.Table, key, value []byte) error) error {
	return a.Archive.Tables(func(slot parley.Slot, table journal.Table, key, value []byte) (err error) {
		if table.HasContent() {
			value, err = a.cipher.open(nil, value, rowFamily, ofRow(table, key))
		}
		if err != nil {
			return err
		}
		return fn(slot, table, key, value)
	})
}

// Underway lists every effect in an outbox that its target has not applied yet.
func (a *Archive) Underway(fn func(w journal.Effect) error) error {
	return a.Archive.Underway(func(w journal.Effect) error {
		w, err := a.cipher.openEffect(w)
		if err != nil {
			return err
		}
		return fn(w)
	})
}

// openEffect opens what an outbox stores of an effect. Keys of rows stay hashed.
func (c cipher) openEffect(w journal.Effect) (_ journal.Effect, err error) {
	switch w := w.(type) {
	case journal.CreateStream:
		for i := range w.Events {
			if err := c.openEvent(w.Stream, uint64(i)+1, &w.Events[i]); err != nil {
				return w, err
			}
		}
		if w.State != nil && w.Stream.Kind.HasContent() {
			id := ofState(w.Stream, uint64(len(w.Events)))
			w.State, err = c.openParts(nil, w.State, w.Stream.Kind, stateFamily, id.slice())
		}
		return w, err
	case journal.PutRow:
		if w.Table.HasContent() && !w.Delete {
			w.Value, err = c.open(nil, w.Value, rowFamily, ofRow(w.Table, w.Key))
		}
		return w, err
	case journal.AddToList, journal.AppendFeed, journal.DropFeed, journal.EnqueueFor, journal.Fanout, journal.RecordReceipt: // no content
	}
	return w, nil
}

// HiddenKey returns the key of a row as Tables and Underway list it.
func (a *Archive) HiddenKey(table journal.Table, key []byte) []byte { return a.cipher.hide(table, key) }

// HiddenRow opens a row by its key as listed.
func (a *Archive) HiddenRow(slot parley.Slot, table journal.Table, key []byte) ([]byte, bool, error) {
	return a.cipher.hiddenRow(a.Archive, slot, table, key)
}

// HiddenStream returns a stream as Streams and Underway list it.
func (a *Archive) HiddenStream(s journal.Stream) journal.Stream { return a.cipher.hideStream(s) }

// Verify opens every content of the archive. It adds those that are damaged to result,
// and returns how many were erased.
func (a *Archive) Verify(result *report.Verification) (erased uint64, err error) {
	check := result.Check("contents", "every stored content can be opened, or was erased with an organization that owned it")
	opened := func(err error, what func() string) {
		check.Checked++
		switch {
		case errors.Is(err, journal.ErrErased):
			erased++
		case err != nil:
			check.Fault(what(), "%s", err.Error())
		}
	}
	states := journal.Stream{}
	events := a.Archive.Streams(func(s journal.Stream, seq uint64, f journal.StoredEvent) error {
		opened(a.cipher.openEvent(s, seq, &f), func() string { return fmt.Sprintf("stream %d/%s, event %d", s.Kind, s.ID, seq) })
		if s == states || !s.Kind.HasContent() {
			return nil
		}
		states = s
		_, _, err := a.State(s)
		opened(err, func() string { return fmt.Sprintf("stream %d/%s, state", s.Kind, s.ID) })
		return nil
	})
	records := a.Archive.Records(func(under parley.Slot, id parley.MessageID, _ uint64, stored []byte) error {
		err := a.cipher.openRecord(id, stored, func([]byte) error { return nil })
		opened(err, func() string { return fmt.Sprintf("message %s, slot %d", id, under) })
		return nil
	})
	rows := a.Archive.Tables(func(slot parley.Slot, table journal.Table, key, value []byte) error {
		if table.HasContent() {
			_, err := a.cipher.open(nil, value, rowFamily, ofRow(table, key))
			opened(err, func() string { return fmt.Sprintf("slot %d, table %d, key %x", slot, table, key) })
		}
		return nil
	})
	return erased, errors.Join(events, records, rows)
}

// OpenPair opens the value of a key of the storage engine. Effects in outboxes stay
// sealed. The error is journal.ErrErased or wraps ErrDamaged.
func OpenPair(s *seal.Sealer, key, value []byte) ([]byte, error) {
	c := cipher{s}
	slot, family := layout.FamilyOf(key)
	if slot >= parley.Slots {
		return value, nil // a row of the store itself
	}
	shape, sealed := sealedShapes[family]
	if !sealed {
		return value, nil
	}
	if len(key) < shape.keyMin || len(key) > shape.keyMax || len(value) < shape.clear {
		return nil, fmt.Errorf("%w: a value of %d bytes at key %x", ErrDamaged, len(value), key)
	}
	opened, stored := bytes.Clone(value[:shape.clear]), value[shape.clear:]
	switch family {
	case layout.EventFamily:
		f := journal.StoredEvent{Tag: value[0], Data: stored}
		if err := c.openEvent(layout.StreamOf(key), layout.Number(key[len(key)-8:]), &f); err != nil {
			return nil, err
		}
		opened[0] = f.Tag
		return append(opened, f.Data...), nil
	case layout.StateFamily:
		if s := layout.StreamOf(key); s.Kind.HasContent() {
			id := ofState(s, layout.Number(value))
			return c.openParts(opened, stored, s.Kind, stateFamily, id.slice())
		}
	case layout.RecordFamily:
		err := c.openRecord(parley.MessageID(key[3:]), stored, func(record []byte) error {
			opened = append(opened, record...)
			return nil
		})
		return opened, err
	case layout.RowFamily:
		if table := journal.Table(key[3]); table.HasContent() {
			return c.open(opened, stored, rowFamily, ofRow(table, key[4:]))
		}
	}
	return value, nil
}

// sealedShapes are the families whose values may be sealed: the lengths that keys can have,
// and how many bytes of a value come before what the layer stores.
var sealedShapes = map[byte]struct{ keyMin, keyMax, clear int }{
	layout.EventFamily:  {28, 28, 9},
	layout.StateFamily:  {20, 20, 8},
	layout.RecordFamily: {19, 19, 8},
	layout.RowFamily:    {4, math.MaxInt, 0},
}
