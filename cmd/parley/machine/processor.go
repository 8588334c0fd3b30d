package machine

import (
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// processorFull is the share of its available processor time above which this process
	// counts as short of processor time.
	processorFull = 0.9
	// If other processes use the machine too, processor time counts as short when at most
	// processorSpare of the machine is idle and this process uses at least processorOurs
	// of its available time. Otherwise the other processes are the cause.
	processorSpare = 0.2
	processorOurs  = 0.5
)

// Processor reports when there is no processor time left for more work.
type Processor struct {
	clock func() time.Time
	// used returns the processor time of this process since its start. machine returns
	// the idle time and the total time of the machine's processors, in a unit of its own.
	// Both return false if the values are not known.
	used    func() (time.Duration, bool)
	machine func() (idle, all uint64, ok bool)

	at        time.Time
	was       time.Duration
	idle, all uint64
}

// Busy reports whether processor time was short since the last call.
func (p *Processor) Busy() bool {
	now := p.clock()
	used, known := p.used()
	idle, all, seen := p.machine()
	last := *p
	p.at, p.was, p.idle, p.all = now, used, idle, all
	if !known || last.at.IsZero() {
		return false
	}
	ours := float64(used-last.was) / float64(now.Sub(last.at)*time.Duration(Cores()))
	othersFillIt := seen && all > last.all && float64(idle-last.idle) <= processorSpare*float64(all-last.all)
	return ours >= processorFull || othersFillIt && ours >= processorOurs
}

// NewProcessor returns the processor time of this process and of the machine.
func NewProcessor() *Processor {
	return &Processor{clock: time.Now, used: processUsed, machine: machineUsed}
}

// machineUsed returns the idle time and the total time of all processors together, in
// ticks since the machine started.
func machineUsed() (idle, all uint64, ok bool) {
	text, err := os.ReadFile("/proc/stat") // Linux only
	if err != nil {
		return 0, 0, false
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return parseProcessorTimes(line)
}

func parseProcessorTimes(line string) (idle, all uint64, ok bool) {
	// user nice system idle iowait irq softirq steal: waiting for a disk counts as idle,
	// and user and nice already include guests.
	const first, idleAt, waitAt, last = 1, 4, 5, 8
	words := strings.Fields(line)
	if len(words) <= last || words[0] != "cpu" {
		return 0, 0, false
	}
	for i := first; i <= last; i++ {
		n, err := strconv.ParseUint(words[i], 10, 64)
		if err != nil {
			return 0, 0, false
		}
		if all += n; i == idleAt || i == waitAt {
			idle += n
		}
	}
	return idle, all, true
}
