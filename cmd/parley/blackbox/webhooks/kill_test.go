package webhooks

import (
	"slices"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/hooktest"
)

// TestKillsDuringDelivery kills the server five times while clients send and targets
// answer, some slowly. Every message answered 201 is announced at least once, by one job,
// and no job is lost.
func TestKillsDuringDelivery(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals, "--webhook-ca", hooktest.SharedSink(t).CAFile)
		senders, hs, owed := hooktest.Announcing(t, s)
		for life := range 5 {
			hooktest.Lives(life, senders, hs, owed, s.Kill)
			s.Restart(t)
		}
		owed.CheckAll(t, hs)
		kit.VerifyDirectory(t, s)
	})
}

// TestADeliverySurvivesManyDeaths: a server that is killed during a delivery does not
// know its outcome. The attempt does not count, and the next one is made right after the
// start, however often that happens.
func TestADeliverySurvivesManyDeaths(t *testing.T) {
	kit.OneServerOnly(t, "the leader delivers, and is not killed")
	t.Parallel()
	s := kit.Start(t, "--webhook-ca", hooktest.SharedSink(t).CAFile)
	a, b := kit.Pair(t, s)
	const deaths = hooktest.AttemptsMax + 1 // more than the maximum of attempts: none of them counts
	h := hooktest.Listening(b, append(slices.Repeat([]hooktest.Reaction{hangs}, deaths), hooktest.Says(200))...)
	m := a.Send(b)
	for n := range deaths {
		h.To.WaitForDelivery(t, n+1)
		s.Kill()
		s.Restart(t)
	}
	if j := h.WaitForStatus(m, "delivered"); !kit.Same(j["attempts"], 1) {
		t.Errorf("after %d kills the job is %v", deaths, j)
	}
	h.WaitForCounts(1, 0, 0, 0)
	if n := len(h.To.Deliveries()); n != deaths+1 {
		t.Errorf("the target received %d deliveries", n)
	}
}

// TestDrainDuringDelivery: a server that shuts down does not wait for a hanging target
// and delivers after its next start.
func TestDrainDuringDelivery(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals, "--webhook-ca", hooktest.SharedSink(t).CAFile)
		a, b := kit.Pair(t, s)
		stuck, busy := hooktest.Listening(b, hangs), hooktest.Listening(b, hooktest.AnswersLate)
		m := a.Send(b)
		for range 20 {
			a.Send(b)
		}
		stuck.To.WaitForDelivery(t, 1)
		busy.To.WaitForDelivery(t, 1)
		began := time.Now()
		if err := s.Drain(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 9*time.Second {
			t.Errorf("drained in %v", took)
		}
		stuck.To.Answers(hooktest.Says(200))
		s.Restart(t)
		stuck.WaitForStatus(m, "delivered")
		stuck.WaitForCounts(21, 0, 0, 0)
		busy.WaitForCounts(21, 0, 0, 0)
	})
}
