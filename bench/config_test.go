package bench

import (
	"slices"
	"strings"
	"testing"

	"parley/bench/scenario"
	"parley/bench/target"
)

// TestFailoverNeedsNodes: a leader that is killed needs two others that elect one.
func TestFailoverNeedsNodes(t *testing.T) {
	config, _ := quick(t, &plain{name: "a"})
	config.Cases, config.Params.Kills = []Case{{Scenario: scenario.Failover, Clients: 2}}, 1
	for nodes, want := range map[int]string{0: "3 nodes", 2: "3 nodes", 3: ""} {
		config.Nodes = nodes
		if err := config.check(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d nodes: %v", nodes, err)
		}
	}
}

// TestSomeScenariosLookIntoAProcess: they are refused for several nodes.
func TestSomeScenariosLookIntoAProcess(t *testing.T) {
	config, _ := quick(t, &plain{name: "a"})
	config.Nodes = 3
	if err := config.check(); err != nil {
		t.Errorf("the control: %v", err)
	}
	config.Cases[0].Scenario = scenario.Fanout
	if err := config.check(); err == nil || !strings.Contains(err.Error(), "process") {
		t.Errorf("fanout on several nodes: %v", err)
	}
}

// TestQuotaNeedsServersOfItsOwn: with a named server there is nothing to compare.
func TestQuotaNeedsServersOfItsOwn(t *testing.T) {
	config, _ := quick(t, &plain{name: "a"})
	config.Cases = []Case{{Scenario: scenario.Quota, Clients: 2}}
	if _, err := Run(t.Context(), config); err == nil || !strings.Contains(err.Error(), "--url") {
		t.Errorf("quota without servers of its own: %v", err)
	}
	config.Own = func(string, ...string) target.Target { return &plain{name: "a"} }
	if err := config.check(); err != nil {
		t.Errorf("the control: %v", err)
	}
}

func TestQuotaHasNoRates(t *testing.T) {
	got, err := Cases([]string{scenario.Quota}, nil, []float64{1000}, 0)
	if err != nil || !slices.Equal(got, []Case{{Scenario: scenario.Quota, Clients: usualClients}}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestGrowingCases(t *testing.T) {
	for _, c := range []struct {
		name string
		most int64
		want []int64
	}{
		{scenario.GrowAgents, 1_000_000, []int64{1000, 10_000, 100_000, 1_000_000}},
		{scenario.GrowAgents, 25_000, []int64{1000, 10_000, 25_000}},
		{scenario.GrowAgents, 1000, []int64{100, 1000}},
		{scenario.GrowMessages, 1_000_000, []int64{0, 100_000, 1_000_000}},
		{scenario.GrowMessages, 1, []int64{0, 1}},
	} {
		var got []int64
		cases, err := Cases([]string{c.name}, nil, nil, c.most)
		for _, one := range cases {
			got = append(got, one.Size)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s to %d: %v, %v, want %v", c.name, c.most, got, err, c.want)
		}
	}
	config, _ := quick(t, &plain{name: "a"})
	config.Own = func(string, ...string) target.Target { return &plain{name: "a"} }
	config.Cases = append(config.Cases, Case{Scenario: scenario.GrowAgents, Clients: 1, Size: 10})
	if _, err := Run(t.Context(), config); err == nil || !strings.Contains(err.Error(), "an empty server") {
		t.Errorf("agents grow on a server with messages: %v", err)
	}
}
