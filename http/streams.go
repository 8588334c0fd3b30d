package http

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"parley"
	"parley/actors/org"
)

// streams is all open streams and the wheel that beats for them.
type streams struct {
	service   *core
	began     time.Time
	mu        sync.Mutex
	open      map[*agentStream]struct{}
	readersOf map[parley.AgentID]*readers
	pumps     pumps // of what comes live
	backlog   pumps // of what is read from rows
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

// readers is all streams of one agent.
type readers struct{ size atomic.Int32 } // changed under mu

// wheelSlots is more seconds than a heartbeat is away.
const wheelSlots = 32

const heartbeatSeconds = int64(parley.HeartbeatEvery / time.Second)

func newStreams(s *core) *streams {
	return &streams{
		service: s, began: s.Clock(), open: map[*agentStream]struct{}{}, readersOf: map[parley.AgentID]*readers{}, stop: make(chan struct{}),
		suspends: (*org.State).Suspended,
	}
}

// second is the wheel's time. It follows the monotonic clock: a correction of the
// wall clock neither stops the wheel nor spins it.
func (r *streams) second() int64 { return int64(r.service.Clock().Sub(r.began) / time.Second) }

// add registers a stream and starts wheel and pumps with the first.
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
	if st.readers.size.Add(-1) == 0 {
		delete(r.readersOf, st.source.agent)
	}
	delete(r.open, st)
	for i := range r.wheel {
		delete(r.wheel[i], st)
	}
}

// turn moves the wheel on every second.
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

// due takes the streams of one second off the wheel.
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

// visit looks after a stream: may it go on, and is a heartbeat due.
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

// take counts one more stream of an agent, nil if it has as many as it may. The
// end of the stream gives it back.
func (r *streams) take(agent parley.AgentID, limit *int) (a *readers, used int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a = r.readersOf[agent]
	if a == nil {
		a = &readers{}
	}
	used = int(a.size.Load())
	if limit != nil && used >= *limit {
		return nil, used
	}
	r.readersOf[agent] = a
	a.size.Add(1)
	return a, used
}

// endIf ends the streams that may not go on, at once. Those that other nodes
// serve, and those that open meanwhile, are found by the wheel.
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

// close ends every stream and takes no more.
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
func (s *Service) EndStreams(id parley.OrgID) {
	s.streams.endIf(func(st *agentStream) bool { return st.source.caller.Org == id })
}

// OpenStreams is the number of open streams.
func (s *Service) OpenStreams() int {
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	return len(s.streams.open)
}
