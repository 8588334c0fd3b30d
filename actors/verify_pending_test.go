package actors

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"parley/actors/agent"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
	"parley/persistence/layout"
)

// holdJournals stops the writers of all journals but one, so that messages to the
// others stay in its outboxes. The returned function resumes them.
func (w *fullStore) holdJournals(but int) (release func()) {
	w.t.Helper()
	gate := make(chan struct{})
	for n := range w.journals {
		if n == but {
			continue
		}
		stopped := make(chan struct{})
		w.store.Append(&journal.Entry{Slot: w.homes().First(n), At: w.clock(), Applied: func() { close(stopped); <-gate }})
		<-stopped
	}
	return func() { close(gate) }
}

// agentsIn returns agents of an organization whose home is the given journal, created
// if needed, and agents with other homes.
func (w *fullStore) agentsIn(owner parley.OrgID, journal, n int) (here, elsewhere []parley.AgentID) {
	for i := 0; len(here) < n || len(elsewhere) < n; i++ {
		w.node.entropy() // an odd number is drawn for each agent, so that all journals are used
		id := w.agent(owner, "settler"+string(rune('a'+i)))
		if w.homes().Of(id.Slot()) == journal {
			here = append(here, id)
		} else {
			elsewhere = append(elsewhere, id)
		}
	}
	return here, elsewhere
}

// storeWithPendingMessages sends all kinds of messages to journals that have stopped.
func storeWithPendingMessages(t *testing.T, options ...option) (w *fullStore, release func()) {
	w = newFullStore(t, 4, options...)
	ctx := context.Background()
	home := w.homes().Of(w.owner.Slot())
	far := w.org("faraway").Org.OrgID()
	for n := 0; w.homes().Of(far.Slot()) == home; n++ {
		far = w.org("faraway" + string(rune('a'+n))).Org.OrgID()
	}
	here, there := w.agentsIn(w.owner, home, 2)
	guests, _ := w.agentsIn(far, home, 1)
	settled := func(what string, m *record.Message) query.Message {
		var got query.Message
		eventually(t, what, func() bool {
			got, _ = w.node.Messages.GetFor(ctx, m.Recipient().Slot(), m.MessageID())
			return got.Position != 0
		})
		return got
	}
	out := must(w.send(direct(w.owner, here[0], there[0], "out", "")))(t).Message
	in := must(w.send(direct(w.owner, there[1], here[1], "in", "")))(t).Message
	got, sent := settled("in has arrived", in), settled("out has arrived", out)
	eventually(t, "everything has settled", func() bool { return len(pendingMessages(t, w)) == 0 })

	release = w.holdJournals(home)
	// A new message with its lists, a status, receipts to both sides, an agent, a
	// queued message.
	must(w.send(direct(w.owner, here[0], there[1], "on its way", "k")))(t)
	reply := answerTo(w.owner, out, "I have read it", "")
	reply.Reads, reply.Position = true, sent.Position
	must(w.reply(reply))(t)
	must(w.node.Messages.ChangeStatus(ctx, ChangeStatus{Conversation: out.Conversation(), By: []parley.AgentID{here[0]}, Status: "paused"}))(t)
	must(w.reply(ReplyTo{
		Content:      Content{Type: "svc.v1.dm", Body: []byte("more"), FromOrg: w.owner, ToOrg: w.owner},
		Conversation: out.Conversation(), From: here[0], To: there[0], Original: out.MessageID(),
	}))(t)
	mark := journal.RecordReceipt{Recipient: here[1], Message: in.MessageID(), Position: got.Position, Receipts: journal.Receipts{TransferredAt: w.clock().UnixMilli()}}
	if err := w.node.Receipts.Record(ctx, here[1], []journal.RecordReceipt{mark}); err != nil {
		t.Fatal(err)
	}
	for n := range 8 {
		w.agent(w.owner, "new"+string(rune('a'+n)))
	}
	must(w.node.Agents.Change(ctx, guests[0], agent.Revoke{}))(t)
	must(w.node.Agents.Change(ctx, here[1], agent.RotateKeys{Signing: key(5, "x"), Encryption: key(6, "x")}))(t)
	return w, release
}

// pendingMessages returns the kinds of effects that are in outboxes.
func pendingMessages(t *testing.T, w *fullStore) []string {
	sorts := map[string]bool{}
	archive := w.archive()
	defer func() { _ = archive.Close() }()
	err := archive.Underway(func(word journal.Effect) error {
		sort := ""
		switch word := word.(type) {
		case journal.AppendFeed:
			sort = map[journal.FeedKind]string{journal.MessageEntry: "message", journal.StatusEntry: "status"}[word.Kind]
		case journal.RecordReceipt:
			sort = "receipt for the recipient"
			if word.Recipient.Zero() {
				sort = "receipt for the sender"
			}
		case journal.EnqueueFor:
			sort = "enqueue"
		case journal.PutRow:
			sort = "put row"
		case journal.AddToList:
			sort = "add to list"
		case journal.CreateStream:
			sort = "create stream"
		}
		sorts[sort] = true
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return slices.Sorted(maps.Keys(sorts))
}

// pendingControls plant faults in pending messages and in data that two homes store.
var pendingControls = map[string]tamperCase{
	"more is applied than was sent":  {func(x *tamperer) { x.changeApplied(func(n uint64) uint64 { return 1 << 40 }) }, []string{"outboxes"}, true},
	"the applied position was reset": {func(x *tamperer) { x.changeApplied(func(n uint64) uint64 { return 0 }) }, []string{"outboxes"}, true},
	"an outbox message between others is gone": {func(x *tamperer) {
		before := layout.Outbox{Source: -1}
		k, _ := x.find(layout.OutboxFamily, func(k, _ []byte) bool {
			of, number := x.outboxOf(k)
			between := of == before && x.get(x.homes().OutboxKey(of.Source, of.Target, number+1)) != nil
			before = of
			return between
		})
		x.drop(k)
	}, []string{"outboxes"}, true},
	"an outbox message is damaged": {func(x *tamperer) {
		x.alter(layout.OutboxFamily, nil, func(v []byte) []byte { return v[:len(v)-3] })
	}, []string{"values"}, true},
	"a copy says something else": {func(x *tamperer) {
		rewriteRecord(x, func(k []byte, _ *record.Message) bool { return isCopy(k) },
			func(r *record.Message) { r.Content = []byte("something else") })
	}, []string{"record-copy"}, false},
	"a copy is gone": {func(x *tamperer) {
		x.dropFirst('B', func(k, _ []byte) bool { return isCopy(k) })
	}, []string{"far-records", "record-places"}, false},
	"marks differ": {func(x *tamperer) {
		x.alter('M', func(k, _ []byte) bool { return len(k) == 19 }, func(v []byte) []byte { v[7] ^= 1; return v })
	}, []string{"receipts"}, false},
	"an outbox message brings a change that did not happen": {func(x *tamperer) {
		x.alter(layout.OutboxFamily, func(_, v []byte) bool { return bytes.Contains(v, []byte("paused")) }, func(v []byte) []byte {
			return bytes.Replace(v, []byte("paused"), []byte("failed"), 1)
		})
	}, []string{"status-underway"}, false},
}

// isCopy reports whether a record's key belongs to a copy.
func isCopy(k []byte) bool {
	slot, _ := layout.FamilyOf(k)
	return slot != parley.IDFromBytes[parley.MessageID](k[3:]).Slot()
}

// changeApplied changes the position up to which a non-empty outbox counts as applied.
func (x *tamperer) changeApplied(change func(uint64) uint64) {
	k, _ := x.find(layout.OutboxFamily, nil)
	of, _ := x.outboxOf(k)
	received := x.homes().OutboxReceivedKey(of.Target, of.Source)
	x.set(received, layout.EncodeNumber(change(layout.Number(x.get(received)))))
}

// outboxOf is the outbox of an outbox message, and the message's number.
func (x *tamperer) outboxOf(k []byte) (layout.Outbox, uint64) {
	x.t.Helper()
	of, number, ok := x.homes().OutboxOf(k)
	if !ok {
		x.t.Fatalf("key %x is of no outbox message", k)
	}
	return of, number
}

// TestVerifyPendingMessages: messages in outboxes explain effects that are still
// missing elsewhere, and nothing else is excused.
func TestVerifyPendingMessages(t *testing.T) {
	skipUnderRace(t)
	w, release := storeWithPendingMessages(t)
	want := []string{"create stream", "enqueue", "message", "put row", "receipt for the recipient", "receipt for the sender", "status"}
	if got := pendingMessages(t, w); !slices.Equal(got, want) {
		t.Errorf("%q are pending, want %q", got, want)
	}
	if err := verifyStore(t, w.testNode).Err(); err != nil {
		t.Errorf("with pending messages: %v", err)
	}
	frozen := w.frozen()
	if got := failedChecks(frozen.tampered(t, func(*tamperer) {})); len(got) != 0 {
		t.Errorf("after a crash with pending messages, the checks %q reported", got)
	}
	t.Run("each message is missed", func(t *testing.T) { dropEachLastMessage(t, frozen) })
	release()
	eventually(t, "the outboxes are empty", func() bool { return len(pendingMessages(t, w)) == 0 })
	time.Sleep(time.Millisecond)
	if err := verifyStore(t, w.testNode).Err(); err != nil {
		t.Errorf("after all messages have arrived: %v", err)
	}
}

// dropEachLastMessage removes the last message of each outbox. Only the missing effects
// can reveal that.
func dropEachLastMessage(t *testing.T, frozen *fullStore) {
	missed := 0
	for target := range frozen.journals {
		for source := range frozen.journals {
			var last []byte
			found := failedChecks(frozen.tampered(t, func(x *tamperer) {
				received := layout.Number(x.get(x.homes().OutboxReceivedKey(target, source)))
				x.seek(layout.OutboxFamily, func(k, _ []byte) bool {
					of, number := x.outboxOf(k)
					if of == (layout.Outbox{Source: source, Target: target}) && number > received {
						last = bytes.Clone(k)
					}
					return false
				})
				if last != nil {
					x.drop(last)
				}
			}))
			switch {
			case last == nil && len(found) > 0:
				t.Errorf("the checks %q reported undamaged files", found)
			case last != nil && len(found) == 0:
				t.Errorf("no check misses message %x", last)
			case last != nil:
				missed++
			}
		}
	}
	if missed == 0 {
		t.Error("no outbox held anything")
	}
}
