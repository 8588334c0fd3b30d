package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// syncsMax is the number of records that may be written and not yet durable.
const syncsMax = 4

// Core decides, from what happens to a node, what the node has to do. Its driver
// reports events (Tick, Step, Propose, …), then calls Ready and carries out the turn,
// then NextRecord until there is none. It is not safe for concurrent use.
type Core struct {
	id   uint64
	node *raft.RawNode
	log  raft.Storage
	opts Options
	err  error
	turn Turn

	// hard is the newest hard state, and hardNew says that no record has it yet.
	hard    *raftpb.HardState
	hardNew bool
	// pending records wait to be handed out, flying ones to be durable.
	pending, flying []*write

	// known is what this node knows of the members; unwritten says that no record has it yet,
	// wrote that a record was handed out since the last tick.
	known            Known
	unwritten, wrote bool
	// leaderHas is the newest standing of a leader that this node has heard from itself.
	leaderHas Standing
	// last is the newest entry that raft has given to the log; appended says that raft may have
	// more since.
	last     uint64
	appended bool

	// handed is the position of what was handed out to be applied, applied the position
	// of the state.
	handed, applied Applied
	applying        []*Batch
	contents        []Message

	// leader is whom this node follows, in leaderTerm.
	leader, leaderTerm uint64
	lead               leadership
	fences             fences
	cut                cut
	split              split
	health             health
}

// A write is a record and the messages that must not leave before it is durable.
type write struct {
	record    Record
	restoring bool     // the state has to be restored first
	content   *Message // the snapshot that the record follows
	responses []*raftpb.Message
}

// A Turn is what the driver has to do: send, then apply Batch, then restore, then
// report the events in their order.
type Turn struct {
	Messages []Message
	// Batch is to be applied after those of earlier turns, then reported by Applied.
	Batch *Batch
	// Restore is to replace the state, after all batches up to this turn, and then to
	// be reported by Restored.
	Restore Snapshot
	// Closed contents are to be closed: they are installed durably, or raft had no need
	// of them.
	Closed []Message
	Events []Event
}

// A Batch is committed entries in order, and the position that they lead to.
type Batch struct {
	Entries   []Committed
	After     Applied
	responses []*raftpb.Message
}

// Kind says what an Event reports.
type Kind uint8

// The kinds of events.
const (
	// Led: this node leads in Term, and all entries of former terms are applied here.
	Led Kind = iota + 1
	// Lost: the leadership in Term has ended, and all its proposals are resolved.
	Lost
	// Resolved: the proposal Tag was applied at Index, or Err says what became of it.
	// The proposals of a term are resolved in their order.
	Resolved
	// Fenced: the fence Tag was answered with Index, which is applied here, or with Err.
	Fenced
	// Members: the members of the group are now Conf, with their descriptions.
	Members
	// Follows: this node now follows the leader Node, which may be itself, or 0 if it knows
	// none.
	Follows
)

// An Event is something that concerns the users of the node.
type Event struct {
	Kind  Kind
	Term  uint64
	Tag   uint64
	Index uint64
	Err   error
	Node  uint64
	Conf  *raftpb.ConfState
	// Described is that of Applied.
	Described map[uint64]string
}

// New returns a Core for a log and a state that Prepare brought in line.
func New(o Options) (c *Core, err error) {
	defer recovered(&err)
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits
	}
	last, err := o.Log.LastIndex()
	if err != nil {
		return nil, err
	}
	if last == 0 && !o.Joining {
		return nil, errors.New("consensus: an empty log is for a node that joins under a new id")
	}
	first, err := o.Log.FirstIndex()
	if err != nil {
		return nil, err
	}
	c = &Core{id: o.ID, log: o.Log, opts: o, handed: o.Applied, applied: o.Applied, known: o.Known, last: last}
	c.cut = cut{base: first - 1, sizes: sizes{samples: []sample{{index: last}}}}
	c.fences.nonce = o.Nonce
	s := &storage{o.Log, c}
	c.hard, _, err = s.InitialState()
	if err != nil {
		return nil, err
	}
	c.hardNew = !raft.IsEmptyHardState(c.hard)
	c.node, err = raft.NewRawNode(o.raft(s))
	if err != nil {
		return nil, err
	}
	if conf := o.Applied.Conf; slices.Equal(conf.GetVoters(), []uint64{o.ID}) && len(conf.GetVotersOutgoing()) == 0 {
		return c, c.node.Campaign() // nobody else can lead: there is no reason to wait
	}
	return c, nil
}

// Tick is called once per tick interval. Delay is how long this node has been slow: the
// age of the oldest record that is not durable, or the lateness of the tick.
func (c *Core) Tick(delay time.Duration) {
	c.observe()
	c.health.tick(delay)
	if len(c.applying) > 0 {
		c.health.applying++
	}
	c.fences.tick(c)
	if c.lead.term != 0 {
		c.lead.tick(c)
	}
	if !c.stalled() {
		c.node.Tick()
		c.split.tick(c)
		c.observe()
	}
	if c.lead.term != 0 {
		c.cut.raise(c)
		if c.health.sick() {
			_ = c.Transfer(raft.None)
		}
		c.lead.handOver(c)
	}
	c.lead.propose(c)
	c.learn()
	c.storeKnown()
}

// Step takes a message from another node. An error, ErrMalformed, means that the node sent what no
// correct member sends: the message was not taken, and the connection should end.
func (c *Core) Step(m Message) error {
	if m.Content != nil {
		c.contents = append(c.contents, m) // to be closed, unless it is restored
	}
	c.observe()
	if m.Raft.GetType() == raftpb.MsgHeartbeat && c.appended {
		c.drain() // it may commit what came just before
	}
	if takes, err := c.admits(m); err != nil || !takes {
		return err
	}
	c.cut.floor = max(c.cut.floor, m.Floor)
	for _, s := range m.Known {
		c.Note(s)
	}
	switch m.Raft.GetType() {
	case raftpb.MsgVote:
		c.split.meet(c, m.Raft)
	case raftpb.MsgTimeoutNow:
		if c.health.sick() {
			return nil
		}
	case raftpb.MsgReadIndex:
		// Raft would pass it on in the name of its sender, who asks again by itself, or answer it
		// before this node leads.
		if c.lead.term != 0 {
			c.fences.serve(m.Raft)
		}
		return nil
	}
	// Raft returns an error for messages that it has no use for, and the sender repeats
	// what matters.
	if err := c.node.Step(m.Raft); err == nil && m.Raft.GetType() == raftpb.MsgApp {
		c.appended = true
	}
	return nil
}

// admits reports whether a message may get to raft: not if it is malformed, or if it and this node
// cannot both be right. Then one of the two members is an older copy or has diverged, and which of
// them ends is decided by what they know of each other.
func (c *Core) admits(m Message) (bool, error) {
	now := c.node.BasicStatus()
	r := receiver{id: c.id, term: now.GetTerm(), asked: c.lead.asked, leads: c.lead.term != 0}
	if err := r.check(m); err != nil {
		return false, err
	}
	if m.Raft.GetTerm() < r.term {
		return true, nil // raft overlooks it
	}
	switch m.Raft.GetType() {
	case raftpb.MsgApp:
		if takes, err := c.checkChanges(m.Raft); err != nil || !takes {
			return false, err
		}
	case raftpb.MsgHeartbeat:
		if m.Raft.GetCommit() > max(c.last, now.GetCommit()) {
			return false, nil // raft panics over it
		}
	case raftpb.MsgAppResp:
		return !c.exceeds(m.Raft), nil
	}
	c.compare(m)
	return c.err == nil, nil
}

// Ready returns what is to be done. An error is final: an entry breaks the rules, so
// the node must not go on.
func (c *Core) Ready() (Turn, error) {
	c.observe()
	c.fences.begin(c)
	c.drain()
	turn := c.turn
	turn.Closed = append(turn.Closed, c.contents...)
	c.turn, c.contents = Turn{}, nil
	return turn, c.err
}

// drain takes over what raft has decided.
func (c *Core) drain() {
	for c.appended = false; c.err == nil && c.node.HasReady(); c.observe() {
		c.handle(c.node.Ready())
	}
}

func (c *Core) handle(rd raft.Ready) {
	for _, m := range rd.Messages {
		switch m.GetTo() {
		case raft.LocalAppendThread:
			c.write(m, rd.MustSync)
		case raft.LocalApplyThread:
			c.apply(m)
		default:
			c.send(m)
		}
	}
	for _, read := range rd.ReadStates {
		c.fences.answered(c, read)
	}
}

func (c *Core) send(m *raftpb.Message) {
	out := Message{Raft: m}
	switch m.GetType() {
	case raftpb.MsgPreVote:
		if c.health.sick() {
			return // the node's own clock goes on, so that it can vote for others
		}
	case raftpb.MsgApp:
		c.learn()
		out.Known = c.known
		if earlier := c.turn.sentBefore(m); earlier != nil {
			*earlier = out
			return
		}
	case raftpb.MsgHeartbeat:
		out.Floor, out.Known = c.cut.floor, c.known
		if round := m.GetContext(); len(round) == 8 {
			c.lead.asked = max(c.lead.asked, binary.LittleEndian.Uint64(round))
		}
	}
	c.turn.Messages = append(c.turn.Messages, out)
}

// sentBefore returns the message of this turn that has the same entries for the same member.
// Raft sends them anew at each answer to a heartbeat until the member has them, and one that was
// busy answers a hundred at once: their copies would keep the leader's loop for half a second.
func (t *Turn) sentBefore(m *raftpb.Message) *Message {
	if len(m.Entries) == 0 {
		return nil
	}
	for i := range t.Messages {
		one := t.Messages[i].Raft
		if one.GetType() == raftpb.MsgApp && one.GetTo() == m.GetTo() && one.GetTerm() == m.GetTerm() &&
			one.GetIndex() == m.GetIndex() && len(one.Entries) == len(m.Entries) {
			return &t.Messages[i]
		}
	}
	return nil
}

// write turns a message to the log into a record, unless all it says is that the commit
// index has advanced. That is not worth a sync: it goes with the next record, and the
// responses wait only for the records before.
func (c *Core) write(m *raftpb.Message, mustSync bool) {
	if m.Term != nil {
		c.hard, c.hardNew = &raftpb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}, true
	}
	snap := m.GetSnapshot()
	if len(m.Entries) > 0 || mustSync || snap != nil {
		w := last(c.pending)
		if w == nil || w.restoring || snap != nil {
			w = &write{}
			c.pending = append(c.pending, w)
		}
		if snap != nil {
			c.restore(w, snap.GetMetadata())
			c.last = snap.GetMetadata().GetIndex()
		}
		if len(m.Entries) > 0 {
			c.last = last(m.Entries).GetIndex()
		}
		w.record.add(m.Entries)
		if c.hardNew {
			w.record.HardState, c.hardNew = c.hard, false
		}
	}
	switch {
	case len(c.pending) > 0:
		w := last(c.pending)
		w.responses = append(w.responses, m.Responses...)
	case len(c.flying) > 0:
		w := last(c.flying)
		w.responses = append(w.responses, m.Responses...)
	default:
		c.respond(m.Responses)
	}
}

func (c *Core) restore(w *write, at *raftpb.SnapshotMetadata) {
	i := slices.IndexFunc(c.contents, func(m Message) bool { return m.Content.Applied().Index == at.GetIndex() })
	if i < 0 {
		c.fail(fmt.Errorf("consensus: a snapshot of index %d came without its content", at.GetIndex()))
		return
	}
	w.content = new(c.contents[i])
	c.turn.Restore = w.content.Content
	c.contents = slices.Delete(c.contents, i, i+1)
	w.restoring = true
	w.record.Cut = Position{at.GetIndex(), at.GetTerm()}
}

// add appends entries to a record that is not written yet.
func (r *Record) add(entries []*raftpb.Entry) {
	if len(entries) == 0 {
		return
	}
	keep := r.Entries
	for len(keep) > 0 && last(keep).GetIndex() >= entries[0].GetIndex() {
		keep = keep[:len(keep)-1]
	}
	r.Entries = append(keep[:len(keep):len(keep)], entries...)
}

// last returns the last element, or the zero value.
func last[T any](s []T) (t T) {
	if len(s) > 0 {
		t = s[len(s)-1]
	}
	return t
}

// respond delivers messages that waited for the disk.
func (c *Core) respond(responses []*raftpb.Message) {
	for _, m := range responses {
		if m.GetTo() == c.id {
			_ = c.node.Step(m)
		} else {
			c.send(m)
		}
	}
}

// NextRecord returns a record to write, if there is one and less than four are not
// durable yet. The driver writes records in this order and reports each by Synced.
func (c *Core) NextRecord() (Record, bool) {
	if len(c.pending) == 0 || c.pending[0].restoring || len(c.flying) == syncsMax {
		return Record{}, false
	}
	w := c.pending[0]
	c.pending = c.pending[1:]
	c.flying = append(c.flying, w)
	if c.wrote = true; c.unwritten {
		w.record.Known, c.unwritten = c.known, false
	}
	if err := c.cut.prepare(c, w); err != nil {
		c.fail(err)
	}
	return w.record, true
}

// Synced reports that the oldest record handed out is durable.
func (c *Core) Synced() {
	w := c.flying[0]
	c.flying = c.flying[1:]
	if w.content != nil {
		c.turn.Closed = append(c.turn.Closed, *w.content)
	}
	c.respond(w.responses)
}

// Restored reports that the state was replaced, and its position now.
func (c *Core) Restored(at Applied) {
	i := slices.IndexFunc(c.pending, func(w *write) bool { return w.restoring })
	c.pending[i].restoring = false
	c.forget(c.handed.Conf, at.Conf)
	c.handed, c.applied = at, at
	c.Durable(at.Index)
	c.turn.Events = append(c.turn.Events, Event{Kind: Members, Conf: at.Conf, Described: at.Described})
	c.fences.release(c)
}

// Durable reports the newest index of the state that survives a crash. It may be ahead
// of what Applied has reported.
func (c *Core) Durable(index uint64) { c.cut.durable = max(c.cut.durable, index) }

// recovered turns a panic into an error. Raft panics when its rules are broken, which
// ends this node but not the process.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("consensus: %v\n%s", p, debug.Stack())
	}
}

func (c *Core) fail(err error) { c.err = errors.Join(c.err, err) }
