package journaltest

import (
	"fmt"
	"slices"

	"parley/client/parley"
	"parley/journal"
)

func (r *reads) queueTexts(s journal.Stream) []string {
	var all []string
	for _, row := range r.queue(s) {
		all = append(all, string(row.Data))
	}
	return all
}

func testQueue(r *rig) {
	a := r.appender(r.stream(near), 0)
	for _, slot := range []parley.Slot{near2, far} {
		b := r.appender(r.stream(slot), 0)
		for i := range 6 {
			a.mustAppend(&journal.Entry{Effects: []journal.Effect{
				journal.EnqueueFor{To: b.stream, Data: fmt.Append(nil, 2*i)},
				journal.EnqueueFor{To: b.stream, Data: fmt.Append(nil, 2*i+1)},
			}})
		}
		r.until("all messages", func() bool { return len(r.queue(b.stream)) == 12 })
		r.expect("the queue", r.queueTexts(b.stream), "[0 1 2 3 4 5 6 7 8 9 10 11]")
		rows := r.queue(b.stream)
		if !slices.IsSortedFunc(rows, func(x, y journal.QueuedMessage) int { return int(x.Number) - int(y.Number) }) {
			r.Errorf("numbers do not grow: %v", rows)
		}
		b.mustAppend(&journal.Entry{Events: []journal.StoredEvent{storedEvent("heard")}, Handled: []uint64{rows[0].Number, rows[1].Number, rows[7].Number}})
		r.expect("what is left", r.queueTexts(b.stream), "[2 3 4 5 6 8 9 10 11]")
		r.expect("what came after the seventh", len(r.queueBeyond(b.stream, rows[6].Number)), 4)
		r.crash()
		r.expect("what is left after a crash", r.queueTexts(b.stream), "[2 3 4 5 6 8 9 10 11]")
		a = r.appender(a.stream, 0)
		a.mustAppend(&journal.Entry{Effects: []journal.Effect{journal.EnqueueFor{To: b.stream, Data: []byte("new")}}})
		r.until("a new message", func() bool { return len(r.queue(b.stream)) == 10 })
		if now := r.queue(b.stream); string(now[9].Data) != "new" || now[9].Number <= rows[11].Number {
			r.Errorf("a new message has number %d, the last one had %d", now[9].Number, rows[11].Number)
		}
	}
}

func (r *rig) hinted(s journal.Stream) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.hints, s)
}

func testHints(r *rig) {
	a := r.appender(r.stream(near), 0)
	told := []journal.Stream{r.stream(near), r.stream(near2), r.stream(far), r.stream(parley.Slots - 1)}
	quiet := r.appender(r.stream(far), 0)
	e := &journal.Entry{Effects: []journal.Effect{journal.EnqueueFor{To: quiet.stream, Data: []byte("x")}}}
	for _, s := range told {
		e.Effects = append(e.Effects, journal.EnqueueFor{To: s, Data: []byte("1")}, journal.EnqueueFor{To: s, Data: []byte("2")})
	}
	a.mustAppend(e)
	for _, s := range append(told, quiet.stream) {
		r.until("a hint", func() bool { return r.hinted(s) })
	}
	quiet.mustAppend(&journal.Entry{Handled: []uint64{r.queue(quiet.stream)[0].Number}})
	for _, again := range []func(){r.reopen, r.crash} {
		r.mu.Lock()
		r.hints = nil
		r.mu.Unlock()
		again()
		for _, s := range told {
			r.until("a hint after opening again", func() bool { return r.hinted(s) })
		}
		if r.hinted(quiet.stream) {
			r.Error("a hint at an empty queue")
		}
	}
}
