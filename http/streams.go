package http

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"parley/actors/org"
	"parley/client/parley"
	"parley/http/limit"
)

// streams holds all open streams and the timer wheel for their heartbeats.
type streams struct {
	service   *core
	began     time.Time
	mu        sync.Mutex
	open      map[*agentStream]struct{}
	readersOf map[parley.AgentID]*readers
	onNodes   *limit.Concurrency // nil on a node on its own
	pumps     pumps              // for live entries
	backlog   pumps              // for entries read from rows
	rendered  renderCache
	pages     pageCache
	count     streamCount
	wheel     [wheelSlots]map[*agentStream]struct{}
	closed    bool
	stop      chan struct{}
	once      sync.Once
	// suspends is (*org.State).Suspended, unless a test has another.
	suspends func(*org.State) bool
}

// readers counts the streams of one agent.
type readers struct{ size atomic.Int32 } // guarded by mu

// wheelSlots is larger than the heartbeat interval in seconds.
const wheelSlots = 32

const heartbeatSeconds = int64(parley.HeartbeatEvery / time.Second)

func newStreams(s *core) *streams {
	return &streams{
		service: s, began: s.Clock(), open: map[*agentStream]struct{}{}, readersOf: map[parley.AgentID]*readers{}, stop: make(chan struct{}),
		suspends: (*org.State).Suspended,
	}
}

// second returns the wheel's time. It follows the monotonic clock, so a correction of the
// wall clock neither stops nor spins the wheel.
func (r *streams) second() int64 { return int64(r.service.Clock().Sub(r.began) / time.Second) }

// add registers a stream. The first one starts the wheel and the pumps.
func (r *streams) add(st *agentStream) bool {
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

func (r *streams) schedule(st *agentStream, due int64) {
	slot := &r.wheel[due%wheelSlots]
	if *slot == nil {
		*slot = map[*agentStream]struct{}{}
	}
	(*slot)[st] = struct{}{}
}

func (r *streams) remove(st *agentStream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := st.readers.size.Add(-1)
	if left == 0 {
		delete(r.readersOf, st.source.agent)
	}
	r.onNodes.Close(st.source.agent, int(left))
	delete(r.open, st)
	for i := range r.wheel {
		delete(r.wheel[i], st)
	}
}

// turn advances the wheel every second.
func (r *streams) turn() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := r.second()
	for {
		select {
		case <-r.stop:
			return
		case <-tick.C:
		}
		if r.service.cutOff() {
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
func (r *streams) due(second int64) []*agentStream {
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
	if !st.source.permitted(st.streams.suspends) {
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
func (r *streams) take(agent parley.AgentID, limit *int) (a *readers, used int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a = r.readersOf[agent]
	if a == nil {
		a = &readers{}
	}
	used, ok := r.onNodes.Open(agent, int(a.size.Load()), limit)
	if !ok {
		return nil, used
	}
	r.readersOf[agent] = a
	a.size.Add(1)
	return a, used
}

// endIf ends at once the streams for which over returns true. The wheel finds those that open
// meanwhile.
func (r *streams) endIf(over func(*agentStream) bool) {
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

// close ends every stream and rejects new ones.
func (r *streams) close() {
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

// listening reports whether a stream of an agent is open.
func (r *streams) listening(agent parley.AgentID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.readersOf[agent] != nil
}

// EndStreams ends all streams of an organization.
func (s *Service) EndStreams(id parley.OrgID) { s.endings.of(id) }

// OpenStreams is the number of open streams.
func (s *Service) OpenStreams() int {
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	return len(s.streams.open) + s.bridge.OpenStreams()
}
