package bench

import (
	"strings"
	"testing"

	"parley/bench/scenario"
)

func TestQuantile(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	for percent, want := range map[int]float64{1: 1, 20: 1, 21: 2, 50: 3, 99: 5, 100: 5} {
		if got := quantile(values, percent); got != want {
			t.Errorf("%d %%: %v, want %v", percent, got, want)
		}
	}
}

// TestFailoverNeedsNodes: a leader that is killed needs two others that elect one.
func TestFailoverNeedsNodes(t *testing.T) {
	config, _ := quick(t, &plain{name: "a"})
	config.Cases, config.Kills = []Case{{Scenario: scenario.Failover, Clients: 2}}, 1
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
