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

// progressEvery is the pause between lines about a run in progress.
const progressEvery = 10 * time.Second

// Live writes a line when a run starts and when it ends, and now and then between. It is
// safe for concurrent use. It ignores write errors: a closed terminal must not spoil a
// measurement.
type Live struct {
	mu  sync.Mutex
	out io.Writer

	title    string
	failures int64
	reported time.Duration
}

// NewLive returns a view that writes to out.
func NewLive(out io.Writer) *Live { return &Live{out: out} }

// Begin shows that a run starts. The title is shown with all that follows about it.
func (l *Live) Begin(title string, warmUp, duration time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.title, l.failures, l.reported = title, 0, 0
	planned := seconds(duration)
	if warmUp > 0 {
		planned = seconds(warmUp) + " of warm-up and " + planned
	}
	l.print(title + ": started, " + planned)
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
	l.print(fmt.Sprintf("%s: %s, %s op/s, failures %s", l.title, seconds(elapsed), whole(float64(s.Operations)), whole(float64(l.failures))))
}

// End shows the result of the run.
func (l *Live) End(r result.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.print(l.title + ": " + outcome(r))
}

// Note writes one line, such as what happens between runs.
func (l *Live) Note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.print(text)
}

func (l *Live) print(line string) { _, _ = io.WriteString(l.out, printable(line)+"\n") }

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
