package api

import (
	"fmt"
	"slices"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// readFaults checks an inbox, newest first, in which exactly the oldest n messages must
// be read.
func readFaults(rows []obj, n int) (faults []string) {
	missed, beyond, unmarked := 0, 0, 0
	for i, m := range rows {
		read, should := m["status"] == "read", len(rows)-i <= n
		switch {
		case should && !read:
			missed++
		case !should && read:
			beyond++
		}
		if read != (m["read_at"] != nil) || read && m["delivered_at"] == nil {
			unmarked++
		}
	}
	for what, count := range map[string]int{"are not marked": missed, "beyond are marked": beyond, "have marks that do not fit": unmarked} {
		if count > 0 {
			faults = append(faults, fmt.Sprintf("%d of %d %s", count, len(rows), what))
		}
	}
	return faults
}

// TestReadFaultsControl plants one wrong receipt at a time.
func TestReadFaultsControl(t *testing.T) {
	t.Parallel()
	inbox := func() (rows []obj) { // newest first: two unread, then three read
		for i := range 5 {
			if i < 2 {
				rows = append(rows, obj{"status": "delivered", "delivered_at": "d", "read_at": nil})
			} else {
				rows = append(rows, obj{"status": "read", "delivered_at": "d", "read_at": "r"})
			}
		}
		return rows
	}
	for what, c := range map[string]struct {
		spoil func(rows []obj)
		sound bool
	}{
		"as it should be":    {func([]obj) {}, true},
		"the last missed":    {func(rows []obj) { rows[2] = rows[0] }, false},
		"one between missed": {func(rows []obj) { rows[3] = rows[0] }, false},
		"one beyond":         {func(rows []obj) { rows[1] = rows[4] }, false},
		"read, no time":      {func(rows []obj) { rows[4]["read_at"] = nil }, false},
		"not read, a time":   {func(rows []obj) { rows[0]["read_at"] = "r" }, false},
		"never delivered":    {func(rows []obj) { rows[4]["delivered_at"] = nil }, false},
	} {
		rows := inbox()
		if c.spoil(rows); (len(readFaults(rows, 3)) == 0) != c.sound {
			t.Errorf("%s: %q", what, readFaults(rows, 3))
		}
	}
}

// TestAckUpToOfVeryMany: one acknowledgement covers more messages than fit one journal
// entry. It marks all messages up to the named one as read, and none after it.
func TestAckUpToOfVeryMany(t *testing.T) {
	const senders, each, upTo = 15, 200, 2700
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals)
		b := s.Org(t).Agent("reader")
		authors := s.Org(t).NewAgents(senders, "sender")
		for _, sent := range kit.Concurrently(senders, func(i int) *kit.Answer {
			for n := range each - 1 {
				if a := authors[i].TrySend(b, nil); a.Status != 201 {
					return a.As("message %d", n)
				}
			}
			return authors[i].TrySend(b, nil)
		}) {
			sent.Want(201)
		}
		order := kit.IDs(b.Everything())
		slices.Reverse(order)
		if len(order) != senders*each {
			t.Fatalf("%d messages arrived, want %d", len(order), senders*each)
		}
		unread := func(beyondItems int) {
			t.Helper() // reports at most 1,000
			a := b.Get(b.Path("/wait?timeout_ms=1000&after=") + kit.NilUUID).Want(200)
			a.Is("unread", min(1000, beyondItems), "after", order[19]) // the items are the first ones, read or not
		}
		unread(senders*each - 20)
		b.Get("/messages/" + order[10]).Want(200) // already read: not counted again
		b.Acked(obj{"up_to": order[upTo-1]}, upTo-1)
		kit.Report(t, "acknowledged", readFaults(b.Everything(), upTo))
		b.Acked(obj{"up_to": order[upTo-1]}, 0)
		b.Acked(obj{"up_to": order[0]}, 0)
		unread(senders*each - upTo)
		s.Kill()
		s.Restart(t)
		kit.Report(t, "after a crash", readFaults(b.Everything(), upTo))
		b.Acked(obj{"up_to": order[len(order)-1]}, senders*each-upTo)
		b.Acked(obj{"up_to": order[len(order)-1]}, 0)
		kit.Report(t, "all acknowledged", readFaults(b.Everything(), senders*each))
		unread(0)
	})
}
