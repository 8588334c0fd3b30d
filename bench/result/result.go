// Package result holds the results of a measurement: plain values that are written as
// JSON and shown by the report. It measures nothing.
package result

import "time"

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
	// Overloads summarize the runs of overload.
	Overloads []Overload `json:"overloads,omitempty"`
	// Nodes compares several nodes with a single server; nil if one server was measured.
	Nodes *Nodes `json:"nodes,omitempty"`
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
	// Growing names what increases from run to run, "agents" or "messages". Size is their
	// number when this run began (for agents: when it ended). They are empty and 0 for
	// runs that are not part of a scaling curve.
	Growing string `json:"growing,omitempty"`
	Size    int64  `json:"size,omitempty"`
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
	// Laps are latencies of parts of an operation that a scenario names, such as
	// "delivery", from the intended start.
	Laps map[string]Latency `json:"laps,omitempty"`
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

// Overload is the behaviour of a target at and beyond its capacity.
type Overload struct {
	Target string `json:"target"`
	// Capacity is the number of operations accepted per second in the closed loop, Peak
	// the highest of any step.
	Capacity float64        `json:"capacity_per_second"`
	Peak     float64        `json:"peak_per_second"`
	Steps    []OverloadStep `json:"steps"`
	// Goodput is the rate that the last step accepted, as a share of Peak. P99 is the
	// 99th percentile of its accepted operations from the actual sending, as a multiple
	// of that at half of capacity. Memory is its peak memory as a multiple of that of the
	// step at capacity. Each is 0 if one of its two values was not measured.
	Goodput float64 `json:"goodput_of_peak"`
	P99     float64 `json:"p99_of_unloaded"`
	Memory  float64 `json:"memory_of_capacity"`
	// Failures counts the operations that were neither accepted nor properly refused.
	Failures int64 `json:"failures"`
}

// OverloadStep is one rate of an Overload. Its values are medians over its valid repeats;
// if none is valid, they are medians over all and Doubtful is set.
type OverloadStep struct {
	// Factor is the intended rate as a share of capacity; 0 is the closed loop.
	Factor      float64 `json:"factor"`
	Doubtful    bool    `json:"doubtful"`
	Connections int     `json:"connections"`
	// Intended, Offered, Accepted and Refused are rates per second.
	Intended float64 `json:"intended_per_second"`
	Offered  float64 `json:"offered_per_second"`
	Accepted float64 `json:"accepted_per_second"`
	Refused  float64 `json:"refused_per_second"`
	Failures int64   `json:"failures"`
	// P50 and P99 of the accepted operations and RefusedP99 are measured from the actual
	// sending, IntendedP99 from the intended start.
	P50         float64 `json:"p50_ms"`
	P99         float64 `json:"p99_ms"`
	IntendedP99 float64 `json:"intended_p99_ms"`
	RefusedP99  float64 `json:"refused_p99_ms"`
	// Resident is the target's peak memory, in bytes.
	Resident float64 `json:"resident_peak_bytes"`
	// Target and Generator are the cores that they used.
	Target    float64 `json:"target_cores"`
	Generator float64 `json:"generator_cores"`
}

// Goals of an Overload.
const (
	GoodputLeast = 0.8
	P99Most      = 3.0
	MemoryMost   = 1.5
)

// Nodes is what the bench found out about several nodes behind a load balancer.
type Nodes struct {
	// Count is the number of nodes. One node is a cluster of one voter.
	Count int `json:"count"`
	// Target is the name of the nodes in Runs, Single that of the single server behind the
	// same kind of balancer; empty if there is none.
	Target string      `json:"target"`
	Single string      `json:"single,omitempty"`
	Cases  []NodesCase `json:"cases"`
	// Failover is nil if the leader was not killed.
	Failover *Failover `json:"failover,omitempty"`
}

// NodesCase is one case on several nodes and on a single server. The values are medians over
// the valid repeats.
type NodesCase struct {
	Case            string  `json:"case"`
	PerSecond       float64 `json:"per_second"`
	SinglePerSecond float64 `json:"single_per_second,omitempty"`
	// OfSingle is PerSecond divided by SinglePerSecond, with the least and the greatest
	// ratio of two runs that followed each other; 0 if there is no single server.
	OfSingle    float64 `json:"of_single,omitempty"`
	OfSingleMin float64 `json:"of_single_min,omitempty"`
	OfSingleMax float64 `json:"of_single_max,omitempty"`
	P50         float64 `json:"p50_ms"`
	SingleP50   float64 `json:"single_p50_ms,omitempty"`
	// Later is P50 less SingleP50.
	Later float64 `json:"later_p50_ms,omitempty"`
	// Doubtful reports that one side has no valid run.
	Doubtful bool `json:"doubtful,omitempty"`
}

// Failover is how long nobody could send after the leader was killed with SIGKILL under load.
type Failover struct {
	Kills int `json:"kills"`
	// P50, P99 and Max are from the kill to the first 201, at any node, to a request that
	// was sent when the process was gone.
	P50 float64 `json:"first_201_p50_ms"`
	P99 float64 `json:"first_201_p99_ms"`
	Max float64 `json:"first_201_max_ms"`
	// Ready is the median time from the start of the killed node until all were ready.
	Ready float64 `json:"ready_p50_ms"`
}

// Goal is a bound for the median of a figure.
type Goal struct {
	Target   string  `json:"target"`
	What     string  `json:"what"`
	Measured float64 `json:"measured"`
	Bound    float64 `json:"bound"`
	// Strive is a stricter bound that would be better still; 0 if there is none.
	Strive float64 `json:"strive,omitempty"`
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
	// Curve is the whole distribution by percentile, fit to be drawn.
	Curve []Point `json:"curve,omitempty"`
}

// Point is a point of a distribution: Percentile percent took at most Ms.
type Point struct {
	Percentile float64 `json:"percentile"`
	Ms         float64 `json:"ms"`
}

// Second is one second of a run.
type Second struct {
	Operations, Failures int64
	// P99 is in milliseconds.
	P99 float64
}

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
	Nodes []NodeVerification `json:"nodes,omitempty"`
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

// NodeVerification is what one node of a cluster gave. The numbers are as in Verification.
type NodeVerification struct {
	Node      string `json:"node"`
	Found     int64  `json:"found"`
	Missing   int64  `json:"missing"`
	Twice     int64  `json:"twice"`
	Altered   int64  `json:"altered"`
	Stray     int64  `json:"stray"`
	Reordered int64  `json:"reordered"`
	// Differing counts the mailboxes that are not the same as on the first node, message
	// for message. They are violations.
	Differing int64 `json:"differing"`
}

// Add adds what another node of the same cluster gave.
func (v *Verification) Add(other *Verification) {
	v.Found = min(v.Found, other.Found)
	v.Missing += other.Missing
	v.Twice += other.Twice
	v.Altered += other.Altered
	v.Stray += other.Stray
	v.Reordered += other.Reordered
	v.Partial += other.Partial
}

// Differing is the number of mailboxes that differ between nodes.
func (v *Verification) Differing() (n int64) {
	for _, one := range v.Nodes {
		n += one.Differing
	}
	return n
}

// Clean reports whether every acknowledged message is stored exactly once, as sent and in
// order, on every node, and nothing else is.
func (v *Verification) Clean() bool {
	return v.Missing == 0 && v.Twice == 0 && v.Altered == 0 && v.Stray == 0 && v.Reordered == 0 && v.Differing() == 0 && v.Partial == 0 && v.CommandsLost == 0 && v.DeliveriesLost == 0
}
