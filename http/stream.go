package http

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"parley"
	"parley/actors"
	"parley/http/api"
)

const (
	// streamWriteWait is how long a reader may take nothing before it is cut
	// off; it resumes by id.
	streamWriteWait = 5 * time.Second
	// streamBatch and streamBuffer bound what is gathered into one write.
	streamBatch  = 64
	streamBuffer = 64 << 10
)

// streamAgent takes a connection over and writes an agent's feed to it.
// // spec: Agent stream (GET /agents/{id}/stream, Bearer)
func (s *Service) streamAgent(c *Call, in *api.Stream) error {
	a, err := s.ownAgent(c, in.ID)
	if err != nil {
		return err
	}
	if a.Revoked() {
		return errRevokedAgent
	}
	if limit := s.Quotas.limit(c.Caller.Tier, quotaStreams); limit != nil {
		if used := s.streams.of(in.ID); used >= *limit {
			return actors.ErrQuotaExceeded.With("quota", quotaStreams).With("limit", *limit).With("used", used).With("resets_at", nil)
		}
	}
	start, err := s.resume(c, in)
	if err != nil {
		return err
	}
	st := &agentStream{
		streams: s.streams, agent: in.ID, caller: c.Caller,
	}
	if start.OnlyUnseen {
		st.unseenUpTo = s.Node.Edge(in.ID)
	}
	opening := openingOf(c.RequestID(), start)
	c.ctx.HijackSetNoResponse(true)
	c.ctx.Hijack(func(conn net.Conn) { st.open(conn, opening, start.After) })
	return nil
}

// resume reads the Last-Event-ID: an id that is no UUID is unknown, like one
// that the feed does not have.
func (s *Service) resume(c *Call, in *api.Stream) (actors.Start, error) {
	last, malformed := parley.ParseID[parley.MessageID](in.LastEventID)
	if malformed != nil && in.LastEventID != "" {
		start, err := s.Node.Resume(c.Context(), in.ID, parley.MessageID{}, false)
		start.Gap = true
		return start, err
	}
	return s.Node.Resume(c.Context(), in.ID, last, in.LastEventID != "")
}

// openingOf is the head of the answer and the first bytes of its body: how soon
// to reconnect, a comment, and an id to resume from before any event has come.
func openingOf(requestID string, start actors.Start) []byte {
	b := append(make([]byte, 0, 512), "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"+
		"X-Accel-Buffering: no\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\nX-Request-ID: "...)
	b = append(append(b, requestID...), "\r\n\r\nretry: 3000\n: stream of an agent\nid: "...)
	b, _ = start.Last.AppendText(b)
	b = append(b, "\n\n"...)
	if start.Gap {
		b = append(b, "event: gap\ndata: {\"reason\":\"the message to resume after is not in this stream; everything not delivered yet follows\"}\n\n"...)
	}
	return b
}

// agentStream is one connection. An idle one costs this struct, a subscription
// and the small stack of its reader; a writer lives only while there is
// something to write.
type agentStream struct {
	streams    *streams
	agent      parley.AgentID
	caller     Caller
	conn       net.Conn
	feed       actors.Subscription
	unseenUpTo uint64

	pumping atomic.Int32
	ended   atomic.Bool
	beat    atomic.Bool
	// active is when something was last written, in the wheel's seconds.
	active atomic.Int64
	beats  int // consecutive; the pump's own
	sink   [16]byte
}

const (
	pumpIdle int32 = iota
	pumpRunning
	pumpAgain
)

// open writes the opening and begins to follow. It runs in the engine's hijack
// goroutine, which ends with it.
func (st *agentStream) open(conn net.Conn, opening []byte, after uint64) {
	if raw, ok := conn.(interface{ UnsafeConn() net.Conn }); ok {
		conn = raw.UnsafeConn()
	}
	st.conn = conn
	_ = conn.SetDeadline(time.Time{})
	if st.write(opening) != nil {
		_ = conn.Close()
		return
	}
	st.touch()
	// Who wakes it before it is whole has the pump, once started, run again.
	st.pumping.Store(pumpRunning)
	st.feed = st.streams.service.Node.Follow(st.agent, after, st.wake)
	if !st.streams.add(st) {
		st.end()
		return
	}
	go st.read()
	go st.pump()
}

// read notices that the client has gone, at once. What it sends is ignored.
func (st *agentStream) read() {
	for {
		if _, err := st.conn.Read(st.sink[:]); err != nil {
			st.end()
			return
		}
	}
}

// wake has the pump run, once more if it is running already.
func (st *agentStream) wake() {
	for {
		switch {
		case st.pumping.CompareAndSwap(pumpIdle, pumpRunning):
			go st.pump()
			return
		case st.pumping.CompareAndSwap(pumpRunning, pumpAgain), st.pumping.Load() == pumpAgain:
			return
		}
	}
}

// pump writes until there is nothing left to write.
func (st *agentStream) pump() {
	for {
		if err := st.drain(); err != nil {
			st.end()
			return // pumping stays set: nobody starts another
		}
		if st.pumping.CompareAndSwap(pumpRunning, pumpIdle) {
			return
		}
		st.pumping.Store(pumpRunning)
	}
}

// drain writes what the feed has, and a heartbeat where one is due.
func (st *agentStream) drain() error {
	for {
		if st.ended.Load() {
			return net.ErrClosed
		}
		entries, err := st.feed.Next(streamBatch)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return st.heartbeat()
		}
		if err := st.send(entries); err != nil {
			return err
		}
	}
}

// send writes entries and notes the messages among them as carried once they
// are out.
func (st *agentStream) send(entries []parley.FeedEntry) error {
	var buffer []byte
	var carried []parley.Mark
	flush := func() error {
		if len(buffer) == 0 {
			return nil
		}
		if err := st.write(buffer); err != nil {
			return err
		}
		for _, m := range carried {
			m.Marks.Delivered = st.streams.service.Clock().UnixMilli()
			st.streams.service.Node.MarkSoon(m)
		}
		st.touch()
		buffer, carried, st.beats = buffer[:0], carried[:0], 0
		return nil
	}
	for _, e := range entries {
		var err error
		if buffer, carried, err = st.appendEvent(buffer, carried, e); err != nil {
			return err
		}
		if len(buffer) >= streamBuffer {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// appendEvent renders one entry of the feed.
func (st *agentStream) appendEvent(b []byte, carried []parley.Mark, e parley.FeedEntry) ([]byte, []parley.Mark, error) {
	switch e.Kind {
	case parley.StatusEntry:
		b = appendID(append(b, "event: status\ndata: {\"conversation_id\":"...), e.Ref)
		b = appendText(append(b, `,"status":`...), string(e.Note))
		return append(b, "}\n\n"...), carried, nil
	case parley.MessageEntry:
		m, err := st.streams.service.Node.Entry(st.agent, e)
		if err != nil {
			return b, carried, err
		}
		if m.Marks.Delivered != 0 && e.Position <= st.unseenUpTo {
			return b, carried, nil // carried before this stream began
		}
		if m.Marks.Delivered == 0 {
			carried = append(carried, parley.Mark{
				Recipient: st.agent, Message: m.Record.MessageID(), Position: e.Position,
			})
		}
		b, _ = m.Record.MessageID().AppendText(append(b, "id: "...))
		b = appendMessage(append(b, "\nevent: message\ndata: "...), m, viewer{org: st.caller.Org, agent: st.agent})
		return append(b, "\n\n"...), carried, nil
	}
	return b, carried, nil
}

// heartbeat writes one if it is due; the last of a row ends the stream.
func (st *agentStream) heartbeat() error {
	if !st.beat.Swap(false) {
		return nil
	}
	b := appendTime([]byte("event: heartbeat\ndata: {\"timestamp\":"), st.streams.service.Clock())
	if err := st.write(append(b, "}\n\n"...)); err != nil {
		return err
	}
	st.touch()
	if st.beats++; st.beats >= parley.HeartbeatsBeforeClose {
		return errors.New("idle")
	}
	return nil
}

func (st *agentStream) write(b []byte) error {
	if err := st.conn.SetWriteDeadline(st.streams.service.Clock().Add(streamWriteWait)); err != nil {
		return err
	}
	_, err := st.conn.Write(b)
	return err
}

func (st *agentStream) touch() { st.active.Store(st.streams.second()) }

// end closes the stream; the client may resume.
func (st *agentStream) end() {
	if st.ended.Swap(true) {
		return
	}
	st.streams.remove(st)
	st.feed.Close()
	_ = st.conn.Close()
}

// streams is all open streams and the wheel that beats for them.
type streams struct {
	service *Service
	began   time.Time
	mu      sync.Mutex
	open    map[*agentStream]struct{}
	wheel   [wheelSlots]map[*agentStream]struct{}
	closed  bool
	stop    chan struct{}
	once    sync.Once
}

// wheelSlots is more seconds than a heartbeat is away.
const wheelSlots = 32

const heartbeatSeconds = int64(parley.HeartbeatEvery / time.Second)

func newStreams(s *Service) *streams {
	return &streams{service: s, began: s.Clock(), open: map[*agentStream]struct{}{}, stop: make(chan struct{})}
}

// second is the wheel's time. It follows the monotonic clock: a correction of the
// wall clock neither stops the wheel nor spins it.
func (r *streams) second() int64 { return int64(r.service.Clock().Sub(r.began) / time.Second) }

// add registers a stream and starts the wheel with the first.
func (r *streams) add(st *agentStream) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.once.Do(func() { go r.turn() })
	r.open[st] = struct{}{}
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
	if !st.streams.permitted(st) {
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

// permitted reports whether the stream's agent and credential are still live. A
// token that has expired does not cut a stream.
func (r *streams) permitted(st *agentStream) bool {
	ctx, s := context.Background(), r.service
	a, err := s.Node.Agent(ctx, st.agent)
	if err != nil || a.Revoked() {
		return err != nil && !errors.Is(err, parley.ErrNotFound)
	}
	o, err := s.Node.Org(ctx, st.caller.Org)
	if err != nil {
		return !errors.Is(err, parley.ErrNotFound)
	}
	return o.Credential(st.caller.ClientID).Live()
}

// of counts an agent's streams.
func (r *streams) of(agent parley.AgentID) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for st := range r.open {
		if st.agent == agent {
			n++
		}
	}
	return n
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
}

// OpenStreams is the number of open streams.
func (s *Service) OpenStreams() int {
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	return len(s.streams.open)
}
