package scenario

import (
	"strings"
	"testing"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario/host"
)

// newGroups is a host with small groups.
func newGroups(t *testing.T, f fault) *Set {
	t.Helper()
	_, endpoint := newFake(t, f)
	h, err := NewSet(t.Context(), "fake", endpoint, host.Params{Seed: 7, Payload: 64, Agents: 2, Senders: 2, Members: 4, Electors: 15, Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	h.Scenario(Fanout).(*fanout).patience = 200 * time.Millisecond
	return h
}

func fannedOut(t *testing.T, h *Set) (result.Run, window, error) {
	t.Helper()
	var w window
	run, err := runOnce(t, h, Fanout, load.Plan{Clients: 2, Duration: 40 * time.Millisecond}, around{meter: blindMeter{}, window: &w})
	return run, w, err
}

// mixedLoad runs PrepareMixedLoad until there are some broadcasts, and has one joiner leave
// and return. It returns how many operations failed.
func mixedLoad(t *testing.T, h *Set) (failures int64) {
	t.Helper()
	const clients = 8
	for before := len(h.Log.Broadcasts); len(h.Log.Broadcasts) < before+6; {
		dial, err := PrepareMixedLoad(t.Context(), h, clients)
		if err != nil {
			t.Fatal(err)
		}
		m, err := load.Run(t.Context(), load.Plan{Clients: clients, Duration: 40 * time.Millisecond}, dial, nil)
		if err != nil {
			t.Fatal(err)
		}
		h.Settle(&result.Run{})
		failures += m.Failures
	}
	dial, err := h.Prepare(t.Context(), HotGroup, clients)
	if err != nil {
		t.Fatal(err)
	}
	commuting, err := dial(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 { // it leaves or returns
		if err := commuting.Do(t.Context(), (n+1)*commandEvery-1, nil); err != nil {
			failures++
		}
	}
	if err := commuting.Close(); err != nil {
		t.Error(err)
	}
	return failures
}

// TestSoundGroupsPass: the control of the tests below.
func TestSoundGroupsPass(t *testing.T) {
	h := newGroups(t, sound)
	for range 2 { // the second run has the group and the messages of the first
		run, w, err := fannedOut(t, h)
		if err != nil || run.Failures != 0 || run.Operations == 0 || w != (window{1, 1}) {
			t.Fatalf("%v, %d operations, failures %v, window %+v", err, run.Operations, run.Reasons, w)
		}
		// Two speakers and four members: everyone receives what the others send. The two
		// rates are over windows that differ by a few milliseconds; six copies of each would show.
		f := run.Figures
		if most := 5.5 * run.PerSecond; f[FigureRecipients] != 5 || f[FigureDeliveries] <= 0 || f[FigureDeliveries] > most || f[FigureCastOfDirect] <= 0 {
			t.Errorf("%.0f broadcasts a second, figures %v", run.PerSecond, run.Figures)
		}
		for _, part := range []string{PartCastAlone, PartDirectAlone, PartLastAlone, PartDirectAmid, PartLastAmid, PartAfterAmid} {
			if run.Parts[part].Count == 0 {
				t.Errorf("part %q is missing", part)
			}
		}
	}
	for _, name := range []string{HotGroup, HotGroup} {
		run, err := measure(t, h, name)
		if err != nil || run.Failures != 0 || run.Operations == 0 {
			t.Errorf("%s: %v, %d operations, failures %v", name, err, run.Operations, run.Reasons)
		}
	}
	if failures := mixedLoad(t, h); failures != 0 {
		t.Errorf("mixedLoad: %d failures", failures)
	}
	v, err := h.Verify(t.Context())
	if err != nil || !v.Clean() || v.Found != v.Acknowledged || v.Unknown != 0 || int(v.Acknowledged) != h.Acknowledged() {
		t.Fatalf("verification: %v, %+v", err, v)
	}
	if v.Broadcasts < 20 || v.Copies != 5*v.Broadcasts || v.Commands < 30 {
		t.Errorf("too little was verified: %+v", v)
	}
	if n := len(hotGroupOf(h).joiners); n != 8 {
		t.Errorf("%d joiners", n)
	}
}

// TestWrongGroupsAreFailures plants one fault at a time in what a group answers, or in
// the inbox of a member of the sample.
func TestWrongGroupsAreFailures(t *testing.T) {
	for _, c := range []struct {
		fault    fault
		scenario string
		reason   string
	}{
		{otherPayload, Fanout, "another payload"},
		{otherCount, Fanout, "another recipient_count"},
		{otherGroup, Fanout, "another group"},
		{otherBroadcast, Fanout, "a copy of another broadcast"},
		{losesCopy, Fanout, "were not with all of 4 members"},
		{altersCopy, Fanout, "a payload that nobody sent"},
		{keepsCopyTwice, Fanout, "copies twice or not in the order of the group"},
		{swapsCopies, Fanout, "copies twice or not in the order of the group"},
		{listsFewer, Fanout, "the group has 5 members of 6"},
		{seatsNobody, Fanout, "an open group that seats nobody"},
		{otherVote, HotGroup, "another vote than the one cast"},
		{settlesEarly, HotGroup, "a request that a fifth of its electors settles"},
		{unknownOutcome, HotGroup, "status 503 outcome_unknown"},
	} {
		t.Run(string(c.fault)+" in "+c.scenario, func(t *testing.T) {
			t.Parallel()
			h := newGroups(t, c.fault)
			var run result.Run
			var err error
			if c.scenario == Fanout {
				run, _, err = fannedOut(t, h)
			} else {
				run, err = measure(t, h, c.scenario)
			}
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
		})
	}
}

// TestVerifyFindsViolationsOfGroups plants one fault at a time in the stored
// broadcasts, votes and seats.
func TestVerifyFindsViolationsOfGroups(t *testing.T) {
	for fault, violated := range map[fault]func(*result.Verification) int64{
		losesCopy:      func(v *result.Verification) int64 { return v.Missing },
		keepsCopyTwice: func(v *result.Verification) int64 { return v.Twice },
		altersCopy:     func(v *result.Verification) int64 { return v.Altered },
		copiesToSender: func(v *result.Verification) int64 { return v.Stray },
		halfWay:        func(v *result.Verification) int64 { return v.Partial },
		forgetsVote:    func(v *result.Verification) int64 { return v.CommandsLost },
		keepsSeat:      func(v *result.Verification) int64 { return v.CommandsLost },
		unknownOutcome: nil,
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			h := newGroups(t, fault)
			if err := h.Scenario(Fanout).(*fanout).assemble(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := h.Scenario(HotGroup).(loads).Load.(*hotGroup).convene(t.Context()); err != nil {
				t.Fatal(err)
			}
			mixedLoad(t, h)
			v, err := h.Verify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if violated == nil {
				if !v.Clean() || v.Unknown == 0 {
					t.Errorf("a client without an acknowledgement counts as a violation: %+v", v)
				}
				return
			}
			if v.Clean() || violated(v) == 0 {
				t.Errorf("not found: %+v", v)
			}
		})
	}
}

func TestVotesNeedElectors(t *testing.T) {
	h := newGroups(t, sound)
	if _, err := h.Prepare(t.Context(), HotGroup, 100); err == nil || !strings.Contains(err.Error(), "more than 3 voters") {
		t.Errorf("a hundred clients for three voters: %v", err)
	}
}
