package server

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"parley/actors/delivery"
)

const (
	// processorFull is the part of what this process may use of the processors that
	// it uses where they are short for it.
	processorFull = 0.9
	// Where others use the machine too, they are short when so little of it is idle
	// while this process uses so much of what it may: what keeps them busy else is
	// not ours.
	processorSpare = 0.2
	processorOurs  = 0.5
)

// processor reports when there is no processor time left for more work.
type processor struct {
	clock func() time.Time
	// used is the processor time of this process since its start, idle and all that
	// of the machine, by its own measure; false where they are not known.
	used    func() (time.Duration, bool)
	machine func() (idle, all uint64, ok bool)

	at        time.Time
	was       time.Duration
	idle, all uint64
}

// busy reports whether the processors were short since the last call.
func (p *processor) busy() bool {
	now := p.clock()
	used, known := p.used()
	idle, all, seen := p.machine()
	last := *p
	p.at, p.was, p.idle, p.all = now, used, idle, all
	if !known || last.at.IsZero() {
		return false
	}
	ours := float64(used-last.was) / float64(now.Sub(last.at)*time.Duration(runtime.GOMAXPROCS(0)))
	othersFillIt := seen && all > last.all && float64(idle-last.idle) <= processorSpare*float64(all-last.all)
	return ours >= processorFull || othersFillIt && ours >= processorOurs
}

// load tells the webhook throttle how many answers were given and whether the processors
// are short.
func (h *running) load() delivery.Load {
	p := &processor{clock: time.Now, used: processUsed, machine: machineUsed}
	return func() (answered uint64, short bool) { return h.meter.Answers(), p.busy() }
}

// machineUsed returns how long all processors together were idle, and the total, in ticks
// since the machine started.
func machineUsed() (idle, all uint64, ok bool) {
	text, err := os.ReadFile("/proc/stat") // of Linux
	if err != nil {
		return 0, 0, false
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return parseProcessorTimes(line)
}

func parseProcessorTimes(line string) (idle, all uint64, ok bool) {
	// user nice system idle iowait irq softirq steal: who waits for a disk is idle,
	// and guests are in user and nice already.
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
