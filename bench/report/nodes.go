package report

import (
	"fmt"

	"parley/bench/result"
)

// Bounds of the published goals of several nodes: how much later a page of an inbox comes to a
// client that is alone, in milliseconds.
const (
	nodesLaterMost = 1.0
	nodesLaterBest = 0.5
)

// manyClients are the clients whose sends have a goal.
const manyClients = 256

// nodesOfSingle are the bounds of these sends, as a share of those of a single server, by the
// number of nodes. There is no better one if best is 0.
var nodesOfSingle = map[int]struct{ least, best float64 }{3: {0.45, 0.55}, 5: {least: 0.3}}

// Bounds of the time from the death of the leader to the first 201, in milliseconds.
const (
	failoverP99Most = 1000
	failoverP99Best = 600
)

// Names of the figures of kills of the leader.
const (
	// FigureKills is how often the leader was killed. The others are as in
	// result.Failover.
	FigureKills    = "kills"
	FigureFirstP50 = "first_201_p50_ms"
	FigureFirstP99 = "first_201_p99_ms"
	FigureFirstMax = "first_201_max_ms"
	FigureReadyP50 = "ready_p50_ms"
)

// CompareNodes compares the runs on several nodes with those on a single server, in r.Nodes.
func CompareNodes(r *result.Report) {
	n := r.Nodes
	n.Cases, n.Failover = nil, nil
	for _, c := range byCase(r) {
		mine, there := c.of(n.Target)
		if !there {
			continue
		}
		if c.Scenario == "failover" {
			of := func(name string) float64 { return mine.spread(figure(name)).Median }
			n.Failover = &result.Failover{Kills: int(of(FigureKills)), P50: of(FigureFirstP50), P99: of(FigureFirstP99), Max: of(FigureFirstMax), Ready: of(FigureReadyP50)}
			continue
		}
		one := result.NodesCase{
			Case: c.String(), PerSecond: mine.spread(throughput).Median, P50: mine.spread(latency(p50)).Median, Doubtful: mine.doubtful,
		}
		if single, beside := c.of(n.Single); beside {
			of := ratio(mine, single, throughput)
			one.SinglePerSecond, one.SingleP50 = single.spread(throughput).Median, single.spread(latency(p50)).Median
			one.OfSingle, one.OfSingleMin, one.OfSingleMax = of.OfMedians, of.Paired.Min, of.Paired.Max
			one.Later, one.Doubtful = one.P50-one.SingleP50, of.Doubtful || of.OfMedians == 0
		}
		n.Cases = append(n.Cases, one)
	}
}

// nodesGoals compares several nodes with the published goals.
func nodesGoals(n *result.Nodes) (out []result.Goal) {
	sends, page := Case{Scenario: "send", Clients: manyClients}.String(), Case{Scenario: "inbox", Clients: 1}.String()
	for _, c := range n.Cases {
		if c.SinglePerSecond == 0 {
			continue
		}
		goal := result.Goal{Target: n.Target, Doubtful: c.Doubtful}
		share, shared := nodesOfSingle[n.Count]
		switch {
		case c.Case == sends && shared:
			goal.What, goal.Measured = c.Case+": rate by that of a single server", c.OfSingle
			goal.Bound, goal.Strive = share.least, share.best
		case c.Case == page:
			goal.What, goal.Measured = c.Case+": p50 less that of a single server, ms", c.Later
			goal.Bound, goal.Strive, goal.AtMost = nodesLaterMost, nodesLaterBest, true
		default:
			continue
		}
		out = append(out, judged(goal))
	}
	if f := n.Failover; f != nil {
		out = append(out, judged(result.Goal{
			Target: n.Target, What: fmt.Sprintf("the leader is killed, %d times: the first 201, p99, ms", f.Kills),
			Measured: f.P99, Bound: failoverP99Most, Strive: failoverP99Best, AtMost: true,
		}))
	}
	return out
}

// nodesSection is the part of the report about several nodes.
type nodesSection struct {
	title, reading string
	tables         []table
}

func newNodesSection(r *result.Report) *nodesSection {
	n := r.Nodes
	if n == nil {
		return nil
	}
	s := &nodesSection{title: "Several nodes", reading: fmt.Sprintf("%s behind haproxy, which gives each connection to the node that leads (with --in-turn: to the next one that is ready) and counts as a part of the target.", nodesText(n.Count))}
	if n.Single != "" {
		s.reading += " The single server has a haproxy of its own with the same settings; the two ran in turn. " +
			"A ratio is that of the two medians, with the least and the greatest ratio of two runs that followed each other."
	}
	s.tables = append(s.tables, nodesTable(n))
	if f := n.Failover; f != nil {
		s.tables = append(s.tables, table{
			caption: "SIGKILL of the leader under load, to the first 201 at any node",
			head:    []string{"Kills", "p50, ms", "p99, ms", "Greatest, ms", "Killed node started until all ready, p50, ms"},
			rows:    [][]string{{whole(float64(f.Kills)), number(f.P50), number(f.P99), number(f.Max), number(f.Ready)}},
		})
	}
	if r.Verified != nil {
		s.tables = append(s.tables, nodesVerified(r.Verified))
	}
	return s
}

// nodesVerified lists what each node gave.
func nodesVerified(v *result.Verification) table {
	t := table{
		caption: "Every acknowledged message, read from each node directly",
		head:    []string{"Node", "Acknowledged", "Found", "Lost", "Doubled", "Altered", "Stray", "Reordered", "Mailboxes not as on the first"}, left: 1,
	}
	for _, one := range v.Nodes {
		row := []string{one.Node}
		for _, n := range []int64{v.Acknowledged, one.Found, one.Missing, one.Twice, one.Altered, one.Stray, one.Reordered, one.Differing} {
			row = append(row, whole(float64(n)))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func nodesText(n int) string {
	if n == 1 {
		return "A cluster of one voter"
	}
	return fmt.Sprintf("%d nodes on one machine", n)
}

// nodesTable lists the cases.
func nodesTable(n *result.Nodes) table {
	t := table{head: []string{"Case", "op/s", "Single, op/s", "Of single", "p50, ms", "Single, p50, ms", "Later, ms"}, left: 1}
	for _, c := range n.Cases {
		row := []string{c.Case, number(c.PerSecond), none, none, number(c.P50), none, none}
		if c.SinglePerSecond > 0 {
			ratio := Ratio{OfMedians: c.OfSingle, Paired: Spread{Runs: 2, Min: c.OfSingleMin, Max: c.OfSingleMax}, Doubtful: c.Doubtful}
			row[2], row[3], row[5], row[6] = number(c.SinglePerSecond), ratioText(ratio), number(c.SingleP50), fmt.Sprintf("%+.2f", c.Later)
		}
		if c.Doubtful {
			row[0] += " (no valid run)"
		}
		t.rows = append(t.rows, row)
	}
	return t
}
