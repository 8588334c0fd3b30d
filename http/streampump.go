package http

import (
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"parley"
	"parley/http/limit"
	"parley/http/rest"
	"parley/journal"
)

const (
	// streamBatch and streamBuffer bound what is gathered into one write.
	streamBatch  = 64
	streamBuffer = 64 << 10
	// streamBufferMax is the largest buffer that is kept for the next stream.
	streamBufferMax = 4 * streamBuffer
)

var (
	// errFull: the reader is to be waited for.
	errFull = errors.New("the reader takes no more at present")
	// errBehind: rows are to be read, which may wait for the disk.
	errBehind = errors.New("the feed is ahead of the stream")
	errIdle   = errors.New("idle")
)

// pumps are streams that have something to write, and the few goroutines that
// write it, the longest waiting first. There are two: one for what comes live,
// which waits for nothing, and one for what is read from rows, which may wait for
// the disk. Where a reader is to be waited for, the stream gets a goroutine of its
// own until the reader has taken what was left; so however many streams are
// behind, few want the processor at once.
type pumps struct {
	mu          sync.Mutex
	some        sync.Cond
	first, last *agentStream
	closed      bool
}

// start begins to pump, with so many goroutines.
func (p *pumps) start(goroutines int, pump func(*agentStream, *batch)) {
	p.some.L = &p.mu
	for range goroutines {
		go p.run(pump)
	}
}

// add has a stream pumped. Only who has made it running, or has it in hand, may
// add it.
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

func (p *pumps) run(pump func(*agentStream, *batch)) {
	g := newBatch()
	for st := p.take(); st != nil; st = p.take() {
		if pump(st, g); cap(g.bytes) > streamBufferMax {
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

// batch is what goes out in one write.
type batch struct {
	bytes     []byte
	transfers []transfer
	events    int
	beat      bool // it is a heartbeat
	readsRows bool // the goroutine may read rows
	attempt   socketWriter
}

// transfer is a message among what is gathered.
type transfer struct {
	receipt journal.RecordReceipt
	// once is set by the first of several streams that records the receipt.
	once *atomic.Bool
}

func newBatch() *batch {
	g := &batch{}
	g.attempt.prepare()
	return g
}

func (g *batch) empty() {
	g.bytes, g.transfers, g.events, g.beat = g.bytes[:0], g.transfers[:0], 0, false
}

// pending is what could not be written at once: the rest of a write, and entries
// that the feed has given already.
type pending struct {
	rest    batch
	entries []journal.FeedEntry
	// hold is what rest counts for the stream's organization.
	hold limit.Hold
}

// pump writes until there is nothing left to write, or something is to be waited
// for.
func (st *agentStream) pump(g *batch) {
	defer st.contain()
	for {
		if err := st.drain(g); err != nil {
			st.passOn(err)
			return
		}
		if st.pumping.CompareAndSwap(pumpRunning, pumpIdle) {
			return
		}
		st.pumping.Store(pumpRunning)
	}
}

// passOn leaves a stream to who can go on with it after err, or ends it. Until
// it comes back to the live pumps it counts as lagging.
func (st *agentStream) passOn(err error) {
	if !st.lagging.Swap(true) {
		st.streams.count.lagging.Add(1)
	}
	switch {
	case errors.Is(err, errFull):
		go st.awaitReader()
	case errors.Is(err, errBehind):
		st.streams.backlog.add(st)
	default: // pumping stays set: nobody pumps it again
		st.caughtUp()
		st.end()
	}
}

func (st *agentStream) caughtUp() {
	if st.lagging.Swap(false) {
		st.streams.count.lagging.Add(-1)
	}
}

// awaitReader waits until the reader has taken what was left.
func (st *agentStream) awaitReader() {
	defer st.contain()
	rest := &st.pending.rest
	err := st.await(rest.bytes)
	st.pending.hold.Release()
	if err == nil {
		err = st.written(rest)
	}
	if err == nil {
		st.pending.rest = batch{}
		err = errBehind // or else it soon turns out that it is not
	}
	st.passOn(err)
}

// drain writes what the feed has, and a heartbeat where one is due.
func (st *agentStream) drain(g *batch) error {
	for {
		if st.ended.Load() {
			return net.ErrClosed
		}
		entries, behind := st.feed.Live(streamBatch)
		switch {
		case behind:
			return errBehind
		case len(entries) == 0:
			return st.heartbeat(g)
		default:
			if err := st.send(g, entries); err != nil {
				return err
			}
		}
	}
}

// send writes entries that came live. Those that it cannot write at once it
// keeps as late.
func (st *agentStream) send(g *batch, entries []journal.FeedEntry) error {
	g.empty()
	for i, e := range entries {
		alone := e.Kind.BringsMessage() && e.Record == nil && !g.readsRows
		if alone || len(g.bytes) >= streamBuffer {
			if err := st.put(g, g.bytes); err != nil {
				return st.leave(err, entries[i:])
			}
		}
		if alone {
			return st.leave(errBehind, entries[i:])
		}
		if err := st.gatherLive(g, e); err != nil {
			return err
		}
	}
	return st.put(g, g.bytes)
}

// leave keeps entries for who goes on after err.
func (st *agentStream) leave(err error, entries []journal.FeedEntry) error {
	if st.pending == nil {
		st.pending = &pending{}
	}
	st.pending.entries = slices.Clone(entries) // others share them
	for i := range st.pending.entries {
		st.pending.entries[i].Record = nil // a stream that waits holds no messages: it reads them from rows
	}
	return err
}

// gatherLive gathers one entry that came live. What goes to several streams is
// rendered for the first of them.
func (st *agentStream) gatherLive(g *batch, e journal.FeedEntry) error {
	if !e.Kind.BringsMessage() || st.readers.size.Load() == 1 || e.Record == nil {
		return st.source.render(g, e)
	}
	shared, err := st.streams.rendered.event(st.source.agent, e.Position, func() (b []byte, sender parley.AgentID, err error) {
		var own batch
		err = st.source.render(&own, e)
		for _, c := range own.transfers {
			sender = c.receipt.Sender
		}
		return own.bytes, sender, err
	})
	if err != nil {
		return err
	}
	g.bytes = append(g.bytes, shared.bytes...)
	g.events++
	g.transfers = append(g.transfers, transfer{receipt: st.source.receiptOf(e, shared.sender), once: &shared.recorded})
	return nil
}

// put writes b, which is what was gathered. What the reader does not take at
// once is kept as late.
func (st *agentStream) put(g *batch, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	n := 0
	if st.socket != nil {
		var err error
		if n, err = g.attempt.write(st.socket, b); err != nil {
			return err
		}
	}
	if n < len(b) {
		st.pending = &pending{
			rest: batch{bytes: b[n:], transfers: g.transfers, events: g.events, beat: g.beat},
			hold: st.streams.service.Budget.Hold(st.source.caller.Account(), nil),
		}
		g.bytes, g.transfers = nil, nil
		if !st.pending.hold.Grow(cap(b)) {
			return rest.ErrHeld // the client resumes by id
		}
		return errFull
	}
	err := st.written(g)
	g.empty()
	return err
}

// written notes what is out: only that counts as carried. The last heartbeat of
// a row ends the stream.
func (st *agentStream) written(g *batch) error {
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
	for _, c := range g.transfers {
		if c.once != nil && c.once.Swap(true) {
			continue
		}
		if at == 0 {
			at = st.streams.service.Clock().UnixMilli()
		}
		c.receipt.Receipts.TransferredAt, c.receipt.Receipts.TransferredBy = at, journal.StreamChannel
		st.streams.service.Node.Receipts.RecordSoon(c.receipt)
	}
	return nil
}

// heartbeat writes one if it is due.
func (st *agentStream) heartbeat(g *batch) error {
	if !st.beat.Swap(false) {
		return nil
	}
	g.empty()
	g.beat = true
	g.bytes = appendTime(append(g.bytes, "event: heartbeat\ndata: {\"timestamp\":"...), st.streams.service.Clock())
	g.bytes = append(g.bytes, "}\n\n"...)
	return st.put(g, g.bytes)
}
