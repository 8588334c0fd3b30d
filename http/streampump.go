package http

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"

	"parley"
	"parley/actors"
)

const (
	// streamBatch and streamBuffer bound what is gathered into one write.
	streamBatch  = 64
	streamBuffer = 64 << 10
	// streamBufferMax is the largest buffer that is kept for the next stream.
	streamBufferMax = 4 * streamBuffer
)

var (
	// errWouldWait: somebody who may wait has to go on.
	errWouldWait = errors.New("the disk or the reader is to be waited for")
	errIdle      = errors.New("idle")
)

// pumps are the streams that have something to write, and the few goroutines
// that write it. Those never wait, for a reader or for the disk: where that is
// needed, the stream gets a goroutine of its own until it is idle again.
type pumps struct {
	mu          sync.Mutex
	some        sync.Cond
	first, last *agentStream
	closed      bool
}

// start begins to pump, with as many goroutines as can run at once.
func (p *pumps) start() {
	p.some.L = &p.mu
	for range runtime.GOMAXPROCS(0) {
		go p.run()
	}
}

// add has a stream pumped. Only who made it running may add it.
func (p *pumps) add(st *agentStream) {
	p.mu.Lock()
	if p.first == nil {
		p.first = st
	} else {
		p.last.next = st
	}
	p.last = st
	p.mu.Unlock()
	p.some.Signal()
}

func (p *pumps) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.some.Broadcast()
}

func (p *pumps) run() {
	g := newGathering()
	for st := p.take(); st != nil; st = p.take() {
		if st.pump(g); cap(g.bytes) > streamBufferMax {
			g.bytes = nil
		}
	}
}

// take gives the stream that has waited longest; nil: there will be no more.
func (p *pumps) take() *agentStream {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.first == nil {
		if p.closed {
			return nil
		}
		p.some.Wait()
	}
	st := p.first
	p.first, st.next = st.next, nil
	if p.first == nil {
		p.last = nil
	}
	return st
}

// gathering is what goes out in one write.
type gathering struct {
	bytes   []byte
	carried []carried
	events  int
	beat    bool // it is a heartbeat
	patient bool // whoever writes it may wait
	attempt attempt
}

// carried is a message among what is gathered.
type carried struct {
	mark parley.Mark
	// once is set by the first of several streams that mark the message.
	once *atomic.Bool
}

func newGathering() *gathering {
	g := &gathering{}
	g.attempt.prepare()
	return g
}

func (g *gathering) empty() {
	g.bytes, g.carried, g.events, g.beat = g.bytes[:0], g.carried[:0], 0, false
}

// late is what could not be written without waiting: the rest of a write, and
// entries that the feed has given already.
type late struct {
	rest    gathering
	entries []parley.FeedEntry
}

// pump writes until there is nothing left to write.
func (st *agentStream) pump(g *gathering) {
	defer st.contain()
	for {
		err := st.drain(g)
		switch {
		case errors.Is(err, errWouldWait):
			go st.pumpPatiently()
			return
		case err != nil:
			st.end()
			return // pumping stays set: nobody pumps it again
		}
		if st.pumping.CompareAndSwap(pumpRunning, pumpIdle) {
			return
		}
		st.pumping.Store(pumpRunning)
	}
}

func (st *agentStream) pumpPatiently() {
	st.streams.count.lagging.Add(1)
	defer st.streams.count.lagging.Add(-1)
	g := newGathering()
	g.patient = true
	st.pump(g)
}

// drain writes what is late, what the feed has, and a heartbeat where one is due.
func (st *agentStream) drain(g *gathering) error {
	if err := st.catchUp(g); err != nil {
		return err
	}
	for {
		if st.ended.Load() {
			return net.ErrClosed
		}
		entries, behind := st.feed.Live(streamBatch)
		switch {
		case behind && !g.patient:
			return errWouldWait
		case behind:
			if err := st.sendStored(g); err != nil {
				return err
			}
		case len(entries) == 0:
			return st.heartbeat(g)
		default:
			if err := st.send(g, entries); err != nil {
				return err
			}
		}
	}
}

// catchUp writes what somebody who could not wait left behind.
func (st *agentStream) catchUp(g *gathering) error {
	l := st.late
	if l == nil {
		return nil
	}
	st.late = nil
	if len(l.rest.bytes) > 0 {
		if err := st.await(l.rest.bytes); err != nil {
			return err
		}
		if err := st.written(&l.rest); err != nil {
			return err
		}
	}
	return st.send(g, l.entries)
}

// send writes entries that came live.
func (st *agentStream) send(g *gathering, entries []parley.FeedEntry) error {
	g.empty()
	for i, e := range entries {
		if err := st.gatherLive(g, e); err != nil {
			return st.leave(err, entries[i:])
		}
		if len(g.bytes) < streamBuffer && i < len(entries)-1 {
			continue
		}
		if err := st.flush(g); err != nil {
			return st.leave(err, entries[i+1:])
		}
	}
	return nil
}

// leave keeps entries for somebody who may wait.
func (st *agentStream) leave(err error, entries []parley.FeedEntry) error {
	if !errors.Is(err, errWouldWait) {
		return err
	}
	if st.late == nil {
		st.late = &late{}
	}
	st.late.entries = entries
	return err
}

// sendStored writes what the feed has in rows.
func (st *agentStream) sendStored(g *gathering) error {
	entries, err := st.feed.Next(streamBatch)
	if err != nil {
		return err
	}
	g.empty()
	err = st.streams.service.Node.Entries(context.Background(), st.agent, entries, func(e parley.FeedEntry, m actors.Message) error {
		st.gather(g, e, m)
		if len(g.bytes) < streamBuffer {
			return nil
		}
		return st.flush(g)
	})
	if err != nil {
		return err
	}
	return st.flush(g)
}

// gather renders one entry of the feed.
func (st *agentStream) gather(g *gathering, e parley.FeedEntry, m actors.Message) {
	before := len(g.bytes)
	switch e.Kind {
	case parley.StatusEntry:
		g.bytes = appendStatusEvent(g.bytes, e)
	case parley.GroupEntry:
		g.bytes = appendGroupEvent(g.bytes, e)
	case parley.MessageEntry, parley.CopyEntry:
		if m.Marks.Carried() && e.Position <= st.unseenUpTo {
			return // carried before this stream began
		}
		if !m.Marks.Carried() {
			g.carried = append(g.carried, carried{mark: st.markOf(e, m.Record.Sender())})
		}
		g.bytes = appendMessageEvent(g.bytes, m, viewer{st.caller.Org, st.agent, st.streams.service})
	}
	if len(g.bytes) > before {
		g.events++
	}
}

func (st *agentStream) markOf(e parley.FeedEntry, sender parley.AgentID) parley.Mark {
	return parley.Mark{
		Recipient: st.agent, Message: parley.MessageID(e.Ref), Position: e.Position, Copy: e.Kind == parley.CopyEntry, Sender: sender,
	}
}

// gatherLive gathers one entry that came live. What goes to several streams is
// rendered for the first of them.
func (st *agentStream) gatherLive(g *gathering, e parley.FeedEntry) error {
	if !e.Kind.Carries() || st.audience.size.Load() == 1 || e.Record == nil {
		if e.Kind.Carries() && e.Record == nil && !g.patient {
			return errWouldWait
		}
		return st.render(g, e)
	}
	shared, err := st.streams.shelf.event(st.agent, e.Position, func() (b []byte, sender parley.AgentID, err error) {
		var own gathering
		err = st.render(&own, e)
		for _, c := range own.carried {
			sender = c.mark.Sender
		}
		return own.bytes, sender, err
	})
	if err != nil {
		return err
	}
	g.bytes = append(g.bytes, shared.bytes...)
	g.events++
	g.carried = append(g.carried, carried{mark: st.markOf(e, shared.sender), once: &shared.marked})
	return nil
}

func (st *agentStream) render(g *gathering, e parley.FeedEntry) error {
	return st.streams.service.Node.Entries(context.Background(), st.agent, []parley.FeedEntry{e}, func(e parley.FeedEntry, m actors.Message) error {
		st.gather(g, e, m)
		return nil
	})
}

// flush writes what is gathered.
func (st *agentStream) flush(g *gathering) error {
	if len(g.bytes) == 0 {
		return nil
	}
	n := 0
	if st.socket != nil {
		var err error
		if n, err = g.attempt.write(st.socket, g.bytes); err != nil {
			return err
		}
	}
	if n < len(g.bytes) {
		if !g.patient {
			st.late = &late{rest: gathering{bytes: g.bytes[n:], carried: g.carried, events: g.events, beat: g.beat}}
			g.bytes, g.carried = nil, nil
			return errWouldWait
		}
		if err := st.await(g.bytes[n:]); err != nil {
			return err
		}
	}
	err := st.written(g)
	g.empty()
	return err
}

// written notes what is out: only that counts as carried. The last heartbeat of
// a row ends the stream.
func (st *agentStream) written(g *gathering) error {
	st.touch()
	if g.beat {
		if st.beats++; st.beats >= parley.HeartbeatsBeforeClose {
			return errIdle
		}
		return nil
	}
	st.beats = 0
	st.streams.count.events.Add(uint64(g.events))
	at := int64(0)
	for _, c := range g.carried {
		if c.once != nil && c.once.Swap(true) {
			continue
		}
		if at == 0 {
			at = st.streams.service.Clock().UnixMilli()
		}
		c.mark.Marks.Delivered, c.mark.Marks.By = at, parley.StreamChannel
		st.streams.service.Node.MarkSoon(c.mark)
	}
	return nil
}

// heartbeat writes one if it is due.
func (st *agentStream) heartbeat(g *gathering) error {
	if !st.beat.Swap(false) {
		return nil
	}
	g.empty()
	g.beat = true
	g.bytes = appendTime(append(g.bytes, "event: heartbeat\ndata: {\"timestamp\":"...), st.streams.service.Clock())
	g.bytes = append(g.bytes, "}\n\n"...)
	return st.flush(g)
}

func appendStatusEvent(b []byte, e parley.FeedEntry) []byte {
	b = appendID(append(b, "event: status\ndata: {\"conversation_id\":"...), e.Ref)
	status, _ := actors.StatusNews(e.Note)
	b = appendText(append(b, `,"status":`...), status)
	return append(b, "}\n\n"...)
}

// appendGroupEvent appends what became of a group. What is not known here is not
// told.
func appendGroupEvent(b []byte, e parley.FeedEntry) []byte {
	kind, request := actors.GroupNews(e.Note)
	if kind == "" {
		return b
	}
	b = appendID(append(b, "event: group\ndata: {\"group_id\":"...), e.Ref)
	b = append(b, `,"request_id":`...)
	if request.Zero() {
		b = append(b, `null`...)
	} else {
		b = appendID(b, parley.AnyID(request))
	}
	b = appendText(append(b, `,"kind":`...), kind)
	return append(b, "}\n\n"...)
}

func appendMessageEvent(b []byte, m actors.Message, v viewer) []byte {
	b, _ = m.Record.MessageID().AppendText(append(b, "id: "...))
	b = append(b, "\nevent: message\ndata: "...)
	b = appendMessage(b, m, v)
	return append(b, "\n\n"...)
}
