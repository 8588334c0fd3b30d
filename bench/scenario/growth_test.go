package scenario

import (
	"context"
	"testing"
	"time"

	"parley/bench/load"
	"parley/bench/result"
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
	var laps load.Laps
	for i := range n {
		if err := client.Do(t.Context(), i, &laps); err != nil {
			t.Fatalf("operation %d: %v", i, err)
		}
	}
}

func grownHost(t *testing.T, f fault) *Growth {
	t.Helper()
	_, endpoint := newFake(t, f)
	h, err := NewSet(t.Context(), "fake", endpoint, Params{Seed: 7, Payload: 64, Agents: 1, Senders: 1, Sample: 2})
	if err != nil {
		t.Fatal(err)
	}
	return &Growth{Host: h.Host}
}

func TestAgentsAreMadeAndTalk(t *testing.T) {
	h := grownHost(t, sound)
	dial, err := h.PrepareAgents(t.Context(), 6)
	times(t, 5, dial, err)
	if client, err := dial(t.Context(), 0); err != nil || client.Do(t.Context(), 5, nil) == nil {
		t.Errorf("a sixth agent when there are five: %v", err)
	}
	if n := h.SettleAgents(); n != 6 {
		t.Fatalf("%d agents", n)
	}
	if _, err := h.PrepareAgents(t.Context(), 6); err == nil {
		t.Error("six agents are made again")
	}
	for i, a := range h.world.workers {
		if a.handle == "" || int(a.box) >= len(h.world.boxes) || h.world.boxes[a.box] != a {
			t.Errorf("worker %d: %+v", i, a)
		}
	}
	dial, err = h.PrepareRing(t.Context(), 4)
	times(t, 8, dial, err)
	h.Settle(&result.Run{})
	if h.Stored() != 8 || h.Acknowledged() != 4 {
		t.Errorf("%d stored, %d kept", h.Stored(), h.Acknowledged())
	}
}

func TestLongInboxIsFilledAndDived(t *testing.T) {
	h := grownHost(t, sound)
	dial, err := h.PrepareAgents(t.Context(), 50)
	times(t, 49, dial, err)
	h.SettleAgents()
	if dial, depth, err := h.PrepareDive(t.Context(), 9); dial != nil || depth != 0 || err != nil {
		t.Errorf("a dive into an empty inbox: %d, %v", depth, err)
	}
	dial, err = h.PrepareFill(t.Context(), 9)
	times(t, 900, dial, err)
	h.Settle(&result.Run{})
	// One in four of 900 messages goes there until it has nine pages and one message.
	if long := h.lengthy.Load(); long < 181 || long > 181+60 {
		t.Errorf("the long inbox has %d messages", long)
	}
	dial, depth, err := h.PrepareDive(t.Context(), 9)
	if depth != 9 {
		t.Errorf("page %d, want 9", depth)
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := load.Run(t.Context(), load.Plan{Clients: 1, Duration: 30 * time.Millisecond}, dial, nil)
	if err != nil || m.Failures != 0 || m.Laps["first page"].Count() == 0 || m.Laps["deep page"].Count() == 0 {
		t.Errorf("the dive: %v, %+v", err, m)
	}
}

func TestSampleIsVerified(t *testing.T) {
	for f, check := range map[fault]func(*result.Verification) bool{
		sound:        func(v *result.Verification) bool { return v.Clean() && v.Found == 10 },
		losesOne:     func(v *result.Verification) bool { return v.Missing == 3 && v.Found == 7 },
		keepsAltered: func(v *result.Verification) bool { return v.Altered == 3 && v.Found == 7 },
	} {
		h := grownHost(t, f)
		dial, err := h.PrepareFill(t.Context(), 2)
		times(t, 20, dial, err)
		v, err := h.VerifySample(context.WithoutCancel(t.Context()))
		if err != nil || v.Acknowledged != 10 || v.SampleOf != 20 || !check(v) {
			t.Errorf("%q: %v, %+v", f, err, v)
		}
	}
}
