package erasure

import (
	"context"
	"errors"
	"time"

	"parley"
	"parley/actors/record"
	"parley/journal"
)

const (
	// batchEffects and batchPositions bound what one entry does: others wait for it.
	batchEffects, batchMessages = 256, 1024
	// retryPauseMin and retryPauseMax are the pauses while the journal takes no entries.
	retryPauseMin, retryPauseMax = 5 * time.Millisecond, time.Second
	// entryBytes is about how many bytes an entry takes besides its effects.
	entryBytes = 512
)

// batch gathers effects into entries. Only one entry is under way, so that requests of
// others find room in the journals.
type batch struct {
	run     *run
	effects []journal.Effect
	drops   map[parley.AgentID][]journal.DroppedMessage
	dropped int
}

func (r *run) batch() *batch {
	return &batch{run: r, drops: map[parley.AgentID][]journal.DroppedMessage{}}
}

func (b *batch) add(ctx context.Context, w journal.Effect) error {
	b.effects = append(b.effects, w)
	if len(b.effects) < batchEffects {
		return nil
	}
	return b.flush(ctx)
}

func (b *batch) enqueue(ctx context.Context, to journal.Stream, m *record.SagaMessage) error {
	data, err := m.MarshalVT()
	if err != nil {
		return err
	}
	return b.add(ctx, journal.EnqueueFor{To: to, Data: data})
}

// drop drops a message from an agent's feed.
func (b *batch) drop(ctx context.Context, of parley.AgentID, m journal.DroppedMessage) error {
	b.drops[of] = append(b.drops[of], m)
	if b.dropped++; b.dropped < batchMessages {
		return nil
	}
	return b.flush(ctx)
}

// flush stores what is gathered.
func (b *batch) flush(ctx context.Context) error {
	for of, messages := range b.drops {
		b.effects = append(b.effects, journal.DropFeed{Of: of, Messages: messages})
	}
	e := &journal.Entry{Slot: b.run.org.Slot(), Effects: b.effects}
	b.effects, b.dropped = nil, 0
	clear(b.drops)
	if len(e.Effects) == 0 {
		return nil
	}
	return b.run.append(ctx, e)
}

// append stores an entry and waits until it is durable. While the journal refuses it,
// append tries again.
func (r *run) append(ctx context.Context, e *journal.Entry) error {
	size := entryBytes + 64*len(e.Effects) + 64*len(e.Rows)
	for pause := retryPauseMin; ; pause = min(2*pause, retryPauseMax) {
		release, err := r.Journal.Admit(e.Slot, size)
		if err == nil {
			done := make(chan error, 1)
			e.At, e.Release = r.Clock(), func(err error) { release(); done <- err }
			r.Journal.Append(e)
			return <-done
		}
		if !errors.Is(err, parley.ErrOverloaded) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
