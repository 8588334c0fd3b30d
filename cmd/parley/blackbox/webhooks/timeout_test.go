package webhooks

import (
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/hooktest"
)

// TestTimeouts: a delivery that the target does not answer within 15 s has failed, and
// succeeds in a retry when the target has recovered. The test is in the last file so that
// it waits while others run.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	s := hooktest.Servers[0].Shared(t)
	from, o := s.Org(t).Agent("from"), s.Org(t)
	hanging := map[string]*hooktest.Hook{"hangs": hooktest.Listening(o.Agent("hangs"), hangs), "drips": hooktest.Listening(o.Agent("drips"), answersByteByByte)}
	held, began := map[string]obj{}, time.Now()
	for name, h := range hanging {
		held[name] = from.Send(h.Agent)
		h.To.WaitForDelivery(t, 1)
	}
	// Another target fails until its circuit opens and then recovers: its pending jobs
	// are attempted without intervention.
	recovers := hooktest.Listening(o.Agent("recovers"), hooktest.Says(500))
	for range 30 {
		from.Send(recovers.Agent)
	}
	kit.Eventually(t, "attempts are held", func() bool { return len(recovers.To.Deliveries()) >= 10 })
	failed := len(recovers.To.Deliveries())
	recovers.To.Answers(hooktest.Says(200))
	time.Sleep(time.Until(began.Add(14 * time.Second)))
	for name, h := range hanging {
		h.WaitForStatus(held[name], "processing")
	}
	for name, h := range hanging {
		j := h.WaitForStatus(held[name], "failed")
		if took, _ := j["last_duration_ms"].(float64); took < 14_900 || took > 17_000 || j["last_status_code"] != nil || !strings.Contains(kit.Text(j, "last_error"), "in time") {
			t.Errorf("%s: the job is %v", name, j)
		}
		planned(t, j, firstWait)
	}
	recovers.WaitForCounts(30, 0, 0, 0)
	t.Logf("a target that recovered received %d deliveries before and %d after", failed, len(recovers.To.Deliveries())-failed)
}
