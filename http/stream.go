package http

import (
	"context"
	"errors"
	"net"
	"runtime/debug"
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
	start, err := s.resume(c, in)
	if err != nil {
		return err
	}
	limit := s.Quotas.limit(c.Caller.Tier, quotaStreams)
	if used, ok := s.streams.take(in.ID, limit); !ok {
		return actors.ErrQuotaExceeded.With("quota", quotaStreams).With("limit", *limit).With("used", used).With("resets_at", nil)
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
	defer st.contain()
	_ = conn.SetDeadline(time.Time{})
	if st.write(opening) != nil {
		st.end()
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
	defer st.contain()
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

// contain keeps a defect to the stream that met it.
func (st *agentStream) contain() {
	if cause := recover(); cause != nil {
		st.streams.service.Logger.Error("stream failed", "agent", st.agent.String(), "panic", cause, "stack", string(debug.Stack()))
		st.end()
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

// gathering is what goes out in one write.
type gathering struct {
	bytes   []byte
	carried []parley.Mark
}

// send writes entries and notes the messages among them as carried once they
// are out.
func (st *agentStream) send(entries []parley.FeedEntry) error {
	var g gathering
	err := st.streams.service.Node.Entries(context.Background(), st.agent, entries, func(e parley.FeedEntry, m actors.Message) error {
		st.gather(&g, e, m)
		if len(g.bytes) < streamBuffer {
			return nil
		}
		return st.flush(&g)
	})
	if err != nil {
		return err
	}
	return st.flush(&g)
}

// gather renders one entry of the feed.
func (st *agentStream) gather(g *gathering, e parley.FeedEntry, m actors.Message) {
	switch e.Kind {
	case parley.StatusEntry:
		g.bytes = appendID(append(g.bytes, "event: status\ndata: {\"conversation_id\":"...), e.Ref)
		g.bytes = appendText(append(g.bytes, `,"status":`...), string(e.Note))
		g.bytes = append(g.bytes, "}\n\n"...)
	case parley.MessageEntry:
		if m.Marks.Delivered != 0 && e.Position <= st.unseenUpTo {
			return // carried before this stream began
		}
		if m.Marks.Delivered == 0 {
			g.carried = append(g.carried, parley.Mark{
				Recipient: st.agent, Message: m.Record.MessageID(), Position: e.Position,
			})
		}
		g.bytes, _ = m.Record.MessageID().AppendText(append(g.bytes, "id: "...))
		g.bytes = append(g.bytes, "\nevent: message\ndata: "...)
		g.bytes = appendMessage(g.bytes, m, viewer{org: st.caller.Org, agent: st.agent})
		g.bytes = append(g.bytes, "\n\n"...)
	}
}

// flush writes what is gathered; only what is written counts as carried.
func (st *agentStream) flush(g *gathering) error {
	if len(g.bytes) == 0 {
		return nil
	}
	if err := st.write(g.bytes); err != nil {
		return err
	}
	at := st.streams.service.Clock().UnixMilli()
	for _, m := range g.carried {
		m.Marks.Delivered = at
		st.streams.service.Node.MarkSoon(m)
	}
	st.touch()
	g.bytes, g.carried, st.beats = g.bytes[:0], g.carried[:0], 0
	return nil
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
	if st.feed != nil {
		st.feed.Close()
	}
	_ = st.conn.Close()
}
