package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/cluster/consensus"
	"parley/journal"
)

// handOvers is how often the leadership is handed over.
const handOvers = 30

// TestHandOverKnowsOutcomes: a leader that hands over knows what became of every entry, those
// that its loop took too late to propose among them. Of a term that ended before it was asked,
// because this machine is slow, it need not know.
func TestHandOverKnowsOutcomes(t *testing.T) {
	s := &replicas{t: t, journals: 2, dir: "group", tick: 5 * time.Millisecond, disks: []vfs.FS{vfs.NewMem(), vfs.NewMem(), vfs.NewMem()}}
	g := s.openAll()
	if err := g.Start(ignoreQueue, ignoreTimer); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	over := make(chan struct{})
	var writing sync.WaitGroup
	var mu sync.Mutex
	stored := 0
	var unknown []uint64 // terms
	for n := range 16 {
		writing.Go(func() {
			for i := uint64(0); ; i++ {
				select {
				case <-over:
					return
				default:
				}
				at := max(g.leading(), 0)
				term := g.members[at].Term()
				released := make(chan error, 1)
				g.stores[at].Append(&journal.Entry{
					Slot:    parley.Slot(n),
					Rows:    []journal.Row{{Slot: parley.Slot(n), Table: journal.OnceTable, Key: binary.BigEndian.AppendUint64([]byte{byte(n)}, i)}},
					At:      time.Now(),
					Release: func(err error) { released <- err },
				})
				err := <-released
				mu.Lock()
				if err == nil {
					stored++
				} else if errors.Is(err, parley.ErrOutcomeUnknown) {
					unknown = append(unknown, term)
				}
				mu.Unlock()
			}
		})
	}
	var asked []uint64
	for range handOvers {
		from := g.leads(t)
		term := g.members[from].Term()
		_ = g.members[from].Runner().Do(context.Background(), func(c *consensus.Core) error {
			asked = append(asked, c.Status().Leads)
			return c.Transfer(0)
		})
		eventually(t, "another term", func() bool { n := g.leading(); return n >= 0 && g.members[n].Term() != term })
		time.Sleep(10 * time.Millisecond)
	}
	close(over)
	writing.Wait()
	lost := slices.DeleteFunc(unknown, func(term uint64) bool { return term == 0 || !slices.Contains(asked, term) })
	if stored == 0 || len(lost) > 0 {
		t.Errorf("%d entries are stored; the outcome of %d is unknown, in the terms %v", stored, len(lost), lost)
	}
}
