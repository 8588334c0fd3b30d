package streams

import (
	"cmp"
	"net"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"parley/actors/query"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/buffer"
	"parley/http/connlimit"
	"parley/http/rest"
	"parley/journal"
)

// WriteWait is how long a reader may accept nothing before its stream is closed. It
// can resume by id.
const WriteWait = 5 * time.Second

// vanishWait is how long a client may leave sent data, or the probe of an idle
// connection, unacknowledged before it counts as gone.
const vanishWait = 30 * time.Second

// Serve takes over a connection and writes an agent's feed to it.
// // spec: Agent stream (GET /agents/{id}/stream, Bearer)
func (r *Streams) Serve(c *rest.Call, in *api.Stream) error {
	if _, err := r.Agents.Active(c, in.ID); err != nil {
		return err
	}
	start, err := r.Resume(c, in)
	if err != nil {
		return err
	}
	limit := r.Quotas.Allowed(c.Caller, access.QuotaStreams)
	audience, used := r.take(in.ID, limit)
	if audience == nil {
		return parley.ErrQuotaExceeded.OverQuota(access.QuotaStreams, *limit, used, nil)
	}
	st := &agentStream{
		streams: r, readers: audience, since: r.pages.now(),
		source: feedSource{streams: r, agent: in.ID, caller: c.Caller.Principal, client: c.Caller.ClientID, onlyReads: c.OnlyReads()},
	}
	if start.OnlyUntransferred {
		st.source.untransferredUpTo = r.Node.Feeds.DurablePosition(in.ID)
	}
	opening := buffer.New(0)
	opening.Bytes = appendOpening(opening.Bytes[:0], c, start)
	c.RequestCtx().HijackSetNoResponse(true)
	c.RequestCtx().Hijack(func(conn net.Conn) { st.open(conn, opening, start.After) })
	return nil
}

// Resume reads the Last-Event-ID, or lastEventId in the query. An id that is not a UUID is
// unknown, like one that the feed does not have.
func (r *Streams) Resume(c *rest.Call, in *api.Stream) (query.Start, error) {
	id := cmp.Or(in.LastEventID, in.LastEventIDQuery)
	last, malformed := parley.ParseID[parley.MessageID](id)
	if malformed != nil && id != "" {
		start, err := r.Node.Feeds.Resume(c.Context(), in.ID, parley.MessageID{}, false)
		start.Gap = true
		return start, err
	}
	return r.Node.Feeds.Resume(c.Context(), in.ID, last, id != "")
}

// appendOpening appends the header of the answer and the beginning of its body: the
// reconnection time, a comment, and an id to resume from before the first event.
func appendOpening(b []byte, c *rest.Call, start query.Start) []byte {
	b = c.AppendStreamHead(b)
	b = append(b, "\r\nretry: 3000\n: stream of an agent\nid: "...)
	b, _ = start.Last.AppendText(b)
	b = append(b, "\n\n"...)
	if start.Gap {
		b = append(b, "event: gap\ndata: {\"reason\":\"the message to resume after is not in this stream; everything not delivered yet follows\"}\n\n"...)
	}
	return b
}

// agentStream is one connection. An idle one costs this struct and a subscription.
type agentStream struct {
	streams *Streams
	readers *readers
	source  feedSource
	conn    net.Conn
	line    *connlimit.Conn // the tracked connection under conn; nil if there is none
	socket  syscall.RawConn // nil if conn is not a kernel socket
	feed    journal.Subscription
	since   uint64 // the last page begun before this one was requested
	pumping atomic.Int32
	next    *agentStream // the next stream to pump; guarded by the mu of pumps
	ended   atomic.Bool
	beat    atomic.Bool
	// active is when something was last written, in seconds of the wheel.
	active  atomic.Int64
	lagging atomic.Bool // it is counted as lagging
	// Only the goroutine that pumps the stream uses the fields below.
	beats   int      // consecutive
	pending *pending // to be written before anything else
}

const (
	pumpIdle int32 = iota
	pumpRunning
	pumpAgain
)

// open writes the opening and subscribes to the feed. It runs in the engine's hijack
// goroutine, which ends when open returns.
func (st *agentStream) open(conn net.Conn, opening *buffer.Buffer, after uint64) {
	st.conn, st.line = connlimit.Hijack(conn)
	defer st.contain()
	_ = st.conn.SetDeadline(time.Time{})
	if kernel, ok := st.conn.(syscall.Conn); ok {
		st.socket, _ = kernel.SyscallConn() // otherwise writes go through conn
	}
	if st.socket != nil {
		_ = connlimit.NoticeVanished(st.socket, vanishWait) // otherwise the heartbeats notice it later
	}
	err := st.await(opening.Bytes)
	if opening.Free(); err != nil {
		st.end()
		return
	}
	st.touch()
	// A wake-up before the stream is complete pumps it once more.
	st.pumping.Store(pumpRunning)
	st.feed = st.streams.Node.Feeds.Follow(st.source.agent, after, st.wake)
	if !st.streams.add(st) {
		st.end()
		return
	}
	if !st.source.permitted() { // its permission was withdrawn meanwhile
		st.end()
		return
	}
	connlimit.Watch(st.conn, st.line, st.end)
	st.streams.pumps.add(st)
}

// wake schedules the stream for pumping, once more if it is being pumped already.
func (st *agentStream) wake() {
	for {
		switch {
		case st.pumping.CompareAndSwap(pumpIdle, pumpRunning):
			st.streams.pumps.add(st)
			return
		case st.pumping.CompareAndSwap(pumpRunning, pumpAgain), st.pumping.Load() == pumpAgain:
			return
		}
	}
}

// contain confines a panic to the stream in which it occurred.
func (st *agentStream) contain() {
	if cause := recover(); cause != nil {
		st.streams.Logger.Error("stream failed", "agent", st.source.agent.String(), "panic", cause, "stack", string(debug.Stack()))
		st.caughtUp()
		st.end()
	}
}

// await writes all of b, and blocks while the reader is not ready.
func (st *agentStream) await(b []byte) error {
	if err := st.conn.SetWriteDeadline(st.streams.Clock().Add(WriteWait)); err != nil {
		return err
	}
	if _, err := st.conn.Write(b); err != nil {
		return err
	}
	return st.conn.SetWriteDeadline(time.Time{})
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
	_ = connlimit.Shut(st.conn)
	if st.line != nil {
		st.line.Leave()
	}
}
