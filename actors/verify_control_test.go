package actors

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/encoding"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
	"parley/journal/report"
	"parley/persistence/disk"
	"parley/persistence/layout"
)

// tamperCase is a fault and the checks that must find it. With more, other checks may
// find it too: a missing outbox message is noticed in several places.
type tamperCase struct {
	plant      func(*tamperer)
	wantChecks []string
	more       bool
}

var nobody = parley.NewID[parley.AnyID](7, noon, [10]byte{0: 9, 9: 9})

func flipLast(v []byte) []byte { v[len(v)-1] ^= 1; return v }

func anyRecord([]byte, *record.Message) bool { return true }

// rowControls plant faults that the rules of the journal forbid.
var rowControls = map[string]tamperCase{
	"an event in the middle is gone": {func(x *tamperer) {
		x.dropFirst('E', func(k, v []byte) bool { return k[3] == 4 && k[27] == 4 && v[0] == 3 })
	}, []string{"events", "history", "status-entries"}, false},
	"an event is cut short": {func(x *tamperer) {
		x.alter('E', ofKind(journal.IssuerStream), func(v []byte) []byte { return v[:5] })
	}, []string{"values"}, false},
	"a state is of more events than there are": {func(x *tamperer) {
		k, _ := x.find('E', ofKind(journal.ConversationStream))
		x.set(layout.StateKey(layout.StreamOf(k)), append(layout.EncodeNumber(99), 1))
	}, []string{"states"}, false},
	"an arrival goes back": {func(x *tamperer) {
		x.alter('N', isStatusEntry, func(v []byte) []byte {
			binary.BigEndian.PutUint64(v[1:], uint64(noon.Add(99*time.Hour).UnixMilli()))
			return v
		})
	}, []string{"feeds"}, false},
	"a feed entry of another kind": {func(x *tamperer) {
		x.alter('N', isStatusEntry, func(v []byte) []byte { v[0] = 9; return v })
	}, []string{"status-entries", "values"}, false},
	"a status among the messages": {func(x *tamperer) {
		x.move('N', isStatusEntry, func(k []byte) []byte { k[2] = layout.FeedFamily; return k })
	}, []string{"values"}, false},
	"a counter went back": {func(x *tamperer) {
		x.alter(layout.AppliedFamily, nil, func(v []byte) []byte {
			applied, err := layout.DecodeApplied(v)
			if err != nil {
				x.t.Fatal(err)
			}
			applied.Position = 1
			return applied.Encode()
		})
	}, []string{"positions"}, false},
	"a message without receipts counts as transferred": {func(x *tamperer) {
		k, _ := x.find('F', func(k, v []byte) bool {
			receipts := bytes.Clone(k)
			receipts[2] = layout.ReceiptFamily
			return isMessageEntry(k, v) && x.get(receipts) == nil
		})
		agent := parley.AgentID(k[3:19])
		x.set(layout.RowKey(agent.Slot(), journal.TransferredTable, agent[:]), k[19:])
	}, []string{"untransferred"}, false},
	"receipts of a message that counts as transferred are gone": {func(x *tamperer) {
		k, _ := x.find('M', func(k, _ []byte) bool { return len(k) == layout.FeedKeyBytes })
		agent := parley.AgentID(k[3:19])
		x.set(layout.RowKey(agent.Slot(), journal.TransferredTable, agent[:]), k[19:])
		x.drop(k)
	}, []string{"untransferred"}, false},
	"a feed counts as transferred beyond its journal": {func(x *tamperer) {
		x.set(layout.RowKey(x.agents[5].Slot(), journal.TransferredTable, x.agents[5][:]), bigEndian(1<<60))
	}, []string{"positions"}, true},
	"a feed counts as listed beyond its journal": {func(x *tamperer) {
		x.set(layout.RowKey(x.agents[5].Slot(), journal.ListedTable, x.agents[5][:]), bigEndian(1<<60))
	}, []string{"positions"}, true},
	"a feed counts as listed in another slot": {func(x *tamperer) {
		x.set(layout.RowKey(x.agents[5].Slot()^1, journal.ListedTable, x.agents[5][:]), bigEndian(1))
	}, []string{"keys"}, false},
	"a row of a list is gone that counts as stored": {func(x *tamperer) {
		k, _ := x.find('R', x.listsEntry)
		x.drop(k)
	}, []string{"list-rows"}, false},
	"a row of a list names another conversation than its entry": {func(x *tamperer) {
		k, _ := x.find('R', x.listsEntry)
		x.set(k, nobody[:])
	}, []string{"list-rows"}, false},
	"an entry begins its conversation no more": {func(x *tamperer) {
		x.alter('F', func(_, v []byte) bool { return v[0] != byte(layout.FeedKindOf(v)) }, func(v []byte) []byte {
			v[0] = byte(layout.FeedKindOf(v))
			return v
		})
	}, []string{"conversation-lists", "list-rows"}, true},
	"a message is the start of no conversation": {func(x *tamperer) {
		rewriteRecord(x, func(_ []byte, r *record.Message) bool { return r.Starts() }, func(r *record.Message) { r.InReplyTo = nobody[:] })
	}, []string{"message-records"}, true},
	"marks of another length": {func(x *tamperer) { k, _ := x.find('M', nil); x.set(k, []byte("short")) }, []string{"values"}, false},
	"a record's position is another": {func(x *tamperer) {
		x.alter('B', nil, func(v []byte) []byte { v[7] ^= 1; return v })
	}, []string{"record-places"}, false},
	"a row in a slot where nobody looks": {func(x *tamperer) {
		x.move('M', nil, func(k []byte) []byte { k[1] ^= 1; return k })
	}, []string{"keys", "untransferred"}, false},
	"a row of a family that does not exist": {func(x *tamperer) { x.set(append(layout.Key(3, 'Z', 0), nobody[:]...), nil) }, []string{"keys"}, false},
	"an outbox of a journal that does not exist": {func(x *tamperer) {
		x.set(x.homes().OutboxReceivedKey(0, 63), layout.EncodeNumber(0))
	}, []string{"keys"}, false},
	"a journal's own row outside the first slot of its range": {func(x *tamperer) {
		x.set(layout.Key(3, layout.AppliedFamily, 0), layout.Applied{}.Encode())
	}, []string{"keys"}, false},
	"a row of the directory that nobody reads": {func(x *tamperer) {
		x.set(layout.StoreKey(layout.AppliedFamily), layout.Applied{}.Encode())
	}, []string{"keys"}, false},
	"a word for nobody": {func(x *tamperer) {
		s := journal.Stream{Kind: journal.OrgStream, ID: nobody}
		x.set(layout.QueueKey(s, 1), append([]byte{record.Retired}, nobody[:]...))
	}, []string{"queues", "retirements"}, false},
	"a word that nobody understands": {func(x *tamperer) {
		s := rules.OrgStream(x.owner)
		x.set(layout.QueueKey(s, 1), []byte("hello"))
	}, []string{"queued-messages"}, false},
	"a word in quarantine": {func(x *tamperer) {
		s := rules.OrgStream(x.owner)
		x.set(layout.RowKey(s.Slot(), journal.QuarantineTable, record.QuarantineKey(s, 1)), record.QuarantineRow(noon, []byte("hello")))
	}, []string{"quarantine"}, false},
	"a card is gone": {func(x *tamperer) { x.dropFirst('R', ofTable(journal.CardTable)) }, []string{"card-rows"}, false},
	"an agent has a card that it withdrew": {func(x *tamperer) {
		_, v := x.find('R', ofTable(journal.CardTable))
		x.set(layout.RowKey(x.agents[1].Slot(), journal.CardTable, x.agents[1][:]), v)
	}, []string{"card-rows"}, false},
	"a revoked agent has a card": {func(x *tamperer) {
		_, v := x.find('R', ofTable(journal.CardTable))
		x.set(layout.RowKey(x.agents[5].Slot(), journal.CardTable, x.agents[5][:]), v)
	}, []string{"card-rows"}, false},
	"a card that is not public is shown": {func(x *tamperer) {
		changeCard(x, func(c *record.Card) { c.IsPublic = !c.IsPublic })
	}, []string{"card-rows"}, false},
	"a card is an earlier one": {func(x *tamperer) { changeCard(x, func(c *record.Card) { c.Revision-- }) }, []string{"card-rows"}, false},
	"a card was published at another time": {func(x *tamperer) {
		changeCard(x, func(c *record.Card) { c.CreatedMs++ })
	}, []string{"card-rows"}, false},
	"a card is stored in another form": {func(x *tamperer) {
		x.alter('R', ofTable(journal.CardTable), func(v []byte) []byte { return append(v, 0xca, 0x06, 1, 'x', 0xca, 0x06, 1, 'y') }) // two descriptions more
	}, []string{"card-content"}, false},
	"a card cannot be read": {func(x *tamperer) {
		x.alter('R', ofTable(journal.CardTable), func([]byte) []byte { return []byte{0xff} })
	}, []string{"card-content", "card-rows"}, false},
	"a card in another slot": {func(x *tamperer) {
		x.move('R', ofTable(journal.CardTable), func(k []byte) []byte { k[1] ^= 1; return k })
	}, []string{"card-content"}, false},
	"an hour of activity of nobody": {func(x *tamperer) {
		_, v := x.find('R', ofTable(journal.ActivityTable))
		x.set(layout.RowKey(nobody.Slot(), journal.ActivityTable, nobody[:]), v)
	}, []string{"activity-rows"}, false},
	"an hour of activity in another slot": {func(x *tamperer) {
		x.move('R', ofTable(journal.ActivityTable), func(k []byte) []byte { k[1] ^= 1; return k })
	}, []string{"activity-rows"}, false},
	"an hour of activity of another form": {func(x *tamperer) {
		x.alter('R', ofTable(journal.ActivityTable), func(v []byte) []byte { return append(v, 0) })
	}, []string{"activity-rows"}, false},
	"an hour of a token in another slot": {func(x *tamperer) {
		x.move('R', ofTable(journal.TokenTable), func(k []byte) []byte { k[1] ^= 1; return k })
	}, []string{"token-rows"}, false},
	"an hour of a token that is longer": {func(x *tamperer) {
		x.alter('R', ofTable(journal.TokenTable), func(v []byte) []byte { return append(v, 0) })
	}, []string{"token-rows"}, false},
	"a timer for nobody": {func(x *tamperer) {
		s := journal.Stream{Kind: journal.AgentStream, ID: nobody}
		x.set(x.homes().TimerKey(0, 5, s), nil)
	}, []string{"timers", "timers-due"}, false},
	"a commit is gone":          {func(x *tamperer) { x.dropFirst(layout.HeadFamily, nil) }, []string{"format"}, false},
	"the newest commit is gone": {dropNewestCommit, []string{"witness"}, false},
	"the newest commit is gone, of a server restored from a node": {func(x *tamperer) {
		x.set(layout.GroupKey(), layout.GroupPosition{Head: disk.Head{Number: 7}}.Encode())
		dropNewestCommit(x)
	}, []string{"witness"}, false},
	"the witness is gone": {removeWitness, []string{"witness"}, false},
	"the witness is gone, of a node": {func(x *tamperer) {
		x.set(layout.GroupKey(), layout.GroupPosition{Head: disk.Head{Number: 7}}.Encode())
		removeWitness(x)
	}, []string{"witness"}, false},
}

// meaningControls plant faults that only the meaning of events reveals.
var meaningControls = map[string]tamperCase{
	"an event of an unknown kind": {func(x *tamperer) {
		x.alter('E', ofKind(journal.IssuerStream), func(v []byte) []byte { v[0] = 99; return v })
	}, []string{"event-decode", "stream-begin"}, false},
	"a stored state that did not happen": {func(x *tamperer) {
		x.alter('S', ofKind(journal.AgentStream), func(v []byte) []byte {
			s := &agent.State{}
			if err := encoding.Unmarshal(v[8:], s); err != nil {
				x.t.Fatal(err)
			}
			s.HumanOversight = !s.HumanOversight
			data, _ := encoding.Marshal(s)
			return append(v[:8:8], data...)
		})
	}, []string{"state"}, false},
	"a stored state is gone": {func(x *tamperer) { x.dropFirst('S', ofKind(journal.IssuerStream)) }, []string{"state"}, false},
	"an issuer under another id": {func(x *tamperer) {
		x.move('E', ofKind(journal.IssuerStream), func(k []byte) []byte { k[19] ^= 1; return k })
		x.move('S', ofKind(journal.IssuerStream), func(k []byte) []byte { k[19] ^= 1; return k })
	}, []string{"stream-begin"}, false},
	"a move that the table does not have": {func(x *tamperer) {
		rewriteEvent(x, journal.ConversationStream, rules.Conversation, func(e conversation.Event) bool {
			s, ok := e.(*conversation.StatusChanged)
			return ok && s.Status == conversation.Paused
		},
			func(e conversation.Event) { e.(*conversation.StatusChanged).Status = conversation.Completed })
	}, []string{"history", "status-entries"}, false},
	"a stranger posted": {func(x *tamperer) {
		rewriteEvent(x, journal.ConversationStream, rules.Conversation, func(e conversation.Event) bool { _, ok := e.(*conversation.Posted); return ok },
			func(e conversation.Event) { e.(*conversation.Posted).From = nobody[:] })
	}, []string{"history", "message-record"}, false},
	"a first reply did not open": {func(x *tamperer) {
		x.dropFirst('E', func(k, v []byte) bool {
			return k[3] == 4 && v[0] == 3 && k[27] == 2 && x.get(append(k[:27:27], 3)) == nil
		})
	}, []string{"history", "status-entries"}, false},
	"an event says another message": {func(x *tamperer) {
		rewriteEvent(x, journal.ConversationStream, rules.Conversation, func(e conversation.Event) bool { _, ok := e.(*conversation.Posted); return ok },
			func(e conversation.Event) { e.(*conversation.Posted).MessageId = nobody[:] })
	}, []string{"feed-entries", "message-order", "message-record", "message-records", "quota"}, false},
	"a record is of another sender": {func(x *tamperer) {
		rewriteRecord(x, func(_ []byte, r *record.Message) bool {
			return !r.Starts() && bytes.Equal(r.From, x.agents[0][:])
		},
			func(r *record.Message) { r.From = x.agents[4].Bytes() })
	}, []string{"message-record", "once-rows"}, false},
	"a record is of another organization": {func(x *tamperer) {
		rewriteRecord(x, anyRecord, func(r *record.Message) { r.ToOrg = nobody[:] })
	}, []string{"message-owner"}, false},
	"a record is of another type": {func(x *tamperer) {
		rewriteRecord(x, anyRecord, func(r *record.Message) { r.Type = "svc.v1.other" })
	}, []string{"feed-entries", "once-rows"}, false},
	"a record is gone": {
		func(x *tamperer) { x.dropRecord(func(r *record.Message) bool { return !r.Starts() }) },
		[]string{"feed-entries", "message-record", "message-records", "once-rows", "quota", "record-places"},
		false,
	},
	"the record of a first message is gone": {
		func(x *tamperer) { x.dropRecord((*record.Message).Starts) },
		[]string{"conversation-lists", "feed-entries", "history", "once-rows", "quota", "record-places", "status-entries", "stream-begin", "task-rows"},
		false,
	},
	"a record of no message": {func(x *tamperer) {
		x.set(layout.MessageKey(layout.RecordFamily, nobody.Slot(), parley.MessageID(nobody)), make([]byte, 8))
	}, []string{"message-records"}, false},
	"a message lies before another of its conversation": {swapPositions, []string{"feed-arrival", "feed-order"}, false},
	"a feed entry is gone": {func(x *tamperer) {
		x.dropFirst('F', isMessageEntry)
	}, []string{"feed-entries", "record-places", "untransferred"}, false},
	"a status entry is gone": {func(x *tamperer) { x.dropFirst('N', isStatusEntry) }, []string{"status-entries"}, false},
	"two status entries changed places": {func(x *tamperer) {
		k, v := x.find('N', func(_, v []byte) bool { return v[0] == 2 && string(v[25:]) == "paused" })
		k2, v2 := x.find('N', func(k2, v2 []byte) bool {
			return bytes.Equal(k2[:19], k[:19]) && bytes.Equal(v2[9:25], v[9:25]) && string(v2[25:]) == "completed"
		})
		x.set(k, append(v[:25:25], v2[25:]...))
		x.set(k2, append(v2[:25:25], v[25:]...))
	}, []string{"status-entries"}, false},
	"a message arrived before it was sent": {func(x *tamperer) {
		var feed []byte
		x.alter('F', func(k, v []byte) bool {
			begins := !bytes.Equal(k[3:19], feed)
			feed = bytes.Clone(k[3:19])
			return begins && isMessageEntry(k, v)
		}, func(v []byte) []byte { binary.BigEndian.PutUint64(v[1:], 1); return v })
	}, []string{"feed-arrival"}, false},
	"marks by message where nobody reads them": {func(x *tamperer) {
		id := x.first.MessageID()
		x.set(layout.MessageKey(layout.ReceiptFamily, id.Slot(), id), make([]byte, 16))
	}, []string{"receipts-place"}, false},
	"a list misses a conversation": {func(x *tamperer) {
		x.dropFirst('R', func(k, v []byte) bool { return ofTable(journal.ConversationTable)(k, v) && !x.listsEntry(k, v) })
	}, []string{"conversation-lists"}, false},
	"a list has a conversation twice": {func(x *tamperer) {
		k, v := x.find('R', ofTable(journal.ConversationTable))
		x.set(append(k[:20:20], bigEndian(1)...), v)
	}, []string{"conversation-lists"}, false},
	"a quota counts too much":      {func(x *tamperer) { x.alter(layout.QuotaFamily, nil, flipLast) }, []string{"quota"}, false},
	"a slug finds nobody":          {func(x *tamperer) { x.dropFirst('R', ofTable(journal.SlugTable)) }, []string{"slug-rows"}, false},
	"a slug is claimed by another": {func(x *tamperer) { x.alter('E', ofKind(journal.SlugStream), flipLast) }, []string{"slug-claims"}, false},
	"a client id finds nobody":     {func(x *tamperer) { x.dropFirst('R', ofTable(journal.ClientTable)) }, []string{"client-rows"}, false},
	"a name finds nobody":          {func(x *tamperer) { x.dropFirst('R', ofTable(journal.NameTable)) }, []string{"name-rows"}, false},
	"a name finds another":         {func(x *tamperer) { x.alter('R', ofTable(journal.NameTable), flipLast) }, []string{"name-rows"}, false},
	"an agent is off the roster":   {func(x *tamperer) { x.dropFirst('R', ofTable(journal.RosterTable)) }, []string{"roster-rows"}, false},
	"a key finds nobody":           {func(x *tamperer) { x.dropFirst('R', ofTable(journal.KidTable)) }, []string{"kid-rows"}, false},
	"a key finds another":          {func(x *tamperer) { x.alter('R', ofTable(journal.KidTable), flipLast) }, []string{"kid-rows"}, false},
	"a poll token finds nobody": {func(x *tamperer) {
		x.dropFirst('R', func(k, _ []byte) bool { return k[3] == byte(journal.PollTable) && bytes.Equal(k[4:], key(3, "a0")) })
	}, []string{"poll-rows"}, false},
	"a poll token finds another": {func(x *tamperer) { x.alter('R', ofTable(journal.PollTable), flipLast) }, []string{"poll-rows"}, false},
	"a key stands for another message": {func(x *tamperer) {
		x.alter('R', ofTable(journal.OnceTable), func(v []byte) []byte { return append(x.messages[7].MessageID().Bytes(), v[16:]...) })
	}, []string{"once-rows"}, false},
	"a key made two messages": {func(x *tamperer) {
		k, v := x.find('R', ofTable(journal.OnceTable))
		binary.BigEndian.PutUint32(k[4:], binary.BigEndian.Uint32(k[4:])-1)
		x.set(k, v)
	}, []string{"once-rows"}, false},
	"a table that nobody reads": {func(x *tamperer) { x.set(layout.RowKey(3, 77, []byte{1}), nil) }, []string{"tables"}, false},
	"a used challenge made nobody": {func(x *tamperer) {
		x.alter('R', ofTable(journal.SpentTable), flipLast)
	}, []string{"registrations"}, false},
	"an organization lives elsewhere than its slug": {func(x *tamperer) {
		rewriteEvent(x, journal.OrgStream, rules.Org, func(e org.Event) bool { r, ok := e.(*org.Registered); return ok && r.Slug == "hard" },
			func(e org.Event) { e.(*org.Registered).Slug = "soft" })
	}, []string{"organization-home", "slug-claims", "slug-rows", "state"}, false},
	"an agent that its organization does not know": {func(x *tamperer) {
		rewriteEvent(x, journal.OrgStream, rules.Org, func(e org.Event) bool { _, ok := e.(*org.AgentAdded); return ok },
			func(e org.Event) { e.(*org.AgentAdded).AgentId = nobody[:] })
	}, []string{"agents", "roster-rows"}, true},
	"an agent is counted out that is active": {func(x *tamperer) {
		rewriteEvent(x, journal.OrgStream, rules.Org, func(e org.Event) bool { _, ok := e.(*org.AgentRetired); return ok },
			func(e org.Event) { e.(*org.AgentRetired).AgentId = x.agents[0].Bytes() })
	}, []string{"retirements"}, false},
}

// swapPositions swaps two messages of one conversation in a feed, with all rows that
// depend on their positions.
func swapPositions(x *tamperer) {
	type placed struct{ k, v []byte }
	byTalk := map[string]placed{}
	var one, two placed
	x.seek('F', func(k, v []byte) bool {
		if v[0] != byte(journal.MessageEntry) { // of those that begin no conversation
			return false
		}
		_, b := x.find('B', func(k, _ []byte) bool { return bytes.Equal(k[3:], v[9:25]) })
		r := &record.Message{}
		if err := encoding.Unmarshal(b[8:], r); err != nil {
			x.t.Fatal(err)
		}
		of := string(k[3:19]) + string(r.ConversationId)
		if before, ok := byTalk[of]; ok {
			one, two = before, placed{bytes.Clone(k), bytes.Clone(v)}
			return true
		}
		byTalk[of] = placed{bytes.Clone(k), bytes.Clone(v)}
		return false
	})
	swap := func(p placed, position []byte) {
		k, b := x.find('B', func(k, _ []byte) bool { return bytes.Equal(k[3:], p.v[9:25]) })
		x.set(k, append(bytes.Clone(position), b[8:]...))
	}
	swap(one, two.k[19:])
	swap(two, one.k[19:])
	refs := bytes.Clone(one.v[9:25])
	x.set(one.k, append(append(one.v[:9:9], two.v[9:25]...), one.v[25:]...))
	x.set(two.k, append(append(two.v[:9:9], refs...), two.v[25:]...))
}

// TestVerifyControls plants one fault at a time in undamaged files, until every check
// has reported something.
func TestVerifyControls(t *testing.T) {
	skipUnderRace(t)
	heard, ran := map[string]bool{}, 0
	w := newFullStore(t, 1, inTheClear)
	// More messages in a conversation, so that a feed has two from the same one besides
	// the first.
	for range 2 {
		w.manual.advance(time.Minute)
		must(w.reply(ReplyTo{
			Content:      Content{Type: "svc.v1.dm", Body: []byte("more"), FromOrg: w.owner, ToOrg: w.owner},
			Conversation: w.messages[2].Conversation(), From: w.messages[2].Sender(), To: w.messages[2].Recipient(), Original: w.messages[2].MessageID(),
		}))(t)
	}
	w.close()
	busy, release := storeWithPendingMessages(t, inTheClear)
	frozen := busy.frozen()
	release()
	for _, of := range []struct {
		town     *fullStore
		controls map[string]tamperCase
	}{{w, rowControls}, {w, meaningControls}, {w, taskControls}, {w, workloadControls}, {w, keyLogControls}, {w, keyPackageControls}, {frozen, pendingControls}} {
		ran += plantAll(t, of.town, of.controls, heard)
	}
	t.Run("rot", func(t *testing.T) {
		ran++
		audit := w.verifyFlippedByte(t)
		if got := failedChecks(audit); !slices.Contains(got, "engine") {
			t.Errorf("the checks %q reported the flipped byte", got)
		}
		heard["engine"] = true
	})
	if ran < len(rowControls)+len(meaningControls)+len(taskControls)+len(workloadControls)+len(keyLogControls)+len(keyPackageControls)+len(pendingControls)+1 {
		return // only some subtests were selected
	}
	for _, c := range w.tampered(t, func(*tamperer) {}).Checks() {
		if !heard[c.Name] && !groupNamesOfChecks[c.Name] && !webhookNamesOfChecks[c.Name] && !isMLSCheck(c.Name) {
			t.Errorf("no control makes check %q report", c.Name)
		}
	}
}

// plantAll plants each fault in the files of a store and returns how many it planted.
func plantAll(t *testing.T, w *fullStore, controls map[string]tamperCase, heard map[string]bool) (ran int) {
	for _, name := range slices.Sorted(maps.Keys(controls)) {
		t.Run(name, func(t *testing.T) {
			ran++
			checkTamperCase(t, w.tampered(t, controls[name].plant), controls[name], heard)
		})
	}
	return ran
}

// checkTamperCase compares the checks that reported something with those that must.
func checkTamperCase(t *testing.T, audit *report.Verification, c tamperCase, heard map[string]bool) {
	t.Helper()
	got := failedChecks(audit)
	for _, name := range got {
		heard[name] = true
	}
	if c.more {
		got = slices.DeleteFunc(got, func(name string) bool { return !slices.Contains(c.wantChecks, name) })
	}
	if !slices.Equal(got, c.wantChecks) {
		t.Errorf("the checks %q reported, want %q: %v", got, c.wantChecks, audit.Err())
	}
	for _, f := range audit.First(100) {
		if f.Where == "" || f.Means == "" {
			t.Errorf("a fault without a place or meaning: %q", f)
		}
	}
}

// verifyFlippedByte verifies files of which one byte has changed.
func (w *fullStore) verifyFlippedByte(t *testing.T) *report.Verification {
	t.Helper()
	fs := vfs.NewMem()
	w.tamperedInto(t, fs, func(*tamperer) {})
	names, err := fs.List("data")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		data := readAll(t, fs, "data/"+name)
		data[len(data)/4] ^= 1
		f, err := fs.Create("data/"+name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(data); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		return w.verifyFiles(t, fs)
	}
	t.Fatalf("no tables among %q", names)
	return nil
}

func readAll(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
