package sealed

import (
	"errors"

	"parley/client/parley"
	"parley/journal"
)

// view opens what a view of the store shows.
type view struct {
	journal.StreamReader
	journal.MessageReader
	journal.RowReader
	cipher cipher
}

// view puts the layer in front of a view.
func (c cipher) view(v journal.View) journal.View {
	opened := &view{v.StreamReader, v.MessageReader, v.RowReader, c}
	v.StreamReader, v.MessageReader, v.RowReader = opened, opened, opened
	return v
}

func (v *view) State(s journal.Stream) (seq uint64, state []byte, err error) {
	return v.cipher.state(v.StreamReader, s)
}

func (v *view) Version(s journal.Stream) (uint64, error) {
	return v.StreamReader.Version(v.cipher.hideStream(s))
}

func (v *view) Events(s journal.Stream, from uint64, reverse bool, fn func(seq uint64, at int64, f journal.StoredEvent) bool) error {
	return v.cipher.events(v.StreamReader, s, from, reverse, fn)
}

func (v *view) Message(reader parley.Slot, id parley.MessageID, read func(record []byte) error) (position uint64, err error) {
	return v.MessageReader.Message(reader, id, v.cipher.opening(id, read))
}

func (v *view) Broadcast(reader parley.Slot, id parley.MessageID, read func(record []byte) error) (found bool, err error) {
	return v.MessageReader.Broadcast(reader, id, v.cipher.opening(id, read))
}

func (v *view) Row(slot parley.Slot, table journal.Table, key []byte) ([]byte, bool, error) {
	return v.cipher.row(v.RowReader, slot, table, key)
}

func (v *view) RowSize(slot parley.Slot, table journal.Table, key []byte) (int, error) {
	return v.RowReader.RowSize(slot, table, v.cipher.hide(table, key))
}

func (v *view) Rows(slot parley.Slot, table journal.Table, prefix, beyond []byte, reverse bool, fn func(key, value []byte) bool) error {
	if beyond != nil {
		beyond = v.cipher.hide(table, beyond)
	}
	return v.cipher.rows(table, fn, func(fn func(key, value []byte) bool) error {
		return v.RowReader.Rows(slot, table, prefix, beyond, reverse, fn)
	})
}

func (v *view) Table(table journal.Table, fn func(key, value []byte) bool) error {
	return v.cipher.rows(table, fn, func(fn func(key, value []byte) bool) error { return v.RowReader.Table(table, fn) })
}

// Readers of stored bytes: a view, an archive, or a journal.
type (
	stateReader interface {
		State(journal.Stream) (seq uint64, state []byte, err error)
	}
	eventReader interface {
		Events(s journal.Stream, from uint64, reverse bool, fn func(seq uint64, at int64, f journal.StoredEvent) bool) error
	}
	rowReader interface {
		Row(slot parley.Slot, table journal.Table, key []byte) ([]byte, bool, error)
	}
)

func (c cipher) state(v stateReader, s journal.Stream) (seq uint64, state []byte, err error) {
	seq, stored, err := v.State(c.hideStream(s))
	if err != nil || stored == nil || !s.Kind.HasContent() {
		return seq, stored, err
	}
	id := ofState(s, seq)
	state, err = c.openParts(nil, stored, s.Kind, stateFamily, id.slice())
	return seq, state, err
}

func (c cipher) events(v eventReader, s journal.Stream, from uint64, reverse bool, fn func(seq uint64, at int64, f journal.StoredEvent) bool) error {
	var bad error
	err := v.Events(c.hideStream(s), from, reverse, func(seq uint64, at int64, f journal.StoredEvent) bool {
		bad = c.openEvent(s, seq, &f)
		return bad == nil && fn(seq, at, f)
	})
	if err == nil {
		err = bad
	}
	return err
}

func (c cipher) opening(id parley.MessageID, read func(record []byte) error) func([]byte) error {
	return func(stored []byte) error { return c.openRecord(id, stored, read) }
}

func (c cipher) row(v rowReader, slot parley.Slot, table journal.Table, key []byte) ([]byte, bool, error) {
	return c.hiddenRow(v, slot, table, c.hide(table, key))
}

func (c cipher) hiddenRow(v rowReader, slot parley.Slot, table journal.Table, key []byte) ([]byte, bool, error) {
	value, found, err := v.Row(slot, table, key)
	if err == nil && found && table.HasContent() {
		value, err = c.open(nil, value, rowFamily, ofRow(table, key))
	}
	return value, found && err == nil, err
}

// rows calls fn with the rows that scan passes, opened, and without those that were
// erased.
func (c cipher) rows(table journal.Table, fn func(key, value []byte) bool, scan func(func(key, value []byte) bool) error) error {
	if !table.HasContent() {
		return scan(fn)
	}
	var bad error
	err := scan(func(key, stored []byte) bool {
		value, err := c.open(nil, stored, rowFamily, ofRow(table, key))
		if errors.Is(err, journal.ErrErased) {
			return true
		}
		bad = err
		return bad == nil && fn(key, value)
	})
	if err == nil {
		err = bad
	}
	return err
}
