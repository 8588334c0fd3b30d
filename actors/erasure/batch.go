package erasure

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

const (
	// batchEffects and batchMessages bound what one entry does: others wait for it.
	batchEffects, batchMessages = 256, 256
	// retryPauseMin and retryPauseMax are the pauses while the journal takes no entries.
	retryPauseMin, retryPauseMax = 5 * time.Millisecond, time.Second
	// admitPatience is how long an attempt waits while the journal takes no entries. The next
	// one begins where it ended.
	admitPatience = 10 * time.Second
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
	if !b.full() {
		return nil
	}
	return b.flush(ctx)
}

// delete deletes a row. Many rows are deleted with few entries, and without tombstones of
// ranges, of which each one slows every read down until the engine has flushed it.
func (b *batch) delete(ctx context.Context, slot parley.Slot, table journal.Table, key []byte) error {
	return b.add(ctx, journal.PutRow{Row: journal.Row{Slot: slot, Table: table, Key: key, Delete: true}})
}

func (b *batch) enqueue(ctx context.Context, to journal.Stream, m *record.SagaMessage) error {
	data, err := m.MarshalVT()
	if err != nil {
		return err
	}
	return b.add(ctx, journal.EnqueueFor{To: to, Data: data})
}

// drop drops a message from an agent's feed. If it begins a conversation of a group for the
// agent, the conversation gets its row in the agent's list: the entry said so before.
func (b *batch) drop(m sentMessage) {
	b.drops[m.to] = append(b.drops[m.to], m.DroppedMessage)
	b.dropped++
	if !m.begins.Zero() {
		key := binary.BigEndian.AppendUint64(m.to.Bytes(), m.Position)
		b.effects = append(b.effects, journal.PutRow{Row: journal.Row{
			Slot: m.to.Slot(), Table: journal.ConversationTable, Key: key, Value: m.begins.Bytes(),
		}})
	}
}

// full reports whether as much is gathered as one entry may do.
func (b *batch) full() bool { return len(b.effects) >= batchEffects || b.dropped >= batchMessages }

// flush stores what is gathered, in as many entries as it takes.
func (b *batch) flush(ctx context.Context) error {
	effects := b.effects
	for of, messages := range b.drops {
		if b.run.isFenced(of) {
			continue
		}
		for part := range slices.Chunk(messages, batchMessages) {
			effects = append(effects, journal.DropFeed{Of: of, Messages: part})
		}
	}
	b.effects, b.dropped = nil, 0
	clear(b.drops)
	for len(effects) > 0 {
		n, messages := 0, 0
		for n < min(len(effects), batchEffects) && messages < batchMessages {
			if dropped, ok := effects[n].(journal.DropFeed); ok {
				messages += len(dropped.Messages)
			}
			n++
		}
		if err := b.run.append(ctx, &journal.Entry{Slot: b.run.org.Slot(), Effects: effects[:n]}); err != nil {
			return err
		}
		effects = effects[n:]
	}
	return nil
}

// append stores an entry and waits until it is durable. While the journal refuses it,
// append tries again, for a while.
func (r *run) append(ctx context.Context, e *journal.Entry) error {
	size := entryBytes + 64*(len(e.Effects)+len(e.Rows))
	for _, w := range e.Effects {
		if dropped, ok := w.(journal.DropFeed); ok {
			size += 64 * len(dropped.Messages)
		}
	}
	ctx, stop := context.WithTimeout(ctx, admitPatience)
	defer stop()
	for pause := retryPauseMin; ; pause = min(2*pause, retryPauseMax) {
		release, err := r.Journal.Admit(e.Slot, size)
		if err == nil {
			done := make(chan error, 1)
			// Another leader has a job of its own, which may be further than this one.
			e.Here = true
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
			return err
		}
	}
}
