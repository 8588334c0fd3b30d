package machine

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/procfs"
)

// Usage is the resources that process trees have used up to one moment.
type Usage struct {
	// CPU is user and system time since the processes started, including that of ended
	// children.
	CPU time.Duration
	// Resident is their memory in bytes.
	Resident uint64
	// Err says why nothing could be measured; nil if it could.
	Err error

	processes []procfs.ProcStat
}

// Processes adds up the usage of the process trees under pids.
func Processes(pids ...int) Usage { return linux.usage(pids) }

func (s system) usage(pids []int) Usage {
	usage := s.cpuOf(pids)
	proc, err := s.proc()
	for _, one := range usage.processes {
		if err == nil {
			usage.Resident += resident(proc, one, len(usage.processes) > 1)
		}
	}
	return usage
}

// cpuOf is usage without the memory.
func (s system) cpuOf(pids []int) (usage Usage) {
	if usage.processes, usage.Err = s.tree(pids); usage.Err != nil {
		usage.Err = fmt.Errorf("%s: %w", notSeen, usage.Err)
	}
	for _, one := range usage.processes {
		// Time of ended children is included, so that the sum does not fall when a process ends.
		usage.CPU += ticks(float64(one.UTime) + float64(one.STime) + float64(one.CUTime) + float64(one.CSTime))
	}
	return usage
}

// ticks converts USER_HZ, the unit of times in /proc/PID/stat. Linux fixes it at 100 a second
// for programs on every architecture that Go runs on.
func ticks(n float64) time.Duration { return time.Duration(n) * 10 * time.Millisecond }

// tree returns the processes under roots and the roots themselves, each once.
func (s system) tree(roots []int) (found []procfs.ProcStat, err error) {
	proc, err := s.proc()
	if err != nil {
		return nil, err
	}
	all, err := proc.AllProcs()
	if err != nil {
		return nil, err
	}
	parents := map[int]procfs.ProcStat{}
	for _, one := range all {
		if stat, err := one.Stat(); err == nil { // else it ended after the directory was read
			parents[one.PID] = stat
		}
	}
	under := map[int]bool{}
	for _, root := range roots {
		under[root] = true
	}
	for pid, stat := range parents {
		// The walk is bounded: files read one after another may not form a consistent tree.
		for steps := 0; pid != 0 && steps < len(parents); steps++ {
			if under[pid] {
				found = append(found, stat)
				break
			}
			pid = parents[pid].PPID
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no process of %v: %w", roots, fs.ErrNotExist)
	}
	return found, nil
}

// busy returns the time that all processors have worked since the machine started: everything
// except idle and iowait. User time includes that of guests. Time that the hypervisor stole
// counts as busy, because it was not available.
func (s system) busy() (time.Duration, error) {
	proc, err := s.proc()
	if err != nil {
		return 0, err
	}
	stat, err := proc.Stat()
	c := stat.CPUTotal
	return time.Duration((c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal) * float64(time.Second)), err
}

// OpenFiles returns how many file descriptors process pid has open; an error if they
// cannot be read.
func OpenFiles(pid int) (int, error) { return linux.openFiles(pid) }

func (s system) openFiles(pid int) (int, error) {
	proc, err := s.proc()
	if err != nil {
		return 0, err
	}
	process, err := proc.Proc(pid)
	if err != nil {
		return 0, err
	}
	return process.FileDescriptorsLen()
}

// ForgetPeak resets the peak memory of a process to its current memory, for PeakResident.
func ForgetPeak(pid int) error {
	return os.WriteFile(filepath.Join(linux.root, fmt.Sprintf("proc/%d/clear_refs", pid)), []byte("5"), 0)
}

// PeakResident returns the peak memory of a process in bytes, since its start or since
// ForgetPeak; 0 if it cannot be read.
func PeakResident(pid int) uint64 {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	status, err := process.NewStatus()
	if err != nil {
		return 0
	}
	return status.VmHWM
}
