package consensus

import (
	"encoding/binary"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// A fence that is not answered is asked for again every fenceRepeat ticks, and given up
// after fenceMax ticks: 100 ms and 2 s.
const (
	fenceRepeat = 4
	fenceMax    = 80
)

// fences answer from which index on a read sees all that was acknowledged before. One
// round is outstanding and one gathers: a round serves only fences that began before
// it, so its answer is newer than all of them. The rounds of a leader, each of which costs
// every member a heartbeat, serve the others too: what they ask for gathers with its own.
type fences struct {
	// nonce and counter make up the context of a request. Raft answers every request
	// that reaches a leader, even late or twice, so no context is ever used again.
	nonce, counter uint64
	gathering      []fence
	round          []fence
	// first is the counter of the round's first request, repeat the tick for the next.
	first, repeat uint64
	// waiting fences have an index that is not applied here yet.
	waiting []fence
	now     uint64
}

type fence struct {
	tag, expires, index uint64
	// asked is the request of another member, nil for a fence of this node.
	asked *raftpb.Message
}

// Fence begins a fence. A Fenced event follows for the tag.
func (c *Core) Fence(tag uint64) {
	c.fences.gathering = append(c.fences.gathering, fence{tag: tag, expires: c.fences.now + fenceMax})
}

// serve takes the request of another member into the next round.
func (f *fences) serve(asked *raftpb.Message) {
	f.gathering = append(f.gathering, fence{asked: asked, expires: f.now + fenceMax})
}

// begin starts a round if none is outstanding.
func (f *fences) begin(c *Core) {
	if len(f.round) > 0 || len(f.gathering) == 0 {
		return
	}
	f.round, f.gathering = f.gathering, nil
	f.first = f.counter + 1
	f.request(c)
}

func (f *fences) request(c *Core) {
	f.counter++
	f.repeat = f.now + fenceRepeat
	if c.stalled() {
		return // a round of heartbeats would keep others from electing
	}
	context := binary.BigEndian.AppendUint64(nil, f.nonce)
	c.node.ReadIndex(binary.BigEndian.AppendUint64(context, f.counter))
}

// tick repeats the outstanding round and gives up old fences.
func (f *fences) tick(c *Core) {
	f.now++
	for _, list := range []*[]fence{&f.waiting, &f.round, &f.gathering} {
		*list = slices.DeleteFunc(*list, func(one fence) bool {
			if one.expires > f.now {
				return false
			}
			if one.asked == nil {
				c.turn.Events = append(c.turn.Events, Event{Kind: Fenced, Tag: one.tag, Err: ErrNoQuorum})
			}
			return true
		})
	}
	if len(f.round) > 0 && f.now >= f.repeat {
		f.request(c)
	}
}

// answered ends the round if an answer is to one of its requests.
func (f *fences) answered(c *Core, read raft.ReadState) {
	context := read.RequestCtx
	if len(context) != 16 || binary.BigEndian.Uint64(context) != f.nonce || binary.BigEndian.Uint64(context[8:]) < f.first {
		return
	}
	index := read.Index
	if c.opts.planted.FenceAtApplied {
		index = min(index, c.applied.Index)
	}
	for _, one := range f.round {
		if one.index = index; one.asked == nil {
			f.waiting = append(f.waiting, one)
		} else if c.lead.term != 0 { // or else the member asks again
			c.send(&raftpb.Message{
				Type: raftpb.MsgReadIndexResp.Enum(), From: &c.id, To: one.asked.From, Term: new(c.lead.term),
				Index: new(one.index), Entries: one.asked.Entries,
			})
		}
	}
	f.round = nil
	f.release(c)
	f.begin(c)
}

// release answers the fences whose index is applied.
func (f *fences) release(c *Core) {
	f.waiting = slices.DeleteFunc(f.waiting, func(one fence) bool {
		if one.index > c.applied.Index {
			return false
		}
		c.turn.Events = append(c.turn.Events, Event{Kind: Fenced, Tag: one.tag, Index: one.index})
		return true
	})
}
