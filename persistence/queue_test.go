package persistence

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/journal"
	"parley/persistence/apply"
)

func TestQueueTakesWithinBounds(t *testing.T) {
	q := newQueue()
	costs := []int{10, 10, 70, 10, 200, 10, 10, 10, 10}
	for _, c := range costs {
		if !q.push(&item{cost: c}) {
			t.Fatal("an open queue rejects")
		}
	}
	var got [][]int
	for range 5 {
		taken, more := q.take(nil, 3, 80)
		if !more {
			t.Fatal("closed")
		}
		var batch []int
		for _, it := range taken {
			batch = append(batch, it.cost)
		}
		got = append(got, batch)
	}
	want := [][]int{{10, 10}, {70, 10}, {200}, {10, 10, 10}, {10}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("took %v, want %v", got, want)
	}
	q.push(&item{cost: 1})
	q.close()
	if q.push(&item{}) {
		t.Error("a closed queue accepts items")
	}
	if taken, more := q.take(nil, 3, 80); len(taken) != 1 || !more {
		t.Errorf("a closed queue returns %d of its items", len(taken))
	}
	if taken, more := q.take(nil, 3, 80); len(taken) != 0 || more {
		t.Errorf("an empty closed queue returns %d, more %v", len(taken), more)
	}
}

func TestQueueLosesNothing(t *testing.T) {
	q := newQueue()
	const pushers, each = 8, 500
	var pushing sync.WaitGroup
	for p := range pushers {
		pushing.Go(func() {
			for i := range each {
				q.push(&item{cost: p*each + i})
			}
		})
	}
	go func() { pushing.Wait(); q.close() }()
	last := make([]int, pushers)
	total := 0
	for {
		taken, more := q.take(nil, 7, 1<<30)
		if !more {
			break
		}
		for _, it := range taken {
			p, i := it.cost/each, it.cost%each
			if i+1 <= last[p] {
				t.Fatalf("item %d of pusher %d comes after %d", i, p, last[p])
			}
			last[p], total = i+1, total+1
		}
	}
	if total != pushers*each {
		t.Errorf("%d items came out of %d", total, pushers*each)
	}
}

// TestQueueGathers: items that gather wait for gatherFor, unless an item comes that does
// not, or there are many, or they are large, or the queue closes. Their order stays.
func TestQueueGathers(t *testing.T) {
	gathering := func(n, cost int) (all []*item) {
		for range n {
			all = append(all, &item{Item: apply.Item{Entry: &journal.Entry{Gather: true}}, cost: cost})
		}
		return all
	}
	prompt := &item{Item: apply.Item{Entry: &journal.Entry{}}}
	for what, x := range map[string]struct {
		first, later []*item
		closes       bool
		wait         time.Duration
	}{
		"few":               {first: gathering(3, 1), wait: gatherFor},
		"few, and one more": {first: gathering(3, 1), later: gathering(1, 1), wait: gatherFor},
		"a prompt one":      {first: []*item{prompt}},
		"a prompt one amid": {first: append(gathering(2, 1), prompt, gathering(1, 1)[0])},
		"a prompt one late": {first: gathering(2, 1), later: []*item{prompt}, wait: gatherFor / 2},
		"many":              {first: gathering(gatherItems, 1)},
		"many, late":        {first: gathering(1, 1), later: gathering(gatherItems-1, 1), wait: gatherFor / 2},
		"large":             {first: gathering(2, gatherBytes/2)},
		"closed":            {first: gathering(2, 1), closes: true, wait: gatherFor / 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue()
			for _, it := range x.first {
				q.push(it)
			}
			var pushing sync.WaitGroup
			defer pushing.Wait()
			pushing.Go(func() {
				time.Sleep(gatherFor / 2)
				for _, it := range x.later {
					q.push(it)
				}
				if x.closes {
					q.close()
				}
			})
			began := time.Now()
			taken, more := q.take(nil, batchEntriesMax, batchBytesMax)
			if waited := time.Since(began); waited != x.wait || !more {
				t.Errorf("%s: taken after %v, want %v; more %v", what, waited, x.wait, more)
			}
			want := x.first
			if x.wait > 0 {
				want = append(slices.Clone(x.first), x.later...)
			}
			if !slices.Equal(taken, want) {
				t.Errorf("%s: %d items, want %d in their order", what, len(taken), len(want))
			}
			if q.cost != 0 || q.prompt != 0 {
				t.Errorf("%s: an empty queue counts %d bytes and %d prompt items", what, q.cost, q.prompt)
			}
		})
	}
}

// TestQueueLetsOthersPass: delayed messages are taken a few at a time, never before items
// that were queued earlier, and in the order of their outbox.
func TestQueueLetsOthersPass(t *testing.T) {
	q := newQueue()
	push := func(source, number int, late bool) {
		it := &item{cost: lateBytesMax / 2, late: late}
		if source >= 0 {
			it.Message = &apply.Message{Source: source, Number: uint64(number)}
		}
		q.push(it)
	}
	push(1, 1, false)
	push(2, 1, false)
	for n := range 5 {
		push(1, n+2, true)
	}
	push(1, 7, false) // must not overtake the others of its outbox
	push(2, 2, false)
	push(-1, 0, false)
	take := func(count int) (text string) {
		taken, _ := q.take(nil, count, 1<<30)
		for _, it := range taken {
			if it.Message == nil {
				text += "entry "
				continue
			}
			text += fmt.Sprint(it.Message.Source, ".", it.Message.Number, " ")
		}
		return text
	}
	for i, want := range []string{"1.1 ", "2.1 1.2 1.3 ", "2.2 1.4 1.5 ", "entry 1.6 1.7 "} {
		if got := take(1); got != want {
			t.Errorf("batch %d: got %q, want %q", i, got, want)
		}
	}
	push(1, 8, false)
	if got := take(1); got != "1.8 " {
		t.Errorf("when no message is delayed any more: got %q", got)
	}
	q.close()
	if taken, more := q.take(nil, 1, 1); more || len(taken) > 0 {
		t.Error("a closed and empty queue returns more")
	}
}
