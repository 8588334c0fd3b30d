package consensus

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// leadership is one term in which this node leads. It ends with the term.
type leadership struct {
	// term is 0 while this node does not lead.
	term uint64
	// led says that the term's first entry is applied here, so that the outcome of all
	// former terms is known.
	led     bool
	sizes   uint64 // the total size of the log when the term began
	begun   uint64 // the tick at which it began
	ordinal uint64
	// flight lists the proposals in the log that are not applied.
	flight []uint64
	// waiting proposals did not fit into the log yet.
	waiting      []proposal
	waitingBytes int
	// transferee, if not 0, gets the leadership when nothing is in flight. Until then nothing is
	// proposed.
	transferee uint64
	// asked is the newest round of reads that members were asked to confirm.
	asked uint64
	// heard is when members were active last, in ticks. Raft forgets that at each of its checks
	// of the quorum, until they answer again.
	heard map[uint64]uint64
}

type proposal struct {
	tag  uint64
	data []byte
}

// observe notices that a term has begun or ended, and whom this node follows.
func (c *Core) observe() {
	s := c.node.BasicStatus()
	if s.Lead != c.leader || s.GetTerm() != c.leaderTerm {
		c.leader, c.leaderTerm = s.Lead, s.GetTerm()
		c.turn.Events = append(c.turn.Events, Event{Kind: Follows, Term: s.GetTerm(), Node: s.Lead})
	}
	leads := s.RaftState == raft.StateLeader
	if c.lead.term != 0 && (!leads || s.GetTerm() != c.lead.term) {
		c.lead.end(c)
	}
	if leads && c.lead.term == 0 {
		c.lead.term, c.lead.sizes, c.lead.begun = s.GetTerm(), c.cut.sizes.total, c.fences.now
	}
}

// Propose proposes a payload that was made for a term. It returns ErrNotLeader unless
// this node leads in exactly that term, and ErrFull if too much waits already. If it
// returns nil, a Resolved event follows for the tag. The payload's memory, with the spare
// room behind it, belongs to the Core until the payload is handed out to be applied, which
// happens with a copy, or until its term ends.
func (c *Core) Propose(term uint64, payload []byte, tag uint64) error {
	c.observe()
	l := &c.lead
	if (!l.led || term != l.term) && !c.opts.planted.NoTermCheck {
		return ErrNotLeader
	}
	limits := c.opts.Limits
	if len(payload) > limits.PayloadBytes {
		return fmt.Errorf("consensus: a payload has %d bytes, %d are allowed", len(payload), limits.PayloadBytes)
	}
	if len(l.waiting) >= limits.WaitingProposals || l.waitingBytes+len(payload) > limits.WaitingBytes {
		return ErrFull
	}
	l.ordinal++
	l.waiting = append(l.waiting, proposal{tag, encode(term, l.ordinal, payload)})
	l.waitingBytes += len(payload)
	l.propose(c)
	return nil
}

// propose hands waiting proposals to raft. Raft drops one while too much is uncommitted
// or while the leadership is being transferred: neither ends the term, so it is
// proposed again later, in its order.
func (l *leadership) propose(c *Core) {
	for len(l.waiting) > 0 && l.transferee == raft.None && !c.stalled() {
		next := l.waiting[0]
		if err := c.node.Propose(next.data); err != nil {
			if !errors.Is(err, raft.ErrProposalDropped) {
				c.fail(err)
			}
			return
		}
		l.waiting = l.waiting[1:]
		l.waitingBytes -= len(next.data) - trailerBytes
		l.flight = append(l.flight, next.tag)
	}
}

// applied resolves the proposals of the term that a batch has.
func (l *leadership) applied(c *Core, b *Batch) {
	if l.term == 0 || b.After.Term != l.term {
		return
	}
	if !l.led {
		l.led = true
		c.turn.Events = append(c.turn.Events, Event{Kind: Led, Term: l.term, Index: b.After.Index})
	}
	for _, e := range b.Entries {
		if e.Term == l.term && e.Payload != nil {
			c.turn.Events = append(c.turn.Events, Event{Kind: Resolved, Term: l.term, Tag: l.flight[0], Index: e.Index})
			l.flight = l.flight[1:]
		}
	}
	l.handOver(c)
}

// handOver hands the leadership to the transferee, if there is one, as soon as the outcome of all
// proposals is known. A node that stays sick does not wait for that, nor one that cannot apply
// them.
func (l *leadership) handOver(c *Core) {
	if l.transferee != raft.None && (len(l.flight) == 0 || c.health.staysSick() || c.health.stuck()) {
		c.node.TransferLeader(l.transferee)
		l.transferee = raft.None // raft takes no proposals until it has succeeded or given up
	}
}

// tick notes which members are active.
func (l *leadership) tick(c *Core) {
	if l.heard == nil {
		l.heard = map[uint64]uint64{}
	}
	c.node.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if p.RecentActive {
			l.heard[id] = c.fences.now
		}
	})
}

// active reports whether a member has answered within the last two election timeouts.
func (l *leadership) active(c *Core, id uint64, p tracker.Progress) bool {
	heard, ever := l.heard[id]
	return p.RecentActive || ever && c.fences.now-heard < electionTicks
}

// end resolves what the term leaves open.
func (l *leadership) end(c *Core) {
	for _, tag := range l.flight {
		e := Event{Kind: Resolved, Term: l.term, Tag: tag, Err: ErrOutcomeUnknown}
		if c.opts.planted.ActsAfterTerm {
			e.Index, e.Err = c.applied.Index, nil
		}
		c.turn.Events = append(c.turn.Events, e)
	}
	for _, p := range l.waiting {
		c.turn.Events = append(c.turn.Events, Event{Kind: Resolved, Term: l.term, Tag: p.tag, Err: ErrNeverProposed})
	}
	if l.led && !c.opts.planted.NoLost {
		c.turn.Events = append(c.turn.Events, Event{Kind: Lost, Term: l.term})
	}
	*l = leadership{}
}

// health is how well this node keeps up.
type health struct {
	delay time.Duration
	// sickTicks is for how many ticks in a row it has been sick.
	sickTicks int
	// applying is for how many ticks the oldest batch has been applied.
	applying int
}

// A node that is slow for sickDelay hands over its leadership and does not stand for
// election. After stallDelay a leader falls silent, so that others elect one.
const (
	sickDelay  = 250 * time.Millisecond
	stallDelay = 500 * time.Millisecond
	// hangTicks, 100 ms, tell a disk that hangs from a processor that was busy: a loop that was
	// late once is in time again.
	hangTicks = 4
	// stuckTicks, 500 ms, are far more than a batch takes that does not wait for the disk.
	stuckTicks = 20
)

func (h health) sick() bool { return h.delay > sickDelay }

// tick notes how slow the node is at a tick.
func (h *health) tick(delay time.Duration) {
	if h.delay = delay; !h.sick() {
		h.sickTicks = 0
		return
	}
	h.sickTicks++
}

// staysSick reports that the node was not only late once.
func (h health) staysSick() bool { return h.sickTicks > hangTicks }

// stuck reports that a batch is not applied in time, such as one that waits for room on the disk.
func (h health) stuck() bool { return h.applying > stuckTicks }

// stalled reports whether this node leads but must not keep others from electing.
func (c *Core) stalled() bool { return c.lead.term != 0 && c.health.delay > stallDelay }

// Transfer hands the leadership to a member, or to the most advanced one if none is
// named. It takes effect later, or not at all.
func (c *Core) Transfer(to uint64) error {
	if c.lead.term == 0 {
		return ErrNotLeader
	}
	if to == raft.None {
		if c.node.BasicStatus().LeadTransferee != raft.None {
			return nil
		}
		var newest uint64
		for _, p := range c.Status().Progress {
			if p.ID != c.id && !p.Learner && p.Active && (to == raft.None || p.Match > newest) {
				to, newest = p.ID, p.Match
			}
		}
	}
	if to != raft.None && to != c.id {
		c.lead.transferee = to
		c.lead.handOver(c)
	}
	return nil
}

// ChangeMembers proposes a change of members: at most one node comes in, as voter or
// learner, and at most one goes out. Whether it took effect is reported by Members
// events only: the caller compares them with what it wants and asks again. A node becomes a
// voter only if it is a learner now, or else the error is ErrNoLearner: a change that was
// decided on older members would bring back a node that was removed since.
func (c *Core) ChangeMembers(change *raftpb.ConfChangeV2) error {
	c.observe()
	if !c.lead.led {
		return ErrNotLeader
	}
	in, out := 0, 0
	for _, one := range change.GetChanges() {
		switch one.GetType() {
		case raftpb.ConfChangeRemoveNode:
			out++
		case raftpb.ConfChangeAddNode:
			if !c.mayVote(one.GetNodeId()) {
				return ErrNoLearner
			}
			in++
		default:
			in++
		}
	}
	if in > 1 || out > 1 || in+out == 0 {
		return fmt.Errorf("consensus: one change takes in %d nodes and removes %d; one of each is allowed", in, out)
	}
	return c.node.ProposeConfChange(change)
}

// mayVote reports whether a node is a member as of the newest change that is in effect. Raft
// drops a change while one is not applied, so no other one can come in between.
func (c *Core) mayVote(id uint64) bool {
	conf := c.handed.Conf
	return slices.Contains(conf.GetLearners(), id) || slices.Contains(conf.GetVoters(), id)
}

// ReportSnapshot reports what became of a snapshot that was sent to a member: whether
// the member closed its content, or never will. Raft sends the member nothing else
// until then. A report that is earlier than the member's older messages makes raft send
// a second snapshot.
func (c *Core) ReportSnapshot(to uint64, ok bool) {
	status := raft.SnapshotFailure
	if ok {
		status = raft.SnapshotFinish
	}
	c.node.ReportSnapshot(to, status)
}

// Status is a node's view of the group.
type Status struct {
	ID, Term, Leader uint64
	// Leads is the term in which this node leads, or 0.
	Leads          uint64
	Commit         uint64
	Applied        Applied
	Floor, Durable uint64
	// Diverged lists the members that hold other committed entries than the group.
	Diverged []uint64
	// Progress lists the members if this node leads.
	Progress []Progress
}

// Progress is how far a member's log matches the leader's, and whether the member has answered
// lately.
type Progress struct {
	ID, Match       uint64
	Learner, Active bool
}

// Active reports whether a member has answered this node lately, if this node leads.
func (s Status) Active(id uint64) bool {
	return slices.ContainsFunc(s.Progress, func(p Progress) bool { return p.ID == id && p.Active })
}

// Status returns this node's view of the group.
func (c *Core) Status() Status {
	basic := c.node.BasicStatus()
	s := Status{
		ID: c.id, Term: basic.GetTerm(), Leader: basic.Lead, Commit: basic.GetCommit(),
		Applied: c.applied, Floor: c.cut.floor, Durable: c.cut.durable, Diverged: c.diverged(),
	}
	if c.lead.led {
		s.Leads = c.lead.term
	}
	if c.lead.term != 0 {
		c.node.WithProgress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
			s.Progress = append(s.Progress, Progress{id, p.Match, kind == raft.ProgressTypeLearner, c.lead.active(c, id, p)})
		})
	}
	return s
}
