package host

import (
	"context"
	"time"

	"parley/bench/load"
	"parley/bench/result"
)

// Scenario is one kind of run on one target. It keeps what its runs have in common, such as
// agents, from one to the next.
type Scenario interface {
	// Run prepares a run, performs it and sets its results.
	Run(ctx context.Context, r *Round) error
}

// Round is one run of a scenario.
type Round struct {
	Plan load.Plan
	// Result gets the results. The bench itself sets the processor time and the memory.
	Result *result.Run
	// CPUPerOperation, if a scenario sets it, replaces the processor time for each operation in
	// the window, in microseconds.
	CPUPerOperation float64
	Bench           Bench
}

// Bench is what a run needs of the bench around it.
type Bench interface {
	// Begin waits until the target is idle and shows that the run begins. The caller observes
	// one window with the returned watch.
	Begin(ctx context.Context) load.Watch
	// Meter measures the target's processes as they are now.
	Meter() Meter
	// Kill kills the target with SIGKILL under load, starts it again and returns how long the
	// start took. A target that the bench did not start keeps running; then that is 0.
	Kill(ctx context.Context) (took time.Duration, err error)
	// Restart stops the target in an orderly way, starts it again and returns how long the start
	// took. A target that the bench did not start keeps running; then that is 0.
	Restart(ctx context.Context) (took time.Duration, err error)
	// Limit returns how many of n connections can be open at once, and notes if they are fewer.
	Limit(n int, what string) int
	// Another starts another server, on an empty directory, with further flags. Until stop, its
	// processes count as the target's for windows that begin later.
	Another(ctx context.Context, params Params, flags ...string) (server *Host, stop func() error, err error)
	// Nodes returns the nodes of the target, which is a cluster.
	Nodes() Nodes
}

// Nodes are nodes that can be killed one by one.
type Nodes interface {
	// Leader returns the number of the node that leads.
	Leader(ctx context.Context) (int, error)
	KillNode(i int) error
	// StartNode starts one node again and waits until all are ready.
	StartNode(ctx context.Context, i int) error
}

// Meter measures the target's processes.
type Meter interface {
	// Resident returns their memory in bytes; 0 if it cannot be measured. Peak returns the
	// largest since ForgetPeak.
	Resident() uint64
	Peak() uint64
	ForgetPeak()
	// CPU returns the processor time they have used.
	CPU() time.Duration
	// Live collects garbage and returns the bytes of what is alive, stacks included; 0 if
	// that is not known.
	Live(ctx context.Context) uint64
	// Open returns how many connections or descriptors they have open; negative if that
	// is not known.
	Open() int
	// Disk returns the space that the files of its data take, and their length, in bytes.
	Disk() (taken, written uint64)
	// Log returns how many bytes they have written to their write-ahead logs; known is false if
	// they do not say.
	Log() (bytes uint64, known bool)
	// Settle waits briefly until they are idle.
	Settle(context.Context)
}

// Load is a scenario whose runs are loads of equal operations.
type Load interface {
	// Prepare prepares a run of that many clients and returns the Dial that connects them.
	Prepare(ctx context.Context, clients int) (load.Dial, error)
}
