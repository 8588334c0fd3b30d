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
	"parley/bench/scenario/host"
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
	// Size is the size to which a growing scenario grows.
	Size int64
}

// Config says what to measure.
type Config struct {
	// Targets are measured in turn; the first is ours.
	Targets []target.Target
	Cases   []Case
	// Nodes, if not 0, says that the first target is a cluster of so many nodes. A target
	// with the name Single is then compared with it.
	Nodes int
	// Repeats of each case, WarmUp and Duration of each run.
	Repeats          int
	WarmUp, Duration time.Duration
	Params           host.Params
	// Verify kills our server at the end, starts it again and reads everything back.
	// Cases of Overload, Failover and Erase imply it.
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

const (
	// usualClients is the default number of clients.
	usualClients = 64
	// fanClients is the default number of concurrent broadcasts: enough that a group always
	// has another broadcast to work on, without overload.
	fanClients = 8
	// hotClients is the number of clients on one conversation or one group.
	hotClients = 512
	// growClients is the default number of clients that make a server grow.
	growClients = 128
	// eraseRate is the default number of messages a second that others send during an erasure.
	eraseRate = 500
)

// defaultClients are the default numbers of clients, if they are not usualClients. One client of
// Directory shows how long a search takes that waits for no other.
var defaultClients = map[string][]int{
	scenario.Send: {1, 64, 256}, scenario.Directory: {1}, scenario.Fanout: {fanClients},
	scenario.GrowAgents: {growClients}, scenario.GrowMessages: {growClients},
}

// firstSizes are the smallest sizes of growing scenarios. Each further size is ten times as large.
var firstSizes = map[string]int64{scenario.GrowAgents: 1000, scenario.GrowMessages: 100_000}

// sizes returns the sizes of a growing scenario: the first and its multiples by ten below most,
// and most. A short curve begins at a tenth. Messages are measured on an empty server first.
func sizes(name string, most int64) (steps []int64) {
	first := firstSizes[name]
	if most <= first {
		first = max(1, most/10)
	}
	if name == scenario.GrowMessages {
		steps = append(steps, 0)
	}
	for size := first; size < most; size *= 10 {
		steps = append(steps, size)
	}
	return append(steps, most)
}

// Cases returns the cases of the named scenarios: closed loops with each number of
// clients (the scenario's defaults if there are none) and open loops at each rate with
// the largest number. Growing scenarios have a case for each size up to grow.
func Cases(scenarios []string, clients []int, rates []float64, grow int64) ([]Case, error) {
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
		if len(counts) == 0 {
			counts = defaultClients[name]
		}
		if len(counts) == 0 {
			counts = []int{usualClients}
		}
		switch {
		case firstSizes[name] > 0:
			for _, size := range sizes(name, grow) {
				cases = append(cases, Case{Scenario: name, Clients: slices.Max(counts), Size: size})
			}
			continue
		case name == scenario.Erase:
			if len(rates) == 0 {
				rates = []float64{eraseRate}
			}
			cases = append(cases, Case{Scenario: name, Clients: slices.Max(counts), Rate: rates[0]})
			continue
		}
		for _, n := range counts {
			cases = append(cases, Case{Scenario: name, Clients: n})
		}
		if slices.Contains(withoutRates, name) {
			continue
		}
		for _, rate := range rates {
			cases = append(cases, Case{Scenario: name, Clients: slices.Max(counts), Rate: rate})
		}
	}
	return cases, nil
}

// withoutRates are scenarios that compare two things: at a rate that both hold, there is nothing
// to compare. once are those that are not repeated: each takes long, or repeats itself.
var (
	withoutRates = []string{scenario.Quota, scenario.A2A, scenario.Failover}
	once         = []string{scenario.Failover, scenario.Erase, scenario.GrowAgents, scenario.GrowMessages}
)

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
	cases := []Case{{Scenario: scenario.Overload, Clients: usualClients}}
	for _, factor := range []float64{0.5, 1, 2, 5} {
		cases = append(cases, Case{Scenario: scenario.Overload, Clients: usualClients, Share: factor})
	}
	return cases
}

// The messages that are accepted in cases of alwaysVerified are always read back. ofOneProcess
// look into the process or the files of the server, and ofOwnServer start a second server or look
// into the directory of the first.
var (
	alwaysVerified = []string{scenario.Overload, scenario.Failover, scenario.Erase}
	ofOneProcess   = []string{scenario.Stream, scenario.Fanout, scenario.A2A, scenario.Directory, scenario.Quota, scenario.GrowAgents, scenario.GrowMessages}
	ofOwnServer    = []string{scenario.Quota, scenario.GrowAgents, scenario.GrowMessages}
)

// failoverLeast is how many nodes Failover needs: with fewer nobody is left who can lead.
const failoverLeast = 3

// has reports whether any case is of one of the scenarios.
func (c *Config) has(scenarios ...string) bool {
	return slices.ContainsFunc(c.Cases, func(one Case) bool { return slices.Contains(scenarios, one.Scenario) })
}

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
		if slices.Contains(ofOwnServer, k.Scenario) && c.Own == nil {
			return fmt.Errorf("%s needs a server of the bench's own: it cannot be asked of a server named by --url", k.Scenario)
		}
		if firstSizes[k.Scenario] > 0 && k.Scenario != c.Cases[0].Scenario {
			return fmt.Errorf("%s needs an empty server: name no other scenario", k.Scenario)
		}
		if k.Scenario == scenario.Failover && c.Params.Kills < 1 {
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
