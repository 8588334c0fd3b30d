package apply

import (
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/layout"
)

// Evaluator builds one batch. It changes the state with each item: items are judged
// as if the earlier ones of the batch were stored.
type Evaluator struct {
	output
	lengths
	kinds kinds
	state *State
	// first is what was applied when the batch began.
	first    layout.Applied
	counts   map[string]uint64
	received []bool // per source: this batch applied messages of it
	// parts of one chunk of a fan-out, by home, and the order in which its feeds are
	// written; reused.
	parts [][]parley.Seat
	order []uint32
}

// Begin starts a batch.
func (s *State) Begin(rows Rows, batch *pebble.Batch) *Evaluator {
	return &Evaluator{output: output{batch: batch}, lengths: lengths{state: s, rows: rows}, kinds: kinds{rows: rows}, state: s, first: s.applied}
}

// Apply checks one item and, unless it refuses it, adds all of it to the batch. It
// sets the item's outcome. An error is a failed read, a message out of order, or a
// batch that takes no more: the batch must not be committed.
func (ev *Evaluator) Apply(it *Item) error {
	if it.Message != nil {
		return ev.applyMessage(it)
	}
	refusal, err := ev.check(it.Entry)
	if err != nil {
		return err
	}
	if it.Refusal = refusal; refusal != nil {
		return nil
	}
	return ev.write(it)
}

// Finish adds what a batch holds once: the row that says what is applied, outbox
// numbers and quotas. arrived tells, per target, the last message that is durable there; rows
// of messages up to it are deleted.
func (ev *Evaluator) Finish(arrived func(target int) uint64) error {
	s := ev.state
	if s.applied != ev.first {
		if err := ev.batch.Set(s.homes.JournalKey(layout.AppliedFamily, s.journal, 0), s.applied.Encode(), nil); err != nil {
			return err
		}
	}
	for k, n := range ev.counts {
		if err := ev.batch.Merge([]byte(k), binary.BigEndian.AppendUint64(nil, n), nil); err != nil {
			return err
		}
	}
	return ev.finishOutboxes(arrived)
}

// Lengths are the lengths of streams that the batch changes and the state does not keep.
// Rows must show them to the next batches.
func (ev *Evaluator) Lengths() map[journal.Stream]uint64 { return ev.changed }

// Told are the kinds that the batch tells senders of, by the key of the receipts. Rows must show
// them to the next batches.
func (ev *Evaluator) Told() map[string]journal.ReceiptKinds { return ev.kinds.told }

// Feeds returns the agents whose feeds, or receipts beside them, the batch changes. It may
// list an agent more than once.
func (ev *Evaluator) Feeds() []parley.AgentID { return ev.feeds }

// check refuses an entry of an activation that is not the newest of its stream or
// does not know its stream's length, and one that creates a stream that exists.
func (ev *Evaluator) check(e *journal.Entry) (refusal, err error) {
	have, known := ev.state.activations[e.Stream]
	switch {
	case e.Activate && known && have.number > e.Activation:
		return journal.ErrStale, nil
	case e.Activate || e.Stream.Zero():
	case !known || have.number != e.Activation || !have.unknown && have.seq != e.Expect:
		return journal.ErrStale, nil
	case have.unknown:
		if agrees, err := ev.ends(e.Stream, e.Expect); err != nil || !agrees {
			return journal.ErrStale, err
		}
		ev.state.activations[e.Stream] = activation{number: e.Activation, seq: e.Expect}
	}
	if agrees, err := ev.continues(e.Hosted); err != nil || !agrees {
		return journal.ErrStale, err
	}
	for i, w := range e.Effects {
		create, ok := w.(journal.CreateStream)
		if !ok || create.Fresh || !ev.state.homes.Same(e.Slot, create.Stream.Slot()) {
			continue
		}
		seq, err := ev.length(create.Stream)
		if err != nil {
			return nil, err
		}
		if seq != 0 || slices.ContainsFunc(e.Effects[:i], begins(create.Stream)) {
			return journal.ErrExists, nil
		}
	}
	if e.Activate {
		// The new activation continues where its predecessor stopped.
		ev.state.activations[e.Stream] = activation{number: e.Activation, seq: have.seq, unknown: !known || have.unknown}
	}
	return nil, nil
}

// begins recognizes the effect that creates s.
func begins(s journal.Stream) func(journal.Effect) bool {
	return func(w journal.Effect) bool {
		create, ok := w.(journal.CreateStream)
		return ok && create.Stream == s
	}
}
