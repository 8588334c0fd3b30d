// Package bench measures how much a messaging engine can store durably on the machine it
// runs on: Parley, and peers beside it in the same bench.
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

// Case is one combination of parameters that every target of its scenario runs.
type Case struct {
	Scenario string
	Clients  int
	// Rate is the arrivals per second of an open loop; 0 is a closed loop.
	Rate float64
	// Share, if not 0, makes an open loop at this share of the throughput that the target
	// itself reached in the earlier closed loops of the same scenario. Only our server
	// runs such a case: for other targets it would be a different case.
	Share float64
	// Window, if not 0, is the length of the run instead of Config.Duration. Such a run
	// is long enough to pay for the compaction of what it writes; what is left of that
	// when the window ends is charged to its CPU.
	Window time.Duration
	// Peer is the only peer that takes part; empty for all that can.
	Peer string
}

// Config says what to measure.
type Config struct {
	// Targets are measured in turn; the first is ours.
	Targets []target.Target
	Cases   []Case
	// Nodes, if not 0, says that the first target is a cluster of so many nodes. A target
	// with the name Single is then compared with it.
	Nodes int
	// Kills is how often Failover kills the leader. It takes no repeats.
	Kills int
	// Repeats of each case, WarmUp and Duration of each run.
	Repeats          int
	WarmUp, Duration time.Duration
	Params           scenario.Params
	// Verify kills our server at the end, starts it again and reads everything back.
	// Cases of Overload and Failover imply it.
	Verify bool
	// Own creates another server of ours that keeps its data under dir, with these flags
	// after its usual ones; nil if that is impossible.
	Own func(dir string, flags ...string) target.Target
	// Dir is the directory for data. The disk under it is probed for ProbeTime.
	Dir       string
	ProbeTime time.Duration
	// Live shows the progress.
	Live *report.Live
	// Command is the command line of the bench.
	Command []string
}

// Single is the name in reports of the single server beside several nodes.
const Single = "single"

// defaultClients is the number of clients of scenarios without a sweep.
const defaultClients = 64

// directoryClients is the default number of clients of Directory: one shows how long a
// search takes that waits for no other.
const directoryClients = 1

// fanClients is the default number of concurrent broadcasts: enough that a group always
// has another broadcast to work on, without overload.
const fanClients = 8

// hotClients is the number of clients on one conversation or one group.
const hotClients = 512

// sweep are the default numbers of clients of Send: one, some, many.
var sweep = []int{1, 64, 256}

// Cases returns the cases of the named scenarios: closed loops with each number of
// clients (the scenario's defaults if there are none) and open loops at each rate with
// the largest number.
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
		case name == scenario.Directory:
			counts = []int{directoryClients}
		case name == scenario.Fanout:
			counts = []int{fanClients}
		default:
			counts = []int{defaultClients}
		}
		for _, n := range counts {
			cases = append(cases, Case{Scenario: name, Clients: n})
		}
		for _, rate := range rates {
			if name == scenario.Quota || name == scenario.A2A || name == scenario.Failover {
				break // at a rate that both hold, there is nothing to compare
			}
			cases = append(cases, Case{Scenario: name, Clients: slices.Max(counts), Rate: rate})
		}
	}
	return cases, nil
}

// isLoad reports whether a scenario consists of operations of many clients.
func isLoad(name string) bool { return name != scenario.Stream && name != scenario.Idle }

// longWindow is the length of runs that include their own compaction. Only the floor runs
// beside them: the ratio to it is what they show.
const (
	longWindow = time.Minute
	floor      = "floor"
)

// Goals returns the cases that the published goals name.
func Goals() []Case {
	return []Case{
		{Scenario: scenario.Idle, Clients: 1},
		{Scenario: scenario.Send, Clients: 1},
		{Scenario: scenario.Send, Clients: 64},
		{Scenario: scenario.Send, Clients: 256},
		{Scenario: scenario.Send, Clients: 256, Share: 0.5},
		{Scenario: scenario.Send, Clients: 64, Window: longWindow, Peer: floor},
		{Scenario: scenario.Send, Clients: 256, Window: longWindow, Peer: floor},
		{Scenario: scenario.Reply, Clients: 64, Rate: 2000},
		{Scenario: scenario.Inbox, Clients: 64},
		{Scenario: scenario.Stream, Clients: 1},
		{Scenario: scenario.Hot, Clients: hotClients},
		{Scenario: scenario.Cold, Clients: hotClients},
		{Scenario: scenario.Fanout, Clients: fanClients},
		{Scenario: scenario.HotGroup, Clients: hotClients},
	}
}

// Overload returns the cases that show what a server does beyond its capacity: the closed
// loop that finds it, and open loops at shares of it.
func Overload() []Case {
	cases := []Case{{Scenario: scenario.Overload, Clients: defaultClients}}
	for _, factor := range []float64{0.5, 1, 2, 5} {
		cases = append(cases, Case{Scenario: scenario.Overload, Clients: defaultClients, Share: factor})
	}
	return cases
}

// isOverload reports whether a case loads the target beyond its capacity. The messages
// accepted in such a case are always read back.
func isOverload(c Case) bool { return c.Scenario == scenario.Overload }

// ofOneProcess are the scenarios that look into the process or the files of the server.
var ofOneProcess = []string{scenario.Stream, scenario.Fanout, scenario.A2A, scenario.Directory, scenario.Quota}

// check rejects an invalid configuration.
func (c *Config) check() error {
	switch {
	case len(c.Targets) == 0:
		return errors.New("there is nothing to measure")
	case c.Repeats < 1:
		return fmt.Errorf("%d repeats measure nothing", c.Repeats)
	case c.Duration <= 0 || c.WarmUp < 0 || c.WarmUp+c.Duration > runLongest:
		return fmt.Errorf("warm-up and duration should be some time, together at most %v: that is how long a token lives", runLongest)
	}
	for _, k := range c.Cases {
		if k.Clients < 1 || k.Rate < 0 {
			return fmt.Errorf("%s cannot be run with %d clients at a rate of %v", k.Scenario, k.Clients, k.Rate)
		}
		if k.Scenario == scenario.Quota && c.Own == nil {
			return errNotOwn
		}
		if k.Scenario == scenario.Failover && c.Kills < 1 {
			return errors.New("failover without kills measures nothing")
		}
		if k.Scenario == scenario.Failover && c.Nodes < failoverLeast {
			return fmt.Errorf("failover kills the node that leads: %d nodes are needed at least, with --nodes", failoverLeast)
		}
		if c.Nodes > 0 && slices.Contains(ofOneProcess, k.Scenario) {
			return fmt.Errorf("%s looks into the process of one server: it cannot be asked of several nodes", k.Scenario)
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

// runLongest keeps a run, including overtime, within the lifetime of a token.
const runLongest = 6 * time.Minute
