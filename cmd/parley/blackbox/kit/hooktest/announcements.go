package hooktest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// ExpectedAnnouncements are messages that a webhook must announce, by recipient.
type ExpectedAnnouncements struct {
	mu    sync.Mutex
	acked map[*Hook]map[string]bool
}

func (r *ExpectedAnnouncements) add(h *Hook, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.acked[h] == nil {
		r.acked[h] = map[string]bool{}
	}
	r.acked[h][id] = true
}

func (r *ExpectedAnnouncements) count() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ids := range r.acked {
		n += len(ids)
	}
	return n
}

// missing counts the messages that a webhook was not notified about.
func (r *ExpectedAnnouncements) missing(told func(h *Hook) map[string]int) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for h, ids := range r.acked {
		heard := told(h)
		for id := range ids {
			if heard[id] == 0 {
				n++
			}
		}
	}
	return n
}

// Announced counts the notifications of a webhook for each message.
func (h *Hook) Announced() map[string]int {
	times := map[string]int{}
	for _, d := range h.To.Deliveries() {
		times[kit.Text(d.Body, "message_id")]++
	}
	return times
}

// Announcing makes senders, and agents with webhooks, of which half have slow targets.
func Announcing(t *testing.T, s *kit.Server) ([]*kit.Agent, []*Hook, *ExpectedAnnouncements) {
	o := s.Org(t)
	senders, readers := s.Org(t).NewAgents(4, "s"), o.NewAgents(8, "r")
	hs := kit.ConcurrentlyBounded(len(readers), func(i int) *Hook {
		x := SharedSink(t).Target()
		if i%2 == 1 {
			x.Answers(AnswersLate)
		}
		return New(readers[i], x)
	})
	return senders, hs, &ExpectedAnnouncements{acked: map[*Hook]map[string]bool{}}
}

// CheckAll waits until all is announced that is owed, and checks every job.
func (r *ExpectedAnnouncements) CheckAll(t *testing.T, hs []*Hook) {
	t.Helper()
	began := time.Now()
	for r.missing((*Hook).Announced) > 0 {
		if time.Since(began) > 15*time.Second {
			t.Errorf("%d of %d messages were not announced %v after the last kill", r.missing((*Hook).Announced), r.count(), time.Since(began))
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	took := time.Since(began)
	twice := 0
	for _, h := range hs {
		h.accounted(t)
		for _, n := range h.Announced() {
			twice += n - 1
		}
	}
	t.Logf("%d messages, all announced %v after the last restart, %d deliveries more than once", r.count(), took.Round(time.Millisecond), twice)
	if r.count() < 50 {
		t.Errorf("only %d messages in five runs", r.count())
	}
	control := &ExpectedAnnouncements{acked: map[*Hook]map[string]bool{}}
	control.add(hs[0], kit.Nobody)
	if control.missing((*Hook).Announced) != 1 {
		t.Error("control: a missing announcement was not found")
	}
}

// Lives sends for a while, and goes on until a fault has happened.
func Lives(life int, senders []*kit.Agent, hs []*Hook, owed *ExpectedAnnouncements, fault func()) {
	dead := make(chan struct{})
	var working sync.WaitGroup
	for k, from := range senders {
		working.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-dead:
					return
				default:
				}
				h := hs[(n*len(senders)+k)%len(hs)]
				a := from.TrySend(h.Agent, nil, "Idempotency-Key", fmt.Sprintf("%d-%d-%d", life, k, n))
				if a.Err != nil || a.Status != 201 {
					time.Sleep(5 * time.Millisecond)
					continue
				}
				id, _ := a.Body["id"].(string)
				owed.add(h, id)
			}
		})
	}
	time.Sleep(time.Duration(250+life*90) * time.Millisecond)
	fault()
	close(dead)
	working.Wait()
}

// accounted checks that a webhook has one job for each message of its agent, and that
// each is eventually delivered.
func (h *Hook) accounted(t *testing.T) {
	t.Helper()
	jobs := map[string]int{}
	for _, j := range h.Jobs("") {
		h.CheckJob(j)
		jobs[kit.Text(j, "message_id")]++
	}
	inbox := h.Agent.Everything()
	for _, m := range inbox {
		if jobs[kit.Text(m, "id")] != 1 {
			t.Errorf("message %s has %d jobs", m["id"], jobs[kit.Text(m, "id")])
		}
	}
	if len(jobs) != len(inbox) {
		t.Errorf("%d jobs of %d messages", len(jobs), len(inbox))
	}
	h.WaitForCounts(len(inbox), 0, 0, 0)
}
