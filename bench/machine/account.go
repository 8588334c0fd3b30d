package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"parley/bench/result"
)

// Usage is the resources that process trees have used up to one moment.
type Usage struct {
	// CPU is user and system time since the processes started, including that of ended
	// children.
	CPU time.Duration
	// Resident is their memory in bytes.
	Resident uint64
	// Count is the number of processes.
	Count int
	// Problem says why nothing could be measured; empty if it could.
	Problem string
}

// Processes adds up the usage of the process trees under pids.
func Processes(pids ...int) Usage { return linux.usage(pids) }

func (s system) usage(pids []int) Usage {
	processes, err := s.tree(pids)
	if err != nil {
		return Usage{Problem: notVisible(err)}
	}
	usage := Usage{Count: len(processes), Resident: s.resident(processes)}
	for _, one := range processes {
		usage.CPU += one.cpu
	}
	return usage
}

// ForgetPeak resets the peak memory of a process to its current memory, for PeakResident.
func ForgetPeak(pid int) error {
	return os.WriteFile(filepath.Join(linux.root, fmt.Sprintf("proc/%d/clear_refs", pid)), []byte("5"), 0)
}

// PeakResident returns the peak memory of a process in bytes, since its start or since
// ForgetPeak; 0 if it cannot be read.
func PeakResident(pid int) uint64 {
	text, err := linux.read(fmt.Sprintf("proc/%d/status", pid))
	if err != nil {
		return 0
	}
	return kilobytes(text, "VmHWM:")
}

// Account splits processor time among target, generator and neighbours for one window at
// a time. Only one goroutine uses it.
type Account struct {
	system system
	pids   []int
	// own is the processor time of this process.
	own     func() (time.Duration, error)
	start   moment
	problem string
}

// moment holds the readings of the clocks at one time.
type moment struct {
	at                time.Time
	target, own, busy time.Duration
}

// NewAccount prepares an account for a target whose process trees start at pids. Without
// pids the target is remote or unknown; if it does run on this machine, it counts as a
// neighbour.
func NewAccount(pids []int) *Account {
	return &Account{system: linux, pids: pids, own: ownTime}
}

// Begin opens the window.
func (a *Account) Begin() {
	a.problem = ""
	a.start = a.look()
}

// End closes the window and returns how many cores each used in it: the target, this
// process as the generator, and all others. It leaves PerOperation 0, because only the
// caller knows the number of operations. The result is zero if the machine does not
// provide the times.
func (a *Account) End() result.CPU {
	end := a.look()
	seconds := end.at.Sub(a.start.at).Seconds()
	if a.problem != "" || seconds <= 0 {
		return result.CPU{}
	}
	target := max(0, end.target-a.start.target)
	own := max(0, end.own-a.start.own)
	others := max(0, end.busy-a.start.busy-target-own)
	return result.CPU{
		Target:     target.Seconds() / seconds,
		Generator:  own.Seconds() / seconds,
		Neighbours: others.Seconds() / seconds,
	}
}

func (a *Account) look() moment {
	now := moment{at: time.Now()}
	var err error
	if now.busy, err = a.system.busy(); err != nil {
		a.problem = notVisible(err)
		return now
	}
	if now.own, err = a.own(); err != nil {
		a.problem = notVisible(err)
		return now
	}
	if len(a.pids) == 0 {
		return now
	}
	processes, err := a.system.tree(a.pids)
	if err != nil {
		a.problem = notVisible(err)
		return now
	}
	for _, one := range processes {
		now.target += one.cpu
	}
	return now
}

func notVisible(err error) string { return notSeen + ": " + err.Error() }

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
