package actors

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"parley/actors/query"
	"parley/actors/record"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// receiptNotices returns what an agent's feed reports about messages that it sent.
func (r *testNode) receiptNotices(of parley.AgentID) (all []string) {
	r.t.Helper()
	v := r.contents.View()
	defer v.Close()
	err := v.Feed(of, 0, ^uint64(0), func(e journal.FeedEntry) bool {
		if e.Kind == journal.ReceiptEntry {
			delivered, read := record.ReceiptNews(e.Note)
			all = append(all, fmt.Sprint(parley.MessageID(e.Ref), delivered, read))
		}
		return true
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// setReceipts records receipts of the newest message of an agent's inbox.
func (r *testNode) setReceipts(of parley.AgentID, marks journal.Receipts) {
	r.t.Helper()
	r.setReceiptsOf(r.inbox(of)[0], marks)
}

func TestOnlyNewReceiptsAreAnnounced(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprint(journals), func(t *testing.T) {
			h := newWebhookFixture(t, journals, webhook.MessageRead)
			sender, to := h.ids[0], h.ids[2]
			say := func() string { // to an agent without a webhook
				return must(h.send(direct(h.owner, sender, to, "m", "")))(t).Message.MessageID().String()
			}
			say()
			h.setReceipts(to, journal.Receipts{TransferredAt: 5, TransferredBy: journal.StreamChannel, ReadAt: 6})
			if told := h.receiptNotices(sender); len(told) != 0 {
				t.Errorf("notices although the sender asked for none: %q", told)
			}
			h.watch(sender, "https://sink.example/s", webhook.MessageDelivered, webhook.MessageRead)
			first := say()
			h.setReceipts(to, journal.Receipts{TransferredAt: 7, TransferredBy: journal.StreamChannel})
			h.setReceipts(to, journal.Receipts{TransferredAt: 8, TransferredBy: journal.InboxChannel})
			h.setReceipts(to, journal.Receipts{TransferredAt: 9, TransferredBy: journal.InboxChannel, ReadAt: 9})
			h.setReceipts(to, journal.Receipts{ReadAt: 10})
			second := say()
			h.setReceipts(to, journal.Receipts{AnnouncedAt: 7})
			h.setReceipts(to, journal.Receipts{TransferredAt: 8, TransferredBy: journal.WaitChannel})
			third := must(h.send(direct(h.owner, sender, to, "m", "")))(t).Message
			reply := answerTo(h.owner, third, "r", "")
			reply.Reads, reply.Position = true, h.inbox(to)[0].Position
			must(h.reply(reply))(t)
			want := []string{first + " true false", first + " false true", second + " true false", third.MessageID().String() + " true true"}
			h.until("the news", func() bool { return slices.Equal(h.receiptNotices(sender), want) })
			fourth := say()
			h.node.Receipts.RecordSoon(journal.RecordReceipt{
				Recipient: to, Message: h.inbox(to)[0].Record.MessageID(), Position: h.inbox(to)[0].Position, Sender: sender,
				Receipts: journal.Receipts{TransferredAt: 7, TransferredBy: journal.StreamChannel},
			})
			want = append(want, fourth+" true false")
			h.until("the news from a stream", func() bool { return slices.Equal(h.receiptNotices(sender), want) })
			h.until("deliveries of it", func() bool {
				n := 0
				for _, d := range h.courier.delivered() {
					if d.Agent == sender {
						n++
					}
				}
				return n == 6 // the third message was both delivered and read
			})
		})
	}
}

func TestReceiptNoticesSkipUnknownMessages(t *testing.T) {
	for note, want := range map[string][2]bool{"": {}, "\x00": {}, "\x01": {true, false}, "\x02": {false, true}, "\x03more": {true, true}, "\xfc": {}} {
		if delivered, read := record.ReceiptNews([]byte(note)); delivered != want[0] || read != want[1] {
			t.Errorf("note %q: %v %v, want %v", note, delivered, read, want)
		}
	}
}

// TestReadersSkipReceiptNotices: no reader mistakes a receipt notice for a message or a
// status.
func TestReadersSkipReceiptNotices(t *testing.T) {
	h := newWebhookFixture(t, 1, webhook.MessageRead)
	sender, to := h.ids[0], h.ids[2]
	h.watch(sender, "https://sink.example/s", webhook.MessageRead)
	must(h.send(direct(h.owner, sender, to, "out", "")))(t)
	h.setReceipts(to, journal.Receipts{TransferredAt: 7, ReadAt: 7})
	must(h.send(direct(h.owner, to, sender, "in", "")))(t)
	if len(h.receiptNotices(sender)) != 1 {
		t.Fatal("the feed has no notice to skip")
	}
	ctx := context.Background()
	if page := h.inbox(sender); len(page) != 1 || string(page[0].Record.GetContent()) != "in" {
		t.Errorf("the inbox shows %d messages", len(page))
	}
	if n := must(h.node.Messages.CountSince(ctx, sender, 0))(t); n != 1 {
		t.Errorf("a poll counts %d messages", n)
	}
	if w := h.wait(h.node.Feeds.After(sender, 0), 5); len(w.Items) != 1 {
		t.Errorf("a wait returns %d messages", len(w.Items))
	}
	start := must(h.node.Feeds.Resume(ctx, sender, parley.MessageID{}, false))(t)
	follow := h.node.Feeds.Follow(sender, start.After, func() {})
	defer follow.Close()
	entries := must(follow.Next(10))(t)
	if err := h.node.Feeds.Entries(ctx, sender, entries, func(e journal.FeedEntry, m query.Message) error {
		if (m.Record != nil) != e.Kind.BringsMessage() {
			t.Errorf("an entry of kind %d brings a message: %v", e.Kind, m.Record != nil)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
