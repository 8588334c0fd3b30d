// Package streams serves the streams of agents: what an agent missed, then its feed as it
// grows, with heartbeats.
package streams

import (
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"parley/actors"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/internal/planted"
	"parley/http/limit"
)

// Options are what streams need of the service.
type Options struct {
	Node   *actors.Node
	Agents *access.Agents
	Quotas access.QuotaProfile
	Clock  parley.Clock
	Logger *slog.Logger
	// Budget bounds the bytes that streams hold for slow readers, per organization.
	Budget *limit.Budget
	// CutOff reports that this node has lost contact with its cluster: all streams end.
	CutOff func() bool
	// OnNodes counts streams of all nodes, nil on a node on its own.
	OnNodes *limit.Concurrency
}

// Streams holds all open streams and the timer wheel for their heartbeats.
type Streams struct {
	Options
	began     time.Time
	mu        sync.Mutex
	open      map[*agentStream]struct{}
	readersOf map[parley.AgentID]*readers
	pumps     pumps // for live entries
	backlog   pumps // for entries read from rows
	rendered  renderCache
	pages     pageCache
	count     streamCount
	wheel     [wheelSlots]map[*agentStream]struct{}
	closed    bool
	stop      chan struct{}
	once      sync.Once
	planted   planted.Streams
}

// readers counts the streams of one agent.
type readers struct{ size atomic.Int32 } // guarded by mu

// shares reports whether other streams may show the same feed in the same way.
func (st *agentStream) shares() bool {
	return st.readers.size.Load() > 1 && st.source.plain() && !st.streams.planted.Alone
}

// wheelSlots is larger than the heartbeat interval in seconds.
const wheelSlots = 32

const heartbeatSeconds = int64(parley.HeartbeatEvery / time.Second)

// New returns the streams of a node, none of them open.
func New(o Options) *Streams {
	return &Streams{Options: o, began: o.Clock(), open: map[*agentStream]struct{}{}, readersOf: map[parley.AgentID]*readers{}, stop: make(chan struct{})}
}

// Plant takes protections away, for tests below http.
func (r *Streams) Plant(defects planted.Streams) { r.planted = defects }

// second returns the wheel's time. It follows the monotonic clock, so a correction of the
// wall clock neither stops nor spins the wheel.
func (r *Streams) second() int64 { return int64(r.Clock().Sub(r.began) / time.Second) }

// add registers a stream. The first one starts the wheel and the pumps.
func (r *Streams) add(st *agentStream) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.once.Do(func() {
		r.pumps.start(runtime.GOMAXPROCS(0), (*agentStream).pump)
		r.backlog.start(backlogPumps*runtime.GOMAXPROCS(0), (*agentStream).pumpStored)
		go r.turn()
	})
	r.open[st] = struct{}{}
	r.count.opened.Add(1)
	r.schedule(st, st.active.Load()+heartbeatSeconds)
	return true
}

func (r *Streams) schedule(st *agentStream, due int64) {
	slot := &r.wheel[due%wheelSlots]
	if *slot == nil {
		*slot = map[*agentStream]struct{}{}
	}
	(*slot)[st] = struct{}{}
}

func (r *Streams) remove(st *agentStream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := st.readers.size.Add(-1)
	if left == 0 {
		delete(r.readersOf, st.source.agent)
	}
	r.OnNodes.Close(st.source.agent, int(left))
	delete(r.open, st)
	for i := range r.wheel {
		delete(r.wheel[i], st)
	}
}

// turn advances the wheel every second.
func (r *Streams) turn() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := r.second()
	for {
		select {
		case <-r.stop:
			return
		case <-tick.C:
		}
		if r.CutOff() {
			r.endIf(func(*agentStream) bool { return true })
		}
		r.rendered.clear()
		r.pages.turn()
		now := r.second()
		for last = max(last, now-wheelSlots); last < now; {
			last++
			for _, st := range r.due(last) {
				st.visit(now)
			}
		}
	}
}

// due removes the streams of one second from the wheel.
func (r *Streams) due(second int64) []*agentStream {
	r.mu.Lock()
	defer r.mu.Unlock()
	slot := r.wheel[second%wheelSlots]
	r.wheel[second%wheelSlots] = nil
	list := make([]*agentStream, 0, len(slot))
	for st := range slot {
		list = append(list, st)
	}
	return list
}

// visit checks whether a stream is still permitted and whether a heartbeat is due.
func (st *agentStream) visit(now int64) {
	defer st.contain()
	if !st.source.permitted() {
		st.end()
		return
	}
	due := st.active.Load() + heartbeatSeconds
	if due <= now {
		st.beat.Store(true)
		st.wake()
		due = now + heartbeatSeconds
	}
	st.streams.mu.Lock()
	defer st.streams.mu.Unlock()
	if _, open := st.streams.open[st]; open {
		st.streams.schedule(st, due)
	}
}

// take counts one more stream of an agent, or returns nil if the limit is reached. The
// end of the stream releases it.
func (r *Streams) take(agent parley.AgentID, limit *int) (a *readers, used int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a = r.readersOf[agent]
	if a == nil {
		a = &readers{}
	}
	used, ok := r.OnNodes.Open(agent, int(a.size.Load()), limit)
	if !ok {
		return nil, used
	}
	r.readersOf[agent] = a
	a.size.Add(1)
	return a, used
}

// endIf ends at once the streams for which over returns true. The wheel finds those that open
// meanwhile.
func (r *Streams) endIf(over func(*agentStream) bool) {
	r.mu.Lock()
	var ended []*agentStream
	for st := range r.open {
		if over(st) {
			ended = append(ended, st)
		}
	}
	r.mu.Unlock()
	for _, st := range ended {
		st.end()
	}
}

// End ends the streams of an agent, a credential or an organization.
func (r *Streams) End(id [16]byte) {
	r.endIf(func(st *agentStream) bool {
		from := &st.source
		return id == from.agent || id == from.client || id == from.caller.Org
	})
}

// Forget ends the streams of an organization that was erased, and drops what was rendered.
func (r *Streams) Forget(org parley.OrgID) {
	r.endIf(func(st *agentStream) bool { return st.source.caller.Org == org })
	r.rendered.clear()
	r.pages.turn()
	r.pages.turn() // what was young before
}

// Close ends every stream and rejects new ones.
func (r *Streams) Close() {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	r.closed = true
	close(r.stop)
	r.mu.Unlock()
	r.endIf(func(*agentStream) bool { return true })
	r.pumps.close()
	r.backlog.close()
}

// Listening reports whether a stream of an agent is open.
func (r *Streams) Listening(agent parley.AgentID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.readersOf[agent] != nil
}
