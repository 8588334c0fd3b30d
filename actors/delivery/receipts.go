package delivery

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"parley"
	"parley/actors/host"
	"parley/journal"
)

// batchFor is how long stream writes are gathered before they are marked.
const batchFor = 5 * time.Millisecond

// receiptsPerEntry bounds one entry of marks.
const receiptsPerEntry = 256

// Mark notes that messages were delivered to, or read by, agent, who received
// them. It returns when that is on stable storage. More than fit into one entry
// are not noted all at once: it may be repeated where it fails.
func (rs *Receipts) Record(_ context.Context, agent parley.AgentID, marks []journal.RecordReceipt) error {
	if len(marks) == 0 {
		return nil
	}
	entries := 0
	done := make(chan error, (len(marks)+receiptsPerEntry-1)/receiptsPerEntry)
	for chunk := range slices.Chunk(marks, receiptsPerEntry) {
		room, err := rs.journal.Admit(agent.Slot(), host.EntryBytes*len(chunk)/8)
		if err != nil && entries == 0 {
			return err
		}
		if err != nil {
			done <- err
		} else {
			rs.journal.Append(rs.entry(agent, chunk, func(err error) { room(); done <- err }))
		}
		if entries++; err != nil {
			break
		}
	}
	late := time.NewTimer(host.AnswerTimeout)
	defer late.Stop()
	bad := error(nil)
	for range entries {
		select {
		case err := <-done:
			if err != nil {
				bad = parley.ErrOverloaded
			}
		case <-late.C:
			return parley.ErrOutcomeUnknown
		}
	}
	return bad
}

func (rs *Receipts) entry(agent parley.AgentID, marks []journal.RecordReceipt, release func(error)) *journal.Entry {
	words := make([]journal.Effect, 0, len(marks))
	for _, m := range marks {
		words = rs.appendEffects(words, m)
	}
	return &journal.Entry{Slot: agent.Slot(), Effects: words, At: rs.clock(), Release: release}
}

// RecordSoon notes what a stream has written out, together with what other
// streams of the moment have. Nothing waits for it.
func (rs *Receipts) RecordSoon(m journal.RecordReceipt) { rs.batch.add(m) }

// batcher gathers marks for a moment, so that a busy stream costs one entry
// where it would cost hundreds.
type batcher struct {
	receipts *Receipts
	logger   *slog.Logger

	mu      sync.Mutex
	waiting map[parley.AgentID][]journal.RecordReceipt
	timer   *time.Timer
	closed  bool
}

func (k *batcher) add(m journal.RecordReceipt) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.waiting == nil {
		k.waiting = map[parley.AgentID][]journal.RecordReceipt{}
		if !k.closed {
			k.timer = time.AfterFunc(batchFor, k.flush)
		}
	}
	k.waiting[m.Recipient] = append(k.waiting[m.Recipient], m)
}

func (k *batcher) flush() {
	k.mu.Lock()
	waiting := k.waiting
	k.waiting = nil
	k.mu.Unlock()
	for agent, marks := range waiting {
		for chunk := range slices.Chunk(marks, receiptsPerEntry) {
			k.keep(agent, chunk)
		}
	}
}

// keep appends marks, or leaves them: then their messages stay unseen and are
// carried again, which is at least once.
func (k *batcher) keep(agent parley.AgentID, marks []journal.RecordReceipt) {
	room, err := k.receipts.journal.Admit(agent.Slot(), host.EntryBytes*len(marks)/8)
	if err != nil {
		k.logger.Warn("marks of a stream were not kept", "agent", agent.String(), "error", err)
		return
	}
	k.receipts.journal.Append(k.receipts.entry(agent, marks, func(err error) {
		room()
		if err != nil {
			k.logger.Warn("marks of a stream were not kept", "agent", agent.String(), "error", err)
		}
	}))
}

// close writes out what has been gathered.
func (k *batcher) close() {
	k.mu.Lock()
	k.closed = true
	if k.timer != nil {
		k.timer.Stop()
	}
	k.mu.Unlock()
	k.flush()
}

// length is how many receipts wait to be appended.
func (k *batcher) length() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, receipts := range k.waiting {
		n += len(receipts)
	}
	return n
}
