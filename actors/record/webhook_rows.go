package record

import (
	"encoding/binary"
	"slices"

	"parley/actors/conversation"
	"parley/actors/webhook"
	"parley/client/parley"
)

// EventFilter is the part of a webhook's row that is read without its state: whether it
// is active, which events it subscribes to (a bit each), and whether the server disabled
// it.
type EventFilter struct {
	Active, Disabled bool
	Events           uint32
	// Task is the conversation that a configuration of push notifications follows, zero
	// for a webhook.
	Task parley.ConversationID
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
	w.Task, _ = s.Task()
	return w
}

// WebhookRow returns the webhook's row in journal.WebhookTable: its filter and its URL. A
// configuration of push notifications has its task and its id in place of the URL.
func WebhookRow(s *webhook.State) []byte {
	if task, is := s.Task(); is {
		return append(append(EventFilterOf(s).Encode(""), task[:]...), s.GetConfigId()...)
	}
	return EventFilterOf(s).Encode(s.GetUrl())
}

// ConfigID returns the id of a configuration of push notifications, given its row.
func ConfigID(row []byte) string { return string(row[min(len(row), EventFilterBytes+16):]) }

// Encode returns the row of a webhook with this filter.
func (w EventFilter) Encode(url string) []byte {
	flags := byte(0)
	if w.Active {
		flags |= 1
	}
	if w.Disabled {
		flags |= 2
	}
	if !w.Task.Zero() {
		flags |= 4
	}
	return append(binary.BigEndian.AppendUint32([]byte{flags}, w.Events), url...)
}

// DecodeEventFilter decodes the filter of a webhook's row. A row that is too short yields
// an empty filter.
func DecodeEventFilter(row []byte) EventFilter {
	if len(row) < EventFilterBytes {
		return EventFilter{}
	}
	w := EventFilter{Active: row[0]&1 != 0, Disabled: row[0]&2 != 0, Events: binary.BigEndian.Uint32(row[1:])}
	if row[0]&4 != 0 && len(row) >= EventFilterBytes+16 {
		w.Task = parley.IDFromBytes[parley.ConversationID](row[EventFilterBytes : EventFilterBytes+16])
	}
	return w
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

// TaskIDBytes is how many bytes at the start of the id of a configuration of push
// notifications are taken from its task, so that those of a task have keys side by side.
const TaskIDBytes = 6

// TaskPart returns these bytes: random ones of the task's id.
func TaskPart(task parley.ConversationID) []byte { return task[16-TaskIDBytes:] }

// TaskKeys returns the prefix of the keys of an agent's configurations of push
// notifications for a task. Those of other tasks may have it too.
func TaskKeys(agent parley.AgentID, task parley.ConversationID) []byte {
	return slices.Concat(agent[:], TaskPart(task))
}

// TaskNews returns what an event of a task is for configurations of push notifications:
// nil for a message of the initiator. last reports whether the task has ended by it.
func TaskNews(task parley.ConversationID, initiator parley.AgentID, number uint64, at int64, e conversation.Event) (news *webhook.News, last bool) {
	switch e := e.(type) {
	case *conversation.StatusChanged:
		last = e.GetStatus().Terminal()
	case *conversation.Posted:
		if string(e.GetFrom()) == string(initiator[:]) {
			return nil, false
		}
	case *conversation.Started, *conversation.Broadcasted:
		return nil, false
	}
	return &webhook.News{Event: webhook.TaskUpdated, Ref: task.Bytes(), HappenedMs: at, Position: number}, last
}

// WebhookKey returns the key of a webhook in journal.WebhookTable.
func WebhookKey(s *webhook.State) []byte { return slices.Concat(s.GetAgent(), s.GetId()) }
