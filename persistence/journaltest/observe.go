package journaltest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"parley/client/parley"
	"parley/journal"
)

// changes records what an observer gets.
type changes struct {
	mu   sync.Mutex
	seen []string
}

func (c *changes) add(x journal.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, fmt.Sprintf("%d %s %s", x.Table, x.Key, x.Stream.ID))
}

// has reports whether a change was reported.
func (c *changes) has(table journal.Table, key string, s journal.Stream) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.seen, fmt.Sprintf("%d %s %s", table, key, s.ID))
}

func testObserver(r *rig) {
	var all changes
	stop := r.Journal.Observe(journal.Observer{
		Tables: []journal.Table{journal.ClientTable, journal.RosterTable}, Streams: []journal.StreamKind{journal.OrgStream}, Changed: all.add,
	})
	a, none := r.appender(r.stream(near), 0), journal.Stream{}
	org := journal.Stream{Kind: journal.OrgStream, ID: r.stream(near2).ID}
	far := row(far, journal.ClientTable, "far", "there")
	a.mustAppend(&journal.Entry{
		Rows: []journal.Row{row(near, journal.RosterTable, "near", "there"), row(near, journal.NameTable, "unobserved", "there")},
		Effects: []journal.Effect{
			journal.PutRow{Row: far}, journal.CreateStream{Stream: org, Events: []journal.StoredEvent{storedEvent("x")}, State: []byte("x")},
		},
	})
	// The change in another home is reported there too, once it is applied.
	r.must(r.Journal.Settle(context.Background()))
	r.expect("a row", r.row(far.Slot, journal.ClientTable, "far"), "there")
	for _, want := range []struct {
		table journal.Table
		key   string
		s     journal.Stream
	}{{journal.RosterTable, "near", none}, {journal.ClientTable, "far", none}, {0, "", org}} {
		r.until(fmt.Sprintf("the change of table %d, %q, stream %s is reported", want.table, want.key, want.s.ID), func() bool {
			return all.has(want.table, want.key, want.s)
		})
	}
	if all.has(journal.NameTable, "unobserved", none) {
		r.Error("a change of another table was reported")
	}
	a.mustAppend(&journal.Entry{Rows: []journal.Row{{Slot: near, Table: journal.RosterTable, Key: []byte("near"), Delete: true}}})
	if all.mu.Lock(); len(all.seen) < 2 || all.seen[len(all.seen)-1] != fmt.Sprintf("%d near %s", journal.RosterTable, parley.AnyID{}) {
		r.Errorf("a deletion was not reported: %q", all.seen)
	}
	all.mu.Unlock()
	hosted := journal.Stream{Kind: journal.OrgStream, ID: r.stream(near).ID}
	a.mustAppend(&journal.Entry{Hosted: []journal.StreamAppend{streamAppend(hosted, 0, "hosted")}})
	if !all.has(0, "", hosted) {
		r.Error("the state of a hosted stream was not reported")
	}
	stop()
	a.mustAppend(&journal.Entry{Rows: []journal.Row{row(near, journal.RosterTable, "late", "there")}})
	if all.has(journal.RosterTable, "late", none) {
		r.Error("a change was reported to an observer that had stopped")
	}
}
