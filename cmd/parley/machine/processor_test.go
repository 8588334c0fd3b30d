package machine

import (
	"runtime"
	"testing"
	"time"
)

// TestProcessorOverload: when the processor counts as overloaded, and whether this
// process or others cause it.
func TestProcessorOverload(t *testing.T) {
	for _, c := range []struct {
		name       string
		ours, idle int // percent of the time
		short      bool
	}{
		{"all is ours", 95, 0, true},
		{"all that we may use is ours, of a larger machine", 95, 80, true},
		{"we use most, and who asks us the rest", 70, 4, true},
		{"others use most", 20, 4, false},
		{"we use most, and some is left", 65, 30, false},
		{"nobody uses any", 1, 98, false},
	} {
		now, used, idle, all := time.Unix(1000, 0), time.Hour, uint64(1e6), uint64(2e6)
		p := &Processor{
			clock: func() time.Time { return now }, used: func() (time.Duration, bool) { return used, true },
			machine: func() (uint64, uint64, bool) { return idle, all, true },
		}
		if p.Busy() {
			t.Errorf("%s: overloaded before the first measurement", c.name)
		}
		now, idle, all = now.Add(time.Second), idle+uint64(c.idle), all+100
		used += time.Duration(Cores()) * time.Second * time.Duration(c.ours) / 100
		if p.Busy() != c.short {
			t.Errorf("%s: overloaded is %v", c.name, !c.short)
		}
	}
}

func TestProcessorTimes(t *testing.T) {
	idle, all, ok := parseProcessorTimes("cpu  100 20 30 4000 500 6 7 8 90 10")
	if !ok || idle != 4500 || all != 4671 {
		t.Error(idle, all, ok)
	}
	for _, line := range []string{"", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3", "cpu 1 2 3 x 5 6 7 8"} {
		if _, _, ok := parseProcessorTimes(line); ok {
			t.Errorf("%q was accepted", line)
		}
	}
	if _, _, ok := machineUsed(); ok != (runtime.GOOS == "linux") {
		t.Error("the processor times of this machine cannot be parsed")
	}
	if used, ok := processUsed(); ok && used <= 0 {
		t.Error("a running process used no processor time")
	}
}
