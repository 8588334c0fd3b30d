package cluster

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/cluster/consensus"
	"parley/cluster/raftlog"
	"parley/cluster/simtest"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/journaltest"
)

// replicas are the members of a group in one process, on disks of their own.
type replicas struct {
	t        testing.TB
	journals int
	disks    []vfs.FS
	dir      string
	tune     func(*persistence.Options)
	tick     time.Duration
	catchUp  uint64
	leading  Leading
	keys     func(n int) Keys // none if nil
	ahead    atomic.Int64
	open     *group
	// links, if set, connects a member instead of a network in the process.
	links func(n int, m *Member) consensus.Links
	// failed, if set, is called when a replica cannot go on.
	failed func(error)
}

func (s *replicas) now() time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(s.ahead.Load()))
}

// group is an opening of replicas, used as one journal: the leader takes entries, and
// another replica serves reads.
type group struct {
	*persistence.Store // serves reads
	leader             *persistence.Store
	of                 *replicas
	network            *simtest.LocalNetwork
	onQueue            func(journal.Stream)
	onTimer            func(journal.Stream, time.Time)
	voters             []uint64
	members            []*Member
	stores             []*persistence.Store
	logs               []*raftlog.Log
	released           chan func()
	releasing          sync.WaitGroup
	closing            sync.Once
	over               chan struct{}
	ending             atomic.Bool
}

func (s *replicas) openAll() *group {
	s.t.Helper()
	g := &group{of: s, network: &simtest.LocalNetwork{}, released: make(chan func(), 1<<16), over: make(chan struct{})}
	for n := range s.disks {
		g.members, g.stores, g.logs = append(g.members, nil), append(g.stores, nil), append(g.logs, nil)
		g.openOne(n)
	}
	s.open, g.Store = g, g.stores[0]
	g.releasing.Go(g.release)
	return g
}

// tested is the journal as the suite uses it.
func (g *group) tested() journaltest.Journal {
	return journaltest.Journal{Journal: journal.Of(g), Close: g.Close}
}

// openOne opens the store and the log of a member.
func (g *group) openOne(n int) {
	s := g.of
	s.t.Helper()
	fs, m := s.disks[n], NewMember()
	o := persistence.Options{
		FS: fs, Journals: s.journals, Clock: s.now, Logger: slog.New(slog.DiscardHandler), CacheBytes: 1 << 20, MemTableBytes: 256 << 10,
		Sequencer: m, Fatal: s.fatal,
	}
	if s.tune != nil {
		s.tune(&o)
	}
	dir := fs.PathJoin(s.dir, string(rune('a'+n)))
	_, blank := fs.Stat(fs.PathJoin(dir, "store")) // a member that comes back must find its log
	store, err := persistence.Open(fs.PathJoin(dir, "store"), o)
	if err != nil {
		s.t.Fatal(err)
	}
	log, err := raftlog.Open(raftlog.Options{FS: fs, Dir: fs.PathJoin(dir, "log"), ID: uint64(n + 1), New: blank != nil})
	if err != nil {
		s.t.Fatal(err)
	}
	g.members[n], g.stores[n], g.logs[n] = m, store, log
}

func (s *replicas) fatal(err error) {
	if s.failed != nil {
		s.failed(err)
		return
	}
	s.t.Errorf("a replica cannot go on: %v", err)
}

// release runs what was given to then.
func (g *group) release() {
	for {
		select {
		case release := <-g.released:
			release()
		case <-g.over:
			return
		}
	}
}

// then runs fn after everything that was given before.
func (g *group) then(fn func()) {
	select {
	case <-g.over:
		fn()
		return
	default:
	}
	select {
	case g.released <- fn:
	case <-g.over:
		fn()
	}
}

// Start implements journal.Journal: it starts all members and waits for a leader.
func (g *group) Start(onQueue func(journal.Stream), onTimer func(journal.Stream, time.Time)) error {
	g.onQueue, g.onTimer = onQueue, onTimer
	for n := range g.members {
		g.voters = append(g.voters, uint64(n+1))
	}
	for n := range g.members {
		if err := g.startOne(n, false); err != nil {
			return err
		}
	}
	return g.findLeader()
}

// startOne starts a member that is open.
func (g *group) startOne(n int, joining bool) error {
	if err := g.stores[n].Start(g.onQueue, g.onTimer); err != nil {
		return err
	}
	replica, err := g.stores[n].Replica()
	if err != nil {
		return err
	}
	id := uint64(n + 1)
	links := g.network.Links(id)
	if g.of.links != nil {
		links = g.of.links(n, g.members[n])
	}
	var keys Keys
	if g.of.keys != nil {
		keys = g.of.keys(n)
	}
	if err := g.members[n].Start(MemberOptions{
		Keys: keys,
		ID:   id, Voters: g.voters, Joining: joining, Nonce: rand.Uint64(), Replica: replica, Log: g.logs[n], Links: links, Clock: time.Now,
		Logger: slog.New(slog.DiscardHandler), Fatal: g.of.fatal, Tick: g.of.tick, CatchUpBytes: g.of.catchUp, Leading: g.of.leading,
	}); err != nil {
		return err
	}
	g.network.Join(id, g.members[n].Runner(), g.members[n])
	return nil
}

// crashDisks returns what a power failure of all members leaves. Their loops pause meanwhile: no
// member can answer another one whose disk was cloned before.
func (g *group) crashDisks(disks []*vfs.MemFS) (left []*vfs.MemFS) {
	resume := make(chan struct{})
	var paused, going sync.WaitGroup
	for _, m := range g.members {
		if m == nil || m.Runner() == nil {
			continue
		}
		paused.Add(1)
		going.Go(func() {
			once := sync.OnceFunc(paused.Done)
			defer once() // also of one that has stopped
			_ = m.Runner().Do(context.Background(), func(*consensus.Core) error { once(); <-resume; return nil })
		})
	}
	paused.Wait()
	for _, d := range disks {
		left = append(left, d.CrashClone(vfs.CrashCloneCfg{}))
	}
	close(resume)
	going.Wait()
	return left
}

// stopOne stops a member and closes its files.
func (g *group) stopOne(n int) error {
	g.members[n].Close()
	err := errors.Join(g.logs[n].Close(), g.stores[n].Close())
	g.members[n], g.stores[n], g.logs[n] = nil, nil, nil
	return err
}

// findLeader waits until a member leads, and has another one serve reads.
func (g *group) findLeader() error {
	for range 10000 {
		if n := g.leading(); n >= 0 {
			g.leader, g.Store = g.stores[n], g.stores[(n+1)%len(g.stores)]
			return g.Store.Fence(context.Background())
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("no member leads")
}

// leading is the number of a member that leads, -1 if there is none.
func (g *group) leading() int {
	return slices.IndexFunc(g.stores, func(store *persistence.Store) bool {
		if store == nil {
			return false
		}
		release, err := store.Admit(0, 0)
		if err == nil {
			release()
		}
		return !errors.Is(err, journal.ErrNotLeader)
	})
}

// Append gives the entry to the leader. It is released when the other replica shows it.
func (g *group) Append(e *journal.Entry) {
	given := *e
	given.Release = func(err error) {
		g.then(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if fence := g.Store.Fence(ctx); fence != nil && !g.ending.Load() {
				g.of.t.Errorf("fence: %v", fence)
			}
			if e.Release != nil {
				e.Release(err)
			}
		})
	}
	if e.Applied != nil {
		given.Applied = func() { g.then(e.Applied) }
	}
	g.leader.Append(&given)
}

func (g *group) Admit(slot parley.Slot, size int) (func(), error) { return g.leader.Admit(slot, size) }

func (g *group) NextActivation() uint64      { return g.leader.NextActivation() }
func (g *group) Overloaded() *parley.Refusal { return g.leader.Overloaded() }
func (g *group) Settle(ctx context.Context) error {
	return errors.Join(g.leader.Settle(ctx), g.Store.Fence(ctx))
}

// Close ends all members, after what was appended.
func (g *group) Close() (err error) {
	g.closing.Do(func() {
		if g.leader != nil {
			_ = g.leader.Settle(context.Background())
		}
		g.ending.Store(true)
		err = g.stopAll()
		for _, store := range g.stores {
			if store != nil {
				err = errors.Join(err, store.Close())
			}
		}
		drained := make(chan struct{})
		g.then(func() { close(drained) })
		<-drained
		close(g.over)
		g.releasing.Wait()
	})
	return err
}

// stopAll stops the members and their logs.
func (g *group) stopAll() (err error) {
	for n, m := range g.members {
		if m == nil {
			continue
		}
		if m.Runner() != nil {
			m.Close()
		}
		err = errors.Join(err, g.logs[n].Close())
	}
	return err
}
