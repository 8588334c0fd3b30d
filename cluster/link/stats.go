package link

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Stats are the numbers of the connection to one peer. The counters begin with the process.
type Stats struct {
	Peer uint64
	// Up says that the peer takes messages of this node.
	Up bool
	// MessagesSent and MessagesReceived are messages, requests and answers. The bytes are
	// those and contents.
	MessagesSent, MessagesReceived, BytesSent, BytesReceived uint64
	// Dropped messages were never sent: the peer was not reached, or too much waited for it.
	Dropped uint64
	// Pending calls have no answer yet.
	Pending int
	// Waiting bytes are not sent yet, of at most WaitingMax.
	Waiting, WaitingMax int
}

// traffic counts what crosses between this node and a peer, over all connections.
type traffic struct {
	sent, received, bytesSent, bytesReceived, dropped atomic.Uint64
	// heard is when something was last received, in ns since 1970; 0 if nothing was.
	heard atomic.Int64
	clock func() time.Time

	// named counts how often the peer was named in the log in a minute since 1970.
	naming sync.Mutex
	named  int
	minute int64
}

// namedMax is how often a minute a peer is named in the log for what it sent.
const namedMax = 600

// mayBeNamed counts that the peer is named in the log, unless it was too often.
func (t *traffic) mayBeNamed() bool {
	t.naming.Lock()
	defer t.naming.Unlock()
	if minute := t.clock().Unix() / 60; minute != t.minute {
		t.minute, t.named = minute, 0
	}
	t.named++
	return t.named <= namedMax
}

func (t *traffic) noteSent(messages, bytes int) {
	t.sent.Add(uint64(messages))
	t.bytesSent.Add(uint64(bytes))
}

func (t *traffic) noteReceived(messages, bytes int) {
	t.received.Add(uint64(messages))
	t.bytesReceived.Add(uint64(bytes))
	t.heard.Store(t.clock().UnixNano())
}

// LastContact is when a node last sent something, zero if it did not since the start.
func (l *Links) LastContact(id uint64) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.traffic[id]; t != nil && t.heard.Load() != 0 {
		return time.Unix(0, t.heard.Load())
	}
	return time.Time{}
}

// trafficOf returns the counters of a peer. mu is held.
func (l *Links) trafficOf(id uint64) *traffic {
	t := l.traffic[id]
	if t == nil {
		t = &traffic{clock: l.Clock}
		l.traffic[id] = t
	}
	return t
}

// trafficFrom returns the counters of a node that has connected.
func (l *Links) trafficFrom(id uint64) *traffic {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trafficOf(id)
}

// Stats returns the numbers of all peers, by their ids.
func (l *Links) Stats() []Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Stats, 0, len(l.peers))
	for _, p := range l.peers {
		all = append(all, p.stats())
	}
	slices.SortFunc(all, func(a, b Stats) int { return cmp.Compare(a.Peer, b.Peer) })
	return all
}

func (p *remote) stats() Stats {
	p.mu.Lock()
	pending := len(p.pending)
	p.mu.Unlock()
	return Stats{
		Peer: p.id, Up: p.up.Load(), Dropped: p.dropped.Load(), Pending: pending,
		MessagesSent: p.sent.Load(), MessagesReceived: p.received.Load(),
		BytesSent: p.bytesSent.Load(), BytesReceived: p.bytesReceived.Load(),
		Waiting: p.messages.waiting() + p.calls.waiting(), WaitingMax: 2 * waitingBytesMax,
	}
}

// waiting is how many bytes wait to be sent.
func (o *outbox) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}
