package cluster

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/cluster/consensus"
	"parley/journal"
)

// moving is a group of three as one journal, whose leader changes all the time. Reads are those
// of the first member, which never stops; the other two lead in turn. As actors do, it claims
// a stream again that it had claimed in a former term.
type moving struct {
	*group
	disks []*vfs.MemFS
	// kills: the leader loses its power after an append, as soon as nothing else is under
	// way. Otherwise the leadership moves before each claim.
	kills bool
	rng   *rand.Rand

	// mu is held while an entry is handed over, and while the leader changes.
	mu       sync.Mutex
	idle     *sync.Cond
	underWay int
	changes  int
	claims   map[journal.Stream]claim
}

// claim is the newest activation of a stream: its number as the user of the journal knows it,
// and as the leader does that it was made with last.
type claim struct {
	given, now uint64
	changes    int
}

// reader serves the reads.
const reader = 0

func newMoving(g *group, disks []*vfs.MemFS, kills bool) *moving {
	m := &moving{group: g, disks: slices.Clone(disks), kills: kills, rng: rand.New(rand.NewPCG(1, 2)), claims: map[journal.Stream]claim{}}
	m.idle = sync.NewCond(&m.mu)
	return m
}

// Start implements journal.Journal.
func (m *moving) Start(onQueue func(journal.Stream), onTimer func(journal.Stream, time.Time)) error {
	if err := m.group.Start(onQueue, onTimer); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settle()
	m.lead(1 + m.rng.IntN(2))
	return m.group.Store.Fence(context.Background()) // the reader may still replay its log
}

// settle has the reader serve the reads and another member lead. The caller holds mu.
func (m *moving) settle() {
	n := m.leads(m.of.t)
	if n == reader {
		n = 1 + m.rng.IntN(2)
		m.lead(n)
	}
	m.leader, m.group.Store = m.stores[n], m.stores[reader]
	m.changes++
}

// lead moves the leadership to a member. The caller holds mu.
func (m *moving) lead(to int) {
	begun := time.Now()
	eventually(m.of.t, "another leader", func() bool {
		from := m.leading()
		if from == to {
			return true
		}
		if time.Since(begun) > patience-time.Second {
			m.of.t.Logf("from %d to %d", from, to)
			for _, x := range m.members {
				_ = x.Runner().Do(context.Background(), func(c *consensus.Core) error { m.of.t.Logf("%+v", c.Status()); return nil })
			}
			time.Sleep(time.Second)
		}
		if from >= 0 {
			_ = m.members[from].Runner().Do(context.Background(), func(c *consensus.Core) error { return c.Transfer(uint64(to + 1)) })
			time.Sleep(time.Millisecond)
		}
		return false
	})
	m.leader, m.group.Store = m.stores[to], m.stores[reader]
	m.changes++
}

// NextActivation implements journal.Journal.
func (m *moving) NextActivation() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.kills {
		for m.underWay > 0 {
			m.idle.Wait()
		}
		if m.leads(m.of.t) == 1 {
			m.lead(2)
		} else {
			m.lead(1)
		}
	}
	return m.leader.NextActivation()
}

// Append implements journal.Journal.
func (m *moving) Append(e *journal.Entry) {
	m.mu.Lock()
	given := *e
	if n := m.leading(); (n < 0 || m.stores[n] != m.leader) && !m.ending.Load() {
		m.settle() // this machine is slow, and the members have elected another one
	}
	var again *journal.Entry
	if !e.Stream.Zero() {
		given.Activation, again = m.activation(e)
	}
	m.underWay++
	m.mu.Unlock() // a journal that is closed releases at once
	given.Release = func(err error) {
		m.mu.Lock()
		m.underWay--
		if m.kills && m.underWay == 0 && err == nil && !m.ending.Load() {
			m.kill()
		}
		m.idle.Broadcast()
		m.mu.Unlock()
		if e.Release != nil {
			e.Release(err)
		}
	}
	if again != nil {
		m.group.Append(again)
	}
	m.group.Append(&given)
}

// activation is the number by which the leader knows the activation of an entry. One that was
// made in a former term is made again, by the entry that is returned. The caller holds mu.
func (m *moving) activation(e *journal.Entry) (number uint64, again *journal.Entry) {
	known, found := m.claims[e.Stream]
	switch {
	case e.Activate && (!found || e.Activation > known.given):
		m.claims[e.Stream] = claim{e.Activation, e.Activation, m.changes}
		return e.Activation, nil
	case !found:
		return e.Activation, nil
	case known.changes != m.changes:
		known.now, known.changes = m.leader.NextActivation(), m.changes
		m.claims[e.Stream] = known
		m.underWay++
		again = &journal.Entry{
			Slot: e.Slot, Stream: e.Stream, Activation: known.now, Activate: true, At: e.At,
			Release: func(error) { m.mu.Lock(); defer m.mu.Unlock(); m.underWay--; m.idle.Broadcast() },
		}
	}
	if e.Activation != known.given { // the leader has to know that this one is not the newest
		return e.Activation, again
	}
	if e.Retire {
		delete(m.claims, e.Stream)
	}
	return known.now, again
}

// kill cuts the power of the leader, waits for another one, and starts the former one from what
// its disk has. The caller holds mu.
func (m *moving) kill() {
	n := m.leading()
	if n < 0 {
		n = m.leads(m.of.t)
	}
	g := m.group
	m.disks[n] = m.disks[n].CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: m.rng.IntN(2) * 50, RNG: m.rng})
	g.of.disks[n] = m.disks[n]
	if err := g.stopOne(n); err != nil {
		g.of.t.Errorf("the member that was abandoned: %v", err)
	}
	g.elect(n)
	g.openOne(n)
	if err := g.startOne(n, false); err != nil {
		g.of.t.Error(err)
	}
	m.settle()
}

// Settle implements journal.Journal.
func (m *moving) Settle(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.group.Settle(ctx)
}

// crash returns what a power failure of all members leaves. They are abandoned.
func (m *moving) crash() (left []*vfs.MemFS) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ending.Store(true)
	return m.crashDisks(m.disks)
}

// elect has the members other than one elect a leader at once: their clocks go fast.
func (g *group) elect(except int) {
	eventually(g.of.t, "an election", func() bool {
		for n, m := range g.members {
			if n != except && m != nil {
				_ = m.Runner().Do(context.Background(), func(c *consensus.Core) error { c.Tick(0); return nil })
			}
		}
		return g.leading() >= 0
	})
}

// Close implements journal.Journal.
func (m *moving) Close() error {
	m.mu.Lock()
	m.ending.Store(true)
	m.mu.Unlock()
	return m.group.Close()
}
