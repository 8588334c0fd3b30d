package report

import (
	"fmt"
	"slices"

	"parley/bench/result"
)

// goal is a published bound for the median of a quantity of ours.
type goal struct {
	scenario string
	// what names the quantity. A verb stands for the case, or for the figure size if there is one.
	what, size string
	of         measure
	bound      float64
	atMost     bool
	// when says to which cases the goal applies; nil is the closed loop with the most clients.
	when func(c Case, g group) bool
	// peer is the target by whose quantity in the same case ours is divided. less subtracts it
	// instead.
	peer string
	less bool
	// beside returns another case of ours, by whose quantity ours is divided.
	beside func(cases []caseGroups, c caseGroups, target string) (group, bool)
	// nodes is the number of nodes of the cluster that the goal is for: 0 is one server, and
	// anyNodes a cluster of any size.
	nodes int
}

const anyNodes = -1

// goals are the published goals. Rates are operations a second, times milliseconds unless
// the name says otherwise.
var goals = []goal{
	{scenario: "send", what: "%s: rate by that of floor", of: throughput, bound: 0.70, when: clients(256), peer: "floor"},
	{scenario: "send", what: "%s: rate by that of floor", of: throughput, bound: 0.66, when: clients(64), peer: "floor"},
	{scenario: "send", what: "%s: p50 by that of floor", of: latency(p50), bound: 1.2, atMost: true, when: clients(1), peer: "floor"},
	{scenario: "send", what: "%s: rate by that of postgres", of: throughput, bound: 3, when: clients(64), peer: "postgres"},
	{scenario: "send", what: "%s: rate by that of jetstream", of: throughput, bound: 2, when: clients(64), peer: "jetstream"},
	{scenario: "send", what: "%s: p99, ms", of: latency(p99), bound: 10, atMost: true, when: func(_ Case, g group) bool { return g.runs[0].Share == 0.5 }},
	{scenario: "reply", what: "%s: p99, ms", of: latency(p99), bound: 15, atMost: true, when: func(c Case, _ group) bool { return c.Rate == 2000 }},
	{scenario: "inbox", what: "%s: p99, ms", of: latency(p99), bound: 15, atMost: true, when: clients(64)},
	{scenario: "inbox", what: "%s: rate by that of floor", of: throughput, bound: 1, when: clients(64), peer: "floor"},
	{scenario: "stream", what: "bytes of memory for an idle stream", of: figure("bytes_per_stream"), bound: 3.5 * 1024, atMost: true},
	{scenario: "stream", what: "an event to all streams: until the last has it, ms", of: figure("last_ms"), bound: 70, atMost: true},

	{scenario: "fanout", what: "fan-out to %s members: durable deliveries a second", size: "recipients", of: figure("deliveries_per_second"), bound: 400_000},
	{scenario: "fanout", what: "201 of a broadcast to %s, by the 201 of a direct message", size: "recipients", of: figure("broadcast_of_direct_p50"), bound: 2, atMost: true},
	{scenario: "fanout", what: "bytes of log for a copy, beyond the payload", of: figure("log_bytes_per_copy"), bound: 250, atMost: true},
	{scenario: "hotgroup", what: "%s: rate by that of replies in many conversations", of: throughput, bound: 0.7, when: closed, beside: sameClients("cold")},

	{scenario: "poll", what: "polls a second of %s messages", size: "messages", of: throughput, bound: 10_000, when: having("messages", 1_000_000)},
	{scenario: "webhook", what: "sends a second to agents with a webhook by those without, in turn", of: figure("with_of_without_webhook"), bound: 0.85},
	{scenario: "webhook", what: "webhook deliveries a second", of: delivered, bound: 5000},
	{scenario: "webhook", what: "p99 from the 201 to the delivery while 1 % of the targets hang, ms", of: figure("beside_hanging_p99_ms"), bound: 250, atMost: true},
	{scenario: "webhook", what: "processor time for a delivery after the sends, µs", of: figure("us_per_delivery"), bound: 100, atMost: true},
	{scenario: "quota", what: "sends a second with quota and rate checks, by those without, in turn", of: figure("limited_of_free"), bound: 0.97},
	{scenario: "a2a", what: "SendMessage through to the reply, by messages/sync, in turn", of: figure("a2a_of_sync"), bound: 0.5},
	{scenario: "a2a", what: "subscriptions at once that got the end of their task", of: figure("subscriptions"), bound: 5000},

	// Those of the directory are goals of one client: searches of several wait for each other.
	{scenario: "directory", what: "search by words, one in five misspelled, p50, ms", of: partOf("words", p50), bound: 5, atMost: true, when: searches},
	{scenario: "directory", what: "search by words, one in five misspelled, p99, ms", of: partOf("words", p99), bound: 30, atMost: true, when: searches},
	{scenario: "directory", what: "search by meaning, p50, ms", of: partOf("meaning", p50), bound: 20, atMost: true, when: searches},
	{scenario: "directory", what: "filters, p50, ms", of: partOf("filters", p50), bound: 5, atMost: true, when: searches},
	{scenario: "directory", what: "a published card is found, the slowest, ms", of: partOf(partFound, longest), bound: 1000, atMost: true, when: searches},

	{scenario: "erase", what: "erasure of an organization, s", of: figure("erase_seconds"), bound: 60, atMost: true, when: erasures},
	{scenario: "erase", what: "others' p99 during an erasure, by that before", of: figure("p99_of_before"), bound: 2, atMost: true, when: erasures},

	{scenario: "overload", what: "accepted at five times the capacity, by the best step", of: throughput, bound: 0.8, when: share(5), beside: best},
	{scenario: "overload", what: "p99 of the accepted at five times the capacity, by that at half", of: service(p99), bound: 3, atMost: true, when: share(5), beside: atShare(0.5)},
	{scenario: "overload", what: "peak memory at five times the capacity, by that at capacity", of: figure("resident_peak_bytes"), bound: 1.5, atMost: true, when: share(5), beside: atShare(1)},
	{scenario: "overload", what: "neither accepted nor refused in good order", of: failures, atMost: true, when: share(5)},

	{scenario: "send", what: "%s: rate by that of a single server", of: throughput, bound: 0.45, when: clients(256), peer: "single", nodes: 3},
	{scenario: "send", what: "%s: rate by that of a single server", of: throughput, bound: 0.3, when: clients(256), peer: "single", nodes: 5},
	{scenario: "inbox", what: "%s: p50 less that of a single server, ms", of: latency(p50), bound: 1, atMost: true, when: clients(1), peer: "single", less: true, nodes: anyNodes},
	{scenario: "failover", what: "the first 201 after SIGKILL of the leader, p99, ms", of: figure("first_201_p99_ms"), bound: 1000, atMost: true, nodes: anyNodes},
}

// partFound is the part of a run of the directory in which a published card is found.
const partFound = "100 published a second: found by its words after the 200"

func closed(c Case, _ group) bool { return c.Rate == 0 }

func clients(n int) func(Case, group) bool {
	return func(c Case, _ group) bool { return c.Rate == 0 && c.Clients == n }
}

// having is for closed loops with a figure of at least some value.
func having(name string, least float64) func(Case, group) bool {
	return func(c Case, g group) bool { return c.Rate == 0 && g.spread(figure(name)).Median >= least }
}

func searches(c Case, g group) bool { return c.Clients == 1 && having("cards", 100_000)(c, g) }

func erasures(c Case, g group) bool {
	return g.spread(figure("agents")).Median >= 1000 && g.spread(figure("messages")).Median >= 1_000_000
}

// delivered returns the rate of deliveries. A server whose processors are all busy handles
// sends first, so its rate may show only after the sends have ended.
func delivered(r result.Run) (float64, bool) {
	all, there := figure("webhook_deliveries_per_second")(r)
	drained, measured := figure("drain_per_second")(r)
	return max(all, drained), there || measured
}

func share(share float64) func(Case, group) bool {
	return func(_ Case, g group) bool { return g.runs[0].Share == share }
}

func failures(r result.Run) (float64, bool) { return float64(r.Failures), true }

// sameClients returns the closed loop of another scenario with as many clients.
func sameClients(scenario string) func([]caseGroups, caseGroups, string) (group, bool) {
	return func(cases []caseGroups, c caseGroups, target string) (group, bool) {
		at := slices.IndexFunc(cases, func(b caseGroups) bool { return b.Scenario == scenario && b.Rate == 0 && b.Clients == c.Clients })
		if at < 0 {
			return group{}, false
		}
		return cases[at].of(target)
	}
}

// atShare returns the case of the same scenario at another share of the capacity.
func atShare(share float64) func([]caseGroups, caseGroups, string) (group, bool) {
	return func(cases []caseGroups, c caseGroups, target string) (group, bool) {
		for _, other := range cases {
			if g, there := other.of(target); there && other.Scenario == c.Scenario && g.runs[0].Share == share {
				return g, true
			}
		}
		return group{}, false
	}
}

// best returns the case of the same scenario with the highest throughput.
func best(cases []caseGroups, c caseGroups, target string) (most group, found bool) {
	for _, other := range cases {
		g, there := other.of(target)
		if there && other.Scenario == c.Scenario && (!found || g.spread(throughput).Median > most.spread(throughput).Median) {
			most, found = g, true
		}
	}
	return most, found
}

// Goals compares the runs of our target, which is the first, with the published goals. It
// omits a goal without a run.
func Goals(r *result.Report) (out []result.Goal) {
	cases := byCase(r)
	for _, c := range cases {
		mine, there := c.of(targets(r)[0])
		if !there {
			continue
		}
		for _, one := range goals {
			if one.nodes != r.Nodes && (one.nodes != anyNodes || r.Nodes == 0) {
				continue
			}
			applies := one.when
			if applies == nil {
				applies = func(c Case, _ group) bool { return c == largest(cases, c.Scenario, mine.target) }
			}
			if one.scenario != c.Scenario || !applies(c.Case, mine) {
				continue
			}
			if goal, measured := one.judge(cases, c, mine); measured {
				out = append(out, goal)
			}
		}
	}
	return out
}

// judge compares our results in a case with the goal; measured is false if there is nothing to
// compare.
func (o goal) judge(cases []caseGroups, c caseGroups, mine group) (goal result.Goal, measured bool) {
	goal = result.Goal{Target: mine.target, What: o.what, Bound: o.bound, AtMost: o.atMost, Doubtful: mine.doubtful}
	switch {
	case o.size != "":
		goal.What = fmt.Sprintf(o.what, whole(mine.spread(figure(o.size)).Median))
	case o.what[0] == '%':
		goal.What = fmt.Sprintf(o.what, c)
	}
	s := mine.spread(o.of)
	goal.Measured = s.Median
	if o.peer == "" && o.beside == nil {
		return judged(goal), s.Runs > 0
	}
	other, there := c.of(o.peer)
	if o.beside != nil {
		other, there = o.beside(cases, c, mine.target)
	}
	if !there {
		return goal, false
	}
	if o.less {
		goal.Measured -= other.spread(o.of).Median
		goal.Doubtful = goal.Doubtful || other.doubtful
		return judged(goal), true
	}
	r := ratio(mine, other, o.of)
	goal.Measured, goal.Doubtful = r.OfMedians, r.Doubtful || r.OfMedians == 0
	return judged(goal), true
}

// of returns the results of a target in a case.
func (c caseGroups) of(target string) (group, bool) {
	at := slices.IndexFunc(c.groups, func(g group) bool { return g.target == target })
	if at < 0 {
		return group{}, false
	}
	return c.groups[at], true
}

// largest returns the closed loop of a scenario with the most clients.
func largest(cases []caseGroups, scenario, target string) (most Case) {
	for _, one := range cases {
		if _, there := one.of(target); there && one.Scenario == scenario && one.Rate == 0 && one.Clients > most.Clients {
			most = one.Case
		}
	}
	return most
}

func judged(g result.Goal) result.Goal {
	g.Met = !g.Doubtful && (g.AtMost && g.Measured <= g.Bound || !g.AtMost && g.Measured >= g.Bound)
	return g
}

// goalTable lists the goals and whether they were met.
func goalTable(goals []result.Goal) table {
	t := table{head: []string{"Target", "What", "Goal", "Measured", "Verdict"}, left: 2}
	for _, g := range goals {
		bound, measured, verdict := "≥ "+plain(g.Bound), number(g.Measured), "missed"
		if g.AtMost {
			bound = "≤ " + plain(g.Bound)
		}
		switch {
		case g.Doubtful:
			measured, verdict = "("+measured+")", "no valid run"
		case g.Met:
			verdict = "met"
		}
		t.rows = append(t.rows, []string{g.Target, g.What, bound, measured, verdict})
	}
	return t
}
