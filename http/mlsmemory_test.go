package http

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"parley/client/parley"
	"parley/http/limit"
	"parley/http/mls/mlstest"
	"parley/journal"
)

// rowCounter counts the reads of the long rows of MLS groups.
type rowCounter struct {
	journal.View
	reads *atomic.Int64
}

func (v rowCounter) Row(slot parley.Slot, table journal.Table, key []byte) ([]byte, bool, error) {
	switch table {
	case journal.MLSCommitTable, journal.MLSGroupInfoTable, journal.MLSWelcomeTable:
		v.reads.Add(1)
	}
	return v.View.Row(slot, table, key)
}

// TestMLSReadsHaveABudget: a reader of MLS objects is refused before their rows are read if
// the budget has no room for its copies of them. Without a bound it is answered.
func TestMLSReadsHaveABudget(t *testing.T) {
	g := newGroupHarness(t)
	id := g.group("sealed", "")
	const padding = 300_000
	text := base64.RawURLEncoding.EncodeToString
	g.first.ask("POST", "/groups/"+id+"/mls/commits", fmt.Sprintf(`{"epoch":0,"commit":%q,"group_info":%q}`,
		text(mlstest.Commit{Group: id, Padding: padding}.Message()), text(mlstest.GroupInfo{Group: id, Epoch: 1, Padding: padding}.Message())), as("ann")).want(201)
	reads := &atomic.Int64{}
	wrap := func(v journal.View) journal.View { return journal.ViewOf(rowCounter{v, reads}) }
	g.journal.wrapView.Store(&wrap)
	const readers = 16
	for _, path := range []string{"/mls/group-info", "/mls/commits"} {
		for _, c := range []struct {
			total  int64
			status int
		}{{9 << 20, 503}, {1 << 30, 200}} {
			reads.Store(0)
			budget := limit.NewBudget(c.total)
			g.setBudget(budget)
			var all sync.WaitGroup
			for range readers {
				all.Go(func() {
					a := g.first.ask("GET", "/groups/"+id+path, "", as("ann"))
					if a.want(c.status); c.status == 503 && !strings.Contains(string(a.raw), `"overloaded"`) {
						t.Errorf("%s: %s", path, a.raw)
					}
				})
			}
			all.Wait()
			s := budget.Stats()
			if c.status == 503 && (reads.Load() != 0 || s.Refused != readers) {
				t.Errorf("%s: %d rows were read for %d refused requests", path, reads.Load(), s.Refused)
			}
			if c.status == 200 && (reads.Load() != readers || s.Peak < 3*padding) {
				t.Errorf("%s: %d rows were read, and at most %d bytes were counted", path, reads.Load(), s.Peak)
			}
		}
	}
}
