package verify

import (
	"encoding/binary"
	"fmt"

	"parley"
	"parley/journal"
	"parley/persistence/disk"
	"parley/persistence/layout"
)

// metaRow checks a row of journal metadata.
func (in *inspection) metaRow(family byte, k, value []byte) {
	where := fmt.Sprintf("key %x", k)
	number := -1
	if len(k) >= 5 {
		number = int(binary.BigEndian.Uint16(k[3:]))
	}
	if number < 0 || number >= int(in.homes) {
		in.keys.Fault(where, "it names journal %d, and there are %d", number, int(in.homes))
		return
	}
	switch {
	case family == layout.FormatFamily && len(k) == 5:
		in.whole(where, value, 18)
	case family == layout.CounterFamily && len(k) == 5:
		in.whole(where, value, 16)
	case family == layout.HeadFamily && len(k) == 7:
		in.whole(where, value, 16)
	case family == layout.QuotaFamily && len(k) == 25:
		in.whole(where, value, 8)
	case family == layout.TimerFamily && len(k) == 30:
		in.whole(where, value, 0)
		in.timer(number, journal.Stream{Kind: journal.StreamKind(k[13]), ID: parley.IDFromBytes[parley.AnyID](k[14:])})
	case family == layout.OutboxReceivedFamily && len(k) == 7:
		in.whole(where, value, 8)
		in.outboxReceived(layout.Outbox{Source: int(binary.BigEndian.Uint16(k[5:])), Target: number}, where)
	case family == layout.OutboxFamily && len(k) == 15:
		in.outboxMessage(k, value)
	default:
		in.keys.Fault(where, "no family has such keys: the row is read by nobody")
	}
}

// whole expects a value of size bytes.
func (in *inspection) whole(where string, value []byte, size int) {
	in.format.Checked++
	if len(value) != size {
		in.values.Fault(where, "a value of %d bytes cannot be read, %d are expected", len(value), size)
	}
}

func (in *inspection) timer(number int, s journal.Stream) {
	in.timers.Checked++
	switch {
	case in.homes.Of(s.Slot()) != number:
		in.timers.Fault(streamName(s), "its timer is in journal %d, where it does not live: it cannot be cancelled", number)
	case !in.exists(s):
		in.timers.Fault(streamName(s), "a timer is set for a stream that does not exist: it is woken in vain for ever")
	}
}

// outboxReceived checks that the outbox of a received number exists.
func (in *inspection) outboxReceived(l layout.Outbox, where string) {
	if l.Source >= int(in.homes) {
		in.keys.Fault(where, "there is no %s", l)
	}
}

// outboxMessage checks one row of an outbox and counts gaps.
func (in *inspection) outboxMessage(k, value []byte) {
	l, _ := layout.OutboxOf(k)
	n := layout.Number(k[7:])
	where := fmt.Sprintf("%s, message %d", l, n)
	if l.Target >= int(in.homes) {
		in.keys.Fault(where, "there is no such outbox")
		return
	}
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
func (in *inspection) homesOf(w journal.Effect) []int {
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
func (in *inspection) checkOutboxes() {
	for l, rows := range in.outboxes {
		applied, err := in.applied(l)
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
func (in *inspection) checkHeads() {
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
	case acked.Number == 0:
		witness.Fault("file "+disk.WitnessName, "it is missing or unreadable: whether the end of the journal is there cannot be told")
	case last.Number < acked.Number:
		witness.Fault("commits", "the journal ends at %d, and commits up to %d were acknowledged: %d are lost, restore a backup", last.Number, acked.Number, acked.Number-last.Number)
	case last.Number-acked.Number < layout.HeadsKept && at != acked:
		witness.Fault("commits", "commit %d is not the one that was acknowledged", acked.Number)
	}
}

// applied is the last number of an outbox that its target has applied.
func (in *inspection) applied(l layout.Outbox) (uint64, error) {
	value, _, err := layout.Get(in.rows, layout.OutboxReceivedKey(l.Target, l.Source))
	return layout.Number(value), err
}
