package bench

import (
	"cmp"
	"time"

	"parley/bench/machine"
	"parley/bench/report"
	"parley/bench/result"
	"parley/bench/scenario"
)

// watch measures processor time during one window and updates the live view.
type watch struct {
	live       *report.Live
	processors *machine.CPUWindow
	started    time.Time
	cpu        result.CPU
	window     time.Duration
	// afterwards is the processor time, in core seconds, that the target used after the window.
	afterwards float64
	opened     time.Time
}

func newWatch(live *report.Live, pids []int) *watch {
	return &watch{live: live, processors: machine.NewCPUWindow(pids), started: time.Now()}
}

// Begin implements load.Watch.
func (w *watch) Begin() {
	w.opened = time.Now()
	w.processors.Begin()
}

// Tick implements load.Watch.
func (w *watch) Tick(second result.Second) {
	w.live.Tick(time.Since(w.started), second)
}

// End implements load.Watch.
func (w *watch) End() {
	w.cpu = w.processors.End()
	w.window = time.Since(w.opened)
}

// chargeUntilIdle adds the target's processor time until settle returns to that of its operations.
func (w *watch) chargeUntilIdle(settle func()) {
	began := time.Now()
	w.processors.Begin()
	settle()
	w.afterwards = w.processors.End().Target * time.Since(began).Seconds()
}

// fill writes the processor time into a run, and the reason if it makes the run invalid.
func (w *watch) fill(run *result.Run, pids []int) {
	run.CPU = w.cpu
	charged := w.cpu
	if seconds := w.window.Seconds(); seconds > 0 {
		charged.Target += w.afterwards / seconds
	}
	run.CPU.PerOperation = machine.PerOperation(charged, w.window.Seconds(), run.Operations)
	run.Resident = cmp.Or(run.Resident, machine.Processes(pids...).Resident)
	if run.Invalid == "" {
		run.Invalid = machine.Invalid(w.cpu)
	}
	if run.Invalid == "" && run.Operations == 0 && run.Scenario != scenario.Idle {
		run.Invalid = "no operation succeeded"
	}
}
