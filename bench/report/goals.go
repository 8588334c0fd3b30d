package report

import (
	"fmt"
	"slices"

	"parley/bench/result"
)

// Names of the scenarios and figures that goals use.
const (
	scenarioFanout     = "fanout"
	scenarioHotGroup   = "hotgroup"
	scenarioCold       = "cold"
	figureRecipients   = "recipients"
	figureDeliveries   = "deliveries_per_second"
	figureCastOfDirect = "broadcast_of_direct_p50"
	figureCopyLog      = "log_bytes_per_copy"
)

// Bounds of the published goals of groups.
const (
	deliveriesLeast   = 400_000
	castOfDirectMost  = 2
	copyLogMost       = 250
	hotGroupOfColdMin = 0.7
)

// Goals compares the runs of groups with the published goals, by target. It omits a
// goal without a run.
func Goals(r *result.Report) []result.Goal {
	var out []result.Goal
	cases, names := byCase(r), targets(r)
	if r.Nodes != nil { // all others are goals of a single server
		return nodesGoals(r.Nodes)
	}
	if len(names) > 0 {
		out = sendGoals(cases, names[0])
	}
	for _, target := range names {
		if g, _, ok := largest(cases, scenarioFanout, target); ok {
			out = append(out, fanoutGoals(g)...)
		}
		out = append(out, deliveryGoals(cases, target)...)
		out = append(out, directoryGoals(cases, target)...)
		out = append(out, eraseGoals(cases, target)...)
		for _, c := range cases {
			if c.Scenario != scenarioHotGroup || c.Rate > 0 {
				continue
			}
			hot, okHot := c.of(target)
			cold, okCold := sameClients(cases, c, target)
			if okHot && okCold {
				out = append(out, hotGoal(c, hot, cold))
			}
		}
	}
	return out
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
func largest(cases []caseGroups, scenario, target string) (best group, c caseGroups, ok bool) {
	for _, one := range cases {
		if g, there := one.of(target); there && one.Scenario == scenario && one.Rate == 0 && one.Growing == "" && (!ok || one.Clients > c.Clients) {
			best, c, ok = g, one, true
		}
	}
	return best, c, ok
}

// sameClients returns the results of a target in Cold with as many clients as in c.
func sameClients(cases []caseGroups, c caseGroups, target string) (group, bool) {
	for _, one := range cases {
		if one.Scenario == scenarioCold && one.Rate == 0 && one.Clients == c.Clients {
			return one.of(target)
		}
	}
	return group{}, false
}

func fanoutGoals(g group) []result.Goal {
	to := whole(g.spread(figure(figureRecipients)).Median)
	all := []struct {
		what, figure string
		bound        float64
		atMost       bool
	}{
		{"fan-out to " + to + " members: durable deliveries a second", figureDeliveries, deliveriesLeast, false},
		{"201 of a broadcast to " + to + ", by the 201 of a direct message", figureCastOfDirect, castOfDirectMost, true},
		{"bytes of log for a copy, beyond the payload", figureCopyLog, copyLogMost, true},
	}
	var out []result.Goal
	for _, one := range all {
		goal := result.Goal{Target: g.target, What: one.what, Bound: one.bound, AtMost: one.atMost}
		s := g.spread(figure(one.figure))
		if goal.Measured, goal.Doubtful = s.Median, g.doubtful; s.Runs > 0 {
			out = append(out, judged(goal))
		}
	}
	return out
}

func hotGoal(c caseGroups, hot, cold group) result.Goal {
	r := ratio(hot, cold, throughput)
	return judged(result.Goal{
		Target: hot.target, What: fmt.Sprintf("commands to one group by replies in many conversations, %s", clientsText(c.Clients)),
		Measured: r.OfMedians, Bound: hotGroupOfColdMin, Doubtful: r.Doubtful || r.OfMedians == 0,
	})
}

func judged(g result.Goal) result.Goal {
	g.Met = !g.Doubtful && (g.AtMost && g.Measured <= g.Bound || !g.AtMost && g.Measured >= g.Bound)
	return g
}

// goalTable lists the goals and whether they were met.
func goalTable(goals []result.Goal) table {
	t := table{caption: "Goals", head: []string{"Target", "What", "Goal", "Measured", "Verdict"}, left: 2}
	for _, g := range goals {
		bound, measured, verdict := "≥ "+plain(g.Bound), number(g.Measured), "missed"
		if g.AtMost {
			bound = "≤ " + plain(g.Bound)
		}
		if g.Strive != 0 {
			bound += ", better " + plain(g.Strive)
		}
		switch {
		case g.Doubtful:
			measured, verdict = "("+measured+")", "no valid run"
		case g.Met && g.Strive != 0 && (g.AtMost && g.Measured <= g.Strive || !g.AtMost && g.Measured >= g.Strive):
			verdict = "met, and better"
		case g.Met:
			verdict = "met"
		}
		t.rows = append(t.rows, []string{g.Target, g.What, bound, measured, verdict})
	}
	return t
}
