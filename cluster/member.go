package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"parley/client/parley"
	"parley/cluster/consensus"
	"parley/cluster/raftlog"
	"parley/persistence"
)

// Member is a replica's part of its group: the Sequencer of its store. Open the store with
// it, and then start it.
type Member struct {
	allegiance
	replica *persistence.Replica
	keys    carriedKeys
	leading Leading
	runner  atomic.Pointer[consensus.Runner]
	// roster is what the newest position says about members.
	roster atomic.Pointer[roster]
	fatal  func(error)
	logger *slog.Logger
	// changed is called in the loop when the members did.
	changed func(Table)
	durable atomic.Uint64
	// unproposed counts the batches of a term that the loop took and did not propose, which
	// are the last ones of it. Both belong to the loop.
	unproposed   int
	unproposedIn uint64
	log          *raftlog.Log
	clock        parley.Clock
	leaderships  leaderships
	fences       fences
	// changes of leadership are carried out in order, and not in the loop.
	changes chan func() error
	closing atomic.Bool
	stop    chan struct{}
	work    sync.WaitGroup
}

// MemberOptions start a Member. All are required that have no default.
type MemberOptions struct {
	// ID is the replica's id in its group. Voters are the ids of a new group, which all of
	// its members are started with.
	ID     uint64
	Voters []uint64
	// Described describes the voters of a new group.
	Described map[uint64]string
	// Joining says that the replica is blank and joins a group that exists, under an id that
	// was never used in it. Voters are ignored then.
	Joining bool
	// CatchUpBytes of the log are kept for a member that lags; one that lags by more gets a
	// snapshot. 0 is the default of the loop.
	CatchUpBytes uint64
	// Nonce is a random number of this start.
	Nonce   uint64
	Replica *persistence.Replica
	// Keys, if set, are replicated with the store.
	Keys Keys
	// Leading, if set, follows the leadership.
	Leading Leading
	// Changed, if set, is called with the members at the start, unless the replica is blank,
	// and in the loop when they changed. It must not block.
	Changed func(Table)
	Log     *raftlog.Log
	Links   consensus.Links
	Clock   parley.Clock
	Logger  *slog.Logger
	// Fatal is called when the replica cannot go on. It must end the process.
	Fatal func(error)
	// Tick is the interval of the loop's ticks; 0 is the default of the loop.
	Tick time.Duration
}

const (
	// durableEvery is how often the member looks up what its store has made durable.
	durableEvery = 50 * time.Millisecond
	// keysEvery is how often new keys are written, if the store flushes nothing meanwhile.
	keysEvery = time.Second
	// changesMax is far more changes of leadership than wait for one that is slow.
	changesMax = 1024
	// batchBytesMax is far more than a store puts into one batch.
	batchBytesMax = 32 << 20
	// unproposedWait is how long the end of a leadership waits for the loop, which may wait for
	// the disk.
	unproposedWait = 250 * time.Millisecond
	// proposePause is the pause before a batch is proposed again for which the loop had no
	// room.
	proposePause = time.Millisecond
)

// NewMember returns a member that is not started.
func NewMember() *Member {
	m := &Member{changes: make(chan func() error, changesMax), stop: make(chan struct{})}
	m.follow(0, 0)
	return m
}

// Start joins the group. The store must have been started.
func (m *Member) Start(o MemberOptions) error {
	m.replica, m.fatal, m.logger, m.keys.Keys, m.leading, m.id, m.changed = o.Replica, o.Fatal, o.Logger, o.Keys, o.Leading, o.ID, o.Changed
	m.log, m.clock = o.Log, o.Clock
	if err := m.begin(o); err != nil {
		return err
	}
	if err := m.carryAgain(); err != nil {
		return err
	}
	if at := m.Applied(); len(at.Described) > 0 { // the loop reports only later changes
		m.Members(at.Conf, at.Described)
	}
	limits := consensus.DefaultLimits
	limits.PayloadBytes = batchBytesMax
	if o.CatchUpBytes > 0 {
		limits.CatchUpBytes = o.CatchUpBytes
	}
	runner, err := consensus.Start(consensus.Config{
		Options: consensus.Options{ID: o.ID, Joining: o.Joining, Nonce: o.Nonce, Limits: limits, Kept: keptDescriptions, Logger: o.Logger},
		Log:     memberLog{o.Log}, State: m, Links: o.Links, Handler: m, Clock: o.Clock, Tick: o.Tick,
	})
	if err != nil {
		return err
	}
	m.runner.Store(runner)
	m.work.Go(m.change)
	m.work.Go(m.followFlushes)
	return nil
}

// begin makes the first place of a new group. The first member comes here again after a crash
// before its first flush. A content that has a position although the log has none is that of a
// former group, such as a restored backup: its members are not those of this one. They are
// replaced durably before the log begins, because what is left of a log cannot tell.
func (m *Member) begin(o MemberOptions) error {
	if o.Joining {
		return nil
	}
	note := noteOf(consensus.Applied{Conf: &raftpb.ConfState{Voters: o.Voters}, Described: o.Described})
	if m.replica.Applied().Number == 0 {
		return m.replica.Begin(note)
	}
	last, err := o.Log.LastIndex()
	if err != nil || last > 0 {
		return err
	}
	return errors.Join(m.replica.Apply(nil, note), m.replica.Flush())
}

// Recover makes the replica the only member of its group, with all that its log holds, and
// returns the position that it has reached. The member is not started after it. Of the options
// it needs ID, Voters, Described, Replica, Keys, Log, Logger and Fatal.
func (m *Member) Recover(o MemberOptions) (index, term uint64, err error) {
	m.replica, m.keys.Keys, m.logger, m.fatal, m.log = o.Replica, o.Keys, o.Logger, o.Fatal, o.Log
	if err := m.begin(o); err != nil {
		return 0, 0, err
	}
	if err := m.carryAgain(); err != nil {
		return 0, 0, err
	}
	at, err := consensus.Recover(memberLog{o.Log}, m, o.ID, o.Described[o.ID])
	return at.Index, at.Term, errors.Join(err, m.keys.sync())
}

// Runner is the loop, for the links.
func (m *Member) Runner() *consensus.Runner { return m.runner.Load() }

// BeginClose announces Close: from then on a failed write does not end the process, which ends
// waits for space on the disk with an error.
func (m *Member) BeginClose() { m.closing.Store(true) }

// Close leaves the leadership, stops, and writes the keys.
func (m *Member) Close() {
	m.BeginClose()
	if r := m.runner.Load(); r != nil {
		r.Close()
		m.follow(0, 0)
	}
	close(m.stop)
	m.work.Wait()
	m.replica.StepDown(nil)
	if err := m.keys.sync(); err != nil {
		m.logger.Warn("the next start takes keys from the log", "error", err)
	}
}

// change carries out changes of leadership. At the end it carries out those that wait: the loop
// has ended every leadership that it began.
func (m *Member) change() {
	stop := m.stop
	for stop != nil || len(m.changes) > 0 {
		select {
		case change := <-m.changes:
			if err := change(); err != nil {
				m.fatal(err)
				return
			}
		case <-stop:
			stop = nil
		}
	}
}

// followFlushes keeps durable up to date: the loop must not wait for the disk. What a store has
// flushed counts once the keys are durable that were carried out before: until then the log keeps
// their changes.
func (m *Member) followFlushes() {
	tick := time.NewTicker(durableEvery)
	defer tick.Stop()
	synced := m.clock()
	for {
		select {
		case <-tick.C:
		case <-m.stop:
			return
		}
		index, err := m.replica.Durable()
		if err != nil {
			m.logger.Error("what a replica has flushed cannot be read", "error", err)
			continue
		}
		if now := m.clock(); index != m.durable.Load() || now.Sub(synced) >= keysEvery {
			if err := m.keys.sync(); err != nil {
				m.Failed(err)
				return
			}
			synced = now
		}
		m.durable.Store(index)
	}
}

// Propose implements persistence.Sequencer.
func (m *Member) Propose(term uint64, batch []byte) error {
	for {
		err := m.runner.Load().Propose(term, batch, func(_ uint64, err error) { m.proposed(term, err) })
		if !errors.Is(err, consensus.ErrFull) {
			return err
		}
		time.Sleep(proposePause)
	}
}

// proposed is called with the outcome of a proposal of a term. The store knows that it was
// applied, and that its term is over. After any other failure the next batches would build on
// one that is missing: the store has few under way, so that cannot be.
func (m *Member) proposed(term uint64, err error) {
	switch {
	case err == nil, errors.Is(err, consensus.ErrOutcomeUnknown):
	case !errors.Is(err, consensus.ErrNeverProposed):
		m.fatal(err)
	case term > m.unproposedIn:
		m.unproposedIn, m.unproposed = term, 1
	case term == m.unproposedIn:
		m.unproposed++
	}
}

// Fence implements persistence.Sequencer.
func (m *Member) Fence(ctx context.Context) (uint64, error) {
	began := m.clock()
	index, err := m.runner.Load().Fence(ctx)
	m.fences.note(m.clock().Sub(began), err)
	return index, err
}

// Confirm implements persistence.Sequencer.
func (m *Member) Confirm(ctx context.Context, term uint64) error {
	return m.runner.Load().Confirm(ctx, term)
}

// Apply implements consensus.State.
func (m *Member) Apply(entries []consensus.Committed, after consensus.Applied) error {
	places := make([]persistence.Committed, len(entries))
	var keys [][]byte
	for i, e := range entries {
		places[i] = persistence.Committed{Index: e.Index, Term: e.Term, Batch: e.Payload}
		if len(e.Payload) > 0 && e.Payload[0] == keyEntry {
			keys, places[i].Batch = append(keys, e.Payload[1:]), nil
		}
	}
	if err := m.keys.carry(keys); err != nil {
		return err
	}
	return m.replica.Apply(places, noteOf(after))
}

// Applied implements consensus.State.
func (m *Member) Applied() consensus.Applied {
	a, err := appliedAt(m.replica.Applied())
	if err != nil {
		m.fatal(err)
	}
	return a
}

// Durable implements consensus.State.
func (m *Member) Durable() uint64 { return m.durable.Load() }

// Snapshot implements consensus.State.
func (m *Member) Snapshot() (consensus.Snapshot, error) {
	content, err := m.replica.Snapshot()
	if err != nil {
		return nil, err
	}
	at, err := appliedAt(content.Position())
	if err != nil {
		return nil, errors.Join(err, content.Close())
	}
	return sentSnapshot{content, at, m.keys.Keys}, nil
}

// Receive implements consensus.State.
func (m *Member) Receive(from io.Reader) (consensus.Snapshot, error) {
	if err := m.keys.receive(from); err != nil {
		return nil, err
	}
	content, err := m.replica.Receive(from)
	if err != nil {
		return nil, err
	}
	at, err := appliedAt(content.Position())
	if err != nil {
		return nil, errors.Join(err, content.Close())
	}
	return receivedSnapshot{content, at}, nil
}

// Restore implements consensus.State.
func (m *Member) Restore(content consensus.Snapshot) error {
	received, ok := content.(receivedSnapshot)
	if !ok {
		return errors.New("cluster: only a snapshot that was received can be restored")
	}
	return m.replica.Restore(received.Received)
}

// sentSnapshot is a content for another member: a byte that says whether keys follow, the
// keys, and the content of the store. The keys are read later than the store, so they include
// those of everything in it.
type sentSnapshot struct {
	*persistence.Snapshot
	at   consensus.Applied
	keys Keys
}

// WriteTo implements consensus.Snapshot.
func (s sentSnapshot) WriteTo(w io.Writer) (n int64, err error) {
	follow := byte(0)
	if s.keys != nil {
		follow = 1
	}
	if _, err := w.Write([]byte{follow}); err != nil {
		return 0, err
	}
	if s.keys != nil {
		if n, err = s.keys.WriteTo(w); err != nil {
			return n, err
		}
	}
	rows, err := s.Snapshot.WriteTo(w)
	return 1 + n + rows, err
}

// Applied implements consensus.Snapshot.
func (s sentSnapshot) Applied() consensus.Applied { return s.at }

// receivedSnapshot is a content of another member.
type receivedSnapshot struct {
	*persistence.Received
	at consensus.Applied
}

// Applied implements consensus.Snapshot.
func (s receivedSnapshot) Applied() consensus.Applied { return s.at }

// WriteTo implements consensus.Snapshot. What was received is not passed on.
func (receivedSnapshot) WriteTo(io.Writer) (int64, error) { return 0, errors.ErrUnsupported }

// Members implements consensus.Handler.
func (m *Member) Members(conf *raftpb.ConfState, described map[uint64]string) {
	r := newRoster(conf, described)
	if since := m.roster.Swap(r); since != nil {
		m.changes <- func() error { r.logChanges(since, m.logger); return nil } // a log may block, the loop must not
	}
	if m.changed != nil {
		m.changed(r.table)
	}
}

// Failed implements consensus.Handler.
func (m *Member) Failed(err error) {
	if !m.closing.Load() {
		m.fatal(err)
	}
}

// noteOf is what a store keeps with its position: the ordinal of the last proposal in its
// term, and the members.
func noteOf(a consensus.Applied) []byte {
	conf, _ := proto.MarshalOptions{Deterministic: true}.Marshal(a.Conf) // no field of it can fail
	b := binary.AppendUvarint(nil, a.Ordinal)
	b = append(binary.AppendUvarint(b, uint64(len(conf))), conf...)
	for _, id := range slices.Sorted(maps.Keys(a.Described)) {
		b = binary.BigEndian.AppendUint64(b, id)
		b = append(binary.AppendUvarint(b, uint64(len(a.Described[id]))), a.Described[id]...)
	}
	return b
}

// cutNote returns the beginning of a note that has its length before it, and the rest.
func cutNote(b []byte) (part, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || uint64(len(b)-n) < size {
		return nil, nil, false
	}
	return b[n : n+int(size)], b[n+int(size):], true
}

// appliedAt is the position of a store, as the loop knows it. That of a blank one is zero.
func appliedAt(at persistence.GroupPosition) (a consensus.Applied, err error) {
	a = consensus.Applied{Index: at.Number, Term: at.Term, Conf: &raftpb.ConfState{}}
	if at.Number == 0 {
		return a, nil
	}
	unreadable := errors.New("cluster: the note beside a replica's position cannot be read")
	ordinal, n := binary.Uvarint(at.Note)
	if a.Ordinal = ordinal; n <= 0 {
		return a, unreadable
	}
	conf, rest, ok := cutNote(at.Note[n:])
	if !ok {
		return a, unreadable
	}
	if err := proto.Unmarshal(conf, a.Conf); err != nil {
		return a, fmt.Errorf("%w: %w", unreadable, err)
	}
	for len(rest) > 0 {
		if len(rest) < 8 {
			return a, unreadable
		}
		id := binary.BigEndian.Uint64(rest)
		var text []byte
		if text, rest, ok = cutNote(rest[8:]); !ok {
			return a, unreadable
		}
		if a.Described == nil {
			a.Described = map[uint64]string{}
		}
		a.Described[id] = string(text)
	}
	return a, nil
}

// memberLog is a log as the loop uses it.
type memberLog struct{ *raftlog.Log }

func (l memberLog) Append(r consensus.Record) (uint64, error) {
	return l.Log.Append(raftlog.Record{
		HardState: r.HardState, Cut: raftlog.Position{Index: r.Cut.Index, Term: r.Cut.Term}, Note: noteKnown(r.Known), Entries: r.Entries,
	})
}

// noteKnown is what a log keeps of what its node knows of the members: nil if that is unchanged.
func noteKnown(k consensus.Known) []byte {
	if k == nil {
		return nil
	}
	return k.Append([]byte{})
}

// Known implements consensus.Log.
func (l memberLog) Known() (consensus.Known, error) { return consensus.DecodeKnown(l.Note()) }
