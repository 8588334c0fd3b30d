package host

import (
	"context"
	"errors"
	"time"

	"parley/client/parley"
	"parley/journal"
)

// EntryBytes is about what an entry takes besides what the caller brings, in bytes.
const EntryBytes = 1024

// Request is a request to the actor of a stream. Everything in it, and in its answer, is
// data: it may be decided on another node.
type Request struct {
	Stream journal.Stream
	// Size is about how many bytes the caller brings.
	Size int
	// Content is what the kind of the actor handles. ReadOnly content is a query.
	Content any
	// Payer pays for what the request stores, nil if nobody does.
	Payer *parley.Payer
}

// A Router takes requests to the node whose actors decide. here is Engine.Decide, for
// requests that are decided on this node.
type Router interface {
	Ask(r Request, here func(Request) (any, error)) (any, error)
}

// Ask admits an entry of about size bytes to the journal and sends a request to a
// stream's actor. The request and the answer are data that could cross a network: exported
// fields, without closures and without memory that the actor changes later. An error is a
// *parley.Refusal. A request that changed something is answered when the change is
// durable, or with parley.ErrOutcomeUnknown if that takes longer than AnswerTimeout. The
// payer of the context pays for what is stored.
func Ask[R any](ctx context.Context, e *Engine, s journal.Stream, size int, request any) (R, error) {
	return route[R](e, Request{s, size, request, parley.PayerOf(ctx)})
}

func route[R any](e *Engine, r Request) (answer R, err error) {
	var reply any
	if e.Router == nil {
		reply, err = e.Decide(r)
	} else {
		reply, err = e.Router.Ask(r, e.Decide)
	}
	if err == nil {
		answer, _ = reply.(R)
	}
	return answer, err
}

// sizeMax is far more than a request has. Larger sizes would overflow what is admitted.
const sizeMax = 1 << 30

// Lacking is returned by a turn that needs a fact from another home, which no turn reads. It has decided
// nothing yet, and is dropped. Gather reads the fact, so that the next turn has it.
type Lacking struct{ Gather func() error }

func (*Lacking) Error() string { return "a fact from another home is not known yet" }

// gathersMax is how often a request may lack a fact: once, and again around midnight or if another
// node led in between.
const gathersMax = 4

// Decide has an actor of this node answer a request.
func (e *Engine) Decide(r Request) (any, error) {
	reply, err := e.answer(r)
	if unfinished, ok := reply.(*Unfinished); ok && err == nil {
		reply, err = unfinished.Finish()
	}
	if e.Asked != nil {
		e.Asked(r.Content, reply)
	}
	return reply, err
}

// answer has an actor of this node answer a request. Between two turns it gathers the facts that the
// first one lacked.
func (e *Engine) answer(r Request) (reply any, err error) {
	if e.produce[r.Stream.Kind] == nil || r.Size < 0 || r.Size > sizeMax { // a node of another version, or a malformed request
		return nil, parley.ErrInternal
	}
	for range gathersMax {
		reply, err = e.decide(r)
		var lacking *Lacking
		if !errors.As(err, &lacking) {
			return reply, err
		}
		if err := lacking.Gather(); err != nil {
			e.Logger.Error("a fact that a request needs cannot be read", "stream", r.Stream.Kind, "error", err)
			return nil, e.reason(err)
		}
	}
	return nil, parley.ErrOverloaded
}

// decide answers a request with one turn.
func (e *Engine) decide(r Request) (any, error) {
	if _, query := r.Content.(ReadOnly); query {
		if e.queries.Add(1) > e.QueriesMax {
			e.answered()
			return nil, parley.ErrOverloaded
		}
		return e.ask(r.Stream, r.Content, nil, e.answered)
	}
	release, err := e.journal.Admit(r.Stream.Slot(), EntryBytes+r.Size)
	if err != nil {
		return nil, err
	}
	return e.ask(r.Stream, r.Content, r.Payer, release)
}

// reason is the error that a caller gets.
func (e *Engine) reason(err error) error {
	switch {
	case parley.IsRefusal(err):
		return err
	case e.Router != nil && e.journal.Damage() != "":
		return errDamaged
	}
	return parley.ErrInternal
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
	return route[R](e, Request{Stream: s, Content: q})
}

// Append appends an entry that no actor decided. It returns when the entry is durable,
// or why the journal rejected it.
func Append(j journal.Writer, e *journal.Entry) error {
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
