package streams

import (
	"net"
)

// backlogPumps is how many goroutines per processor read rows. Some of them wait for the
// disk.
const backlogPumps = 4

// pumpStored writes what the live pumps could not, one page at a time: other streams wait
// too.
func (st *agentStream) pumpStored(g *batch) {
	defer st.contain()
	g.readsRows = true
	err := st.catchUp(g)
	if err == nil {
		if from, upTo := st.feed.Behind(); from == upTo {
			st.caughtUp()
			st.streams.pumps.add(st)
			return
		}
		err = errBehind
	}
	st.passOn(err)
}

// catchUp writes late entries, or a page of the feed's rows.
func (st *agentStream) catchUp(g *batch) error {
	if st.ended.Load() {
		return net.ErrClosed
	}
	if l := st.pending; l != nil {
		st.pending = nil
		return st.send(g, l.entries)
	}
	from, upTo := st.feed.Behind()
	if from == upTo {
		return nil
	}
	p, err := st.page(g, from, upTo)
	if err != nil {
		return err
	}
	g.empty()
	b := p.after(g, from, upTo)
	st.feed.Pass(min(p.to, upTo))
	return st.put(g, b)
}

// page returns a page of the feed's rows beyond from, up to upTo.
func (st *agentStream) page(g *batch, from, upTo uint64) (p *page, err error) {
	read := func(p *page) (to uint64, err error) { return st.source.readPage(p, from, upTo) }
	if st.shares() && from >= st.source.untransferredUpTo {
		return st.streams.pages.at(st.source.agent, from, st.since, read)
	}
	p = &page{bytes: g.bytes[:0]} // the next page may reuse them
	p.to, err = read(p)
	g.bytes = p.bytes
	return p, err
}
