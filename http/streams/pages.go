package streams

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"parley/client/parley"
	"parley/journal"
)

const (
	// pagesPerAgent and pagesBytes bound what is kept of one agent's feed and of all
	// feeds, each twice: for the current second and for the last.
	pagesPerAgent = 16
	pagesBytes    = 16 << 20
	// pageOverhead and eventOverhead estimate the bytes that a page and an event take
	// besides their content.
	pageOverhead, eventOverhead = 256, 128
)

var errPageFailed = errors.New("a page of a feed could not be rendered")

// pageCache keeps the pages that lagging streams have read last. The streams of an agent
// fall behind together, so what the first one reads and renders is sent on the others
// unchanged. All streams of an agent belong to its owner, so they see the same.
//
// A page is kept for two seconds at most.
type pageCache struct {
	mu         sync.Mutex
	young, old map[parley.AgentID][]*page
	bytes      int    // of young
	begun      uint64 // pages so far
}

// page holds the events of the positions (from, to] of an agent's feed. Once it is ready,
// nothing of it changes but marked.
type page struct {
	number   uint64 // in the order in which their reads began
	from, to uint64 // to is 0 until the page has been read; guarded by the mu of pages
	bytes    []byte
	events   []pageEvent
	ready    chan struct{}
	err      error
}

type pageEvent struct {
	position uint64
	end      int // in the page's bytes
	// receipt is the receipt to record for a message once it is written; it names no
	// message if that is transferred already. marked is set by the first stream that
	// records it.
	receipt  journal.RecordReceipt
	recorded atomic.Bool
}

// now returns the number of the last page whose read has begun. Later pages include
// everything written before now was called.
func (s *pageCache) now() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

// at returns a page of what follows position from, whose read began later than the page
// since. The first caller reads it, the others wait. read fills the page in and returns
// the last position.
func (s *pageCache) at(agent parley.AgentID, from, since uint64, read func(*page) (to uint64, err error)) (*page, error) {
	s.mu.Lock()
	p := find(s.young[agent], from, since)
	if p == nil {
		p = find(s.old[agent], from, since)
	}
	if p != nil {
		s.mu.Unlock()
		<-p.ready
		return p, p.err
	}
	s.begun++
	p = &page{number: s.begun, from: from, ready: make(chan struct{}), err: errPageFailed}
	list := s.young[agent]
	if len(list) == pagesPerAgent {
		list = slices.Delete(list, 0, 1)
	}
	if s.young == nil {
		s.young = map[parley.AgentID][]*page{}
	}
	s.young[agent] = append(list, p)
	s.mu.Unlock()
	var to uint64
	defer func() { // also if read panics
		s.keep(agent, p, to)
		close(p.ready)
	}()
	to, p.err = read(p)
	return p, p.err
}

func find(list []*page, from, since uint64) *page {
	for _, p := range list {
		if p.number <= since {
			continue
		}
		if p.from == from || (p.from < from && from < p.to) {
			return p
		}
	}
	return nil
}

// keep makes a page available to other streams, or removes it if its read failed.
func (s *pageCache) keep(agent parley.AgentID, p *page, to uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.to = to
	if p.err != nil {
		for _, kept := range []map[parley.AgentID][]*page{s.young, s.old} {
			if i := slices.Index(kept[agent], p); i >= 0 {
				kept[agent] = slices.Delete(kept[agent], i, i+1)
			}
		}
		return
	}
	if s.bytes += pageOverhead + len(p.bytes) + eventOverhead*len(p.events); s.bytes > pagesBytes {
		s.age()
	}
}

// turn drops the pages that were read before the last turn.
func (s *pageCache) turn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.age()
}

func (s *pageCache) age() {
	s.old, s.young, s.bytes = s.young, nil, 0
}

// after adds the events of a page beyond from, up to upTo, to the batch and returns their
// bytes.
func (p *page) after(g *batch, from, upTo uint64) []byte {
	start, end := 0, 0
	for i := range p.events {
		e := &p.events[i]
		switch {
		case e.position <= from:
			start = e.end
		case e.position > upTo:
			return p.bytes[start:end]
		default:
			g.events++
			if !e.receipt.Message.Zero() {
				g.transfers = append(g.transfers, transfer{receipt: e.receipt, once: &e.recorded})
			}
		}
		end = e.end
	}
	return p.bytes[start:end]
}
