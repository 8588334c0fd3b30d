package cluster

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence"
)

// nobody is no member.
const nobody = -1

// failover is three replicas under load, one of which may be out of reach.
type failover struct {
	*group
	b *testing.B
	// out is the member that nobody reaches, and that reaches nobody.
	out atomic.Int64
	// stored receives the member that stored an entry, if somebody waits.
	stored chan int
}

// BenchmarkFailover has 64 writers append to three replicas on one disk, and takes the leader
// away from the others in each round, as if it had died. It reports how long it takes until
// another one has stored something. Run it with -benchtime 50x.
func BenchmarkFailover(b *testing.B) {
	s := &replicas{t: b, journals: 1, dir: b.TempDir(), tune: func(o *persistence.Options) {
		o.Clock, o.FreeBytesMin = time.Now, -1
	}}
	for range 3 {
		s.disks = append(s.disks, vfs.Default)
	}
	f := &failover{group: s.openAll(), b: b, stored: make(chan int)}
	f.out.Store(nobody)
	f.network.Lost = func(from, to uint64) bool {
		out := uint64(f.out.Load() + 1)
		return from != to && (from == out || to == out)
	}
	defer func() { _ = f.Close() }()
	if err := f.Start(ignoreQueue, ignoreTimer); err != nil {
		b.Fatal(err)
	}
	over := make(chan struct{})
	var writing sync.WaitGroup
	for n := range 64 {
		writing.Go(func() { f.write(n, over) })
	}
	var took []time.Duration
	for b.Loop() {
		took = append(took, f.round())
	}
	close(over)
	writing.Wait()
	slices.Sort(took)
	for _, p := range []int{50, 99, 100} {
		b.ReportMetric(float64(took[(len(took)-1)*p/100].Milliseconds()), fmt.Sprintf("p%d-ms", p))
	}
}

// write appends one entry after the other, to a member that leads and is within reach.
func (f *failover) write(writer int, over chan struct{}) {
	value := make([]byte, 1024)
	for i := 0; ; i++ {
		n := f.leading() // the one that is away believes that it leads, for a while
		if n < 0 || int64(n) == f.out.Load() {
			n = (n + 1) % 3 // perhaps this one leads as well
		}
		released := make(chan error, 1)
		f.stores[n].Append(&journal.Entry{
			Slot:    parley.Slot(writer),
			Rows:    []journal.Row{{Slot: parley.Slot(writer), Table: journal.OnceTable, Key: fmt.Appendf(nil, "%d/%d", writer, i), Value: value}},
			At:      time.Now(),
			Release: func(err error) { released <- err },
		})
		select {
		case err := <-released:
			if err != nil {
				time.Sleep(time.Millisecond)
				continue
			}
			select {
			case f.stored <- n:
			default:
			}
		case <-time.After(20 * time.Millisecond): // the member is away
		case <-over:
			return
		}
		select {
		case <-over:
			return
		default:
		}
	}
}

// round takes the leader away and brings it back.
func (f *failover) round() time.Duration {
	lost := f.leads(f.b)
	for n := range f.stored {
		if n == lost {
			break
		}
	}
	began := time.Now()
	f.out.Store(int64(lost))
	for n := range f.stored {
		if n != lost {
			break
		}
	}
	took := time.Since(began)
	f.out.Store(nobody)
	time.Sleep(500 * time.Millisecond)
	return took
}
