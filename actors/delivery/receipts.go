package delivery

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"parley/actors/host"
	"parley/client/parley"
	"parley/journal"
)

// batchFor is how long the receipts of event streams are batched.
const batchFor = 5 * time.Millisecond

// receiptsPerEntry is how many receipts one journal entry holds at most.
const receiptsPerEntry = 256

// Record records receipts of messages that an agent received, and returns when they are
// durable. If there are more than one entry holds, some may be recorded although it
// fails; it may be repeated.
func (rs *Receipts) Record(_ context.Context, agent parley.AgentID, receipts []journal.RecordReceipt) error {
	if len(receipts) == 0 {
		return nil
	}
	entries := 0
	done := make(chan error, (len(receipts)+receiptsPerEntry-1)/receiptsPerEntry)
	for chunk := range slices.Chunk(receipts, receiptsPerEntry) {
		release, err := rs.journal.Admit(agent.Slot(), host.EntryBytes*len(chunk)/8)
		if err != nil && entries == 0 {
			return err
		}
		if err != nil {
			done <- err
		} else {
			rs.journal.Append(rs.entry(agent, chunk, func(err error) { release(); done <- err }))
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

func (rs *Receipts) entry(agent parley.AgentID, receipts []journal.RecordReceipt, release func(error)) *journal.Entry {
	effects := make([]journal.Effect, 0, len(receipts))
	for _, m := range receipts {
		effects = append(effects, announced(m, rs.webhooks.watched))
	}
	return &journal.Entry{Slot: agent.Slot(), Effects: effects, At: rs.clock(), Release: release}
}

// RecordSoon records a receipt together with those of other streams within the next 5
// ms. It does not wait.
func (rs *Receipts) RecordSoon(m journal.RecordReceipt) { rs.batch.add(m) }

// batcher gathers receipts for a short time, so that a busy stream costs one entry
// instead of hundreds.
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
	for agent, receipts := range waiting {
		for chunk := range slices.Chunk(receipts, receiptsPerEntry) {
			k.keep(agent, chunk)
		}
	}
}

// keep appends receipts. If they are refused or fail, it drops them: their messages
// stay untransferred and are transferred again, so delivery is at least once.
func (k *batcher) keep(agent parley.AgentID, receipts []journal.RecordReceipt) {
	release, err := k.receipts.journal.Admit(agent.Slot(), host.EntryBytes*len(receipts)/8)
	if err != nil {
		k.logger.Warn("receipts of a stream were not recorded", "agent", agent.String(), "error", err)
		return
	}
	k.receipts.journal.Append(k.receipts.entry(agent, receipts, func(err error) {
		release()
		if err != nil {
			k.logger.Warn("receipts of a stream were not recorded", "agent", agent.String(), "error", err)
		}
	}))
}

// close appends what is batched.
func (k *batcher) close() {
	k.mu.Lock()
	k.closed = true
	if k.timer != nil {
		k.timer.Stop()
	}
	k.mu.Unlock()
	k.flush()
}

// length returns how many receipts are batched.
func (k *batcher) length() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, receipts := range k.waiting {
		n += len(receipts)
	}
	return n
}
