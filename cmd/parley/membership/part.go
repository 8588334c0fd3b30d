package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"parley/actors"
	"parley/actors/host"
	"parley/client/parley"
	"parley/cluster"
	"parley/cluster/identity"
	"parley/cluster/raftlog"
	"parley/cmd/parley/datadir"
	"parley/cmd/parley/program"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/keyring"
)

// Options of a node.
type Options struct {
	// Data is the data directory.
	Data string
	// Listen is the address for other nodes, Advertise the one by which they reach it, if
	// that is another one.
	Listen, Advertise string
	// Name is what people call the node; "" is the name of the machine.
	Name string
	// Join is the address of a member, and Token the token, with which a new node joins.
	Join, Token string
	// ErasureList is the path of the list of erasures; "" is that in the data directory. Only
	// Recover needs it.
	ErasureList string
	// Settings, as NAME=VALUE, should be the same on all nodes.
	Settings []string
	Clock    parley.Clock
	Logger   *slog.Logger
	// Fatal ends the process.
	Fatal func(error)
}

// Part is a server's part of a cluster.
type Part struct {
	Options
	peers
	// begin is what a node that joins got, until it has the content of the cluster.
	begin      *beginning
	store      *persistence.Store
	member     *cluster.Member
	joinServer *cluster.JoinServer
	actors     *actors.Node
	keys       *Keys
	log        *raftlog.Log
	work       sync.WaitGroup
	// working ends with Close.
	working context.Context
	stop    context.CancelFunc

	// ending is done once, by the first that finds that the node has diverged.
	ending   sync.Once
	spending spending
	clocks   cluster.Clocks
	draining atomic.Bool
	// drains makes drains wait for each other. noticed is set once load balancers had time to
	// notice that the node is draining.
	drains  chan struct{}
	noticed bool
	ready   atomic.Bool // it was ready once
	blank   bool        // it had not had the content of the cluster when it started
	// confirmed is when a fence last passed, nil if none has.
	confirmed atomic.Pointer[time.Time]
}

// logDirectory is the name of the log's directory in the data directory.
const logDirectory = "raft"

// Open returns the part of a server whose data directory belongs to a cluster, or is to join
// one; nil if neither is so.
func Open(ctx context.Context, o Options) (*Part, error) {
	if o.Token != "" && o.Join == "" {
		return nil, usage(errors.New("--join-token needs --join"))
	}
	if !identity.Exists(o.Data) {
		if o.Join == "" {
			if o.Listen != "" {
				return nil, usage(noIdentity(o.Data))
			}
			return nil, nil
		}
		if err := join(ctx, o); err != nil {
			return nil, err
		}
	}
	id, err := identity.Open(o.Data)
	if err != nil {
		return nil, fmt.Errorf("%w\n  put that file back from a copy of the directory, or let a new node take this one's place:\n  parley cluster replace NODE, on another node", err)
	}
	if id.Joined && o.Token != "" {
		o.Logger.Info("the join token is not used: the directory belongs to a node already; a new node needs a directory of its own", "node", id.ID.String(), "name", id.Name)
	}
	if o.Advertise != "" && o.Advertise != id.Address {
		return nil, usage(fmt.Errorf("--cluster-advertise: the cluster knows this node by %s, not by %s; \"parley cluster replace\" puts a new node with another address in its place", id.Address, o.Advertise))
	}
	if o.Listen == "" {
		o.Listen = id.Address
	}
	p := &Part{Options: o, blank: !id.Joined, member: cluster.NewMember()}
	p.identity, p.state = id, p.State
	p.clocks.Logger = o.Logger
	p.spending.failed = func(err error) {
		o.Logger.Error("what callers spend of their rates cannot be counted with other nodes", "error", err)
	}
	p.drains = make(chan struct{}, 1)
	p.working, p.stop = context.WithCancel(context.Background())
	if p.begin, err = readBeginning(o.Data); err != nil {
		return nil, err
	}
	p.group = cluster.NewGroup(p.member, uint64(id.ID), o.Clock, p.State, o.Settings)
	d, err := ReadDivergence(o.Data)
	if err == nil && d != nil {
		err = diverged(errors.New(d.Reason), o.Data, id.ID)
	}
	return p, err
}

// noIdentity says why a data directory is not that of a node. One that is empty because its disk
// is missing must not begin a cluster of its own.
func noIdentity(data string) error {
	switch _, err := os.Lstat(filepath.Join(data, logDirectory)); {
	case err == nil:
		return fmt.Errorf("--cluster-listen: %s has the log of a node, but not the node's %s; put that back, or put a new node in its place with \"parley cluster replace\"", data, filepath.Join(data, datadir.NodeFile))
	case datadir.Blank(data):
		return fmt.Errorf("--cluster-listen: %s is empty or missing; if it was the directory of a node, put it back (is its disk mounted?), or put a new node in its place with \"parley cluster replace\". A new node joins with --join and --join-token; only the first one of a new cluster begins with \"parley cluster init\"", data)
	}
	return fmt.Errorf("--cluster-listen: %s belongs to no cluster; \"parley cluster init\" makes it the first node of a new one", data)
}

// Sequencer orders the batches of the server's store.
func (p *Part) Sequencer() persistence.Sequencer { return p.member }

// Journals is the number of journals of a store that is to be made, 0 if there is one.
func (p *Part) Journals() int {
	if p.begin == nil {
		return 0
	}
	return p.begin.Journals
}

// ServerKey is the server key of the cluster's keyrings, for one that is to be made; else nil.
func (p *Part) ServerKey() *keyring.Key {
	if p.begin == nil || len(p.begin.Server) != keyring.KeyBytes {
		return nil
	}
	key := keyring.Key(p.begin.Server)
	return &key
}

// Blank reports whether the node has not had the content of the cluster yet, so that its
// store may have to be made.
func (p *Part) Blank() bool { return p.blank }

// Draining reports that clients should go to other nodes.
func (p *Part) Draining() bool { return p.draining.Load() }

// Connect returns the journal and the router of the node.
func (p *Part) Connect(s *persistence.Store) (journal.Journal, host.Router, error) {
	types := actors.WireTypes()
	cluster.RegisterTypes(types)
	seeds := map[uint64]string{}
	if p.begin != nil {
		for id, address := range p.begin.Members {
			if id != p.identity.ID {
				seeds[uint64(id)] = address
			}
		}
	}
	p.joinServer = &cluster.JoinServer{Identity: p.identity, Clock: p.Clock, Logger: p.Logger, Secrets: p.secrets(s)}
	p.transport = cluster.NewTransport(uint64(p.identity.ID), p.member, p.identity, seeds, p.Clock, p.Logger, p.joinServer.Register)
	p.group.Drain, p.group.Peer = p.Drain, p.transport.Peer
	var err error
	p.node, err = cluster.NewNode(cluster.Options{
		Store: s, Types: types, Leader: p.transport.Leader, Clock: p.Clock, Group: p.group, Gossiped: p.spending.receive,
	})
	if err != nil {
		return journal.Journal{}, nil, err
	}
	return p.node.Journal(), p.node, nil
}

// Elsewhere reports that another node leads, or none.
func (p *Part) Elsewhere() bool {
	leader, err := p.transport.Leader()
	return leader != nil || err != nil
}

// Begin starts the actors and the node, and returns when the server shows what the cluster
// has acknowledged.
func (p *Part) Begin(ctx context.Context, n *actors.Node, s *persistence.Store, keys *Keys) error {
	p.actors, p.keys, p.store = n, keys, s
	keys.node, keys.store = n, s
	if err := n.StartFollowing(); err != nil {
		return err
	}
	replica, err := s.Replica()
	if err != nil {
		return err
	}
	id := uint64(p.identity.ID)
	if p.log, err = raftlog.Open(raftlog.Options{FS: s.RetryingFS(), Dir: filepath.Join(p.Data, logDirectory), ID: id, New: !p.identity.Joined}); err != nil {
		if errors.Is(err, raftlog.ErrNone) {
			err = program.ExitError{Code: program.ExitUnexpected, Err: fmt.Errorf("%w: what this node acknowledged is lost; put a new node in its place with \"parley cluster replace\"", err)}
		}
		return err
	}
	self := cluster.Description{Name: p.identity.Name, Address: p.identity.Address}
	p.group.Met = p.transport.Met
	if err := p.group.Open(p.log, replica, self); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", p.Listen)
	if err != nil {
		return err
	}
	working := p.working
	p.transport.Serve(p.node)
	p.joinServer.Serve(p.node)
	p.work.Go(func() {
		if err := p.transport.Links().Serve(ln); err != nil && working.Err() == nil {
			p.Fatal(err)
		}
	})
	if err := p.checkStart(ctx); err != nil {
		return err
	}
	if err := p.member.Start(cluster.MemberOptions{
		ID: id, Voters: []uint64{id}, Described: map[uint64]string{id: self.Encode()},
		Joining: !p.identity.Joined, Nonce: nonce(), Replica: replica, Keys: keys, Leading: &leading{p}, Changed: p.transport.Changed,
		Log: p.log, Links: p.transport, Clock: p.Clock, Logger: p.Logger, Fatal: p.end,
	}); err != nil {
		return err
	}
	p.work.Go(func() {
		p.group.Lead(working, func(err error) { p.Logger.Warn("the leader of the cluster has a problem", "error", err) })
	})
	p.work.Go(func() {
		p.identity.Keep(working, p.Clock, func(err error) { p.Logger.Error("the node's certificate cannot be renewed", "error", err) })
	})
	p.work.Go(func() { p.confirm(working) })
	p.work.Go(func() { p.node.KeepComparing(working, p.transport.Peer) })
	if err := p.await(ctx, replica); err != nil {
		return err
	}
	p.work.Go(func() { p.compareSettings(working, p.Settings, p.Logger) })
	p.work.Go(func() { p.compareClocks(working, &p.clocks) })
	return nil
}

// awaitReport is how long a node waits for the cluster before it says so.
const awaitReport = 3 * time.Second

// await waits until the node shows what the cluster has acknowledged.
func (p *Part) await(ctx context.Context, replica *persistence.Replica) error {
	began := p.Clock()
	for reported := false; ; {
		if _, self := p.group.Table()[uint64(p.identity.ID)]; self && p.confirmed.Load() != nil && replica.Applied().Number > 0 {
			break
		}
		if !reported && p.Clock().Sub(began) > awaitReport {
			reported = true
			p.Logger.Warn("the node waits for the cluster: it needs a leader, which needs a majority of the voters; a node that was removed waits in vain", "node", p.identity.ID.String())
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := p.identity.SetJoined(); err != nil {
		return err
	}
	if err := os.Remove(beginningFile(p.Data)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	p.measureClocks(ctx, &p.clocks)
	p.ready.Store(true)
	p.Logger.Info("the node is part of its cluster", "cluster", p.identity.Cluster.String(), "node", p.identity.ID.String(), "address", p.identity.Address)
	return nil
}

const (
	// confirmEvery is how often a node makes sure that it is part of a working cluster.
	confirmEvery = 250 * time.Millisecond
	// confirmedFor is for how long it counts as ready after that.
	confirmedFor = time.Second
	// cutOffAfter is when it counts as cut off: longer than an election takes.
	cutOffAfter = 5 * time.Second
)

// confirm passes fences, so that Ready knows whether requests could be answered, and leaves
// the leadership to others while this node should not have it.
func (p *Part) confirm(ctx context.Context) {
	tick := time.NewTicker(confirmEvery)
	defer tick.Stop()
	for {
		if began := p.Clock(); p.store.Fence(ctx) == nil {
			p.confirmed.Store(&began)
		}
		p.yield(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

var (
	errNoLeader = parley.Refuse(parley.Unavailable, "no_leader", "The node has no contact with a leader of its cluster.")
	errDraining = parley.Refuse(parley.Unavailable, "draining", "The node is draining.")
)

// Ready returns why this node should receive no requests, nil if it should.
func (p *Part) Ready() *parley.Refusal {
	confirmed := p.confirmed.Load()
	switch {
	case p.draining.Load():
		return errDraining
	case confirmed == nil || p.Clock().Sub(*confirmed) > confirmedFor: // by the monotonic clock
		return errNoLeader
	case p.clocks.Wrong():
		return errClock
	}
	return nil
}

// CutOff reports that this node has had no contact with a leader for longer than an election
// takes, so that clients that wait here should ask another node. A node that was removed stays
// cut off.
func (p *Part) CutOff() bool {
	confirmed := p.confirmed.Load()
	return confirmed == nil || p.Clock().Sub(*confirmed) > cutOffAfter
}

// State is how this node is: joining until it has had the content of the cluster, then ready,
// unready or draining; and why it is unready. A node that is down says nothing.
func (p *Part) State() cluster.NodeState {
	free, _ := p.store.Space()
	s := cluster.NodeState{State: "ready", Level: cluster.LevelNow, Version: program.ThisBuild().Version, FreeBytes: free}
	if replica, err := p.store.Replica(); err == nil { // others ask before the member has started
		s.Applied = replica.Applied().Number
	}
	if p.draining.Load() {
		s.State = "draining"
		return s
	}
	trouble := cmp.Or(p.Ready(), p.trouble())
	if trouble != nil {
		s.State, s.Reason = "unready", trouble.Text
	}
	if !p.ready.Load() && (p.blank || trouble == nil) {
		s.State = "joining"
	}
	return s
}

// leading is what a node does only while it leads.
type leading struct{ *Part }

// Begin implements cluster.Leading.
func (l *leading) Begin() error {
	l.Logger.Info("the node leads", "node", l.identity.ID.String())
	l.node.Serve(l.actors.Decide)
	l.actors.Lead(l.Fatal)
	l.work.Go(l.resumeErasures)
	return nil
}

// resumeErasures goes on with what a former leader had begun.
func (l *leading) resumeErasures() {
	for l.Elsewhere() { // until requests are taken here, or no more
		if l.member.Term() == 0 || l.working.Err() != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
	if err := l.keys.destroyListed(l.working, l.node); err != nil {
		l.Logger.Error("organizations that were erased are not erased again", "error", err)
	}
	if err := l.actors.Erasures.Resume(l.keys.keyring.Erased()); err != nil {
		l.Logger.Error("erasures do not go on", "error", err)
	}
}

// End implements cluster.Leading.
func (l *leading) End() {
	l.Logger.Info("the node does not lead any more", "node", l.identity.ID.String())
	l.node.Serve(nil)
	l.actors.StopLeading()
}

const (
	// handTimeout bounds how long a node that stops waits until another one leads.
	handTimeout = 2 * time.Second
	// drainDelay is for load balancers to notice that a node is not ready.
	drainDelay = 2 * time.Second
)

// Drain reports the node as not ready, waits until load balancers know, and hands over the
// leadership. A node whose cluster has no other one does not wait. There is no way back, so if
// the caller goes away, the rest follows at once.
func (p *Part) Drain(ctx context.Context) {
	p.draining.Store(true)
	if !p.ready.Load() || len(p.group.Table()) < 2 {
		return
	}
	select {
	case p.drains <- struct{}{}:
		defer func() { <-p.drains }()
	case <-ctx.Done():
		return // another drain goes on
	}
	if !p.noticed {
		select {
		case <-time.After(drainDelay):
			p.noticed = true
		case <-ctx.Done():
		}
	}
	p.handOver(context.WithoutCancel(ctx))
}

// handOver hands over the leadership, if this node has it.
func (p *Part) handOver(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, handTimeout)
	defer cancel()
	for p.member.Leads() && ctx.Err() == nil {
		if err := p.node.HandOver(ctx, 0); err != nil {
			p.Logger.Warn("the leadership is not handed over", "error", err)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Close leaves the cluster's connections. The store is closed after it.
func (p *Part) Close() error {
	p.stop()
	if p.node != nil {
		p.node.Serve(nil) // what peers ask from now on goes elsewhere
	}
	if p.transport != nil {
		ctx, cancel := context.WithTimeout(context.Background(), handTimeout)
		p.transport.Links().Drain(ctx)
		cancel()
		p.transport.Close()
	}
	p.member.BeginClose()
	if p.store != nil {
		p.store.BeginClose() // a log that waits for room would never end
	}
	if p.member.Runner() != nil {
		p.member.Close()
	}
	p.work.Wait()
	if p.log == nil {
		return nil
	}
	if err := p.log.Close(); err != nil {
		return fmt.Errorf("the log of the cluster: %w", err)
	}
	return nil
}
