package machine

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"parley/bench/result"
)

// CPUWindow divides processor time among target, generator and all other processes, for one
// window at a time. Only one goroutine uses it.
type CPUWindow struct {
	system system
	pids   []int
	// own is the processor time of this process.
	own   func() (time.Duration, error)
	start cpuTimes
}

// cpuTimes holds the readings of the clocks at one time. err says why they cannot be read.
type cpuTimes struct {
	at                time.Time
	target, own, busy time.Duration
	err               error
}

// NewCPUWindow prepares windows for a target whose process trees start at pids. Without
// pids the target is remote or unknown; if it does run on this machine, it counts among the
// other processes.
func NewCPUWindow(pids []int) *CPUWindow {
	return &CPUWindow{system: linux, pids: pids, own: ownTime}
}

// Begin opens the window.
func (w *CPUWindow) Begin() { w.start = w.read() }

// End closes the window and returns how many cores each used in it: the target, this
// process as the generator, and all others. It leaves PerOperation 0, because only the
// caller knows the number of operations. The result is zero if the machine does not
// provide the times.
func (w *CPUWindow) End() result.CPU {
	end := w.read()
	seconds := end.at.Sub(w.start.at).Seconds()
	if errors.Join(w.start.err, end.err) != nil || seconds <= 0 {
		return result.CPU{}
	}
	target := max(0, end.target-w.start.target)
	own := max(0, end.own-w.start.own)
	others := max(0, end.busy-w.start.busy-target-own)
	return result.CPU{
		Target:     target.Seconds() / seconds,
		Generator:  own.Seconds() / seconds,
		Neighbours: others.Seconds() / seconds,
	}
}

func (w *CPUWindow) read() (now cpuTimes) {
	now.at = time.Now()
	if now.busy, now.err = w.system.busy(); now.err != nil {
		return now
	}
	if now.own, now.err = w.own(); now.err != nil || len(w.pids) == 0 {
		return now
	}
	usage := w.system.cpuOf(w.pids)
	now.target, now.err = usage.CPU, usage.Err
	return now
}

// PerOperation returns the target's processor time per operation in microseconds, for a
// window of that many seconds; 0 without operations.
func PerOperation(cpu result.CPU, seconds float64, operations int64) float64 {
	if operations <= 0 {
		return 0
	}
	return cpu.Target * seconds * 1e6 / float64(operations)
}

// MaxNeighbours is how many cores other processes may use before a run is invalid.
const MaxNeighbours = 0.2

// MaxGenerator is the share of the processors available to this process above which a run
// measures the generator instead of the target. If both share their processors, a lower
// bound is impossible: in a closed loop the generator uses whatever the target leaves,
// and has no share of its own to exhaust.
const MaxGenerator = 0.9

// Invalid returns the reason why a window is invalid; empty if it is valid.
func Invalid(cpu result.CPU) string { return invalid(cpu, runtime.GOMAXPROCS(0)) }

func invalid(cpu result.CPU, processors int) string {
	switch {
	case cpu.Neighbours > MaxNeighbours:
		return fmt.Sprintf("neighbours used %.2f cores, more than %.1f", cpu.Neighbours, MaxNeighbours)
	case cpu.Generator > MaxGenerator*float64(processors):
		return fmt.Sprintf("the generator used %.2f of %d cores: it was measured and not the target", cpu.Generator, processors)
	}
	return ""
}
