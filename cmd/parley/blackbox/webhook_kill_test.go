package blackbox

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// expectedAnnouncements are messages that a webhook must announce, by recipient.
type expectedAnnouncements struct {
	mu    sync.Mutex
	acked map[*hook]map[string]bool
}

func (r *expectedAnnouncements) add(h *hook, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.acked[h] == nil {
		r.acked[h] = map[string]bool{}
	}
	r.acked[h][id] = true
}

func (r *expectedAnnouncements) count() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ids := range r.acked {
		n += len(ids)
	}
	return n
}

// missing counts the messages that a webhook was not notified about.
func (r *expectedAnnouncements) missing(told func(h *hook) map[string]int) (n int) {
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

// announced counts the notifications of a webhook for each message.
func (h *hook) announced() map[string]int {
	times := map[string]int{}
	for _, d := range h.to.deliveries() {
		times[Text(d.body, "message_id")]++
	}
	return times
}

// TestKillsDuringDelivery kills the server five times while clients send and targets
// answer, some slowly. Every message answered 201 is announced at least once, by one job,
// and no job is lost.
func TestKillsDuringDelivery(t *testing.T) {
	Own(t, func(t *testing.T, journals string) {
		s := Start(t, "--journals", journals, "--webhook-ca", theSink(t).caFile)
		senders, hs, owed := announcing(s, t)
		for life := range 5 {
			lives(life, senders, hs, owed, s.Kill)
			s.Restart(t)
		}
		owed.checkAll(t, hs)
		VerifyDirectory(t, s)
	})
}

// announcing makes senders, and agents with webhooks, of which half have slow targets.
func announcing(s *Server, t *testing.T) ([]*Agent, []*hook, *expectedAnnouncements) {
	o := s.Org(t)
	senders, readers := s.Org(t).NewAgents(4, "s"), o.NewAgents(8, "r")
	hs := ConcurrentlyBounded(len(readers), func(i int) *hook {
		x := theSink(t).target()
		if i%2 == 1 {
			x.answers(answersLate)
		}
		return readers[i].hook(x)
	})
	return senders, hs, &expectedAnnouncements{acked: map[*hook]map[string]bool{}}
}

// checkAll waits until all is announced that is owed, and checks every job.
func (r *expectedAnnouncements) checkAll(t *testing.T, hs []*hook) {
	t.Helper()
	began := time.Now()
	for r.missing((*hook).announced) > 0 {
		if time.Since(began) > 15*time.Second {
			t.Errorf("%d of %d messages were not announced %v after the last kill", r.missing((*hook).announced), r.count(), time.Since(began))
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	took := time.Since(began)
	twice := 0
	for _, h := range hs {
		h.accounted(t)
		for _, n := range h.announced() {
			twice += n - 1
		}
	}
	t.Logf("%d messages, all announced %v after the last restart, %d deliveries more than once", r.count(), took.Round(time.Millisecond), twice)
	if r.count() < 50 {
		t.Errorf("only %d messages in five runs", r.count())
	}
	control := &expectedAnnouncements{acked: map[*hook]map[string]bool{}}
	control.add(hs[0], Nobody)
	if control.missing((*hook).announced) != 1 {
		t.Error("control: a missing announcement was not found")
	}
}

// lives sends for a while, and goes on until a fault has happened.
func lives(life int, senders []*Agent, hs []*hook, owed *expectedAnnouncements, fault func()) {
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
				a := from.TrySend(h.agent, nil, "Idempotency-Key", fmt.Sprintf("%d-%d-%d", life, k, n))
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
func (h *hook) accounted(t *testing.T) {
	t.Helper()
	jobs := map[string]int{}
	for _, j := range h.jobs("") {
		h.checkJob(j)
		jobs[Text(j, "message_id")]++
	}
	inbox := h.agent.Everything()
	for _, m := range inbox {
		if jobs[Text(m, "id")] != 1 {
			t.Errorf("message %s has %d jobs", m["id"], jobs[Text(m, "id")])
		}
	}
	if len(jobs) != len(inbox) {
		t.Errorf("%d jobs of %d messages", len(jobs), len(inbox))
	}
	h.waitForCounts(len(inbox), 0, 0, 0)
}

// TestADeliverySurvivesManyDeaths: a server that is killed during a delivery does not
// know its outcome. The attempt does not count, and the next one is made right after the
// start, however often that happens.
func TestADeliverySurvivesManyDeaths(t *testing.T) {
	OneServerOnly(t, "the leader delivers, and is not killed")
	t.Parallel()
	s := Start(t, "--webhook-ca", theSink(t).caFile)
	a, b := Pair(t, s)
	const deaths = attemptsMax + 1 // more than the maximum of attempts: none of them counts
	h := b.listens(append(slices.Repeat([]reaction{hangs}, deaths), says(200))...)
	m := a.Send(b)
	for n := range deaths {
		h.to.waitForDelivery(t, n+1)
		s.Kill()
		s.Restart(t)
	}
	if j := h.waitForStatus(m, "delivered"); !Same(j["attempts"], 1) {
		t.Errorf("after %d kills the job is %v", deaths, j)
	}
	h.waitForCounts(1, 0, 0, 0)
	if n := len(h.to.deliveries()); n != deaths+1 {
		t.Errorf("the target received %d deliveries", n)
	}
}

// TestDrainDuringDelivery: a server that shuts down does not wait for a hanging target
// and delivers after its next start.
func TestDrainDuringDelivery(t *testing.T) {
	Own(t, func(t *testing.T, journals string) {
		s := Start(t, "--journals", journals, "--webhook-ca", theSink(t).caFile)
		a, b := Pair(t, s)
		stuck, busy := b.listens(hangs), b.listens(answersLate)
		m := a.Send(b)
		for range 20 {
			a.Send(b)
		}
		stuck.to.waitForDelivery(t, 1)
		busy.to.waitForDelivery(t, 1)
		began := time.Now()
		if err := s.Drain(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 9*time.Second {
			t.Errorf("drained in %v", took)
		}
		stuck.to.answers(says(200))
		s.Restart(t)
		stuck.waitForStatus(m, "delivered")
		stuck.waitForCounts(21, 0, 0, 0)
		busy.waitForCounts(21, 0, 0, 0)
	})
}
