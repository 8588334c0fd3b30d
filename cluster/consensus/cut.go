package consensus

import (
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// cut decides how far this node's log may be cut. Only the leader knows the positions
// of all members, so it announces the floor. A node cuts up to the floor, but never
// what its state would lack after a crash.
type cut struct {
	floor   uint64 // all members have what is up to here
	durable uint64 // the state has what is up to here, also after a crash
	base    uint64 // the log was cut up to here
	sizes   sizes
}

// answerTicks, 10 s, is far longer than a member takes to answer a new leader.
const answerTicks = 400

// raise lets the leader raise the floor: to what its own state holds durably and all
// members' logs hold, except those that lag by more than the limit.
func (t *cut) raise(c *Core) {
	floor := min(t.durable, c.applied.Index)
	c.node.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if id == c.id || c.opts.planted.CutsEarly {
			return
		}
		limit := c.opts.Limits.CatchUpBytes
		held := max(p.Match, t.floor)
		lag := t.sizes.after(held)
		if p.Match == 0 && c.fences.now-c.lead.begun < answerTicks {
			// It has not answered in this term yet. All that is certain is that it lacks
			// the entries of this term, and holds those up to the old floor. One that never
			// answers counts from there: otherwise the log would grow with every term.
			lag = t.sizes.total - c.lead.sizes
		}
		if lag > limit {
			// A snapshot serves it, and the log from there on. Next-1 is where that
			// will be, or was before the member answered.
			held = max(held, p.PendingSnapshot, p.Next-1)
			lag = t.sizes.after(held)
		}
		if lag <= limit {
			floor = min(floor, held)
		}
	})
	t.floor = max(t.floor, floor)
}

// prepare adds the cut that is due to a record, and weighs the record.
func (t *cut) prepare(c *Core, w *write) error {
	r := &w.record
	if w.resets() {
		t.base = r.Cut.Index
		t.sizes = sizes{samples: []sample{{index: t.base}}}
	} else if to := min(t.floor, t.durable, c.applied.Index); to > t.base && !slices.ContainsFunc(c.pending, (*write).resets) {
		term, err := c.log.Term(to)
		if err != nil {
			return err
		}
		r.Cut, t.base = Position{to, term}, to
	}
	grain := c.opts.Limits.CatchUpBytes / 1024
	for _, e := range r.Entries {
		t.sizes.add(e.GetIndex(), uint64(len(e.GetData())), grain)
	}
	t.sizes.trim(t.base)
	return nil
}

// resets says that the log does not lead to the state before this write.
func (w *write) resets() bool { return w.content != nil }

// sizes knows about how many bytes of entries the log has after an index. It samples,
// so it needs little memory; entries from before this start count as nothing.
type sizes struct {
	total   uint64
	samples []sample
}

// A sample says that the entries up to index have total bytes.
type sample struct{ index, total uint64 }

func (s *sizes) add(index, bytes, grain uint64) {
	for len(s.samples) > 1 && last(s.samples).index >= index {
		s.samples = s.samples[:len(s.samples)-1]
	}
	s.total += bytes
	if s.total-last(s.samples).total > grain {
		s.samples = append(s.samples, sample{index, s.total})
	}
}

// after returns the bytes of the entries after index, or a little more.
func (s *sizes) after(index uint64) uint64 {
	i, found := slices.BinarySearchFunc(s.samples, index, func(one sample, index uint64) int {
		return int(one.index) - int(index)
	})
	if !found {
		i = max(i-1, 0)
	}
	return s.total - s.samples[i].total
}

// trim forgets the samples before the newest one up to index.
func (s *sizes) trim(index uint64) {
	for len(s.samples) > 1 && s.samples[1].index <= index {
		s.samples = s.samples[1:]
	}
}
