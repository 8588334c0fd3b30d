package host

import (
	"errors"
	"time"

	"parley"
	"parley/journal"
)

// EntryBytes is about what an entry takes besides what the caller brings, in bytes.
const EntryBytes = 1024

// Ask admits an entry of about size bytes to the journal and sends a request to a
// stream's actor. The request and the answer are data that could cross a network: exported
// fields, without closures and without memory that the actor changes later. An error is a
// *parley.Refusal. A request that changed something is answered when the change is
// durable, or with parley.ErrOutcomeUnknown if that takes longer than AnswerTimeout.
func Ask[R any](e *Engine, s journal.Stream, size int, request any) (R, error) {
	var none R
	release, err := e.journal.Admit(s.Slot(), EntryBytes+size)
	if err != nil {
		return none, err
	}
	reply, err := e.ask(s, request, release)
	if err != nil {
		return none, err
	}
	r, _ := reply.(R)
	return r, nil
}

// ReadOnly is a request whose turn appends nothing.
type ReadOnly interface{ ReadOnly() }

// GetState is the query for an actor's state. The answer reflects every request that
// was made before, and every message that was in the actor's durable queue.
type GetState struct{}

// ReadOnly marks the request.
func (GetState) ReadOnly() {}

// queriesMax is how many queries may be under way. One counts until it is answered,
// even if its caller has given up: while the disk stands still, queries must not
// pile up. They never fill a mailbox by themselves.
const queriesMax = mailboxMax / 2

// Query sends a read-only request to a stream's actor. A query takes no room
// in the journal, and is answered while the journal admits nothing: activating an
// actor writes nothing either.
func Query[R any](e *Engine, s journal.Stream, q ReadOnly) (R, error) {
	var none R
	if e.queries.Add(1) > e.QueriesMax {
		e.answered()
		return none, parley.ErrOverloaded
	}
	reply, err := e.ask(s, q, e.answered)
	if err != nil {
		return none, err
	}
	r, _ := reply.(R)
	return r, nil
}

// Append appends an entry that no actor decided. It returns when the entry is durable,
// or why the journal rejected it.
func Append(j journal.Journal, e *journal.Entry) error {
	room, err := j.Admit(e.Slot, EntryBytes)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	e.Release = func(err error) { room(); done <- err }
	j.Append(e)
	late := time.NewTimer(AnswerTimeout)
	defer late.Stop()
	select {
	case err = <-done:
	case <-late.C:
		return parley.ErrOutcomeUnknown
	}
	if err == nil || parley.IsRefusal(err) || errors.Is(err, journal.ErrExists) {
		return err
	}
	return parley.ErrOutcomeUnknown
}
