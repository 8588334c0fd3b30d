package actors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/cluster"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/replicatest"
	"parley/persistence/sealed"
)

// testReplicas are the nodes of a cluster in one process. The first one leads, until lead is
// called. The second applies each batch up to 20 ms later; its requests to actors cross to the first as data,
// and its reads are its own.
type testReplicas struct {
	group   *replicatest.Group
	members [2]*replicatest.Member
	// second is the disk of the second node. The first one has that of the test node.
	second *vfs.MemFS
	stores [2]*persistence.Store
	nodes  [2]*Node
	parts  [2]*cluster.Node
	turns  int
	// leads is the number of the node that leads.
	leads atomic.Int32
	// transfer: the second node is away while the first one serves, and takes its content
	// afterwards.
	transfer, away bool
}

// withReplicas has two nodes serve in turn. delay is how late the second one is.
func withReplicas(delay func() time.Duration) option {
	return func(r *testNode) {
		g := replicatest.NewGroup(time.Now, delay, func(err error) { panic(err) })
		r.replicas = &testReplicas{group: g, members: [2]*replicatest.Member{g.Join(), g.Join()}, second: vfs.NewMem()}
	}
}

// lateBy returns delays of up to d, also to several members at once.
func lateBy(d time.Duration) func() time.Duration {
	random, mu := rand.New(rand.NewPCG(1, 1)), sync.Mutex{}
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(random.Int64N(int64(d)))
	}
}

// inMemory is a peer in the same process.
type inMemory struct{ node *cluster.Node }

// Malformed implements cluster.Peer.
func (inMemory) Malformed(error) {}

func (p inMemory) Call(ctx context.Context, request []byte) ([]byte, error) {
	return p.node.Answer(ctx, 2, true, request)
}

func (c *testReplicas) start(r *testNode, dir string, options persistence.Options) error {
	types := WireTypes()
	cluster.RegisterTypes(types)
	parts := &c.parts
	for i := range c.nodes {
		o := options
		o.Sequencer = c.members[i]
		if i == 1 {
			o.FS = c.second
		}
		store, err := persistence.Open(dir, o)
		if err != nil {
			return err
		}
		leader := func() (cluster.Peer, error) {
			if at := int(c.leads.Load()); at != i {
				return inMemory{parts[at]}, nil
			}
			return nil, nil
		}
		if parts[i], err = cluster.NewNode(cluster.Options{Store: store, Types: types, Leader: leader, Clock: time.Now}); err != nil {
			return err
		}
		var j journal.Journal = sealed.New(parts[i].Journal(), r.sealer)
		if r.wrap != nil {
			j = r.wrap(j)
		}
		n := New(Options{Journal: j, Clock: r.clock, Entropy: r.entropy, Logger: options.Logger, Router: parts[i], system: r.system})
		n.engine.GatherMax = 0
		if r.tune != nil {
			r.tune(n)
		}
		parts[i].Serve(n.Decide)
		c.stores[i], c.nodes[i] = store, n
		if err := n.StartFollowing(); err != nil {
			return err
		}
		replica, err := store.Replica()
		if err != nil {
			return err
		}
		c.members[i].Attach(replica)
	}
	if err := c.group.Lead(c.members[0]); err != nil {
		return err
	}
	r.store, r.contents = c.stores[0], sealed.New(parts[0].Journal(), r.sealer)
	c.nodes[0].Lead(func(err error) { r.t.Error(err) })
	return c.turn(r)
}

// lead has the other node lead from now on, and serve what follows.
func (c *testReplicas) lead(r *testNode) {
	r.t.Helper()
	former := c.leads.Load()
	next := 1 - former
	c.parts[former].Serve(nil)
	if err := c.group.Lead(c.members[next]); err != nil { // the former one steps down first
		r.t.Fatal(err)
	}
	c.nodes[former].StopLeading()
	c.leads.Store(next)
	c.parts[next].Serve(c.nodes[next].Decide)
	r.node = c.nodes[next]
	r.node.Lead(func(err error) { r.t.Error(err) })
}

// turn has the other node serve what follows.
func (c *testReplicas) turn(r *testNode) error {
	c.turns++
	r.node = c.nodes[c.turns%2]
	if c.away {
		if err := c.catchUp(); err != nil {
			return err
		}
		c.away = false
	}
	err := errors.Join(c.nodes[0].Fence(context.Background()), c.nodes[1].Fence(context.Background()))
	if c.transfer && r.node == c.nodes[0] {
		c.members[1].Detach()
		c.away = true
	}
	return err
}

// catchUp gives the content of the first node to the second one, which then follows the order
// again.
func (c *testReplicas) catchUp() error {
	var replicas [2]*persistence.Replica
	for i, store := range c.stores {
		var err error
		if replicas[i], err = store.Replica(); err != nil {
			return err
		}
	}
	c.members[1].Detach()
	content, err := replicas[0].Snapshot()
	if err != nil {
		return err
	}
	var sent bytes.Buffer
	_, err = content.WriteTo(&sent)
	if err = errors.Join(err, content.Close()); err != nil {
		return err
	}
	received, err := replicas[1].Receive(&sent)
	if err != nil {
		return err
	}
	if received.Position().Number > replicas[1].Applied().Number {
		err = replicas[1].Restore(received)
	}
	c.members[1].Attach(replicas[1])
	return errors.Join(err, received.Close())
}

// stop closes both nodes in order, and compares what they hold.
func (c *testReplicas) stop() error {
	ctx := context.Background()
	err := c.stores[0].Settle(ctx)
	if c.away {
		err = errors.Join(err, c.catchUp())
	}
	for _, n := range c.nodes {
		n.Close()
	}
	err = errors.Join(err, c.stores[0].Settle(ctx), c.stores[1].Fence(ctx))
	var at [2]string
	for i, m := range c.members {
		m.Detach()
		replica, failed := c.stores[i].Replica()
		if failed == nil {
			at[i] = fmt.Sprint(replica.Applied())
		}
		err = errors.Join(err, failed, c.stores[i].Close())
	}
	if at[0] != at[1] {
		err = errors.Join(err, fmt.Errorf("the replicas differ: %s and %s", at[0], at[1]))
	}
	return err
}
