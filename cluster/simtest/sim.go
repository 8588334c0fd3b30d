// Package simtest simulates a cluster in one goroutine: real raft loops on disks, links
// and clocks that fail. A seed reproduces a run exactly. The package checks after every
// step what the cluster promises.
package simtest

import (
	"container/heap"
	crand "crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"parley/cluster/consensus"
	"parley/cluster/internal/planted"
)

// Defect is a mistake that a run makes on purpose.
type Defect int

// The defects. A simulation that does not find them proves nothing.
const (
	None Defect = iota
	AckBeforeSync
	VoteNotSynced
	IndexApart
	CutAtApplied
	NoTermCheck
	FenceWithoutQuorum
	SnapshotOverlays
	ReusedID
	CutWithoutFloor
	PublishesUnapplied
	CutBeforeSlowest
	ActsAfterTerm
	AcceptsOlderCopy
	FenceAtApplied
	NoLost
	Defects // the number of defects and 1
)

func (d Defect) String() string {
	return [...]string{
		"none", "ack before sync", "vote not synced", "applied index apart from content", "cut at applied index",
		"proposal without term check", "fence without quorum", "snapshot over old rows", "reused node id",
		"cut without a floor", "publishes what is not applied", "cut before the slowest member", "acts after its term", "accepts an older copy",
		"fence at the applied index", "a lost term untold",
	}[d]
}

// Options of a run.
type Options struct {
	Seed   uint64
	Defect Defect
	// Trace, if not nil, receives a line for everything that happens.
	Trace func(format string, args ...any)
}

// Result of a run.
type Result struct {
	// Violation is the first promise that was broken, or nil.
	Violation error
	// What happened, so that a test can check that enough did.
	Acknowledged, Fences, Terms, Crashes, Snapshots, Changes, Unknown, Never int
	// Refused older copies did not take part; of Unnoticed ones no node that they reached could
	// know, and they did not take part either.
	Refused, Unnoticed int
	// Chain is a hash of all entries: equal seeds give equal chains.
	Chain uint64
}

// add sums up what happened in several runs.
func (r *Result) add(other Result) {
	r.Acknowledged += other.Acknowledged
	r.Fences += other.Fences
	r.Terms += other.Terms
	r.Crashes += other.Crashes
	r.Snapshots += other.Snapshots
	r.Changes += other.Changes
	r.Unknown += other.Unknown
	r.Never += other.Never
	r.Refused += other.Refused
	r.Unnoticed += other.Unnoticed
}

// tick is the interval of a clock that is right. limits are small, so that they matter.
const tick = 25 * time.Millisecond

var limits = consensus.Limits{
	MessageBytes: 512, InflightBytes: 4096, InflightMessages: 16, ApplyBytes: 2048,
	UncommittedBytes: 600, CatchUpBytes: 4096, PayloadBytes: 1024, WaitingBytes: 4096, WaitingProposals: 16,
}

// sim is one run.
type sim struct {
	Options
	Result
	rng    *rand.Rand
	now    time.Duration
	events events
	order  uint64
	nodes  map[uint64]*node
	copies map[uint64]diskCopy
	net    network
	check  checker
	group  group
	nextID uint64
	tag    uint64
	quiet  bool // the faults are over
	// slowApplies: of what nodes apply, a part takes long, each for itself.
	slowApplies bool
	// votersCrash is until when nodes crash when they vote.
	votersCrash time.Duration
	logger      *slog.Logger
}

// randomness is what raft draws election times from: a global of the process.
var randomness sync.Mutex

// Run simulates a cluster until a promise is broken, or to the end.
func Run(o Options) Result {
	randomness.Lock()
	defer randomness.Unlock()
	before := crand.Reader
	defer func() { crand.Reader = before }()
	var key [32]byte
	for i := range 8 {
		key[i] = byte(o.Seed >> (8 * i))
	}
	crand.Reader = rand.NewChaCha8(key)

	s := &sim{
		Options: o, rng: rand.New(rand.NewPCG(o.Seed, 1)), nodes: map[uint64]*node{}, copies: map[uint64]diskCopy{},
		logger: slog.New(slog.DiscardHandler),
	}
	s.net = network{sim: s, cuts: map[[2]uint64]int{}}
	s.check = newChecker(s)
	s.start()
	return s.Result
}

// duration of the part with faults, and the time to heal from them.
const (
	troubled = 10 * time.Second
	healing  = 20 * time.Second
)

func (s *sim) start() {
	size := 3
	if s.rng.IntN(4) == 0 {
		size = 5
	}
	var ids []uint64
	for i := range size {
		ids = append(ids, uint64(i+1))
	}
	conf := &raftpb.ConfState{Voters: ids}
	for _, id := range ids {
		n := s.add(id)
		n.state = NewState(consensus.Applied{Index: 5, Term: 5, Conf: conf})
		n.settled = true
		n.open()
	}
	s.nextID = uint64(size + 1)
	s.group = group{sim: s}
	s.client()
	faults{s}.start()
	s.group.operate()
	s.run(troubled)
	faults{s}.heal()
	s.run(troubled + healing)
	if s.Violation == nil {
		s.check.converged()
	}
	for _, n := range s.all() {
		_, _, chain, _ := n.state.Sums()
		s.Chain = hash(s.Chain, chain)
	}
}

// run handles events up to a time.
func (s *sim) run(until time.Duration) {
	for s.Violation == nil && len(s.events) > 0 && s.events[0].at <= until {
		if s.quiet && s.check.settled() {
			return
		}
		e := heap.Pop(&s.events).(*event)
		s.now = e.at
		e.do()
	}
}

func (s *sim) violate(format string, args ...any) {
	if s.Violation == nil {
		s.Violation = fmt.Errorf("at %v: "+format, append([]any{s.now}, args...)...)
		s.trace("VIOLATION %v", s.Violation)
	}
}

func (s *sim) trace(format string, args ...any) {
	if s.Trace != nil {
		s.Trace("%10v "+format, append([]any{s.now}, args...)...)
	}
}

// all returns the nodes in a fixed order.
func (s *sim) all() []*node {
	var list []*node
	for _, id := range slices.Sorted(maps.Keys(s.nodes)) {
		list = append(list, s.nodes[id])
	}
	return list
}

// some returns a random element.
func some[T any](s *sim, list []T) T { return list[s.rng.IntN(len(list))] }

// between returns a random duration.
func (s *sim) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(s.rng.Int64N(int64(hi-lo)))
}

// event is something that happens at a time.
type event struct {
	at    time.Duration
	order uint64
	do    func()
}

type events []*event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(*event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// at schedules an event.
func (s *sim) at(when time.Duration, do func()) {
	s.order++
	heap.Push(&s.events, &event{max(when, s.now), s.order, do})
}

func (s *sim) after(wait time.Duration, do func()) { s.at(s.now+wait, do) }

// planted returns the defects of the loop itself.
func (d Defect) planted() planted.Defects {
	return planted.Defects{
		NoTermCheck: d == NoTermCheck, ActsAfterTerm: d == ActsAfterTerm, CutsEarly: d == CutBeforeSlowest,
		FenceAtApplied: d == FenceAtApplied, NoLost: d == NoLost,
	}
}
