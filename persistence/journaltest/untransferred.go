package journaltest

import (
	"encoding/binary"
	"math"

	"parley/client/parley"
	"parley/journal"
)

// untransferred returns the untransferred messages of a feed, read in three ways that
// must agree.
func (r *reads) untransferred(agent parley.AgentID, from uint64) []string {
	var all []string
	r.view(func(v journal.View) {
		told, _, err := v.Untransferred(agent, from, math.MaxInt, func(position uint64, id parley.MessageID) bool {
			all = append(all, line(position, id))
			return true
		})
		r.must(err)
		r.expect("up to where all is told", told, ^uint64(0))
		r.expect("what a scan of the feed finds", all, r.scanUntransferred(v, agent, from))
	})
	r.untransferredInPieces(agent, from, all)
	return all
}

// scanUntransferred finds the untransferred messages entry by entry: those beyond the
// position in TransferredTable whose receipts say nothing of a transfer.
func (r *reads) scanUntransferred(v journal.View, agent parley.AgentID, from uint64) (all []string) {
	r.Helper()
	cursor, _, err := v.Row(agent.Slot(), journal.TransferredTable, agent[:])
	r.must(err)
	upTo := uint64(0)
	if len(cursor) == 8 {
		upTo = binary.BigEndian.Uint64(cursor)
	}
	r.must(v.Feed(agent, 0, ^uint64(0), func(e journal.FeedEntry) bool {
		if e.Position <= upTo || e.Position < from || e.Kind != journal.MessageEntry && e.Kind != journal.CopyEntry {
			return true
		}
		receipts, err := v.Receipts(journal.RecordReceipt{Recipient: agent, Position: e.Position})
		r.must(err)
		if receipts.TransferredAt == 0 && receipts.ReadAt == 0 {
			all = append(all, line(e.Position, parley.MessageID(e.Ref)))
		}
		return true
	}))
	return all
}

// untransferredInPieces compares reads that each examine a few entries of the feed
// with one read of all of it.
func (r *reads) untransferredInPieces(agent parley.AgentID, from uint64, want []string) {
	r.Helper()
	r.view(func(v journal.View) {
		for _, rows := range []int{1, 2, 3} {
			var all []string
			for at, pieces := from, 0; ; pieces++ {
				last := uint64(0)
				told, read, err := v.Untransferred(agent, at, rows, func(position uint64, id parley.MessageID) bool {
					all, last = append(all, line(position, id)), position
					return true
				})
				r.must(err)
				if told == ^uint64(0) {
					break
				}
				looked := 0
				r.must(v.Inbox(agent, max(at, 1)-1, told, func(journal.FeedEntry) bool { looked++; return true }))
				r.expect("a piece ends where all before is told", last <= told && told >= at, true)
				r.expect("entries read", read, rows)
				if at > 0 && looked != rows || pieces > 1000 {
					r.Fatalf("a piece of %d entries from %d goes up to %d, which are %d", rows, at, told, looked)
				}
				at = told + 1
			}
			r.expect(line("in pieces of", rows), all, want)
		}
	})
}
