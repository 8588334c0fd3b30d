package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"
	"unicode"

	"parley/bench/result"
)

// Task describes the run that is about to start.
type Task struct {
	Target   string
	Scenario string
	// Clients and Rate are as in result.Run; a Rate of 0 is a closed loop.
	Clients int
	Rate    float64
	// Repeat is the number of this repeat of Repeats, counted from 1.
	Repeat, Repeats int
	// Number is the position of this run among the Of runs of the whole bench, counted
	// from 1. It is not shown if Of is 0.
	Number, Of int
	// WarmUp precedes Duration; both are as planned.
	WarmUp, Duration time.Duration
}

// progressEvery is the pause between lines about a run in progress.
const progressEvery = 10 * time.Second

// Live writes a line when a run starts and when it ends, and now and then between. It is
// safe for concurrent use. It ignores write errors: a closed terminal must not spoil a
// measurement.
type Live struct {
	mu  sync.Mutex
	out io.Writer

	task     Task
	failures int64
	reported time.Duration
}

// NewLive returns a view that writes to out.
func NewLive(out io.Writer) *Live { return &Live{out: out} }

// Begin shows that a run starts.
func (l *Live) Begin(t Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.task = t
	l.failures, l.reported = 0, 0
	l.print(taskTitle(t) + ": started, " + plannedTime(t))
}

// Tick tells what happened in the second that just ended. elapsed is the time since the
// start of the run, including the warm-up.
func (l *Live) Tick(elapsed time.Duration, s result.Second) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures += s.Failures
	if elapsed-l.reported < progressEvery {
		return
	}
	l.reported = elapsed.Truncate(progressEvery)
	l.print(fmt.Sprintf("%s: %s, %s op/s, failures %s", taskTitle(l.task), seconds(elapsed), whole(float64(s.Operations)), whole(float64(l.failures))))
}

// End shows the result of the run.
func (l *Live) End(r result.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.print(taskTitle(l.task) + ": " + outcome(r))
}

// Note writes one line, such as what happens between runs.
func (l *Live) Note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.print(text)
}

func (l *Live) print(line string) { _, _ = io.WriteString(l.out, printable(line)+"\n") }

func taskTitle(t Task) string {
	var b strings.Builder
	if t.Of > 0 {
		fmt.Fprintf(&b, "[%d/%d] ", t.Number, t.Of)
	}
	c := Case{Scenario: t.Scenario, Clients: t.Clients, Rate: t.Rate}
	fmt.Fprintf(&b, "%s, %s", t.Target, c)
	if t.Repeats > 1 {
		fmt.Fprintf(&b, ", repeat %d of %d", t.Repeat, t.Repeats)
	}
	return b.String()
}

func plannedTime(t Task) string {
	if t.WarmUp == 0 {
		return seconds(t.Duration)
	}
	return seconds(t.WarmUp) + " of warm-up and " + seconds(t.Duration)
}

func outcome(r result.Run) string {
	line := fmt.Sprintf("%s op/s, p50 %s ms, p99 %s ms, failures %s, CPU %s µs per operation",
		whole(r.PerSecond), number(r.Latency.P50), number(r.Latency.P99), whole(float64(r.Failures)), number(r.CPU.PerOperation))
	if r.Invalid != "" {
		line += "; INVALID: " + r.Invalid
	}
	return line
}

func seconds(d time.Duration) string {
	return fmt.Sprintf("%d s", int(math.Round(d.Seconds())))
}

// printable prevents names from other sources from controlling the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '�'
		}
		return r
	}, s)
}
