package streams

import (
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"parley/client/parley"
	"parley/http/connlimit"
	"parley/http/content"
	"parley/http/limit"
	"parley/http/rest"
	"parley/journal"
)

const (
	// batchMax and bufferBytes bound the events and bytes of one write.
	batchMax    = 64
	bufferBytes = 64 << 10
	// bufferMax is the largest buffer that is kept for the next stream.
	bufferMax = 4 * bufferBytes
)

var (
	// errFull: the stream must wait for its reader.
	errFull = errors.New("the reader takes no more at present")
	// errBehind: the stream must read rows, which may wait for the disk.
	errBehind = errors.New("the feed is ahead of the stream")
	errIdle   = errors.New("idle")
)

// pumps is a queue of streams that have something to write, and the few goroutines that
// write it, the longest waiting stream first. There are two queues: one for live entries,
// which never blocks, and one for entries read from rows, which may wait for the disk. A
// stream that must wait for its reader gets a goroutine of its own until the reader has
// accepted the rest. So few goroutines compete for the processor, however many streams
// are behind.
type pumps struct {
	mu          sync.Mutex
	some        sync.Cond
	first, last *agentStream
	closed      bool
}

// start starts the given number of pumping goroutines.
func (p *pumps) start(goroutines int, pump func(*agentStream, *batch)) {
	p.some.L = &p.mu
	for range goroutines {
		go p.run(pump)
	}
}

// add queues a stream for pumping. Only the goroutine that set it to running, or that is
// pumping it, may add it.
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
		if pump(st, g); cap(g.bytes) > bufferMax {
			g.bytes = nil
		}
	}
}

// take returns the stream that has waited longest, or nil when the pumps are closed.
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

// batch is the content of one write.
type batch struct {
	bytes     []byte
	transfers []transfer
	events    int
	beat      bool // it is a heartbeat
	readsRows bool // the goroutine may read rows
	attempt   socketWriter
}

// transfer is a message in a batch.
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

// pending is what could not be written at once: the rest of a write, and entries already
// taken from the feed.
type pending struct {
	rest    batch
	entries []journal.FeedEntry
	// hold is the memory that rest takes from the budget of the stream's organization.
	hold limit.Hold
}

// pump writes until nothing is left to write or the stream must wait.
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

// passOn hands a stream over to whatever continues it after err, or ends it. The stream
// counts as lagging until it returns to the live pumps.
func (st *agentStream) passOn(err error) {
	if !st.lagging.Swap(true) {
		st.streams.count.lagging.Add(1)
	}
	switch {
	case errors.Is(err, errFull):
		if st.streams.planted.PumpsWait {
			st.awaitReader()
			return
		}
		go st.awaitReader()
	case errors.Is(err, errBehind):
		st.streams.backlog.add(st)
	default: // pumping stays set, so it is never pumped again
		st.caughtUp()
		st.end()
	}
}

func (st *agentStream) caughtUp() {
	if st.lagging.Swap(false) {
		st.streams.count.lagging.Add(-1)
	}
}

// awaitReader waits until the reader has accepted the rest.
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
		err = errBehind // the next pump finds out whether it really is behind
	}
	st.passOn(err)
}

// drain writes the pending entries of the feed, and a heartbeat if one is due.
func (st *agentStream) drain(g *batch) error {
	for {
		if st.ended.Load() {
			return net.ErrClosed
		}
		entries, behind := st.feed.Live(batchMax)
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

// send writes live entries. It keeps those that it cannot write at once as pending.
func (st *agentStream) send(g *batch, entries []journal.FeedEntry) error {
	g.empty()
	for i, e := range entries {
		alone := e.Kind.BringsMessage() && e.Record == nil && !g.readsRows
		if alone || len(g.bytes) >= bufferBytes {
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

// leave keeps entries for the goroutine that continues after err.
func (st *agentStream) leave(err error, entries []journal.FeedEntry) error {
	if st.pending == nil {
		st.pending = &pending{}
	}
	st.pending.entries = slices.Clone(entries) // other streams share them
	for i := range st.pending.entries {
		st.pending.entries[i].Record = nil // a waiting stream holds no messages: it reads them from rows
	}
	return err
}

// gatherLive adds one live entry to the batch. An entry for several streams is rendered
// once, for the first of them.
func (st *agentStream) gatherLive(g *batch, e journal.FeedEntry) error {
	if !e.Kind.BringsMessage() || !st.shares() || e.Record == nil {
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

// put writes b, the bytes of the batch. What the reader does not accept at once is kept
// as pending.
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
			hold: st.streams.Budget.Hold(rest.AccountOf(st.source.caller.Org), nil),
		}
		g.bytes, g.transfers = nil, nil
		if !st.pending.hold.Grow(cap(b) + connlimit.SendBytes) { // the socket is full
			return rest.ErrHeld // the client resumes by id
		}
		return errFull
	}
	err := st.written(g)
	g.empty()
	return err
}

// written records what was sent: only that counts as transferred. The last heartbeat of a
// series ends the stream.
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
			at = st.streams.Clock().UnixMilli()
		}
		c.receipt.Receipts.TransferredAt, c.receipt.Receipts.TransferredBy = at, journal.StreamChannel
		st.streams.Node.Receipts.RecordSoon(c.receipt)
	}
	return nil
}

// heartbeat writes a heartbeat if one is due.
func (st *agentStream) heartbeat(g *batch) error {
	if !st.beat.Swap(false) {
		return nil
	}
	g.empty()
	g.beat = true
	g.bytes = content.AppendTime(append(g.bytes, "event: heartbeat\ndata: {\"timestamp\":"...), st.streams.Clock())
	g.bytes = append(g.bytes, "}\n\n"...)
	return st.put(g, g.bytes)
}
