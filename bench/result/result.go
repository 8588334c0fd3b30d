// Package result holds the results of a measurement: plain values that are written as
// JSON and shown by the report. It measures nothing.
package result

import (
	"fmt"
	"time"
)

// Schema names the layout of a Report.
const Schema = "parley-bench/1"

// Report is one invocation of the bench.
type Report struct {
	Schema  string    `json:"schema"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	Command []string  `json:"command"`
	// Versions are the versions that the targets report, by target name.
	Versions map[string]string `json:"versions"`
	Machine  Machine           `json:"machine"`
	// DiskBefore and DiskAfter are the same probe before and after the runs. If the disk
	// changed its speed in between, the runs are not comparable.
	DiskBefore Disk  `json:"disk_before"`
	DiskAfter  Disk  `json:"disk_after"`
	Runs       []Run `json:"runs"`
	// Nodes is the number of nodes of the cluster that was measured; 0 for one server.
	Nodes int `json:"nodes,omitempty"`
	// Goals are the published goals that single figures can check.
	Goals []Goal `json:"goals,omitempty"`
	// Verified is nil if verification was not requested.
	Verified *Verification `json:"verified"`
}

// Machine is the machine on which the bench ran.
type Machine struct {
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	Memory   uint64 `json:"memory_bytes"`
	Kernel   string `json:"kernel"`
	Go       string `json:"go"`
	FileMax  uint64 `json:"open_files_limit"`
	DataPath string `json:"data_path"`
}

// Disk is a probe: one thread that appends 4 KiB and waits for fdatasync.
type Disk struct {
	Syncs int     `json:"syncs"`
	P50ms float64 `json:"p50_ms"`
	P99ms float64 `json:"p99_ms"`
}

// Run is one measured window of one scenario on one target.
type Run struct {
	Target   string `json:"target"`
	Scenario string `json:"scenario"`
	// Clients is the number of concurrent connections.
	Clients int `json:"clients"`
	// Rate is the arrivals per second of an open loop; 0 is a closed loop.
	Rate float64 `json:"rate"`
	// Share is Rate as a share of the target's own capacity, if the rate was chosen so.
	Share float64 `json:"share,omitempty"`
	// Window is the length that this run was asked to have, in seconds, if it is not that
	// of the others; else 0.
	Window float64 `json:"window_seconds,omitempty"`
	// Size is the number of agents when a run of grow-agents ended, or of messages when one of
	// grow-messages began.
	Size int64 `json:"size,omitempty"`
	// Repeat counts the repeats of one case from 1.
	Repeat int `json:"repeat"`
	// Seconds is the length of the measured window. It is longer than requested if an
	// open loop fell behind.
	Seconds    float64 `json:"seconds"`
	Operations int64   `json:"operations"`
	PerSecond  float64 `json:"per_second"`
	// Failures counts operations that were refused, broke or got a wrong answer. Reasons
	// counts them by the first words of the reason. In overload, a proper refusal is not
	// a failure: it is counted in Figures.
	Failures int64            `json:"failures"`
	Reasons  map[string]int64 `json:"reasons"`
	// Latency is measured from the intended start of an operation, Service from the time
	// it was actually sent. In a closed loop they are the same.
	Latency Latency `json:"latency"`
	Service Latency `json:"service"`
	// Parts are latencies of parts of an operation that a scenario names, such as
	// "delivery", from the intended start.
	Parts map[string]Latency `json:"parts,omitempty"`
	// Figures are single numbers that a scenario names with their unit, such as
	// "bytes_per_stream" or "last_ms".
	Figures map[string]float64 `json:"figures,omitempty"`
	CPU     CPU                `json:"cpu"`
	// Resident is the memory of the target's processes at the end, in bytes; 0 if it
	// cannot be measured.
	Resident uint64 `json:"resident_bytes"`
	// Invalid says why this run proves nothing; empty if it is valid.
	Invalid string `json:"invalid"`
}

// Goal is a bound for the median of a figure.
type Goal struct {
	Target   string  `json:"target"`
	What     string  `json:"what"`
	Measured float64 `json:"measured"`
	Bound    float64 `json:"bound"`
	// AtMost reports whether the bound is a maximum; otherwise it is a minimum.
	AtMost bool `json:"at_most"`
	Met    bool `json:"met"`
	// Doubtful reports that there is no valid run.
	Doubtful bool `json:"doubtful,omitempty"`
}

// Latency is a distribution in milliseconds.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_ms"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
}

// Second is one second of a run.
type Second struct{ Operations, Failures int64 }

// CPU is the processor time by user in the measured window, in cores.
type CPU struct {
	Target    float64 `json:"target_cores"`
	Generator float64 `json:"generator_cores"`
	// Neighbours is everything else on the machine.
	Neighbours float64 `json:"neighbours_cores"`
	// PerOperation is the target's time for one operation, in microseconds.
	PerOperation float64 `json:"target_us_per_operation"`
}

// Verification is the result of reading back every acknowledged message after the server
// was killed and started again.
type Verification struct {
	Acknowledged int64 `json:"acknowledged"`
	// SampleOf is the number of acknowledged messages from which the ones above are a
	// sample; 0 if they are all of them.
	SampleOf int64 `json:"sample_of,omitempty"`
	// Unknown operations got no answer; their messages may or may not be stored.
	Unknown int64 `json:"unknown"`
	Found   int64 `json:"found"`
	// Missing, Twice and Altered count violations.
	Missing int64 `json:"missing"`
	Twice   int64 `json:"twice"`
	Altered int64 `json:"altered"`
	// Stray messages are stored although the sender was told that nothing happened, or
	// contain a payload that nobody sent. Both are violations.
	Stray int64 `json:"stray"`
	// Reordered messages were sent by a client after it had the answer to another one, and
	// come before that one in the same mailbox. They are violations.
	Reordered int64 `json:"reordered"`
	// Nodes are the nodes of a cluster, each of which was read. Found is then the least of
	// them, and violations are the sums.
	Nodes []Verification `json:"nodes,omitempty"`
	// Node is the name of the node that these counts are of; empty for all of them.
	Node string `json:"node,omitempty"`
	// Differing counts the mailboxes that are not the same as on the first node, message
	// for message. They are violations.
	Differing int64 `json:"differing,omitempty"`
	// Copies counts the acknowledged messages that are copies of the Broadcasts, one for
	// each member. Partial counts broadcasts without an answer that only some of the
	// members received. They are violations.
	Broadcasts int64 `json:"broadcasts,omitempty"`
	Copies     int64 `json:"copies,omitempty"`
	Partial    int64 `json:"partial,omitempty"`
	// Commands counts the last acknowledged votes of each elector on each request, and
	// the last acknowledged joins and departures. Those Lost are not in effect, which is
	// a violation.
	Commands     int64 `json:"commands,omitempty"`
	CommandsLost int64 `json:"commands_lost,omitempty"`
	// Deliveries counts the messages, among those sent while the server was killed, that
	// were acknowledged and addressed to agents with a webhook whose target answers.
	// Those Lost were never delivered, which is a violation. DeliveredAgain counts
	// repeated deliveries, which at-least-once delivery allows.
	Deliveries     int64 `json:"deliveries,omitempty"`
	DeliveriesLost int64 `json:"deliveries_lost,omitempty"`
	DeliveredAgain int64 `json:"delivered_again,omitempty"`
	// Killed reports whether the server was killed with SIGKILL under load before the
	// reading. If not, only the data of a running server was compared.
	Killed bool `json:"killed"`
	// RestartSeconds is the time from starting the process to its first 200 on /health.
	RestartSeconds float64 `json:"restart_seconds"`
}

// Add adds what another node of the same cluster returned.
func (v *Verification) Add(other Verification) {
	v.Found = min(v.Found, other.Found)
	v.Missing += other.Missing
	v.Twice += other.Twice
	v.Altered += other.Altered
	v.Stray += other.Stray
	v.Reordered += other.Reordered
	v.Differing += other.Differing
	v.Partial += other.Partial
	v.Nodes = append(v.Nodes, other)
}

// Count is one number of a verification.
type Count struct {
	What      string
	N         int64
	Violation bool
}

// Counts lists the numbers in the order in which they are shown.
func (v *Verification) Counts() []Count {
	return []Count{
		{"acknowledged", v.Acknowledged, false},
		{"sampled from", v.SampleOf, false},
		{"found", v.Found, false},
		{"missing", v.Missing, true},
		{"twice", v.Twice, true},
		{"altered", v.Altered, true},
		{"stray", v.Stray, true},
		{"reordered", v.Reordered, true},
		{"mailboxes not the same on all nodes", v.Differing, true},
		{"without an answer", v.Unknown, false},
		{"broadcasts", v.Broadcasts, false},
		{"copies of broadcasts", v.Copies, false},
		{"broadcasts with some members only", v.Partial, true},
		{"votes and seats", v.Commands, false},
		{"votes and seats not in effect", v.CommandsLost, true},
		{"webhook deliveries due", v.Deliveries, false},
		{"webhook deliveries never made", v.DeliveriesLost, true},
		{"webhook deliveries made again", v.DeliveredAgain, false},
	}
}

// Violations lists the violations that were found; none if every acknowledged message is
// stored exactly once, as sent and in order, on every node, and nothing else is.
func (v *Verification) Violations() (all []string) {
	for _, c := range v.Counts() {
		if c.Violation && c.N > 0 {
			all = append(all, fmt.Sprintf("%d %s", c.N, c.What))
		}
	}
	return all
}

// Clean reports whether there are no violations.
func (v *Verification) Clean() bool { return len(v.Violations()) == 0 }
