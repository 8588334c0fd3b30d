package http

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"parley"
	"parley/journal"
)

const (
	// pagesPerAgent and pagesBytes bound what is kept of one agent's feed and of all
	// together, each twice: of this second and of the last.
	pagesPerAgent = 16
	pagesBytes    = 16 << 20
	// pageOverhead is about what a page and an event take besides their bytes.
	pageOverhead, eventOverhead = 256, 128
)

var errPageFailed = errors.New("a page of a feed could not be rendered")

// pageCache keeps what streams that are behind have read last. The streams of an
// agent fall behind together, and what the first reads and renders goes out on
// the others as it is. All streams of an agent are its owner's, so they see the
// same.
//
// A page is kept for two seconds at most.
type pageCache struct {
	mu         sync.Mutex
	young, old map[parley.AgentID][]*page
	bytes      int    // of young
	begun      uint64 // pages so far
}

// page is the events of a piece of an agent's feed, of the positions (from, to].
// Once it is ready nothing of it changes but marked.
type page struct {
	number   uint64 // among all pages, as their reading began
	from, to uint64 // to is 0 until the page was read; set under the mu of pages
	bytes    []byte
	events   []pageEvent
	ready    chan struct{}
	err      error
}

type pageEvent struct {
	position uint64
	end      int // in the page's bytes
	// receipt is what a message is to be noted as carried with, unless it is already
	// (it names no message then); marked is set by the first stream that does so.
	receipt  journal.RecordReceipt
	recorded atomic.Bool
}

// now is the number of the last page of which the reading has begun: later ones
// show whatever was written before now.
func (s *pageCache) now() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

// at gives one with what follows the position from, later than the page since.
// The first who asks for it reads it, the others wait for that. read fills the
// page in and says how far it came.
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
	defer func() { // also where read panics
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

// keep has a page that was read found by others, or by nobody if that failed.
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

// turn lets go what was read before the last turn.
func (s *pageCache) turn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.age()
}

func (s *pageCache) age() {
	s.old, s.young, s.bytes = s.young, nil, 0
}

// after gathers the events of a page beyond from, up to upTo, and gives their
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
