package cluster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"parley/client/parley"
	"parley/cluster/consensus"
	"parley/cluster/link"
	"parley/cluster/raftlog"
	"parley/journal"
	"parley/persistence"
)

// Stats are the numbers of a node of a cluster at one instant. The counters begin with the
// process.
type Stats struct {
	Loop consensus.Stats
	Log  raftlog.Stats
	// Leads says that this node leads and its store takes entries, Led that it knows a
	// leader.
	Leads, Led bool
	// Leaderships is how many the node has seen begin, its own and those of others.
	Leaderships uint64
	// Fences are those that passed, without those whose caller gave up. FenceFailures did
	// not pass.
	Fences        persistence.Distribution
	FenceFailures uint64
	// MembersUp is how many members this node reaches, itself included.
	MembersUp int
	Contents  Contents
	Forwarded Forwarded
	Window    Window
	Links     []link.Stats
	// ClockOffsets are those of Clocks.
	ClockOffsets map[uint64]time.Duration
}

// Contents counts contents of the group, which a node takes that joins or lags too far.
type Contents struct {
	// Sent ones were installed by their receiver. Unsent ones were not, or nobody knows.
	Sent, Unsent, Received uint64
}

// Forwarded counts requests and entries that this node sent to the leader, by what came back.
type Forwarded struct {
	// Answered by the leader. Undecided were not decided by the node that they went to, or
	// did not reach it: they are sent again. Of Unknown nobody knows whether they were
	// decided.
	Answered, Undecided, Unknown uint64
}

// Window is what this node has under way at the leader.
type Window struct{ Entries, EntriesMax, Bytes, BytesMax int }

// Stats returns the numbers of the node. ok is false until it has started.
func (t *Transport) Stats() (s Stats, ok bool) {
	m, r := t.member, t.member.Runner()
	if r == nil {
		return s, false
	}
	follows := m.follows.Load()
	s = Stats{
		Loop: r.Stats(), Log: m.log.Stats(), Leads: follows.takes, Led: follows.leader != 0,
		Leaderships: m.leaderships.count.Load(), Fences: m.fences.passed.Read(), FenceFailures: m.fences.failed.Load(),
		MembersUp: 1, Contents: t.contents.read(), Links: t.links.Stats(),
	}
	if known := m.roster.Load(); known != nil {
		for _, l := range s.Links {
			if _, member := known.table[l.Peer]; member && l.Up {
				s.MembersUp++
			}
		}
	}
	if n := t.node.Load(); n != nil {
		s.Forwarded, s.Window = n.forwarded.read(), n.window.stats()
	}
	return s, true
}

// leaderships counts those that begin. A node that lost sight of a leader and follows the same
// one again has seen none begin. The newest term belongs to the loop.
type leaderships struct {
	newest uint64
	count  atomic.Uint64
}

func (l *leaderships) note(term, leader uint64) {
	if leader != 0 && term > l.newest {
		l.newest = term
		l.count.Add(1)
	}
}

// fences counts fences.
type fences struct {
	passed persistence.Durations
	failed atomic.Uint64
}

func (f *fences) note(took time.Duration, err error) {
	switch {
	case err == nil:
		f.passed.Note(took)
	case !errors.Is(err, context.Canceled):
		f.failed.Add(1)
	}
}

// contents counts contents, and spaces those for one node.
type contents struct {
	sent, unsent, received atomic.Uint64

	mu sync.Mutex
	// next is when a node may get another content.
	next map[uint64]time.Time
}

// contentEvery is how often a node gets a content at most, whatever becomes of the former one.
const contentEvery = time.Second

// wait waits until a node may get another content.
func (c *contents) wait(ctx context.Context, to uint64, clock parley.Clock) error {
	c.mu.Lock()
	if c.next == nil {
		c.next = map[uint64]time.Time{}
	}
	now := clock()
	due := c.next[to]
	if due.Before(now) {
		due = now
	}
	c.next[to] = due.Add(contentEvery)
	c.mu.Unlock()
	select {
	case <-time.After(due.Sub(now)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *contents) note(err error) {
	if err != nil {
		c.unsent.Add(1)
		return
	}
	c.sent.Add(1)
}

func (c *contents) read() Contents {
	return Contents{c.sent.Load(), c.unsent.Load(), c.received.Load()}
}

// forwarded counts what is sent to the leader.
type forwarded struct{ answered, undecided, unknown atomic.Uint64 }

func (f *forwarded) note(err error) {
	switch {
	case errors.Is(err, journal.ErrNotLeader):
		f.undecided.Add(1)
	case errors.Is(err, parley.ErrOutcomeUnknown):
		f.unknown.Add(1)
	default:
		f.answered.Add(1)
	}
}

func (f *forwarded) read() Forwarded {
	return Forwarded{f.answered.Load(), f.undecided.Load(), f.unknown.Load()}
}

// forward sends a request to the leader and counts the outcome.
func (n *Node) forward(ctx context.Context, leader Peer, request any) (any, error) {
	reply, err := n.call(ctx, leader, request)
	n.forwarded.note(err)
	return reply, err
}

func (w *window) stats() Window {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Window{w.entries, windowEntries, w.bytes, windowBytes}
}
