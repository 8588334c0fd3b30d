package consensus_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/goleak"

	"parley/cluster/consensus"
	"parley/cluster/simtest"
)

const patience = 20 * time.Second

// server is a node in a test: a runner and a user that proposes in its terms.
type server struct {
	t      *testing.T
	id     uint64
	runner *consensus.Runner
	log    *simtest.Log
	state  *simtest.State
	failed chan error

	mu      sync.Mutex
	changed *sync.Cond
	term    uint64 // 0 while this node does not lead
	newest  uint64 // tag of the newest change of the term
	conf    *raftpb.ConfState
}

// cluster is nodes in one process.
type cluster struct {
	t       *testing.T
	network *simtest.LocalNetwork
	servers []*server
	tag     atomic.Uint64
}

func newCluster(t *testing.T, size int) *cluster {
	c := &cluster{t: t, network: &simtest.LocalNetwork{}}
	conf := &raftpb.ConfState{}
	for i := range size {
		conf.Voters = append(conf.Voters, uint64(i+1))
	}
	for _, id := range conf.Voters {
		c.start(id, &simtest.Log{}, simtest.NewState(consensus.Applied{Index: 5, Term: 5, Conf: conf}), false)
	}
	t.Cleanup(func() {
		for _, s := range c.servers {
			s.runner.Close()
		}
		goleak.VerifyNone(t)
	})
	return c
}

func (c *cluster) start(id uint64, log *simtest.Log, state *simtest.State, joining bool) *server {
	c.t.Helper()
	s := &server{t: c.t, id: id, log: log, state: state, failed: make(chan error, 1)}
	s.changed = sync.NewCond(&s.mu)
	runner, err := consensus.Start(consensus.Config{
		Options: consensus.Options{ID: id, Joining: joining, Nonce: c.tag.Add(1), Logger: slog.New(slog.DiscardHandler)},
		Log:     log, State: state, Links: c.network.Links(id), Handler: s, Clock: time.Now,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	s.runner = runner
	c.network.Join(id, runner, state)
	c.servers = append(c.servers, s)
	return s
}

func (s *server) Led(term uint64) {
	_, tag, _, _ := s.state.Sums()
	s.set(func() { s.term, s.newest = term, tag })
}

func (s *server) Lost(term uint64) {
	s.set(func() {
		if s.term != term {
			s.t.Errorf("lost term %d, led in %d", term, s.term)
		}
		s.term = 0
	})
}

func (s *server) Members(conf *raftpb.ConfState, _ map[uint64]string) {
	s.set(func() { s.conf = conf })
}
func (s *server) Follows(uint64, uint64) {}
func (s *server) Failed(err error)       { s.failed <- err }

func (s *server) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.changed.Broadcast()
}

// until waits for a condition of the server.
func (s *server) until(what string, f func() bool) {
	s.t.Helper()
	late := time.AfterFunc(patience, func() { s.set(func() {}) })
	defer late.Stop()
	begun := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !f() {
		if time.Since(begun) >= patience {
			s.t.Fatalf("node %d: waited in vain for: %s", s.id, what)
		}
		s.changed.Wait()
	}
}

// leader waits until one of the servers leads.
func (c *cluster) leader(among ...*server) *server {
	c.t.Helper()
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(time.Millisecond) {
		for _, s := range among {
			s.mu.Lock()
			leads := s.term != 0
			s.mu.Unlock()
			if leads {
				return s
			}
		}
	}
	c.t.Fatal("nobody leads")
	return nil
}

type outcome struct {
	tag, index uint64
	err        error
}

// propose proposes n changes in the server's present term. The channel receives their
// outcomes.
func (c *cluster) propose(s *server, n int) <-chan outcome {
	outcomes := make(chan outcome, n)
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		tag := c.tag.Add(1)
		change := simtest.Change{Tag: tag, After: s.newest, Op: simtest.Add, Key: byte(tag), Value: tag}
		err := s.runner.Propose(s.term, change.Encode(), func(index uint64, err error) { outcomes <- outcome{tag, index, err} })
		if err != nil {
			outcomes <- outcome{tag: tag, err: err}
			continue
		}
		s.newest = tag
	}
	return outcomes
}

// results waits for n outcomes.
func (c *cluster) results(from <-chan outcome, n int) []outcome {
	c.t.Helper()
	var all []outcome
	late := time.After(patience)
	for range n {
		select {
		case o := <-from:
			all = append(all, o)
		case <-late:
			c.t.Fatalf("%d of %d proposals have an outcome", len(all), n)
		}
	}
	return all
}

// acknowledged checks that proposals were applied in their order.
func (c *cluster) acknowledged(all []outcome) uint64 {
	c.t.Helper()
	for i, o := range all {
		if o.err != nil {
			c.t.Fatalf("proposal %d of %d: %v", i+1, len(all), o.err)
		}
		if i > 0 && (o.index <= all[i-1].index || o.tag <= all[i-1].tag) {
			c.t.Fatalf("outcomes are not in order: %v after %v", o, all[i-1])
		}
	}
	return all[len(all)-1].index
}

// work proposes n changes and returns the newest index. On a slow machine the term may
// end meanwhile; then it starts again.
func (c *cluster) work(n int, among ...*server) uint64 {
	c.t.Helper()
	for {
		all := c.results(c.propose(c.leader(among...), n), n)
		if !slices.ContainsFunc(all, func(o outcome) bool { return o.err != nil }) {
			return c.acknowledged(all)
		}
	}
}

// equal waits until the servers have the same state.
func (c *cluster) equal(servers ...*server) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	for {
		var sums [][4]uint64
		for _, s := range servers {
			if _, err := s.runner.Fence(ctx); err != nil && !errors.Is(err, consensus.ErrNoQuorum) {
				c.t.Fatalf("node %d: %v", s.id, err)
			}
			index, tag, chain, digest := s.state.Sums()
			sums = append(sums, [4]uint64{index, tag, chain, digest})
		}
		if len(slices.Compact(sums)) == 1 {
			return
		}
	}
}

func TestThreeNodes(t *testing.T) {
	c := newCluster(t, 3)
	newest := c.work(500, c.servers...)
	for _, s := range c.servers {
		index, err := s.runner.Fence(t.Context())
		if err != nil || index < newest {
			t.Errorf("node %d: the fence is at %d, %v; %d was acknowledged", s.id, index, err, newest)
		}
		if at := s.state.Applied().Index; at < index {
			t.Errorf("node %d: the fence is at %d, the state at %d", s.id, index, at)
		}
	}
	c.equal(c.servers...)

	// The leader stops. What it left open has an outcome, and another one takes over.
	leader := c.leader(c.servers...)
	open := c.propose(leader, 100)
	leader.runner.Close()
	for _, o := range c.results(open, 100) {
		if o.err != nil && !errors.Is(o.err, consensus.ErrOutcomeUnknown) && !errors.Is(o.err, consensus.ErrNeverProposed) {
			t.Errorf("proposal %d: %v", o.tag, o.err)
		}
	}
	rest := slices.DeleteFunc(slices.Clone(c.servers), func(s *server) bool { return s == leader })
	c.work(50, rest...)

	// It returns after a crash, with what its disk had.
	leader.log.Crash(0)
	leader.state.Crash(false)
	back := c.start(leader.id, leader.log, leader.state, false)
	c.equal(append(rest, back)...)
}

func TestProposeInAnotherTerm(t *testing.T) {
	c := newCluster(t, 1)
	s := c.leader(c.servers...)
	answer := make(chan error, 1)
	if err := s.runner.Propose(s.term-1, []byte("late"), func(_ uint64, err error) { answer <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; !errors.Is(err, consensus.ErrNeverProposed) {
		t.Errorf("got %v, want %v", err, consensus.ErrNeverProposed)
	}
	c.work(10, s)
}

// TestConfirm: a node confirms the term in which it leads, no other one, and none while it is
// cut off.
func TestConfirm(t *testing.T) {
	c := newCluster(t, 3)
	c.work(1, c.servers...)
	confirmed := func(s *server, terms ...uint64) (err error) {
		for _, term := range terms {
			if err = s.runner.Confirm(t.Context(), term); err == nil {
				t.Errorf("node %d confirms term %d", s.id, term)
			}
		}
		return err
	}
	for begun := time.Now(); ; { // on a slow machine the term may end meanwhile
		leader := c.leader(c.servers...)
		leader.mu.Lock()
		term := leader.term
		leader.mu.Unlock()
		if leader.runner.Confirm(t.Context(), term) == nil {
			if err := confirmed(leader, term-1, term+1); !errors.Is(err, consensus.ErrNotLeader) && !errors.Is(err, consensus.ErrNoQuorum) {
				t.Errorf("another term: %v", err)
			}
			for _, s := range c.servers {
				if s != leader {
					_ = confirmed(s, term)
				}
			}
			break
		}
		if time.Since(begun) > patience {
			t.Fatal("no leader confirms its term")
		}
	}

	alone := c.leader(c.servers...)
	alone.mu.Lock()
	term := max(alone.term, 1)
	alone.mu.Unlock()
	for _, s := range c.servers {
		if s != alone {
			s.runner.Close()
		}
	}
	_ = confirmed(alone, term)
}

func TestStalledDisk(t *testing.T) {
	c := newCluster(t, 3)
	leader := c.leader(c.servers...)

	var stalled atomic.Pointer[chan struct{}]
	for _, s := range c.servers {
		s.runner.Close()
	}
	old := c.servers
	c.servers = nil
	for _, s := range old {
		if s == leader {
			s.log.BeforeSync = func() {
				if wait := stalled.Load(); wait != nil {
					<-*wait
				}
			}
		}
		c.start(s.id, s.log, s.state, false)
	}
	sick := c.servers[leader.id-1]
	first := c.leader(c.servers...)
	for first != sick {
		_ = first.runner.Do(context.Background(), func(core *consensus.Core) error { return core.Transfer(sick.id) })
		first.until("the leadership is handed over", func() bool { return first.term == 0 })
		first = c.leader(c.servers...)
	}
	wait := make(chan struct{})
	stalled.Store(&wait)
	open := c.propose(sick, 5)
	rest := slices.DeleteFunc(slices.Clone(c.servers), func(s *server) bool { return s == sick })
	c.work(20, rest...)
	if s := sick.runner.Stats(); s.SyncAge < 250*time.Millisecond {
		t.Errorf("the stalled node lost its leadership, and its oldest record waits for %v", s.SyncAge)
	}
	stalled.Store(nil)
	close(wait)
	for _, o := range c.results(open, 5) {
		if o.err == nil {
			t.Errorf("proposal %d was acknowledged by a node that had lost its term", o.tag)
		}
	}
	c.equal(c.servers...)
	for _, s := range c.servers {
		c.settled(s)
	}
}

// settled waits until the numbers of a node show that it has nothing to do.
func (c *cluster) settled(s *server) {
	c.t.Helper()
	var now consensus.Stats
	for began := time.Now(); time.Since(began) < patience; time.Sleep(time.Millisecond) {
		now = s.runner.Stats()
		if now.SyncAge == 0 && now.Commit == now.Applied && now.Applied == s.state.Applied().Index && now.Voters == len(c.servers) && now.Term > 0 {
			return
		}
	}
	c.t.Fatalf("the numbers of node %d stay %+v", s.id, now)
}

func TestJoin(t *testing.T) {
	c := newCluster(t, 3)
	c.work(200, c.servers...)
	joined := c.start(4, &simtest.Log{}, simtest.NewState(consensus.Applied{}), true)
	change := func(kind raftpb.ConfChangeType, id uint64) *raftpb.ConfChangeSingle {
		return &raftpb.ConfChangeSingle{Type: kind.Enum(), NodeId: new(id)}
	}
	ask := func(changes ...*raftpb.ConfChangeSingle) {
		t.Helper()
		err := consensus.ErrNotLeader
		for errors.Is(err, consensus.ErrNotLeader) || errors.Is(err, raft.ErrProposalDropped) { // it may be handing over
			err = c.leader(c.servers...).runner.Do(context.Background(), func(core *consensus.Core) error {
				return core.ChangeMembers(&raftpb.ConfChangeV2{Changes: changes})
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ask(change(raftpb.ConfChangeAddLearnerNode, 4))
	joined.until("it learns that it is a learner", func() bool { return slices.Contains(joined.conf.GetLearners(), 4) })
	c.equal(c.servers...)
	leader := c.leader(c.servers...)
	gone := c.servers[leader.id%3]
	ask(change(raftpb.ConfChangeAddNode, 4), change(raftpb.ConfChangeRemoveNode, gone.id))
	joined.until("it replaces another node", func() bool {
		return slices.Contains(joined.conf.GetVoters(), 4) && len(joined.conf.GetVoters()) == 3 && len(joined.conf.GetVotersOutgoing()) == 0
	})
	gone.runner.Close()
	c.work(20, c.servers...)
	err := leader.runner.Do(context.Background(), func(core *consensus.Core) error {
		return core.ChangeMembers(&raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{
			change(raftpb.ConfChangeAddLearnerNode, 8), change(raftpb.ConfChangeAddLearnerNode, 9),
		}})
	})
	if err == nil {
		t.Error("two nodes came in with one change")
	}
}

// failingLog fails to sync once it is told to.
type failingLog struct {
	*simtest.Log
	fails atomic.Bool
}

var errDisk = errors.New("the disk is broken")

func (l *failingLog) Sync(number uint64) error {
	if l.fails.Load() {
		return errDisk
	}
	return l.Log.Sync(number)
}

func TestFailedSync(t *testing.T) {
	s := &server{t: t, id: 1, log: &simtest.Log{}, failed: make(chan error, 1)}
	s.changed = sync.NewCond(&s.mu)
	s.state = simtest.NewState(consensus.Applied{Index: 5, Term: 5, Conf: &raftpb.ConfState{Voters: []uint64{1}}})
	log := &failingLog{Log: s.log}
	network := &simtest.LocalNetwork{}
	runner, err := consensus.Start(consensus.Config{
		Options: consensus.Options{ID: 1, Logger: slog.New(slog.DiscardHandler)},
		Log:     log, State: s.state, Links: network.Links(1), Handler: s, Clock: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.runner = runner
	c := &cluster{t: t, servers: []*server{s}}
	c.leader(s)
	log.fails.Store(true)
	open := c.propose(s, 3)
	for _, o := range c.results(open, 3) {
		if o.err == nil {
			t.Error("a proposal was acknowledged that is not durable")
		}
	}
	if err := <-s.failed; !errors.Is(err, errDisk) {
		t.Errorf("failed because of %v, want %v", err, errDisk)
	}
	runner.Close()
	if _, err := runner.Fence(t.Context()); !errors.Is(err, consensus.ErrStopped) {
		t.Errorf("a fence returned %v after the end", err)
	}
}

// TestDoEndsWithItsContext: who waits for a loop that stands still can give up.
// What was asked for is not done later.
func TestDoEndsWithItsContext(t *testing.T) {
	r := newCluster(t, 1).servers[0].runner
	busy, free := make(chan struct{}), make(chan struct{})
	go func() {
		_ = r.Do(context.Background(), func(*consensus.Core) error { close(busy); <-free; return nil })
	}()
	<-busy
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := false
	if err := r.Do(ctx, func(*consensus.Core) error { done = true; return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(free)
	if err := r.Do(t.Context(), func(*consensus.Core) error { return nil }); err != nil || done {
		t.Errorf("%v; done after its caller gave up: %v", err, done)
	}
}
