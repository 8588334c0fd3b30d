// Package result is what a measurement leaves behind: plain values that are
// written as JSON, read back by comparisons, and drawn by the report. It
// measures nothing.
package result

import "time"

// Schema names the layout of a Report. Readers refuse another one.
const Schema = "parley-bench/1"

// Report is one invocation of the bench.
type Report struct {
	Schema  string    `json:"schema"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	Command []string  `json:"command"`
	// Versions are what each target says of itself, by target name.
	Versions map[string]string `json:"versions"`
	Machine  Machine           `json:"machine"`
	// DiskBefore and DiskAfter are the same probe on either side of the runs: a
	// disk that changed its speed in between makes the runs incomparable.
	DiskBefore Disk  `json:"disk_before"`
	DiskAfter  Disk  `json:"disk_after"`
	Runs       []Run `json:"runs"`
	// Ladders are what searches for the highest rate found; their rungs are runs.
	Ladders []Ladder `json:"ladders,omitempty"`
	// Overloads are what runs of overload say together.
	Overloads []Overload `json:"overloads,omitempty"`
	// Goals are those of the published goals that single figures tell.
	Goals []Goal `json:"goals,omitempty"`
	// Verified is nil when nobody asked for verification.
	Verified *Verification `json:"verified"`
}

// Machine is where the bench ran.
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
	// Clients is how many connections ask at once.
	Clients int `json:"clients"`
	// Rate is the arrivals a second of an open loop; 0 is a closed loop.
	Rate float64 `json:"rate"`
	// Growing names what there is more of from run to run, "agents" or "messages",
	// and Size is how many there were when this run began (of agents: when it was
	// over). Empty and 0 for runs that are not part of a scaling curve.
	Growing string `json:"growing,omitempty"`
	Size    int64  `json:"size,omitempty"`
	// Repeat counts the repeats of one case from 1.
	Repeat int `json:"repeat"`
	// Seconds is the length of the measured window, longer than asked for when
	// an open loop fell behind.
	Seconds    float64 `json:"seconds"`
	Operations int64   `json:"operations"`
	PerSecond  float64 `json:"per_second"`
	// Failures counts operations that were refused, broken or answered wrongly,
	// and Reasons says why, by first words. In overload a refusal in good order is
	// none of them: it is among the Figures, and stands for Failures in the Series.
	Failures int64            `json:"failures"`
	Reasons  map[string]int64 `json:"reasons"`
	// Latency counts from the intended start of an operation, Service from the
	// moment it was really sent. In a closed loop they are the same.
	Latency Latency `json:"latency"`
	Service Latency `json:"service"`
	// Laps are latencies of parts of an operation that a scenario names, such as
	// "delivery", from the intended start.
	Laps map[string]Latency `json:"laps,omitempty"`
	// Figures are single numbers that a scenario names with their unit, such as
	// "bytes_per_stream" or "last_ms".
	Figures map[string]float64 `json:"figures,omitempty"`
	Series  []Second           `json:"series"`
	CPU     CPU                `json:"cpu"`
	// Resident is the memory of the target's processes at the end, in bytes; 0
	// where it cannot be seen.
	Resident uint64 `json:"resident_bytes"`
	// Invalid says why this run proves nothing; empty if it counts.
	Invalid string `json:"invalid"`
}

// Ladder is the outcome of a search for the highest rate of one scenario on one
// target whose 99th percentile of latency stays within a bound.
type Ladder struct {
	Target   string `json:"target"`
	Scenario string `json:"scenario"`
	// Clients is how many connections asked at once.
	Clients int     `json:"clients"`
	BoundMs float64 `json:"bound_ms"`
	// Rate is the arrivals a second that the target held; 0 if it held none that
	// was tried.
	Rate float64 `json:"rate"`
}

// Overload is what a target does at and beyond its capacity.
type Overload struct {
	Target string `json:"target"`
	// Capacity is the accepted a second of the closed loop, Peak the most of any
	// step.
	Capacity float64        `json:"capacity_per_second"`
	Peak     float64        `json:"peak_per_second"`
	Steps    []OverloadStep `json:"steps"`
	// Goodput is what the last step accepted as a share of Peak, P99 the 99th
	// percentile of its accepted as a multiple of that at half of capacity, from
	// the real sending, and Memory the most that it held as a multiple of what the
	// step at capacity held; 0 where one of the two was not measured.
	Goodput float64 `json:"goodput_of_peak"`
	P99     float64 `json:"p99_of_unloaded"`
	Memory  float64 `json:"memory_of_capacity"`
	// Failures is how much was neither accepted nor refused in good order.
	Failures int64 `json:"failures"`
}

// OverloadStep is one rate of an Overload: medians over its valid repeats, or
// over all where none is valid, and then Doubtful.
type OverloadStep struct {
	// Factor of capacity that was intended; 0 is the closed loop.
	Factor      float64 `json:"factor"`
	Doubtful    bool    `json:"doubtful"`
	Connections int     `json:"connections"`
	// Intended, Offered, Accepted and Refused are each a second.
	Intended float64 `json:"intended_per_second"`
	Offered  float64 `json:"offered_per_second"`
	Accepted float64 `json:"accepted_per_second"`
	Refused  float64 `json:"refused_per_second"`
	Failures int64   `json:"failures"`
	// P50 and P99 of the accepted and RefusedP99 count from the real sending,
	// IntendedP99 from the intended one.
	P50         float64 `json:"p50_ms"`
	P99         float64 `json:"p99_ms"`
	IntendedP99 float64 `json:"intended_p99_ms"`
	RefusedP99  float64 `json:"refused_p99_ms"`
	// Resident is the most memory that the target held, in bytes.
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

// Goal is a bound that the median of a figure is held against.
type Goal struct {
	Target   string  `json:"target"`
	What     string  `json:"what"`
	Measured float64 `json:"measured"`
	Bound    float64 `json:"bound"`
	// AtMost tells whether the bound is the most that is allowed; else it is the
	// least.
	AtMost bool `json:"at_most"`
	Met    bool `json:"met"`
	// Doubtful says that there is no valid run that tells.
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

// Point of a distribution: Percentile percent took at most Ms.
type Point struct {
	Percentile float64 `json:"percentile"`
	Ms         float64 `json:"ms"`
}

// Second is one second of a run.
type Second struct {
	Operations int64   `json:"operations"`
	Failures   int64   `json:"failures"`
	P99        float64 `json:"p99_ms"`
}

// CPU is who used the processor during the measured window, in cores.
type CPU struct {
	Target    float64 `json:"target_cores"`
	Generator float64 `json:"generator_cores"`
	// Neighbours is everything else on the machine.
	Neighbours float64 `json:"neighbours_cores"`
	// PerOperation is the target's time for one operation, in microseconds.
	PerOperation float64 `json:"target_us_per_operation"`
}

// Verification is the reading of every acknowledged message after the server
// was killed and started again.
type Verification struct {
	Acknowledged int64 `json:"acknowledged"`
	// SampleOf is how many messages were acknowledged of which those above are a
	// sample; 0 if they are all.
	SampleOf int64 `json:"sample_of,omitempty"`
	// Unknown operations got no answer: they may be there or not.
	Unknown int64 `json:"unknown"`
	Found   int64 `json:"found"`
	// Missing, Twice and Altered are violations of the promise.
	Missing int64 `json:"missing"`
	Twice   int64 `json:"twice"`
	Altered int64 `json:"altered"`
	// Stray messages are there although the sender was told that nothing
	// happened, or say nothing that anyone sent: violations too.
	Stray int64 `json:"stray"`
	// Copies of those acknowledged are copies of as many Broadcasts, one for each
	// member. Partial are broadcasts without answer that some members have and
	// others have not: violations.
	Broadcasts int64 `json:"broadcasts,omitempty"`
	Copies     int64 `json:"copies,omitempty"`
	Partial    int64 `json:"partial,omitempty"`
	// Commands are the last acknowledged votes of each elector on each request, and
	// the last acknowledged joins and departures. Those Lost are not in effect:
	// violations.
	Commands     int64 `json:"commands,omitempty"`
	CommandsLost int64 `json:"commands_lost,omitempty"`
	// Deliveries are acknowledged messages to agents with a webhook whose target
	// answers, of those sent while the server was killed. Those Lost were never
	// delivered: violations. DeliveredAgain are deliveries beyond one of each, which
	// at-least-once allows.
	Deliveries     int64 `json:"deliveries,omitempty"`
	DeliveriesLost int64 `json:"deliveries_lost,omitempty"`
	DeliveredAgain int64 `json:"delivered_again,omitempty"`
	// Killed tells whether the server was killed with SIGKILL under load before
	// the reading; if not, only what a running server shows was compared.
	Killed bool `json:"killed"`
	// RestartSeconds is from starting the process to its first 200 on /health.
	RestartSeconds float64 `json:"restart_seconds"`
}

// Clean reports whether everything that was acknowledged is there, once and as
// sent, and nothing else.
func (v *Verification) Clean() bool {
	return v.Missing == 0 && v.Twice == 0 && v.Altered == 0 && v.Stray == 0 && v.Partial == 0 && v.CommandsLost == 0 && v.DeliveriesLost == 0
}
