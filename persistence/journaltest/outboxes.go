package journaltest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"parley/client/parley"
	"parley/journal"
)

// notes reads a feed and returns its numeric notes.
func (r *reads) notes(agent parley.AgentID) []string {
	var all []string
	for _, e := range r.feed(agent) {
		all = append(all, string(e.Note))
	}
	return all
}

func numbers(n int) []string {
	var all []string
	for i := range n {
		all = append(all, line(i))
	}
	return all
}

// numberedEntry is an entry with number n, from a stream at slot, for every agent.
func (r *rig) numberedEntry(slot parley.Slot, n int, agents []parley.AgentID) *journal.Entry {
	id := r.message(slot)
	e := &journal.Entry{
		Events:  []journal.StoredEvent{storedEvent(line(n))},
		Records: []journal.Record{{ID: id, Data: fmt.Append(nil, "body ", n)}},
	}
	for _, to := range agents {
		e.Effects = append(e.Effects, journal.AppendFeed{To: to, Kind: journal.MessageEntry, Ref: parley.AnyID(id), Note: fmt.Append(nil, n)})
	}
	return e
}

func testOutboxes(r *rig) {
	each := less(120, 40)
	agents := []parley.AgentID{r.agent(near), r.agent(far), r.agent(farther), r.agent(parley.Slots - 1)}
	streams := []journal.Stream{r.stream(near), r.stream(far), r.stream(farther)}
	said := 0
	for round := range 3 {
		var talk sync.WaitGroup
		for _, s := range streams {
			a := r.appender(s, uint64(said))
			talk.Go(func() {
				for i := range each {
					e := r.numberedEntry(s.Slot(), said+i, agents)
					for w := range e.Effects {
						say := e.Effects[w].(journal.AppendFeed)
						say.Note = fmt.Append(nil, s.Slot(), said+i)
						e.Effects[w] = say
					}
					a.begin(e)
				}
			})
		}
		talk.Wait()
		said += each
		if round == 1 {
			r.reopen()
		}
	}
	for _, agent := range agents {
		r.until("all entries", func() bool { return len(r.feed(agent)) >= said*len(streams) })
		by := map[string][]string{}
		for _, note := range r.notes(agent) {
			var slot, n string
			_, _ = fmt.Sscan(note, &slot, &n)
			by[slot] = append(by[slot], n)
		}
		for _, s := range streams {
			r.expect(line("messages from", s.Slot(), "to", agent.Slot()), by[line(s.Slot())], numbers(said))
		}
		r.view(func(v journal.View) {
			r.must(v.Feed(agent, 0, ^uint64(0), func(e journal.FeedEntry) bool {
				if record, _, err := recordOf(v, agent.Slot(), parley.MessageID(e.Ref)); len(record) == 0 || err != nil {
					r.Errorf("an entry without its record: %v", err)
				}
				return true
			}))
		})
	}
}

func testOutboxesCrash(r *rig) {
	agents := []parley.AgentID{r.agent(near), r.agent(far), r.agent(farther)}
	stream := r.stream(near)
	said := 0
	for round := range 4 {
		r.until("what is there", func() bool { return len(r.notes(agents[2])) == len(r.events(stream)) })
		a := r.appender(stream, uint64(len(r.events(stream))))
		var answered atomic.Int64
		var released []<-chan error
		start := int(a.seq)
		for i := range 60 {
			released = append(released, a.begin(r.numberedEntry(near, start+i, agents)))
		}
		for _, c := range released[:10*round] {
			r.must(r.await(c))
			answered.Add(1)
		}
		r.crash()
		said = len(r.events(stream))
		if said < start+int(answered.Load()) {
			r.Errorf("%d entries were answered, %d are there", start+int(answered.Load()), said)
		}
		for _, agent := range agents {
			r.until(fmt.Sprintf("%d entries, %d are there", said, len(r.notes(agent))), func() bool { return len(r.notes(agent)) >= said })
			r.expect(line("feed at", agent.Slot()), r.notes(agent), numbers(said))
		}
	}
}

// inTime reports whether answer returned in less than parley.SettleWait.
func (r *rig) inTime(answer func()) bool {
	late := time.NewTimer(parley.SettleWait)
	defer late.Stop()
	answer()
	select {
	case <-late.C:
		return false
	default:
		return true
	}
}

// testSettled checks the effects of an entry in other homes as soon as the entry is
// released. A release that took longer than parley.SettleWait may precede the effects.
func testSettled(r *rig) {
	a := r.appender(r.stream(near), 0)
	inTime := 0
	for i := range 30 {
		agent, born, tell, id := r.agent(far), r.stream(farther), r.stream(far), r.message(near)
		key := line(i)
		e := &journal.Entry{
			Records: []journal.Record{{ID: id, Data: []byte("body")}},
			Effects: []journal.Effect{
				journal.AppendFeed{To: agent, Kind: journal.MessageEntry, Ref: parley.AnyID(id)},
				journal.CreateStream{Stream: born, Events: []journal.StoredEvent{storedEvent("born")}},
				journal.EnqueueFor{To: tell, Data: []byte("told")},
				journal.PutRow{Row: row(farther, journal.ClientTable, key, "put")},
			},
		}
		look := func() string {
			out := line(len(r.feed(agent)), r.events(born), r.queueTexts(tell), r.row(farther, journal.ClientTable, key))
			r.view(func(v journal.View) {
				record, position, err := recordOf(v, far, id)
				out = line(out, string(record), position > 0, err)
			})
			return out
		}
		effect := line(1, "[born] [told] put body true", nil)
		if r.inTime(func() { a.mustAppend(e) }) {
			r.expect("the effect", look(), effect)
			inTime++
		}
		r.until("the effect", func() bool { return look() == effect })
		receipt := journal.RecordReceipt{Recipient: agent, Message: id, Position: r.feed(agent)[0].Position, Receipts: journal.Receipts{ReadAt: 7}}
		if r.inTime(func() { r.recordReceipt(receipt) }) {
			r.view(func(v journal.View) {
				receipts, err := receiptsOf(v, near, agent, id)
				r.expect("receipts where the conversation lives", line(receipts, err), line(journal.Receipts{ReadAt: 7}, nil))
			})
		}
		// An effect can also delete a row of another home.
		gone := row(farther, journal.ClientTable, key, "")
		gone.Delete = true
		a.mustAppend(&journal.Entry{Effects: []journal.Effect{journal.PutRow{Row: gone}}})
		r.until("the row taken away", func() bool { return r.row(farther, journal.ClientTable, key) == "-" })
	}
	if inTime == 0 {
		r.Skipf("this disk is too slow to tell: no answer came within %v", parley.SettleWait)
	}
}

// releases records in which order entries are released, and how often.
type releases struct {
	mu    sync.Mutex
	order []int
	errs  []error
}

func (l *releases) note(n int) func(error) {
	return func(err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.order, l.errs = append(l.order, n), append(l.errs, err)
	}
}

func (l *releases) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.order)
}

func testReleases(r *rig) {
	speakers := []*appender{r.appender(r.stream(near), 0), r.appender(r.stream(near2), 0)}
	agent := r.agent(near)
	log := &releases{}
	const total = 600
	for i := range total {
		a := speakers[i%2]
		e := &journal.Entry{
			Slot: a.stream.Slot(), Stream: a.stream, Activation: a.activation, Expect: a.seq, At: r.Clock(), Release: log.note(i),
			Effects: []journal.Effect{journal.AppendFeed{To: agent, Kind: journal.StatusEntry}},
		}
		switch i % 7 {
		case 3:
			e.Expect += 5 // rejected, but released in order
		case 5:
			// nothing is written, and the entry is still released in order
			e.Effects = nil
		default:
			e.Events = []journal.StoredEvent{storedEvent("x")}
			a.seq++
		}
		r.Journal.Append(e)
	}
	r.until("all releases", func() bool { return log.count() >= total })
	for i, n := range log.order {
		if i != n || (log.errs[i] != nil) != (i%7 == 3) {
			r.Fatalf("release %d is of entry %d (%v)", i, n, log.errs[i])
		}
	}
	r.must(r.Journal.Close())
	r.expect("releases", log.count(), total)
	r.Journal = r.Reopen()
}

func testClosing(r *rig) {
	a := r.appender(r.stream(near), 0)
	agents := []parley.AgentID{r.agent(near), r.agent(far), r.agent(farther)}
	log := &releases{}
	const total = 400
	for i := range total {
		e := r.numberedEntry(near, i, agents)
		e.Slot, e.Stream, e.Activation, e.Expect, e.At, e.Release = near, a.stream, a.activation, a.seq, r.Clock(), log.note(i)
		a.seq++
		r.Journal.Append(e)
	}
	r.must(r.Journal.Close())
	r.expect("releases when it is closed", log.count(), total)
	for i, err := range log.errs {
		if err != nil {
			r.Fatalf("entry %d: %v", log.order[i], err)
		}
	}
	r.refused(r.append(&journal.Entry{Slot: near}), journal.ErrClosed)
	r.must(r.Journal.Close())
	r.reopen()
	for _, agent := range agents {
		r.until("all entries", func() bool { return len(r.feed(agent)) >= total })
		r.expect("the feed", r.notes(agent), numbers(total))
	}
	slices.Sort(log.order)
	r.expect("releases", len(slices.Compact(log.order)), total)
}
