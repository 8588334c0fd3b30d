package scenario

import (
	"testing"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario/host"
)

// times does n operations with one client.
func times(t *testing.T, n int, dial load.Dial, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	client, err := dial(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	var parts load.Parts
	for i := range n {
		if err := client.Do(t.Context(), i, &parts); err != nil {
			t.Fatalf("operation %d: %v", i, err)
		}
	}
}

// growing is a set on a server that grows.
func growing(t *testing.T, f fault) *Set {
	t.Helper()
	_, endpoint := newFake(t, f)
	h, err := NewSet(t.Context(), "fake", endpoint, host.Params{Seed: 7, Payload: 64, Agents: 1, Senders: 1, Sample: 2, Grow: 6, Active: 4, Pages: 9})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestGrowAgents(t *testing.T) {
	h := growing(t, sound)
	for _, size := range []int64{3, 6} {
		run := result.Run{Clients: 2, Size: size}
		bench := around{meter: blindMeter{}, window: &window{}, took: time.Second}
		if err := h.Scenario(GrowAgents).Run(t.Context(), &host.Round{Result: &run, Bench: bench}); err != nil {
			t.Fatal(err)
		}
		if f := run.Figures; run.Operations == 0 || run.Failures != 0 || f["active_agents"] != float64(min(4, size)) || f["disk_bytes"] != 2 || f["disk_bytes_per_agent"] != 1/float64(size) || (f["restart_kill_seconds"] > 0) != (size == 6) {
			t.Errorf("%d agents: %+v", size, run)
		}
	}
	for i, a := range h.Deployment.Recipients {
		if a.Handle == "" || int(a.Mailbox) >= len(h.Deployment.Mailboxes) || h.Deployment.Mailboxes[a.Mailbox] != a {
			t.Errorf("worker %d: %+v", i, a)
		}
	}
	// Each active agent sends twice at each size, and at the last size once more after a restart.
	if n := len(h.Deployment.Recipients); n != 6 || h.Stored() != 6+8+8 || h.Acknowledged() != 11 {
		t.Errorf("%d agents, %d stored, %d kept", n, h.Stored(), h.Acknowledged())
	}
}

func TestGrowMessages(t *testing.T) {
	h := growing(t, sound)
	_, empty := newFake(t, sound)
	for _, size := range []int64{0, 2000} {
		run := result.Run{Clients: 2, Size: size}
		bench := around{meter: blindMeter{}, window: &window{}, took: time.Second, another: empty}
		if err := h.Scenario(GrowMessages).Run(t.Context(), &host.Round{Plan: load.Plan{Clients: 2, Duration: 20 * time.Millisecond}, Result: &run, Bench: bench}); err != nil {
			t.Fatal(err)
		}
		f := run.Figures
		if run.Operations == 0 || run.Failures != 0 || run.Size < size || f["restart_term_seconds"] != 1 {
			t.Errorf("at %d: %+v", size, run)
		}
		if size > 0 && (f["deep_page"] != 9 || f["deep_page_p50_ms"] <= 0 || f["of_empty"] <= 0) {
			t.Errorf("at %d: %v", size, f)
		}
	}
}

func TestSampleIsVerified(t *testing.T) {
	for f, check := range map[fault]func(*result.Verification) bool{
		sound:        func(v *result.Verification) bool { return v.Clean() && v.Found == 10 },
		losesOne:     func(v *result.Verification) bool { return v.Missing == 3 && v.Found == 7 },
		keepsAltered: func(v *result.Verification) bool { return v.Altered == 3 && v.Found == 7 },
	} {
		h := growing(t, f)
		dial, err := (&growMessages{set: h}).fill(t.Context())
		times(t, 20, dial, err)
		v, err := h.Verify(t.Context())
		if err != nil || v.Acknowledged != 10 || v.SampleOf != 20 || !check(v) {
			t.Errorf("%q: %v, %+v", f, err, v)
		}
	}
}
