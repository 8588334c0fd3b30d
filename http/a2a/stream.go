package a2a

import (
	"cmp"
	"context"
	"errors"
	"net"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley/actors/conversation"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/parley"
	"parley/http/connlimit"
	"parley/http/content"
	"parley/http/limit"
	"parley/http/rest"
)

const (
	// keepAlive is the pause after which a stream sends a comment, and checks that its
	// caller may still read.
	keepAlive = 15 * time.Second
	// writeWait is how long a reader may accept nothing before its stream is closed. It can
	// resume.
	writeWait = 5 * time.Second
	// vanishWait is how long a client may leave sent data unacknowledged before it counts as
	// gone.
	vanishWait = 30 * time.Second
	// streamBatch is how many events are read and written at a time: a reader that is slow
	// holds so many.
	streamBatch = 4
	// streamBytes is what an idle stream holds of its caller's memory, about.
	streamBytes = 16 << 10
)

// sendStreaming sends a message and streams the task until it ends or waits for input.
func (b *Bridge) sendStreaming(c *call) (any, error) {
	in, _, err := readSend(c)
	if err != nil {
		return nil, err
	}
	s, err := b.send(c, in)
	if err != nil {
		return nil, err
	}
	result, err := b.streamFrom(c, s, in.Configuration.HistoryLength)
	return result, afterStored(err)
}

// streamFrom streams a task from a message on that was stored.
func (b *Bridge) streamFrom(c *call, s sent, history *int) (any, error) {
	begin, err := b.arrival(c, s)
	if err != nil {
		return nil, err
	}
	at, err := b.moment(c.Call, s.posted.Message.Conversation(), begin)
	if err != nil {
		return nil, err
	}
	return b.stream(c, at, s.view, history, true)
}

// afterStored returns the error of a request whose message is stored: that nothing was done
// would be wrong.
func afterStored(err error) error {
	if errors.Is(err, parley.ErrOverloaded) {
		return parley.ErrOutcomeUnknown
	}
	return err
}

// arrival returns the number of the last event that a message caused, 0 if it is the first
// one of its task. A stream begins there, so that it misses nothing of an agent that has
// answered already.
func (b *Bridge) arrival(c *call, s sent) (uint64, error) {
	if s.passed {
		return 0, nil
	}
	at, own := s.before, s.posted.Message.MessageID()
	arrived, waited := uint64(0), interrupted(at.State.GetStatus())
	for {
		events, err := b.Node.Messages.EventsAfter(c.Context(), &at, eventBatch, fitsFor(c.Call))
		if err != nil {
			return 0, err
		}
		for i := range events {
			e := &events[i]
			switch _, moved := e.Event.(*conversation.StatusChanged); {
			case arrived > 0 && waited && moved: // the message has opened the task again
				return e.Number, nil
			case arrived > 0:
				return arrived, nil
			case e.Message != nil && e.Message.Record.MessageID() == own:
				arrived = e.Number
			default:
				waited = interrupted(e.Status)
			}
		}
		if len(events) == 0 {
			return cmp.Or(arrived, query.Latest), nil
		}
	}
}

// subscribe streams a task until it ends.
func (b *Bridge) subscribe(c *call) (any, error) {
	in, err := readTask(c)
	if err != nil {
		return nil, err
	}
	s, err := b.visible(c, in.ID)
	if err != nil {
		return nil, err
	}
	from, resumes := uint64(query.Latest), false
	if n, err := strconv.ParseUint(c.in.LastEventID, 10, 63); err == nil {
		from, resumes = n, true
	}
	if s.Terminal() && !resumes {
		return nil, errEnded
	}
	v, err := b.viewOf(c.Context(), s)
	if err != nil {
		return nil, err
	}
	at, err := b.moment(c.Call, s.ConversationID(), from)
	if err != nil {
		return nil, err
	}
	return b.stream(c, at, v, in.HistoryLength, false)
}

// stream answers with a task as it was at a moment, and then its updates. brief streams end
// when the task waits for input.
func (b *Bridge) stream(c *call, at query.Moment, v view, history *int, brief bool) (any, error) {
	st := &taskStream{
		bridge: b, id: c.id.Clone(), view: v, at: at, brief: brief, caller: c.Caller, draining: c.Draining(), agent: at.State.Initiator(), ended: make(chan struct{}),
	}
	if len(at.Messages) > 0 {
		st.passed(at.Messages[len(at.Messages)-1].Record, at.State.GetLoneMessage())
	}
	if err := b.transfer(c.Context(), c.Now(), v, messagesOf(&at)); err != nil {
		return nil, err
	}
	opening := append(c.AppendStreamHead(nil), "\r\nretry: 3000\n: stream of a task\n\n"...)
	opening, err := st.event(opening, at.Event, &StreamResponse{Task: v.task(&at, history)})
	if err != nil {
		return nil, err
	}
	st.at.Messages, st.at.Artifacts = nil, nil
	most := b.StreamLimit(c.Caller)
	used, added := b.streams.add(st, most)
	switch {
	case !added && brief: // the message is stored
		return nil, parley.ErrOutcomeUnknown
	case !added:
		return nil, parley.ErrQuotaExceeded.OverQuota("streams_per_agent", *most, used, nil)
	}
	st.hold = b.Budget.Hold(c.Account(), nil)
	if !st.hold.Grow(streamBytes + cap(opening) + connlimit.SendBytes) {
		b.streams.remove(st)
		return nil, rest.ErrHeld
	}
	ctx := c.Context()
	c.RequestCtx().HijackSetNoResponse(true)
	c.RequestCtx().Hijack(func(conn net.Conn) {
		conn, line := connlimit.Hijack(conn)
		// The engine's goroutine holds the buffers of the request until it ends.
		go st.serve(ctx, conn, line, opening)
	})
	return streamed{}, nil
}

// taskStream is a stream that has taken its connection over.
type taskStream struct {
	bridge   *Bridge
	id       jsontext.Value // of the request
	view     view
	at       query.Moment    // the last event that was written
	last     *record.Message // the last message up to there if a change of status shows it, else nil
	brief    bool
	caller   rest.Caller
	draining <-chan struct{}
	hold     limit.Hold
	agent    parley.AgentID // that began the task
	over     sync.Once
	ended    chan struct{} // closed when the caller may no longer read
}

// event appends an event of a stream: a response to the request.
func (st *taskStream) event(b []byte, number uint64, what *StreamResponse) ([]byte, error) {
	data, err := json.Marshal(response{Version: "2.0", ID: st.id, Result: what})
	if err != nil {
		return b, err
	}
	b = strconv.AppendUint(append(b, "id: "...), number, 10)
	return append(append(append(b, "\ndata: "...), data...), "\n\n"...), nil
}

// passed notes that a message is the last one so far. Only one that a change of status shows
// matters for what follows: an idle stream holds no other message.
func (st *taskStream) passed(r *record.Message, lone bool) {
	if st.last = nil; st.view.reported(r, lone) != 0 {
		st.last = r
	}
}

// serve writes the stream and closes the connection. line is nil if the connection is not
// from a listener that counts it.
func (st *taskStream) serve(ctx context.Context, conn net.Conn, line *connlimit.Conn, opening []byte) {
	if kernel, ok := conn.(syscall.Conn); ok {
		if socket, err := kernel.SyscallConn(); err == nil {
			_ = connlimit.NoticeVanished(socket, vanishWait) // otherwise a failing write notices it later
		}
	}
	follower, stop := st.bridge.hub.follow(st.at.State.ConversationID())
	defer func() {
		if cause := recover(); cause != nil {
			st.bridge.Logger.Error("task stream failed", "panic", cause, "stack", string(debug.Stack()))
		}
		stop()
		st.bridge.streams.remove(st)
		_ = connlimit.Shut(conn)
		if line != nil {
			line.Leave()
		}
		st.hold.Release()
	}()
	if !st.write(conn, opening) {
		return
	}
	st.hold.Shrink(streamBytes)
	closed := make(chan struct{})
	connlimit.Watch(conn, line, func() { close(closed) })
	beat := time.NewTicker(keepAlive)
	defer beat.Stop()
	defer func() {
		if st.complete() { // the end of a large task may be on its way
			connlimit.AwaitRead(conn, st.draining)
		}
	}()
	for st.pump(ctx, conn) {
		select {
		case <-follower.wake:
		case <-beat.C:
			if !st.mayRead(ctx) || !st.write(conn, []byte(": keep-alive\n\n")) {
				return
			}
		case <-closed:
			return
		case <-st.ended:
			return
		case <-st.draining:
			return
		}
	}
}

// write writes bytes, unless the reader accepts nothing for too long.
func (st *taskStream) write(conn net.Conn, b []byte) bool {
	if conn.SetWriteDeadline(st.bridge.Clock().Add(writeWait)) != nil {
		return false
	}
	_, err := conn.Write(b)
	return err == nil
}

// mayRead reports whether this node has contact with its cluster, and the caller's organization
// and credential are still in force.
func (st *taskStream) mayRead(ctx context.Context) bool {
	if st.bridge.CutOff() {
		return false
	}
	o, err := st.bridge.Node.Orgs.Get(ctx, st.caller.Org)
	return err == nil && !o.Suspended() && o.Credential(st.caller.ClientID).Live(st.bridge.Clock())
}

// pump writes what has happened since the last event. It returns false if the stream ends.
func (st *taskStream) pump(ctx context.Context, conn net.Conn) bool {
	for {
		if st.complete() {
			return false
		}
		events, err := st.bridge.Node.Messages.EventsAfter(ctx, &st.at, streamBatch, st.fits())
		if err != nil {
			st.bridge.Logger.Warn("a task stream cannot read its task", "error", err)
			return false
		}
		if len(events) == 0 {
			return !st.bridge.erased(ctx, st.at.State.ConversationID())
		}
		if !st.mayRead(ctx) {
			return false
		}
		if !st.deliver(ctx, conn, events) {
			return false
		}
	}
}

// fitsFor reserves memory for the messages of events before more of them are read, at most
// that of a page.
func fitsFor(c *rest.Call) query.Fits {
	size := rest.PageFrame
	return func(r *record.Message) (bool, error) {
		n := content.Size(r)
		if size += n; size > parley.PageBytesMax && size > n+rest.PageFrame {
			return false, nil
		}
		return true, c.Reserve(size)
	}
}

// fits is fitsFor for a stream, which holds each message and what it writes of it.
func (st *taskStream) fits() query.Fits {
	size := streamBytes
	return func(r *record.Message) (bool, error) {
		n := 2 * content.Size(r)
		if size += n; size > parley.PageBytesMax && size > n+streamBytes {
			return false, nil
		}
		if !st.hold.Grow(size) {
			return false, rest.ErrHeld
		}
		return true, nil
	}
}

// complete reports whether everything was written that this stream has to write.
func (st *taskStream) complete() bool {
	return st.at.State.Terminal() || st.brief && interrupted(st.at.State.GetStatus())
}

// deliver writes events and records that their messages were transferred. It returns false
// if the stream ends.
func (st *taskStream) deliver(ctx context.Context, conn net.Conn, events []query.ConversationEvent) bool {
	var transferred []query.Message
	var b []byte
	ended := false
	for i := range events {
		e := &events[i]
		if e.Message != nil {
			if st.passed(e.Message.Record, e.Lone); e.Message.Record.Sender() == st.view.responder {
				transferred = append(transferred, *e.Message)
			}
		}
		what := st.view.update(e, st.last, st.at.State.GetTask())
		if what == nil {
			continue
		}
		var err error
		if b, err = st.event(b, e.Number, what); err != nil {
			return false
		}
		if ended = st.brief && interrupted(e.Status); ended {
			break // also if the task has gone on meanwhile
		}
	}
	if !st.hold.Grow(streamBytes+cap(b)+connlimit.SendBytes) || len(b) > 0 && !st.write(conn, b) {
		return false
	}
	st.hold.Shrink(streamBytes)
	if err := st.bridge.Transferred(ctx, st.bridge.Clock(), transferred); err != nil {
		st.bridge.Logger.Warn("messages of a task were transferred and could not be marked", "error", err)
	}
	return !ended
}
