package streams

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"parley/client/parley"
)

// asked returns how often pages are read for a hundred streams at the given number of
// positions.
func asked(t *testing.T, positions int) int64 {
	var s pageCache
	var count atomic.Int64
	var asking sync.WaitGroup
	for i := range 100 {
		asking.Go(func() {
			from := uint64(i % positions * 10)
			p, err := s.at(parley.AgentID{1}, from, 0, func(p *page) (uint64, error) {
				count.Add(1)
				p.bytes = fmt.Append(nil, from)
				return from + 10, nil
			})
			if err != nil || string(p.bytes) != fmt.Sprint(from) {
				t.Errorf("position %d: %v", from, err)
			}
		})
	}
	asking.Wait()
	return count.Load()
}

func TestCachedPageIsReadOnce(t *testing.T) {
	if n := asked(t, 1); n != 1 {
		t.Errorf("one page for a hundred streams is read %d times", n)
	}
	if n := asked(t, pagesPerAgent); n != pagesPerAgent {
		t.Errorf("%d pages are read %d times", pagesPerAgent, n)
	}
}

// TestPageCacheHits: a cached page serves a stream of the same agent whose position it
// contains, for a limited time, if reading it succeeded and began no earlier than the
// stream requires.
func TestPageCacheHits(t *testing.T) {
	var s pageCache
	one, failed, reads, since := parley.AgentID{1}, errors.New("failed"), 0, uint64(0)
	read := func(to uint64, err error) func(*page) (uint64, error) {
		return func(*page) (uint64, error) { reads++; return to, err }
	}
	ask := func(agent parley.AgentID, from uint64, to uint64, err error, anew bool) {
		t.Helper()
		before := reads
		if _, got := s.at(agent, from, since, read(to, err)); !errors.Is(got, err) || (reads > before) != anew {
			t.Errorf("from %d: %v, read anew: %v", from, got, reads > before)
		}
	}
	ask(one, 10, 20, failed, true)
	ask(one, 10, 20, nil, true)
	ask(one, 10, 20, nil, false)
	ask(one, 19, 30, nil, false)
	since = s.now() // it may lack what was written since
	ask(one, 10, 20, nil, true)
	ask(one, 10, 20, nil, false)
	ask(one, 20, 30, nil, true)
	ask(one, 9, 10, nil, true)
	ask(parley.AgentID{2}, 10, 20, nil, true)
	s.turn()
	ask(one, 10, 20, nil, false)
	s.turn()
	ask(one, 10, 20, nil, true)
	for n := range uint64(pagesPerAgent) {
		ask(one, 100*n+100, 100*n+110, nil, true)
	}
	ask(one, 10, 20, nil, true) // it was displaced by others
	func() {
		defer func() { _ = recover() }()
		_, _ = s.at(one, 5000, since, func(*page) (uint64, error) { panic("a defect") })
	}()
	ask(one, 5000, 5010, nil, true)
}

func TestPagesAreBounded(t *testing.T) {
	var s pageCache
	kept := func() (n int) {
		for _, generation := range []map[parley.AgentID][]*page{s.young, s.old} {
			for _, list := range generation {
				for _, p := range list {
					n += len(p.bytes)
				}
			}
		}
		return n
	}
	for n := range 1000 {
		_, _ = s.at(parley.AgentID{byte(n), byte(n >> 8)}, 1, 0, func(p *page) (uint64, error) { p.bytes = make([]byte, 64<<10); return 2, nil })
		if kept := kept(); kept > 2*pagesBytes {
			t.Fatalf("%d pages hold %d bytes", n, kept)
		}
	}
	if kept := kept(); kept < pagesBytes/2 {
		t.Errorf("only %d bytes are kept", kept)
	}
}
