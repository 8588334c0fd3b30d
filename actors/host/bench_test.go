package host

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"parley/client/parley"
	"parley/journal"
)

// BenchmarkIdleActor measures the memory of an idle actor without its state. It
// measures once, regardless of b.N.
func BenchmarkIdleActor(b *testing.B) {
	const actors = 100_000
	e, _ := newEngine(b, 1)
	streams := make([]journal.Stream, actors)
	for i := range streams {
		streams[i] = journal.Stream{Kind: journal.OrgStream, ID: parley.AnyID{0: byte(i >> 16), 6: 0x70, 8: 0x80, 14: byte(i >> 8), 15: byte(i)}}
		e.journal.Writer.(*fakeJournal).stream(streams[i]).events = []journal.StoredEvent{{Tag: 1, Data: []byte{7: 1}}}
	}
	before := inUse()
	for _, s := range streams {
		if sum, err := e.ask(s, look{}, nil, func() {}); sum != uint64(1) || err != nil {
			b.Fatal(fmt.Sprint(sum, err))
		}
	}
	time.Sleep(100 * time.Millisecond) // until the last of them stop running
	b.ReportMetric((inUse()-before)/actors, "B/actor")
	if n := e.live.Load(); n != actors {
		b.Fatalf("%d actors are in memory", n)
	}
	runtime.KeepAlive(streams)
}

// inUse returns the bytes of heap and stacks in use after a garbage collection.
func inUse() float64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
