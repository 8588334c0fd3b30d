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
	// Operations, if not 0, ends the run instead of Duration.
	Operations int64
	// WarmUp precedes Duration; both are as planned.
	WarmUp, Duration time.Duration
}

// Moment is the state of a run, once a second.
type Moment struct {
	// Elapsed is the time since the start of the run, including the warm-up.
	Elapsed time.Duration
	// Second is the second that just ended.
	Second result.Second
	// CPU is the split of that second, in cores; PerOperation is not shown.
	CPU result.CPU
}

// plainEvery is the pause between progress lines if the output is not a terminal.
const plainEvery = 10 * time.Second

// Live shows a running bench. On a terminal it redraws a small block and leaves one line
// for each run that ended; elsewhere it writes plain lines. It is safe for concurrent
// use. It ignores write errors: a closed terminal must not spoil a measurement.
type Live struct {
	mu         sync.Mutex
	out        io.Writer
	isTerminal bool
	width      int

	task     Task
	running  bool
	last     Moment
	failures int64
	done     int64
	rates    []float64
	drawn    int
	said     time.Duration
}

// NewLive returns a view that writes to out. On a terminal, lines are cut to width
// columns; a width under 20 means 80.
func NewLive(out io.Writer, isTerminal bool, width int) *Live {
	if width < 20 {
		width = 80
	}
	return &Live{out: out, isTerminal: isTerminal, width: width}
}

// Begin shows that a run starts.
func (l *Live) Begin(t Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.task, l.running, l.last = t, true, Moment{}
	l.failures, l.done, l.rates, l.said = 0, 0, nil, 0
	if l.isTerminal {
		l.redraw()
		return
	}
	l.print(taskTitle(t) + ": started, " + plannedTime(t))
}

// Tick shows the second that just ended.
func (l *Live) Tick(m Moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running {
		return
	}
	l.last = m
	l.failures += m.Second.Failures
	l.done += m.Second.Operations
	l.rates = append(l.rates, float64(m.Second.Operations))
	if l.isTerminal {
		l.redraw()
		return
	}
	if m.Elapsed-l.said >= plainEvery {
		l.said = m.Elapsed.Truncate(plainEvery)
		l.print(fmt.Sprintf("%s: %s, %s", taskTitle(l.task), l.phase(), l.now()))
	}
}

// End shows the result of the run in one line that stays on the screen.
func (l *Live) End(r result.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
	l.running = false
	l.print(taskTitle(l.task) + ": " + outcome(r))
}

// Note writes one line that stays on the screen, such as what happens between runs.
func (l *Live) Note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
	l.print(text)
	if l.running && l.isTerminal {
		l.redraw()
	}
}

func (l *Live) print(line string) { _, _ = io.WriteString(l.out, printable(line)+"\n") }

// erase removes the block from the terminal and leaves the cursor where the block began.
func (l *Live) erase() {
	if l.drawn > 0 {
		_, _ = fmt.Fprintf(l.out, "\x1b[%dA\r\x1b[J", l.drawn)
		l.drawn = 0
	}
}

func (l *Live) redraw() {
	lines := l.block()
	var b strings.Builder
	if l.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", l.drawn)
	}
	for _, line := range lines {
		b.WriteString(cut(printable(line), l.width-1))
		b.WriteString("\x1b[K\n")
	}
	l.drawn = len(lines)
	_, _ = io.WriteString(l.out, b.String())
}

func (l *Live) block() []string {
	total := l.task.WarmUp + l.task.Duration
	done := 0.0
	switch {
	case l.task.Operations > 0:
		done = min(1, float64(l.done)/float64(l.task.Operations))
	case total > 0:
		done = min(1, float64(l.last.Elapsed)/float64(total))
	}
	bar := progressBar(done, max(10, min(40, l.width-44)))
	cpu := l.last.CPU
	return []string{
		taskTitle(l.task),
		fmt.Sprintf("  %s %s", bar, l.phase()),
		"  " + l.now(),
		fmt.Sprintf("  CPU cores: target %.2f, generator %.2f, neighbours %.2f", cpu.Target, cpu.Generator, cpu.Neighbours),
		"  op/s " + sparkline(l.rates, max(10, min(60, l.width-9))),
	}
}

func (l *Live) now() string {
	s := l.last.Second
	return fmt.Sprintf("%s op/s, p99 %s ms, failures %s", whole(float64(s.Operations)), number(s.P99), whole(float64(l.failures)))
}

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
	if t.Operations > 0 {
		return whole(float64(t.Operations)) + " operations"
	}
	if t.WarmUp == 0 {
		return seconds(t.Duration)
	}
	return seconds(t.WarmUp) + " of warm-up and " + seconds(t.Duration)
}

// phase describes the progress of the run.
func (l *Live) phase() string {
	if l.task.Operations == 0 {
		return phase(l.task, l.last.Elapsed)
	}
	return fmt.Sprintf("%s of %s in %s", whole(float64(l.done)), whole(float64(l.task.Operations)), seconds(l.last.Elapsed))
}

// phase describes the progress of a run of a planned length. A run that exceeds its plan
// is an open loop that fell behind and still sends its remaining arrivals.
func phase(t Task, elapsed time.Duration) string {
	total := t.WarmUp + t.Duration
	switch {
	case elapsed < t.WarmUp:
		return "warming up, " + seconds(elapsed) + " of " + seconds(t.WarmUp)
	case elapsed > total+time.Second:
		return "behind its plan by " + seconds(elapsed-total)
	}
	return "measuring, " + seconds(elapsed-t.WarmUp) + " of " + seconds(t.Duration)
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

func progressBar(done float64, columns int) string {
	full := int(math.Round(done * float64(columns)))
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", columns-full) + "]"
}

// sparkline draws the last values from a base of zero, so that a flat line means a
// constant rate.
func sparkline(values []float64, columns int) string {
	const levels = "▁▂▃▄▅▆▇█"
	marks := []rune(levels)
	values = values[max(0, len(values)-columns):]
	top := 0.0
	for _, v := range values {
		top = max(top, v)
	}
	var b strings.Builder
	for _, v := range values {
		at := 0
		if top > 0 {
			at = int(math.Round(max(0, v) / top * float64(len(marks)-1)))
		}
		b.WriteRune(marks[at])
	}
	return b.String()
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

func cut(s string, columns int) string {
	runes := []rune(s)
	if len(runes) <= columns {
		return s
	}
	return string(runes[:columns-1]) + "…"
}
