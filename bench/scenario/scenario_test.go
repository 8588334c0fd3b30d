package scenario

import (
	"context"
	"strings"
	"testing"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario/host"
	"parley/bench/target"
)

func newHost(t *testing.T, f fault) *Set {
	t.Helper()
	_, endpoint := newFake(t, f)
	h, err := NewSet(t.Context(), "fake", endpoint, host.Params{Seed: 7, Payload: 64, Agents: 3, Senders: 2, Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// measure runs a scenario for a moment.
func measure(t *testing.T, h *Set, name string) (result.Run, error) {
	t.Helper()
	dial, err := h.Prepare(t.Context(), name, 2)
	if err != nil {
		return result.Run{}, err
	}
	m, err := load.Run(t.Context(), load.Plan{Clients: 2, Duration: 40 * time.Millisecond}, dial, nil)
	if err != nil {
		return result.Run{}, err
	}
	var run result.Run
	m.Fill(&run)
	h.Settle(&run)
	return run, nil
}

// TestSoundServerPasses: the control of the tests below. Without a fault there is no
// complaint.
func TestSoundServerPasses(t *testing.T) {
	h := newHost(t, sound)
	for _, name := range []string{Send, Inbox, Reply, Sync, Hot} {
		run, err := measure(t, h, name)
		if err != nil || run.Failures != 0 || run.Operations == 0 {
			t.Errorf("%s: %v, %d operations, failures %v", name, err, run.Operations, run.Reasons)
		}
		parts := map[string][]string{Reply: {"accepted", "delivery"}}[name]
		for _, part := range parts {
			if run.Parts[part].Count == 0 {
				t.Errorf("%s: part %q is missing", name, part)
			}
		}
	}
	v, err := h.Verify(t.Context())
	if err != nil || !v.Clean() || v.Found != v.Acknowledged || v.Found < 100 || v.Unknown != 0 {
		t.Errorf("verification: %v, %+v", err, v)
	}
}

// TestWrongAnswersAreFailures plants one fault at a time. The scenario must fail and
// give the reason.
func TestWrongAnswersAreFailures(t *testing.T) {
	for _, c := range []struct {
		fault    fault
		scenario string
		reason   string
	}{
		{sameID, Send, "an id that another message has"},
		{otherRecipient, Send, "another recipient"},
		{otherPayload, Send, "another payload"},
		{noID, Send, "no UUID"},
		{notCreated, Send, "status 409 conflict"},
		{unknownOutcome, Send, "status 503 outcome_unknown"},
		{otherRecipient, Hot, "another recipient"},
		{oldestFirst, Inbox, "not newest first"},
		{shortPages, Inbox, "a page of 19"},
		{othersMessages, Inbox, "to another agent"},
		{keepsAltered, Inbox, "a payload that nobody sent"},
		{wrongEvent, Reply, "the stream brings another message"},
		{otherPayload, Reply, "another payload"},
		{noReply, Sync, "sync ended as timeout"},
		{otherReply, Sync, "another reply"},
	} {
		t.Run(string(c.fault)+" in "+c.scenario, func(t *testing.T) {
			t.Parallel()
			run, err := measure(t, newHost(t, c.fault), c.scenario)
			said := ""
			if err != nil {
				said = err.Error()
			}
			for reason := range run.Reasons {
				said += " " + reason
			}
			if !strings.Contains(said, c.reason) {
				t.Errorf("no reason contains %q, only %q", c.reason, said)
			}
			if err == nil && run.Failures == 0 {
				t.Error("no failure is counted")
			}
		})
	}
}

// TestVerifyFindsViolations plants one fault at a time in what the server stores.
func TestVerifyFindsViolations(t *testing.T) {
	for fault, violated := range map[fault]func(*result.Verification) int64{
		losesOne:       func(v *result.Verification) int64 { return v.Missing },
		keepsTwice:     func(v *result.Verification) int64 { return v.Twice },
		keepsAltered:   func(v *result.Verification) int64 { return v.Altered },
		keepsElsewhere: func(v *result.Verification) int64 { return v.Altered },
		keepsRefused:   func(v *result.Verification) int64 { return v.Stray },
		oldestFirst:    func(v *result.Verification) int64 { return v.Reordered },
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			h := newHost(t, fault)
			if _, err := measure(t, h, Send); err != nil {
				t.Fatal(err)
			}
			v, err := h.Verify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if v.Clean() || violated(v) == 0 {
				t.Errorf("not found: %+v", v)
			}
			if total := v.Found + v.Missing + v.Altered; total != v.Acknowledged {
				t.Errorf("%d found, missing or altered of %d", total, v.Acknowledged)
			}
		})
	}
}

// TestSyncHearsItsLastReply: a reply that its asker has received is acknowledged a
// little later, and the end of a run waits for that.
func TestSyncHearsItsLastReply(t *testing.T) {
	h := newHost(t, tellsLate)
	run, err := measure(t, h, Sync)
	if err != nil || run.Failures != 0 || run.Operations == 0 {
		t.Fatalf("%v, %d operations, failures %v", err, run.Operations, run.Reasons)
	}
	v, err := h.Verify(t.Context())
	if err != nil || !v.Clean() || v.Unknown != 0 || v.Found != v.Acknowledged {
		t.Errorf("verification: %v, %+v", err, v)
	}
}

// TestUnknownOutcomesAreNoViolations: a client whose outcome is unknown has no
// acknowledgement that could be violated.
func TestUnknownOutcomesAreNoViolations(t *testing.T) {
	h := newHost(t, unknownOutcome)
	if _, err := measure(t, h, Send); err != nil {
		t.Fatal(err)
	}
	v, err := h.Verify(t.Context())
	if err != nil || !v.Clean() || v.Unknown == 0 || v.Found == 0 {
		t.Errorf("%v, %+v", err, v)
	}
}

// blindMeter is a meter that sees only descriptors, and as many as it is set to.
type blindMeter struct{ s *fake }

func (blindMeter) Resident() uint64            { return 0 }
func (blindMeter) Live(context.Context) uint64 { return 0 }
func (blindMeter) CPU() time.Duration          { return 0 }
func (blindMeter) Log() (uint64, bool)         { return 0, false }
func (blindMeter) Peak() uint64                { return 0 }
func (blindMeter) ForgetPeak()                 {}
func (blindMeter) Settle(context.Context)      {}
func (blindMeter) Disk() (uint64, uint64)      { return 2, 1 }
func (u blindMeter) Open() int {
	if u.s == nil {
		return -1
	}
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	n := 0
	for _, o := range u.s.byID {
		n += len(o.listeners)
	}
	return n
}

type window struct{ begun, ended int }

func (w *window) Begin()             { w.begun++ }
func (w *window) Tick(result.Second) {}
func (w *window) End()               { w.ended++ }

// around is the bench of these tests: it restarts nothing, but says how long that took.
type around struct {
	host.Bench
	// another is the server that Another returns.
	another target.Endpoint
	meter   host.Meter
	window  load.Watch
	took    time.Duration
}

func (a around) Begin(context.Context) load.Watch               { return a.window }
func (a around) Meter() host.Meter                              { return a.meter }
func (a around) Restart(context.Context) (time.Duration, error) { return a.took, nil }
func (a around) Kill(context.Context) (time.Duration, error)    { return a.took, nil }
func (a around) Limit(n int, _ string) int                      { return n }

func (a around) Another(ctx context.Context, params host.Params, _ ...string) (*host.Host, func() error, error) {
	set, err := host.NewHost(ctx, "another", a.another, params)
	return set, func() error { return nil }, err
}

// runOnce performs one run of a scenario.
func runOnce(t *testing.T, h *Set, name string, plan load.Plan, bench around) (result.Run, error) {
	t.Helper()
	run := result.Run{Clients: plan.Clients}
	err := h.Scenario(name).Run(t.Context(), &host.Round{Plan: plan, Result: &run, Bench: bench})
	h.Settle(&run)
	return run, err
}

func TestStreams(t *testing.T) {
	s, endpoint := newFake(t, sound)
	h, err := NewSet(t.Context(), "fake", endpoint, host.Params{Seed: 7, Payload: 64, Agents: 1, Senders: 1, Streams: 10, Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	var w window
	run, err := runOnce(t, h, Stream, load.Plan{}, around{meter: blindMeter{s}, window: &w})
	if err != nil {
		t.Fatal(err)
	}
	if run.Operations != 10*events || run.Failures != 0 || w != (window{1, 1}) || run.Figures["last_ms"] < run.Figures["p50_ms"] || run.Figures["disconnect_ms"] <= 0 {
		t.Errorf("%+v %+v", run, w)
	}
	_, endpoint = newFake(t, keepsAltered)
	if h, err = NewSet(t.Context(), "fake", endpoint, h.Params); err != nil {
		t.Fatal(err)
	}
	if _, err := runOnce(t, h, Stream, load.Plan{}, around{meter: blindMeter{s}, window: &w}); err == nil || !strings.Contains(err.Error(), "a payload that nobody sent") {
		t.Errorf("an altered event passes: %v", err)
	}
}

func TestParamsAreChecked(t *testing.T) {
	good := host.Params{Payload: host.PayloadMin, Agents: 1, Senders: 1}
	if err := good.Check(); err != nil {
		t.Errorf("the smallest valid parameters are refused: %v", err)
	}
	for name, change := range map[string]func(*host.Params){
		"payload": func(p *host.Params) { p.Payload = host.PayloadMin - 1 },
		"agents":  func(p *host.Params) { p.Agents = 0 },
		"senders": func(p *host.Params) { p.Senders = 0 },
		"members": func(p *host.Params) { p.Members = -1 },
		// Two electors settle every vote.
		"electors": func(p *host.Params) { p.Electors = 2 },
	} {
		p := good
		change(&p)
		if p.Check() == nil {
			t.Errorf("a wrong number of %s is not refused", name)
		}
	}
}
