// Package bench measures what a messaging engine holds durably on the machine
// it runs on: Parley, and peers beside it in the same run.
package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/bench/report"
	"parley/bench/scenario"
	"parley/bench/target"
)

// Case is one question put to every target that takes part in its scenario.
type Case struct {
	Scenario string
	Clients  int
	// Rate is the arrivals a second of an open loop; 0 is a closed loop.
	Rate float64
	// Share, if not 0, makes an open loop at this share of what the target itself
	// reached in the closed loops of the same scenario before. It concerns ours
	// alone: others would be asked another question.
	Share float64
}

// Config says what to measure.
type Config struct {
	// Targets are measured in turn; the first is ours.
	Targets []target.Target
	Cases   []Case
	// Repeats of each case, WarmUp and Duration of each run.
	Repeats          int
	WarmUp, Duration time.Duration
	// Poisson draws the gaps of open loops by chance instead of making them equal.
	Poisson bool
	Params  scenario.Params
	// Ladder looks for the highest rate of Send whose 99th percentile stays within
	// Bound, on each target.
	Ladder bool
	Bound  time.Duration
	// Verify, which cases of Overload bring along, kills ours at the end, starts it again and reads everything back.
	Verify bool
	// Own makes a further server of ours that keeps its data under dir, with these
	// flags after its usual ones; nil where there can be none.
	Own func(dir string, flags ...string) target.Target
	// Dir is where data is written: the disk under it is probed, for ProbeTime.
	Dir       string
	ProbeTime time.Duration
	// Live shows what happens.
	Live *report.Live
	// Command is how the bench was called.
	Command []string
}

// defaultClients are those of scenarios that do not ask for a sweep.
const defaultClients = 64

// hotClients ask one conversation or one group at once.
const hotClients = 512

// sweep are the default numbers of clients of Send: one, some, many.
var sweep = []int{1, 64, 256}

// Cases are those of the scenarios named: closed loops with each number of
// clients (with the defaults of the scenario if there are none) and open loops
// at each rate with the largest.
func Cases(scenarios []string, clients []int, rates []float64) ([]Case, error) {
	var cases []Case
	for _, name := range scenarios {
		if !slices.Contains(scenario.Names(), name) {
			return nil, fmt.Errorf("there is no scenario %q; known are: %s", name, strings.Join(scenario.Names(), ", "))
		}
		if name == scenario.Overload {
			cases = append(cases, Overload()...)
			continue
		}
		if !isLoad(name) {
			cases = append(cases, Case{Scenario: name, Clients: 1})
			continue
		}
		counts := clients
		switch {
		case len(counts) > 0:
		case name == scenario.Send:
			counts = sweep
		case name == scenario.Fanout:
			counts = []int{fanClients}
		default:
			counts = []int{defaultClients}
		}
		for _, n := range counts {
			cases = append(cases, Case{Scenario: name, Clients: n})
		}
		for _, rate := range rates {
			if name == scenario.Quota {
				break // at a rate that both hold there is nothing to compare
			}
			cases = append(cases, Case{Scenario: name, Clients: slices.Max(counts), Rate: rate})
		}
	}
	return cases, nil
}

// isLoad tells whether a scenario is operations of many clients.
func isLoad(name string) bool { return name != scenario.Stream && name != scenario.Idle }

// Goals are the cases that the published goals name.
func Goals() []Case {
	cases := []Case{
		{Scenario: scenario.Idle, Clients: 1},
		{Scenario: scenario.Send, Clients: 1},
		{Scenario: scenario.Send, Clients: 64},
		{Scenario: scenario.Send, Clients: 256},
		{Scenario: scenario.Send, Clients: 256, Share: 0.5},
		{Scenario: scenario.Reply, Clients: 64, Rate: 2000},
		{Scenario: scenario.Inbox, Clients: 64},
		{Scenario: scenario.Stream, Clients: 1},
		{Scenario: scenario.Hot, Clients: hotClients},
		{Scenario: scenario.Cold, Clients: hotClients},
	}
	return append(cases, Groups()...)
}

// check refuses what cannot be run.
func (c *Config) check() error {
	switch {
	case len(c.Targets) == 0:
		return errors.New("there is nothing to measure")
	case c.Repeats < 1:
		return fmt.Errorf("%d repeats measure nothing", c.Repeats)
	case c.Duration <= 0 || c.WarmUp < 0 || c.WarmUp+c.Duration > runLongest:
		return fmt.Errorf("warm-up and duration should be some time, together at most %v: that is how long a token lives", runLongest)
	case c.Ladder && c.Bound <= 0:
		return errors.New("a ladder needs a bound for the 99th percentile")
	}
	for _, k := range c.Cases {
		if k.Clients < 1 || k.Rate < 0 {
			return fmt.Errorf("%s cannot be run with %d clients at a rate of %v", k.Scenario, k.Clients, k.Rate)
		}
		if k.Scenario == scenario.Deep && c.Params.Depth < 2 {
			return errors.New("deep compares page 1 with another: name it with --depth")
		}
		if k.Scenario == scenario.Quota && c.Own == nil {
			return errNotOwn
		}
	}
	var names []string
	for _, t := range c.Targets {
		if slices.Contains(names, t.Name()) {
			return fmt.Errorf("two targets are called %s", t.Name())
		}
		names = append(names, t.Name())
	}
	return c.Params.Check()
}

// runLongest keeps a run, overtime included, within the life of a token.
const runLongest = 6 * time.Minute
