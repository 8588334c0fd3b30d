package record

import (
	"encoding/binary"
	"slices"

	"parley/actors/webhook"
)

// EventFilter is the part of a webhook's row that is read without its state: whether it
// is active, which events it subscribes to (a bit each), and whether the server disabled
// it.
type EventFilter struct {
	Active, Disabled bool
	Events           uint32
}

// EventFilterBytes is the length of the filter at the start of a webhook's row. The URL
// follows.
const EventFilterBytes = 5

// EventFilterOf returns the filter of a webhook.
func EventFilterOf(s *webhook.State) EventFilter {
	w := EventFilter{Active: s.GetActive(), Disabled: s.GetDisabledMs() != 0}
	for _, x := range s.GetEvents() {
		w.Events |= 1 << x
	}
	return w
}

// Encode returns the webhook's row in journal.WebhookTable.
func (w EventFilter) Encode(url string) []byte {
	flags := byte(0)
	if w.Active {
		flags |= 1
	}
	if w.Disabled {
		flags |= 2
	}
	return append(binary.BigEndian.AppendUint32([]byte{flags}, w.Events), url...)
}

// DecodeEventFilter decodes the filter of a webhook's row. A row that is too short yields
// an empty filter.
func DecodeEventFilter(row []byte) EventFilter {
	if len(row) < EventFilterBytes {
		return EventFilter{}
	}
	return EventFilter{Active: row[0]&1 != 0, Disabled: row[0]&2 != 0, Events: binary.BigEndian.Uint32(row[1:])}
}

// JobCount returns the number of a webhook's jobs in a status; status 0 counts all.
func JobCount(s *webhook.State, status webhook.Status) int {
	sum := s.Summary()
	n := map[webhook.Status]uint64{
		0: sum.Total, webhook.Pending: s.Unattempted(), webhook.Processing: uint64(len(s.GetUnderWay())),
		webhook.Failed: sum.Failed, webhook.Delivered: sum.Delivered, webhook.Dead: sum.Dead,
	}
	return int(n[status])
}

// JobKey returns the key of a delivery job in journal.DeliveryTable.
func JobKey(id webhook.ID, number uint64) []byte {
	return binary.BigEndian.AppendUint64(id.Bytes(), number)
}

// RetryKey returns the key of a job that waits for another attempt, in
// journal.RetryTable.
func RetryKey(id webhook.ID, atMs int64, number uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(id.Bytes(), uint64(atMs)), number)
}

// WebhookKey returns the key of a webhook in journal.WebhookTable.
func WebhookKey(s *webhook.State) []byte { return slices.Concat(s.GetAgent(), s.GetId()) }
