package report

import (
	"fmt"

	"parley/bench/result"
)

// Names of the scenarios and of the targets beside ours that goals of sending and reading
// use.
const (
	scenarioSend   = "send"
	scenarioInbox  = "inbox"
	scenarioReply  = "reply"
	scenarioStream = "stream"
	peerFloor      = "floor"
	peerPostgres   = "postgres"
	peerJetStream  = "jetstream"
)

// peerGoals are bounds for a quantity of ours divided by that of a peer in the same case.
var peerGoals = []struct {
	scenario string
	clients  int
	peer     string
	of       measure
	quantity string
	bound    float64
	atMost   bool
}{
	{scenarioSend, 256, peerFloor, throughput, "rate", 0.70, false},
	{scenarioSend, 64, peerFloor, throughput, "rate", 0.66, false},
	{scenarioSend, 1, peerFloor, latency(p50), "p50", 1.2, true},
	{scenarioSend, 64, peerPostgres, throughput, "rate", 3, false},
	{scenarioSend, 64, peerJetStream, throughput, "rate", 2, false},
	{scenarioInbox, 64, peerFloor, throughput, "rate", 1, false},
}

// Bounds of 99th percentiles, in milliseconds: of a page of an inbox, of a send at half of the
// server's own capacity, and of a message and its reply from end to end at replyRate.
const (
	inboxP99Most = 15
	halfP99Most  = 10
	replyP99Most = 15
	replyRate    = 2000
	// halfOfCapacity is result.Run.Share of such sends.
	halfOfCapacity = 0.5
)

// sendGoals compares our results in Send and Inbox with the published goals, in windows of
// every length.
func sendGoals(cases []caseGroups, ours string) (out []result.Goal) {
	for _, c := range cases {
		mine, there := c.of(ours)
		if !there || c.Growing != "" {
			continue
		}
		if most := p99Most(mine, c.Case); most > 0 {
			s := mine.spread(latency(p99))
			out = append(out, judged(result.Goal{Target: ours, What: c.String() + ": p99, ms", Measured: s.Median, Bound: most, AtMost: true, Doubtful: mine.doubtful}))
		}
		if c.Scenario == scenarioStream {
			out = append(out, streamGoals(mine)...)
		}
		for _, goal := range peerGoals {
			peer, beside := c.of(goal.peer)
			if !beside || c.Rate > 0 || c.Scenario != goal.scenario || c.Clients != goal.clients {
				continue
			}
			r := ratio(mine, peer, goal.of)
			out = append(out, judged(result.Goal{
				Target: ours, What: fmt.Sprintf("%s: %s by that of %s", c, goal.quantity, goal.peer),
				Measured: r.OfMedians, Bound: goal.bound, AtMost: goal.atMost, Doubtful: r.Doubtful || r.OfMedians == 0,
			}))
		}
	}
	return out
}

// streamGoals compares what idle streams take, and how long one event takes to all of them.
func streamGoals(g group) (out []result.Goal) {
	for _, one := range []struct {
		what, figure string
		bound        float64
	}{
		{"bytes of memory for an idle stream", "bytes_per_stream", 3.5 * 1024},
		{"an event to all streams: until the last has it, ms", "last_ms", 70},
	} {
		if s := g.spread(figure(one.figure)); s.Runs > 0 {
			out = append(out, judged(result.Goal{Target: g.target, What: one.what, Measured: s.Median, Bound: one.bound, AtMost: true, Doubtful: g.doubtful}))
		}
	}
	return out
}

// p99Most returns the bound for the 99th percentile of our results in a case, in
// milliseconds; 0 if there is none.
func p99Most(g group, c Case) float64 {
	switch {
	case c.Scenario == scenarioInbox && c.Rate == 0 && c.Clients == 64:
		return inboxP99Most
	case c.Scenario == scenarioSend && g.runs[0].Share == halfOfCapacity:
		return halfP99Most
	case c.Scenario == scenarioReply && c.Rate == replyRate:
		return replyP99Most
	}
	return 0
}
