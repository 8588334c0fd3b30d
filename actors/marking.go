package actors

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

// markEvery is how long stream writes are gathered before they are marked.
const markEvery = 5 * time.Millisecond

// marksPerEntry bounds one entry of marks.
const marksPerEntry = 256

// Mark notes that messages were delivered to, or read by, agent, who received
// them. It returns when that is on stable storage. More than fit into one entry
// are not noted all at once: it may be repeated where it fails.
func (n *Node) Mark(_ context.Context, agent parley.AgentID, marks []journal.RecordReceipt) error {
	if len(marks) == 0 {
		return nil
	}
	entries := 0
	done := make(chan error, (len(marks)+marksPerEntry-1)/marksPerEntry)
	for chunk := range slices.Chunk(marks, marksPerEntry) {
		room, err := n.journal.Admit(agent.Slot(), host.EntryBytes*len(chunk)/8)
		if err != nil && entries == 0 {
			return err
		}
		if err != nil {
			done <- err
		} else {
			n.journal.Append(n.markEntry(agent, chunk, func(err error) { room(); done <- err }))
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

func (n *Node) markEntry(agent parley.AgentID, marks []journal.RecordReceipt, release func(error)) *journal.Entry {
	words := make([]journal.Effect, 0, len(marks))
	for _, m := range marks {
		words = n.appendMark(words, m)
	}
	return &journal.Entry{Slot: agent.Slot(), Effects: words, At: n.clock(), Release: release}
}

// MarkSoon notes what a stream has written out, together with what other
// streams of the moment have. Nothing waits for it.
func (n *Node) MarkSoon(m journal.RecordReceipt) { n.marker.add(m) }

// marker gathers marks for a moment, so that a busy stream costs one entry
// where it would cost hundreds.
type marker struct {
	node   *Node
	logger *slog.Logger

	mu      sync.Mutex
	waiting map[parley.AgentID][]journal.RecordReceipt
	timer   *time.Timer
	closed  bool
}

func newMarker(n *Node, logger *slog.Logger) *marker { return &marker{node: n, logger: logger} }

func (k *marker) add(m journal.RecordReceipt) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.waiting == nil {
		k.waiting = map[parley.AgentID][]journal.RecordReceipt{}
		if !k.closed {
			k.timer = time.AfterFunc(markEvery, k.flush)
		}
	}
	k.waiting[m.Recipient] = append(k.waiting[m.Recipient], m)
}

func (k *marker) flush() {
	k.mu.Lock()
	waiting := k.waiting
	k.waiting = nil
	k.mu.Unlock()
	for agent, marks := range waiting {
		for chunk := range slices.Chunk(marks, marksPerEntry) {
			k.keep(agent, chunk)
		}
	}
}

// keep appends marks, or leaves them: then their messages stay unseen and are
// carried again, which is at least once.
func (k *marker) keep(agent parley.AgentID, marks []journal.RecordReceipt) {
	room, err := k.node.journal.Admit(agent.Slot(), host.EntryBytes*len(marks)/8)
	if err != nil {
		k.logger.Warn("marks of a stream were not kept", "agent", agent.String(), "error", err)
		return
	}
	k.node.journal.Append(k.node.markEntry(agent, marks, func(err error) {
		room()
		if err != nil {
			k.logger.Warn("marks of a stream were not kept", "agent", agent.String(), "error", err)
		}
	}))
}

// close writes out what has been gathered.
func (k *marker) close() {
	k.mu.Lock()
	k.closed = true
	if k.timer != nil {
		k.timer.Stop()
	}
	k.mu.Unlock()
	k.flush()
}
