package actors

import (
	"bytes"
	"testing"
	"time"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/encoding"
	"parley/actors/group"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/journal"
	"parley/persistence/layout"
)

func isCopyEntry(_, v []byte) bool  { return v[0] == byte(journal.CopyEntry) }
func isGroupEntry(_, v []byte) bool { return v[0] == byte(journal.GroupEntry) }

// groupEvent matches events of groups that have type E.
func groupEvent[E group.Event](e group.Event) bool { _, ok := e.(E); return ok }

// groupControls plant faults in the data of groups.
var groupControls = map[string]tamperCase{
	"a seat was taken out of turn": {func(x *tamperer) {
		rewriteEvent(x, journal.GroupStream, rules.Group, groupEvent[*group.Seated], func(e group.Event) { e.(*group.Seated).Seat = 77 })
	}, []string{"group-history"}, true},
	"a vote of a stranger": {func(x *tamperer) {
		rewriteEvent(x, journal.GroupStream, rules.Group, groupEvent[*group.Voted], func(e group.Event) { e.(*group.Voted).Seat = 77 })
	}, []string{"group-history"}, true},
	"a request was settled that never was": {func(x *tamperer) {
		rewriteEvent(x, journal.GroupStream, rules.Group, groupEvent[*group.Resolved], func(e group.Event) { e.(*group.Resolved).Request.Id = nobody[:] })
	}, []string{"group-history", "request-rows"}, true},
	"a group was founded as another": {func(x *tamperer) {
		rewriteEvent(x, journal.GroupStream, rules.Group, groupEvent[*group.Founded], func(e group.Event) { e.(*group.Founded).Id = nobody[:] })
	}, []string{"stream-begin"}, true},
	"a group convened another conversation": {func(x *tamperer) {
		rewriteEvent(x, journal.GroupStream, rules.Group, groupEvent[*group.Convened], func(e group.Event) { e.(*group.Convened).Conversation = nobody[:] })
	}, []string{"conversation-lists", "group-conversations"}, true},
	"a word about a seat that nobody keeps": {func(x *tamperer) {
		s := rules.AgentStream(x.agents[1])
		word, _ := (&record.SagaMessage{Kind: record.SagaMessage_offer, Group: x.first.GetGroup(), Number: 99}).MarshalVT()
		x.set(layout.QueueKey(s, 1), word)
	}, []string{"seats-underway"}, false},
	"a word about a seat in no group": {func(x *tamperer) {
		s := rules.AgentStream(x.agents[1])
		word, _ := encoding.Marshal((&record.SagaMessage{Kind: record.SagaMessage_offer, Group: nobody[:], Number: 1}))
		x.set(layout.QueueKey(s, 1), word)
	}, []string{"seats-underway"}, false},
	"a word of groups for whom it is not": {func(x *tamperer) {
		s := rules.OrgStream(x.owner)
		word, _ := (&record.SagaMessage{Kind: record.SagaMessage_offer, Group: x.first.GetGroup(), Number: 1}).MarshalVT()
		x.set(layout.QueueKey(s, 1), word)
	}, []string{"queued-messages"}, false},
	"a broadcast says that it has fewer copies": {func(x *tamperer) {
		rewriteRecord(x, func(_ []byte, r *record.Message) bool { return r.GetRecipients() > 1 }, func(r *record.Message) { r.Recipients-- })
	}, []string{"broadcast-readers"}, false},
	"a broadcast went to one less":       {func(x *tamperer) { x.dropCopy() }, []string{"broadcast-readers", "copies", "feed-entries"}, false},
	"a broadcast went to who was not in": {func(x *tamperer) { x.redirectCopy() }, []string{"broadcast-readers"}, true},
	"a broadcast is of another group": {func(x *tamperer) {
		rewriteRecord(x, func(_ []byte, r *record.Message) bool { return r.Copied() }, func(r *record.Message) { r.Group = nobody[:] })
	}, []string{"message-record"}, true},
	"a copy is in no feed":                           {func(x *tamperer) { x.dropFirst('F', isCopyEntry) }, []string{"copies", "feed-entries"}, false},
	"a copy lies before another of its conversation": {(*tamperer).swapCopies, []string{"feed-order"}, true},
	"a reply to what was not said": {func(x *tamperer) {
		rewriteRecord(x, func(_ []byte, r *record.Message) bool { return len(r.GetHost()) > 0 && len(r.GetInReplyTo()) > 0 }, func(r *record.Message) { r.InReplyTo = nobody[:] })
	}, []string{"message-record", "once-rows"}, false},
	"a reply in another group": {func(x *tamperer) {
		rewriteRecord(x, func(_ []byte, r *record.Message) bool { return len(r.GetHost()) > 0 && len(r.GetInReplyTo()) > 0 }, func(r *record.Message) { r.Host = nobody[:] })
	}, []string{"message-record"}, false},
	"a move by one who was no admin": {func(x *tamperer) {
		rewriteEvent(x, journal.ConversationStream, rules.Conversation, func(e conversation.Event) bool {
			m, ok := e.(*conversation.StatusChanged)
			return ok && m.GetStatus() == conversation.Paused
		}, func(e conversation.Event) { e.(*conversation.StatusChanged).By = x.agents[2].Bytes() })
	}, []string{"history"}, false},
	"a member was not notified about a change": {func(x *tamperer) {
		x.dropFirst('N', func(k, v []byte) bool { return isStatusEntry(k, v) && bytes.Equal(k[3:19], x.agents[0][:]) })
	}, []string{"status-entries"}, false},
	"one who came later was notified about more": {func(x *tamperer) { x.repeatGroupEvent() }, []string{"status-entries"}, false},
	"an agent was in two groups, one of them isolated": {func(x *tamperer) {
		rewriteEvent(x, journal.AgentStream, rules.Agent, func(e agent.Event) bool {
			m, ok := e.(*agent.Entered)
			return ok && bytes.Equal(m.GetGroup(), x.first.GetGroup())
		}, func(e agent.Event) { e.(*agent.Entered).Isolated = true })
	}, []string{"isolation"}, true},
	"an agent believes to have another seat": {func(x *tamperer) {
		rewriteEvent(x, journal.AgentStream, rules.Agent, func(e agent.Event) bool { m, ok := e.(*agent.Entered); return ok && m.GetIsolated() },
			func(e agent.Event) { e.(*agent.Entered).Offer = 9 })
	}, []string{"memberships", "state"}, false},
	"a group's name finds nobody":      {func(x *tamperer) { x.dropFirst('R', ofTable(journal.GroupNameTable)) }, []string{"group-name-rows"}, false},
	"a group is off the list":          {func(x *tamperer) { x.dropFirst('R', ofTable(journal.GroupRosterTable)) }, []string{"group-roster-rows"}, false},
	"a settled request cannot be read": {func(x *tamperer) { x.dropFirst('R', ofTable(journal.RequestTable)) }, []string{"request-rows"}, false},
	"a settled request reads otherwise": {func(x *tamperer) {
		x.alter('R', ofTable(journal.RequestTable), func(v []byte) []byte { return append(v, 0xFA, 0x01, 0) })
	}, []string{"request-rows"}, false},
	"an agent does not know of a request": {func(x *tamperer) { x.dropFirst('R', ofTable(journal.ConcernTable)) }, []string{"concern-rows"}, false},
	"a request is noted that is not live": {func(x *tamperer) {
		x.move('R', ofTable(journal.ConcernTable), func(k []byte) []byte { return append(k[:len(k)-16], nobody[:]...) })
	}, []string{"concern-rows"}, false},
	"a place is not noted":    {func(x *tamperer) { x.dropFirst('R', ofTable(journal.PlaceTable)) }, []string{"place-rows"}, false},
	"a place has other seats": {func(x *tamperer) { x.alter('R', ofTable(journal.PlaceTable), flipLast) }, []string{"place-rows"}, false},
	"a holder is not noted":   {func(x *tamperer) { x.dropFirst('R', ofTable(journal.HolderTable)) }, []string{"holder-rows"}, false},
	"a holder is another":     {func(x *tamperer) { x.alter('R', ofTable(journal.HolderTable), flipLast) }, []string{"holder-rows"}, false},
	"a feed reports no new member": {func(x *tamperer) {
		x.dropFirst('N', func(k, v []byte) bool { return isGroupEntry(k, v) && v[25] == record.MemberJoined })
	}, []string{"group-news"}, false},
	"a feed reports another request": {func(x *tamperer) {
		x.alter('N', func(k, v []byte) bool { return isGroupEntry(k, v) && v[25] == record.RequestResolved }, flipLast)
	}, []string{"group-news"}, false},
	"the directory shows nothing": {func(x *tamperer) { x.dropFirst('R', ofTable(journal.PublicTable)) }, []string{"directory-rows"}, false},
	"the directory shows what is not public": {func(x *tamperer) {
		_, v := x.find('R', ofTable(journal.PublicTable))
		x.set(layout.RowKey(journal.DirectorySlot, journal.PublicTable, nobody[:]), v)
	}, []string{"directory-rows"}, false},
	"a group that its organization does not know": {func(x *tamperer) {
		rewriteEvent(x, journal.OrgStream, rules.Org, func(e org.Event) bool { _, ok := e.(*org.GroupAdded); return ok },
			func(e org.Event) { e.(*org.GroupAdded).GroupId = nobody[:] })
	}, []string{"group-roster-rows", "groups"}, false},
	"a group is counted out that exists": {func(x *tamperer) {
		rewriteEvent(x, journal.OrgStream, rules.Org, func(e org.Event) bool { _, ok := e.(*org.GroupRetired); return ok },
			func(e org.Event) { e.(*org.GroupRetired).GroupId = x.first.GetGroup() })
	}, []string{"group-endings"}, false},
	"a live request will never end": {func(x *tamperer) {
		var timers [][]byte
		x.seek(layout.TimerFamily, func(k, _ []byte) bool { timers = append(timers, bytes.Clone(k)); return false })
		for _, k := range timers {
			x.drop(k)
		}
	}, []string{"timers-due"}, false},
	"a timer that no request needs": {func(x *tamperer) {
		var live journal.Stream
		var due time.Time
		x.find(layout.TimerFamily, func(k, _ []byte) bool {
			live, due, _ = layout.TimerOf(k)
			return live.Kind == journal.GroupStream
		})
		x.set(x.homes().TimerKey(x.homes().Of(live.Slot()), uint64(due.UnixMilli()+1), live), nil)
	}, []string{"timers-due"}, false},
	"a key stands for another broadcast": {func(x *tamperer) {
		x.alter('R', func(k, v []byte) bool {
			return ofTable(journal.OnceTable)(k, v) && bytes.Equal(v[16:32], x.first.GetGroup())
		},
			func(v []byte) []byte { return append(x.messages[1].MessageID().Broadcast().Bytes(), v[16:]...) })
	}, []string{"once-rows"}, false},
	"a key stands for another group": {func(x *tamperer) {
		x.alter('R', func(k, v []byte) bool { return ofTable(journal.OnceTable)(k, v) && bytes.Equal(v[16:32], x.owner[:]) },
			func(v []byte) []byte { return append(nobody.Bytes(), v[16:]...) })
	}, []string{"once-rows"}, false},
	"a list misses a group's conversation": {func(x *tamperer) { x.dropFirst('R', ofTable(journal.ConversationTable)) }, []string{"conversation-lists"}, false},
	"marks of a broadcast": {func(x *tamperer) {
		id := x.first.MessageID().Broadcast()
		x.set(layout.MessageKey(layout.ReceiptFamily, id.Slot(), id), make([]byte, 16))
	}, []string{"receipts-place"}, false},
}

// dropCopy removes the last copy of a broadcast.
func (x *tamperer) dropCopy() {
	x.alter('C', func(_, v []byte) bool { return len(v) > 8+2*20 }, func(v []byte) []byte { return v[:len(v)-20] })
}

// redirectCopy gives the last copy of a broadcast to another agent.
func (x *tamperer) redirectCopy() {
	x.alter('C', func(_, v []byte) bool { return len(v) > 8+2*20 }, func(v []byte) []byte {
		return append(v[:len(v)-16], x.agents[9][:]...)
	})
}

// swapCopies swaps two messages to a group of two in the feed.
func (x *tamperer) swapCopies() {
	one := func(_, v []byte) bool { return len(v) == 8+20 && bytes.Equal(v[12:], x.agents[2][:]) }
	var keys, values [][]byte
	x.seek('C', func(k, v []byte) bool {
		if one(k, v) {
			keys, values = append(keys, bytes.Clone(k)), append(values, bytes.Clone(v))
		}
		return len(keys) == 2
	})
	for i := range 2 {
		position, id := values[1-i][:8], keys[i][3:]
		x.set(keys[i], append(bytes.Clone(position), values[i][8:]...))
		feed := layout.FeedKey(layout.FeedFamily, x.agents[2], layout.Number(position))
		was := x.get(feed)
		x.set(feed, append(append(was[:9:9], id...), was[25:]...))
	}
}

// repeatGroupEvent sends a group event again to an agent that was not a member at the
// time.
func (x *tamperer) repeatGroupEvent() {
	k, v := x.find('N', func(k, v []byte) bool {
		return isStatusEntry(k, v) && string(v[25:]) == "completed" && !bytes.Equal(k[3:19], x.agents[0][:]) && !bytes.Equal(k[3:19], x.agents[1][:])
	})
	x.set(k, append(v[:25:25], "paused"...))
}

// TestVerifyGroupControls plants one fault at a time in the data of groups.
func TestVerifyGroupControls(t *testing.T) {
	skipUnderRace(t)
	v := newGroupStore(t, 1, inTheClear)
	v.first = v.fullStore.messages[0]
	v.close()
	heard := map[string]bool{}
	whole := plantAll(t, v.fullStore, groupControls, heard) == len(groupControls)
	for _, c := range v.tampered(t, func(*tamperer) {}).Checks() {
		if whole && groupNamesOfChecks[c.Name] && !heard[c.Name] {
			t.Errorf("no control makes check %q report", c.Name)
		}
	}
}

// groupNamesOfChecks are the checks that examine only data of groups.
var groupNamesOfChecks = map[string]bool{
	"group-history": true, "seats-underway": true, "broadcast-readers": true, "isolation": true, "copies": true, "group-name-rows": true,
	"group-roster-rows": true, "groups": true, "group-endings": true, "memberships": true, "concern-rows": true, "request-rows": true,
	"place-rows": true, "holder-rows": true, "group-news": true, "directory-rows": true, "group-conversations": true,
}
