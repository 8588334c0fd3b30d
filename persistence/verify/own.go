package verify

import (
	"bytes"
	"fmt"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/disk"
	"parley/persistence/layout"
)

// ownRows are the rows that the directory and its journals have for themselves: the format,
// commits, counters, timers and outboxes.
type ownRows struct {
	*inspection
	outboxes map[layout.Outbox]*outboxRows
}

// outboxRows are the rows of an outbox.
type outboxRows struct {
	first, last uint64
	holes       uint64
}

// directoryRow checks a row of the directory.
func (in *ownRows) directoryRow(family byte, k, value []byte) {
	where, head := fmt.Sprintf("key %x", k), layout.StoreKey(family)
	switch {
	case family == layout.FormatFamily && bytes.Equal(k, head):
		in.whole(where, value, 18)
	case family == layout.HeadFamily && bytes.HasPrefix(k, head) && len(k) == len(head)+2:
		in.whole(where, value, 16)
	default:
		in.keys.Fault(where, "no family has such keys: the row is read by nobody")
	}
}

// journalRow checks one of a journal's own rows.
func (in *ownRows) journalRow(slot parley.Slot, family byte, k, value []byte) {
	where, number := fmt.Sprintf("key %x", k), in.homes.Of(slot)
	in.owned(slot, in.homes.First(number), where)
	known := false
	switch family {
	case layout.AppliedFamily:
		if known = len(k) == 3; known {
			in.whole(where, value, layout.AppliedBytes)
		}
	case layout.GroupFamily:
		if known = len(k) == 3; known {
			if _, err := layout.DecodeGroupPosition(value); err != nil {
				in.keys.Fault(where, "%v", err)
			}
		}
	case layout.QuotaFamily:
		if _, known = layout.QuotaOf(k); known {
			in.whole(where, value, 8)
		}
	case layout.TimerFamily:
		var s journal.Stream
		if s, _, known = layout.TimerOf(k); known {
			in.whole(where, value, 0)
			in.timer(number, s)
		}
	case layout.OutboxReceivedFamily:
		var source int
		if source, known = layout.SourceOf(k); known {
			in.whole(where, value, 8)
			in.outboxReceived(layout.Outbox{Source: source, Target: number}, where)
		}
	case layout.OutboxFamily:
		var l layout.Outbox
		var n uint64
		if l, n, known = in.homes.OutboxOf(k); known {
			in.outboxMessage(l, n, where, value)
		}
	}
	if !known {
		in.keys.Fault(where, "no family has such keys: the row is read by nobody")
	}
}

// whole expects a value of size bytes.
func (in *ownRows) whole(where string, value []byte, size int) {
	in.format.Checked++
	if len(value) != size {
		in.values.Fault(where, "a value of %d bytes cannot be read, %d are expected", len(value), size)
	}
}

func (in *ownRows) timer(number int, s journal.Stream) {
	in.timers.Checked++
	switch {
	case in.homes.Of(s.Slot()) != number:
		in.timers.Fault(streamName(s), "its timer is in journal %d, where it does not live: it cannot be cancelled", number)
	case !in.exists(s):
		in.timers.Fault(streamName(s), "a timer is set for a stream that does not exist: it is woken in vain for ever")
	}
}

// outboxReceived checks that the outbox of a received number exists.
func (in *ownRows) outboxReceived(l layout.Outbox, where string) {
	if l.Source >= int(in.homes) {
		in.keys.Fault(where, "there is no %s", l)
	}
}

// outboxMessage checks one row of an outbox and counts gaps.
func (in *ownRows) outboxMessage(l layout.Outbox, n uint64, where string, value []byte) {
	if l.Target >= int(in.homes) {
		in.keys.Fault(where, "there is no %s", l)
		return
	}
	where = fmt.Sprintf("%s, message %d", l, n)
	in.outboxOrder.Checked++
	have := in.outboxes[l]
	if have == nil {
		have = &outboxRows{first: n, last: n - 1}
		in.outboxes[l] = have
	}
	have.holes += n - have.last - 1
	have.last = n
	p, err := layout.DecodeOutboxMessage(value)
	if err != nil {
		in.values.Fault(where, "it cannot be read: what it brings never arrives, and the server does not start")
		return
	}
	for _, w := range p.Effects {
		for _, home := range in.homesOf(w) {
			if home != l.Target {
				in.outboxOrder.Fault(where, "it has an effect for journal %d", home)
			}
		}
	}
}

// homesOf returns the journals that an effect is for.
func (in *ownRows) homesOf(w journal.Effect) []int {
	many, ok := w.(journal.Fanout)
	if !ok {
		return []int{in.homes.Of(w.Home())}
	}
	homes := make([]int, 0, len(many.To))
	for _, seat := range many.To {
		homes = append(homes, in.homes.Of(seat.Agent.Slot()))
	}
	return homes
}

// checkOutboxes compares the rows of each outbox with the number that its target
// has applied.
func (in *ownRows) checkOutboxes() {
	for l, rows := range in.outboxes {
		applied, err := in.received(l)
		switch {
		case err != nil:
			in.outboxOrder.Fault(l.String(), "%v", err)
		case rows.holes > 0:
			in.outboxOrder.Fault(l.String(), "of messages %d to %d, %d are missing: the target rejects the later ones, and the server does not start", rows.first, rows.last, rows.holes)
		case rows.first > applied+1:
			in.outboxOrder.Fault(l.String(), "messages up to %d were applied and the next is %d: %d are lost", applied, rows.first, rows.first-applied-1)
		case rows.last < applied:
			in.outboxOrder.Fault(l.String(), "messages up to %d count as applied, but the last one sent is %d: the next ones will be skipped", applied, rows.last)
		}
	}
}

// checkHeads checks that no head is missing among the newest commits and, if no
// server has the directory open, compares them with the witness.
func (in *ownRows) checkHeads() {
	acked := disk.Head{}
	if in.witness != nil {
		acked = *in.witness
	}
	last, at, whole, err := layout.LastHead(in.rows, acked.Number)
	if err != nil {
		in.damaged("commits", err)
		return
	}
	if !whole {
		in.format.Fault("commits", "of the newest ones, up to %d, some are missing", last.Number)
	}
	if in.witness == nil {
		return
	}
	witness := in.report.Check("witness", "")
	witness.Checked++
	switch {
	case in.unwitnessed == nil && last.Number == 0 && acked.Number == 0:
		// Nothing was committed, or nothing but batches of a group is here: its log has what is
		// not durable, and a witness of its own. A server that was restored from a node's backup
		// goes on with commits of its own.
	case acked.Number == 0:
		witness.Fault("file "+disk.WitnessName, "it is missing or unreadable: whether the end of the journal is there cannot be told")
	case last.Number < acked.Number:
		witness.Fault("commits", "the journal ends at %d, and commits up to %d were acknowledged: %d are lost, restore a backup", last.Number, acked.Number, acked.Number-last.Number)
	case last.Number-acked.Number < layout.HeadsKept && at != acked:
		witness.Fault("commits", "commit %d is not the one that was acknowledged", acked.Number)
	}
}

// received is the last number of an outbox that its target has applied.
func (in *ownRows) received(l layout.Outbox) (uint64, error) {
	value, _, err := layout.Get(in.rows, in.homes.OutboxReceivedKey(l.Target, l.Source))
	return layout.Number(value), err
}
