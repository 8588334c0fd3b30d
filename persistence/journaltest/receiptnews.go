package journaltest

import (
	"parley/client/parley"
	"parley/journal"
)

// testReceiptNews: of receipts that are recorded at the same time, at the recipient's home and at
// that of the conversation, the sender hears each kind once.
func testReceiptNews(r *rig) {
	const delivered, read = journal.DeliveredReceipt, journal.ReadReceipt
	a := r.appender(r.stream(near), 0)
	for round := range less(12, 4) {
		sender, agent, id := r.agent([]parley.Slot{near, far, farther}[round%3]), r.agent([]parley.Slot{near2, far}[round%2]), r.message(near)
		a.mustAppend(&journal.Entry{
			Records: []journal.Record{{ID: id, Data: []byte("body")}},
			Effects: []journal.Effect{journal.AppendFeed{To: agent, Kind: journal.MessageEntry, Ref: parley.AnyID(id)}},
		})
		r.until("the entry", func() bool { return len(r.feed(agent)) == 1 })
		receipt := func(news journal.ReceiptKinds, made journal.Receipts) journal.RecordReceipt {
			return journal.RecordReceipt{Recipient: agent, Message: id, Position: r.positions(agent)[0], Receipts: made, Sender: sender, News: news}
		}
		say := func(w ...journal.RecordReceipt) {
			var released []<-chan error
			for _, m := range w {
				released = append(released,
					r.append(&journal.Entry{Slot: agent.Slot(), Effects: []journal.Effect{m, m}}),
					a.begin(&journal.Entry{Effects: []journal.Effect{m}}))
			}
			for _, c := range released {
				r.must(r.await(c))
			}
		}
		told := func() (kinds []string) {
			for _, e := range r.feed(sender) {
				if e.Kind == journal.ReceiptEntry {
					kinds = append(kinds, line(parley.MessageID(e.Ref) == id, e.Note))
				}
			}
			return kinds
		}
		news := func(want ...string) {
			r.Helper()
			r.until("the news", func() bool { return len(told()) >= len(want) })
			r.expect("news of receipts", told(), want)
		}
		say(receipt(delivered|read, journal.Receipts{TransferredAt: 7}), receipt(delivered|read, journal.Receipts{AnnouncedAt: 6}))
		news(line(true, []byte{byte(delivered)}))
		if round%4 == 0 {
			r.crash()
			a = r.appender(a.stream, 0)
		}
		say(receipt(read, journal.Receipts{TransferredAt: 9, ReadAt: 9}), receipt(delivered|read, journal.Receipts{ReadAt: 8}))
		news(line(true, []byte{byte(delivered)}), line(true, []byte{byte(read)}))
		// A receipt without news for the sender brings none when it is repeated.
		quiet := r.message(near)
		a.mustAppend(&journal.Entry{
			Records: []journal.Record{{ID: quiet, Data: []byte("body")}},
			Effects: []journal.Effect{journal.AppendFeed{To: agent, Kind: journal.MessageEntry, Ref: parley.AnyID(quiet)}},
		})
		r.until("the second entry", func() bool { return len(r.feed(agent)) >= 2 })
		later := receipt(0, journal.Receipts{TransferredAt: 7})
		later.Message, later.Position = quiet, r.positions(agent)[1]
		r.recordReceipt(later)
		later.News = delivered
		r.recordReceipt(later)
		news(line(true, []byte{byte(delivered)}), line(true, []byte{byte(read)}))
	}
}
