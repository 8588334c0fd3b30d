package consensus

import (
	"errors"
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"parley/cluster/internal/planted"
)

// Options are what a Core starts from.
type Options struct {
	// ID is this node's id. A node that lost its disk gets a new one: the old one has
	// made promises that the lost disk held.
	ID uint64
	// Log is read only; the driver of the Core writes what NextRecord returns.
	Log raft.Storage
	// Applied is the position of the state.
	Applied Applied
	// Known is what the node knew of the members when it stopped.
	Known Known
	// Joining permits an empty log and an empty state. It is for a node whose id is new,
	// until the node has received something.
	Joining bool
	// Nonce is a random number of this start. It keeps the answers to fences of an
	// earlier start apart.
	Nonce uint64
	// Limits are DefaultLimits if zero.
	Limits Limits
	// Kept, if set, returns what is kept of the descriptions of members, present and former,
	// after a change of members. It must depend on nothing else.
	Kept func(conf *raftpb.ConfState, described map[uint64]string) map[uint64]string
	// Logger receives what raft reports.
	Logger *slog.Logger

	planted planted.Defects
}

// Planted returns options that leave protections out. It is for the simulator.
func (o Options) Planted(defects planted.Defects) Options {
	o.planted = defects
	return o
}

// Limits bound memory and traffic. All sizes are in bytes.
type Limits struct {
	// PayloadBytes is the size of the largest proposal.
	PayloadBytes int
	// MessageBytes is the size of an append message of several entries. One entry may
	// be larger.
	MessageBytes uint64
	// InflightBytes and InflightMessages are sent to a follower without an answer.
	InflightBytes    uint64
	InflightMessages int
	// ApplyBytes are handed out to be applied and not applied yet.
	ApplyBytes uint64
	// UncommittedBytes are proposed and not applied yet. What exceeds them waits.
	UncommittedBytes uint64
	// WaitingBytes and WaitingProposals wait to be proposed. What exceeds them is
	// rejected with ErrFull.
	WaitingBytes, WaitingProposals int
	// CatchUpBytes of the log are kept for a member that lags. One that lags by more is
	// left to a snapshot.
	CatchUpBytes uint64
}

// DefaultLimits serve if Options has none.
var DefaultLimits = Limits{
	PayloadBytes: 4 << 20, MessageBytes: 1 << 20, InflightBytes: 8 << 20, InflightMessages: 4096,
	ApplyBytes: 16 << 20, UncommittedBytes: 64 << 20, WaitingBytes: 64 << 20, WaitingProposals: 4096,
	CatchUpBytes: 512 << 20,
}

// A leader sends heartbeats every heartbeatTicks; a follower that receives none starts
// an election after electionTicks to twice as many.
const (
	heartbeatTicks = 2
	electionTicks  = 12
)

func (o Options) raft(s *storage) *raft.Config {
	return &raft.Config{
		ID:                        o.ID,
		ElectionTick:              electionTicks,
		HeartbeatTick:             heartbeatTicks,
		Storage:                   s,
		Applied:                   o.Applied.Index,
		AsyncStorageWrites:        true,
		MaxSizePerMsg:             o.Limits.MessageBytes,
		MaxCommittedSizePerReady:  o.Limits.ApplyBytes,
		MaxUncommittedEntriesSize: o.Limits.UncommittedBytes,
		MaxInflightMsgs:           o.Limits.InflightMessages,
		MaxInflightBytes:          o.Limits.InflightBytes,
		CheckQuorum:               true,
		PreVote:                   true,
		ReadOnlyOption:            raft.ReadOnlySafe,
		DisableProposalForwarding: true,
		StepDownOnRemoval:         true,
		Logger:                    &raft.DefaultLogger{Logger: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug)},
	}
}

// ErrStateBehind means that the log no longer has the entries that the state lacks. The
// node has to be rebuilt from another one.
var ErrStateBehind = errors.New("consensus: the log begins after the state's position")

// Prepare brings a log in line with its state before a Core is made of both. A crash
// between the two steps of installing a snapshot leaves a state that the log does not
// lead to; the log then continues from the state. A log that lost entries is not
// recognized here: it has to know by itself what it acknowledged.
func Prepare(log Log, at Applied) error {
	first, err := log.FirstIndex()
	if err != nil {
		return err
	}
	last, err := log.LastIndex()
	if err != nil {
		return err
	}
	if at.Index+1 < first {
		return fmt.Errorf("%w: the state is at %d, the log begins at %d", ErrStateBehind, at.Index, first)
	}
	if at.Index <= last {
		if term, err := log.Term(at.Index); err != nil || term == at.Term {
			return err
		}
	}
	number, err := log.Append(Record{Cut: Position{at.Index, at.Term}})
	if err != nil {
		return err
	}
	return log.Sync(number)
}

// storage is the log as raft sees it: with the members and the snapshots of the state.
type storage struct {
	raft.Storage
	core *Core
}

// InitialState implements raft.Storage. The log's commit index lags behind the state's
// position, because it is written only with something else; so may its term if a
// snapshot was installed. A term in which no vote was stored is one without a vote.
func (s *storage) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	stored, _, err := s.Storage.InitialState()
	if err != nil {
		return nil, nil, err
	}
	at := s.core.applied
	hard := &raftpb.HardState{
		Term: new(stored.GetTerm()), Vote: new(stored.GetVote()),
		Commit: new(max(stored.GetCommit(), at.Index, min(s.core.known.Of(s.core.id).Index, s.core.last))),
	}
	if at.Term > stored.GetTerm() {
		hard.Term, hard.Vote = new(at.Term), new(raft.None)
	}
	return hard, raftpb.EnsureConfState(at.Conf), nil
}

// Snapshot implements raft.Storage. It announces the state as it is; the content is
// opened when the message is sent.
func (s *storage) Snapshot() (*raftpb.Snapshot, error) {
	return &raftpb.Snapshot{Metadata: s.core.applied.metadata()}, nil
}
