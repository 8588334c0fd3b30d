// Package consensus replicates a log among the nodes of a cluster. It is the loop
// around go.etcd.io/raft: the algorithm is that library's, and this package decides
// when to write, send, apply, answer and cut.
//
// Core is the loop without goroutines, clocks and I/O, so that a simulator can drive
// it. Runner drives a Core in a process.
package consensus

import (
	"errors"
	"io"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// The outcomes of a proposal other than success, and the errors of the other requests.
var (
	// ErrNeverProposed means that the term ended before the proposal entered a log. It
	// is not applied anywhere, and never will be.
	ErrNeverProposed = errors.New("consensus: the term ended before the proposal was made")
	// ErrOutcomeUnknown means that the term ended while the proposal was in flight.
	// A later leader applies it or discards it.
	ErrOutcomeUnknown = errors.New("consensus: the term ended while the proposal was in flight")
	// ErrFull means that too many proposals wait already. Nothing was proposed.
	ErrFull = errors.New("consensus: too many proposals are waiting")
	// ErrNotLeader means that the request needs the leader, which this node is not.
	ErrNotLeader = errors.New("consensus: this node does not lead")
	// ErrNoLearner means that a node cannot become a voter, because it is not a learner.
	ErrNoLearner = errors.New("consensus: the node is not a learner of the group")
	// ErrNoQuorum means that no leader confirmed its leadership in time.
	ErrNoQuorum = errors.New("consensus: no leader confirmed its leadership in time")
	// ErrStopped means that the runner has stopped.
	ErrStopped = errors.New("consensus: the node has stopped")
)

// Applied is the position of a state: the newest applied entry, how many proposals of
// its term have been applied, and the members as of this entry.
type Applied struct {
	Index, Term, Ordinal uint64
	Conf                 *raftpb.ConfState
	// Described has the context of the change that took each member in, which says how to
	// reach it. Options.Kept says what stays of former members. It is never changed, but
	// replaced.
	Described map[uint64]string
}

// Committed is one committed entry. Payload is nil for entries that concern raft
// alone; they advance the state's position all the same.
type Committed struct {
	Index, Term uint64
	Payload     []byte
}

// A Record is what one turn of the loop writes to the log, as a whole or not at all. It
// takes effect in the order of the fields.
type Record struct {
	// HardState replaces the former one. Nil leaves it as it is.
	HardState *raftpb.HardState
	// Cut, unless zero, is the newest entry that the log may drop, with all before it.
	// If the log does not hold that entry, a snapshot was installed, and all entries go.
	// The log remembers the position and continues with the next index.
	Cut Position
	// Known, unless nil, replaces what the log keeps of what this node knows of the members.
	Known Known
	// Entries are appended. An entry replaces all entries from its index on.
	Entries []*raftpb.Entry
}

// Position names an entry.
type Position struct{ Index, Term uint64 }

// A Log stores records. Records are visible to reads once Append returns, in the order
// of the calls, and durable once Sync returns. All methods may run concurrently; Append
// is called by one goroutine at a time. An error is final: the node stops.
//
// The log knows neither members nor snapshots, so the loop does not ask it for them.
type Log interface {
	raft.Storage
	// Append writes a record. It returns a number that grows with every record. The loop
	// calls it, so it must not wait for the disk unless that is stalled anyway.
	Append(r Record) (number uint64, err error)
	// Known returns the newest that was appended.
	Known() (Known, error)
	// Sync returns when the record with this number, and all before it, are durable.
	Sync(number uint64) error
}

// A State is what the log is applied to. Apply, Restore and Applied are called by one
// goroutine at a time, the others concurrently. Durable and Snapshot are called by the
// loop, so they must not wait for the disk. An error is final: the node stops.
type State interface {
	// Apply applies entries and stores their position with them in one atomic step. It
	// does not wait for the disk: after a crash the state reopens at an older position,
	// and the log replays what is missing.
	Apply(entries []Committed, after Applied) error
	// Applied returns the state's position.
	Applied() Applied
	// Durable returns the newest index that survives a crash.
	Durable() uint64
	// Snapshot returns the state's content as it is now, to be read later.
	Snapshot() (Snapshot, error)
	// Receive reads a content that another node's snapshot wrote, verifies it and
	// stores it beside the state.
	Receive(content io.Reader) (Snapshot, error)
	// Restore replaces the whole state by a received content. The change is atomic, and
	// durable when Restore returns.
	Restore(content Snapshot) error
}

// A Snapshot is the content of a state at one position. WriteTo sends it to another
// node.
type Snapshot interface {
	io.WriterTo
	io.Closer
	Applied() Applied
}

// A Message is what one node sends to another: a message of raft, and what the sender
// knows about how far logs may be cut.
type Message struct {
	Raft *raftpb.Message
	// Floor is an index that all members hold durably, except those that a snapshot
	// will serve. It never has to be taken back.
	Floor uint64
	// Known is what a leader knows of the members.
	Known Known
	// Content accompanies a message of type MsgSnap: at the sender the content to
	// transfer, at the receiver the content that was received. The raft message alone
	// carries only the position.
	Content Snapshot
	// Closed, at the receiver, is called after Content was closed. The link then lets
	// the sender's link call ReportSnapshot.
	Closed func()
}

// Attach makes a snapshot message announce the content that goes with it. The state
// may have advanced since raft asked for a snapshot, and a newer one serves as well.
func Attach(m *Message, content Snapshot) {
	at := content.Applied()
	m.Content = content
	m.Raft.Snapshot = &raftpb.Snapshot{Metadata: at.metadata()}
}

// announcesContent reports whether the message has a content, at the position that it announces.
func (m *Message) announcesContent() bool {
	if m.Content == nil {
		return false
	}
	at, announced := m.Content.Applied(), m.Raft.GetSnapshot().GetMetadata()
	return at.Index == announced.GetIndex() && at.Term == announced.GetTerm()
}

func (a Applied) metadata() *raftpb.SnapshotMetadata {
	return &raftpb.SnapshotMetadata{Index: new(a.Index), Term: new(a.Term), ConfState: a.Conf}
}
