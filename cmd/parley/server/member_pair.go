//go:build pair

package server

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"time"

	"parley"
	"parley/actors"
	"parley/actors/host"
	"parley/actors/projection"
	"parley/cluster"
	"parley/cmd/parley/datadir"
	"parley/http/content"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/replicatest"
	"parley/persistence/sealed"
)

// lateMax is how late the follower applies a batch at most, 5 ms unless PAIR_LATE says
// otherwise.
func lateMax() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("PAIR_LATE")); err == nil {
		return d
	}
	return 5 * time.Millisecond
}

// pairing is a leader and a follower in one process. Every other connection is served by
// the follower: what its requests ask of actors, and the entries that it appends, cross to
// the leader as data, and its reads are those of its own store. It is for tests: the order
// of batches is kept in memory only.
type pairing struct {
	group    *replicatest.Group
	members  [2]*replicatest.Member
	parts    [2]*cluster.Node
	follower *running
	scratch  string
}

// peer is the leader, as the follower reaches it.
type peer struct{ leader *cluster.Node }

func (p peer) Call(ctx context.Context, request []byte) ([]byte, error) {
	return p.leader.Answer(ctx, request)
}

// newMember returns the leader's part of a pair.
func newMember() member {
	most := lateMax()
	late := func() time.Duration { return rand.N(most) }
	p := &pairing{group: replicatest.NewGroup(time.Now, late, func(err error) {
		slog.Error("a replica cannot apply", "error", err)
		os.Exit(1)
	})}
	p.members = [2]*replicatest.Member{p.group.Join(), p.group.Join()}
	return member{
		sequencer: p.members[0],
		connect: func(s *persistence.Store) (journal.Journal, host.Router, error) {
			return p.connect(0, s, func() cluster.Peer { return nil })
		},
		begin: p.lead, others: p.startFollower, serve: p.serve, end: p.end,
	}
}

func (p *pairing) connect(n int, s *persistence.Store, leader func() cluster.Peer) (journal.Journal, host.Router, error) {
	types := actors.WireTypes()
	cluster.RegisterTypes(types)
	part, err := cluster.NewNode(cluster.Options{Store: s, Types: types, Leader: leader, Clock: time.Now})
	if err != nil {
		return nil, nil, err
	}
	p.parts[n] = part
	return part.Journal(), part, nil
}

// attach has a member apply the order to its store.
func (p *pairing) attach(n int, s *persistence.Store) error {
	replica, err := s.Replica()
	if err == nil {
		p.members[n].Attach(replica)
	}
	return err
}

func (p *pairing) lead(n *actors.Node, s *persistence.Store) error {
	if err := n.StartFollowing(); err != nil {
		return err
	}
	p.parts[0].Serve(n.Decide)
	if err := p.attach(0, s); err != nil {
		return err
	}
	if err := p.group.Lead(p.members[0]); err != nil {
		return err
	}
	return n.Lead()
}

// startFollower starts the follower beside a leader, with a store of its own. It shares
// what is not replicated: the keyring, the master key and the sender of webhooks.
func (p *pairing) startFollower(ctx context.Context, leader *running, cfg Config) (err error) {
	if p.scratch, err = os.MkdirTemp("", "parley-follower-"); err != nil {
		return err
	}
	f := &running{
		bundles: leader.bundles, keyring: leader.keyring, sealer: leader.sealer, master: leader.master, webhooks: leader.webhooks, meter: leader.meter,
		traces: leader.traces, listener: leader.listener,
	}
	p.follower = f
	f.store, err = persistence.Open(p.scratch, persistence.Options{
		Journals: leader.store.Journals(), Clock: time.Now, Logger: slog.Default(), CacheBytes: int64(cfg.Cache) / 4, Sequencer: p.members[1],
	})
	if err != nil {
		return err
	}
	inner, router, err := p.connect(1, f.store, func() cluster.Peer { return peer{p.parts[0]} })
	if err != nil {
		return err
	}
	quotas, err := cfg.quotas()
	if err != nil {
		return err
	}
	j := f.traces.WrapJournal(sealed.New(inner, f.sealer))
	keys := &orgKeys{keyring: f.keyring, sealer: f.sealer, list: datadir.NewErasureList(cfg.ErasureList, cfg.Data)}
	f.node = actors.New(actors.Options{
		Journal: j, Clock: time.Now, Entropy: parley.RandomEntropy, Logger: slog.Default(), PageBytes: int64(cfg.Cache) / 4,
		Render: content.Render, SeatLimit: quotas.Seats, Router: router, DestroyKey: keys.destroy,
		NewKey: func(id parley.OrgID) error { _, err := f.keyring.Create(id); return err },
	})
	if err := errors.Join(f.node.StartFollowing(), p.attach(1, f.store), f.node.Fence(ctx)); err != nil {
		return err
	}
	embedder, err := cfg.Embeddings.open()
	if err != nil {
		return err
	}
	f.directory = projection.Open(projection.Options{
		Journal: j, Embedder: embedder, Clock: time.Now, Entropy: parley.RandomEntropy, Logger: slog.Default(), Domain: cfg.Domain,
		Checkpoint: datadir.DirectoryCheckpoint(p.scratch, f.sealer),
	})
	return f.startServers(ctx, cfg)
}

// serve gives the connections of the public listener to both servers in turn.
func (p *pairing) serve(leader *running) error {
	turns := [2]*inTurn{{conns: make(chan net.Conn)}, {conns: make(chan net.Conn)}}
	ended := make(chan error, 2)
	for i, h := range []*running{leader, p.follower} {
		turns[i].Listener, turns[i].closed = leader.listener, make(chan struct{})
		go func() { ended <- h.http.Serve(turns[i]) }()
	}
	for n := 0; ; n++ {
		conn, err := leader.listener.Accept()
		if err != nil {
			return errors.Join(turns[0].Close(), turns[1].Close(), <-ended)
		}
		select {
		case turns[n%2].conns <- conn:
		case <-turns[n%2].closed:
			_ = conn.Close()
		}
	}
}

// inTurn is a listener that gets its connections from another one.
type inTurn struct {
	net.Listener
	conns  chan net.Conn
	closed chan struct{}
	once   atomic.Bool
}

// Accept implements net.Listener.
func (l *inTurn) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *inTurn) Close() error {
	if !l.once.Swap(true) {
		close(l.closed)
	}
	return nil
}

// end closes the follower, and stops both replicas.
func (p *pairing) end() error {
	f := p.follower
	if f == nil || f.node == nil {
		return os.RemoveAll(p.scratch)
	}
	if f.stop != nil {
		f.stop()
	}
	if f.http != nil {
		ctx, cancel := context.WithTimeout(context.Background(), finishWait)
		defer cancel()
		_ = f.http.Shutdown(ctx)
	}
	if f.directory != nil {
		f.directory.Close()
	}
	f.node.Close()
	for _, m := range p.members {
		m.Detach()
	}
	return errors.Join(f.store.Close(), os.RemoveAll(p.scratch))
}
