package report

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"parley/bench/result"
)

var watched = Task{
	Target: "parley\x1b[2J", Scenario: "send", Clients: 64, Repeat: 2, Repeats: 3, Number: 4, Of: 12,
	WarmUp: 2 * time.Second, Duration: 28 * time.Second,
}

func watch(l *Live, until int) {
	l.Begin(watched)
	for i := 1; i <= until; i++ {
		l.Tick(Moment{
			Elapsed: time.Duration(i)*time.Second + 3*time.Millisecond,
			Second:  result.Second{Operations: int64(1000 * i), Failures: 1, P99: 4.56},
			CPU:     result.CPU{Target: 1.2, Generator: 0.6, Neighbours: 0.05},
		})
	}
	l.End(run("parley", "send", 64, 0, 2, 15000, 4))
}

func TestLivePlainSpeaksEachTenSeconds(t *testing.T) {
	var b bytes.Buffer
	watch(NewLive(&b, false, 0), 31)
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d lines:\n%s", len(lines), b.String())
	}
	for i, want := range []string{
		"started, 2 s of warm-up and 28 s",
		"measuring, 8 s of 28 s, 10,000 op/s, p99 4.56 ms, failures 10",
		"measuring, 18 s of 28 s", "measuring, 28 s of 28 s",
		"15,000 op/s, p50 4.00 ms",
	} {
		if !strings.Contains(lines[i], want) || !strings.HasPrefix(lines[i], "[4/12] parley�[2J, send, 64 clients, closed loop, repeat 2 of 3: ") {
			t.Errorf("line %d: %q", i, lines[i])
		}
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("plain lines contain an escape")
	}
}

// screen shows what a terminal would show after the few escapes that Live uses.
func screen(t *testing.T, s string) []string {
	t.Helper()
	lines, row := []string{""}, 0
	for len(s) > 0 {
		switch {
		case strings.HasPrefix(s, "\x1b[J"):
			lines, s = append(lines[:row], ""), s[3:]
		case strings.HasPrefix(s, "\x1b[K"), s[0] == '\r':
			s = strings.TrimPrefix(strings.TrimPrefix(s, "\r"), "\x1b[K")
		case strings.HasPrefix(s, "\x1b["):
			up := strings.IndexByte(s, 'A')
			row, s = row-int(s[2]-'0'), s[up+1:]
			lines[row] = ""
		case s[0] == '\n':
			if row++; row == len(lines) {
				lines = append(lines, "")
			}
			lines[row], s = "", s[1:]
		default:
			end := strings.IndexAny(s, "\x1b\r\n")
			lines[row] += s[:end]
			s = s[end:]
		}
		if row < 0 {
			t.Fatal("the cursor left the block")
		}
	}
	return lines
}

func TestLiveRedrawsOneBlock(t *testing.T) {
	var b bytes.Buffer
	l := NewLive(&b, true, 50)
	l.Note("probing the disk")
	l.Begin(watched)
	l.Tick(Moment{Elapsed: time.Second, Second: result.Second{Operations: 500, P99: 9}})
	l.Tick(Moment{Elapsed: 17 * time.Second, Second: result.Second{Operations: 1000, Failures: 2, P99: 12.5}})
	got := screen(t, b.String())
	if len(got) != 7 || got[0] != "probing the disk" {
		t.Fatalf("%q", got)
	}
	for _, line := range got {
		if utf8.RuneCountInString(line) >= 50 {
			t.Errorf("%q reaches the edge", line)
		}
	}
	for i, want := range []string{"[4/12] parley", "[======    ] measuring, 15 s of 28 s", "1,000 op/s, p99 12.5 ms, failures 2", "CPU cores:", "op/s ▅█"} {
		if !strings.Contains(got[i+1], want) {
			t.Errorf("line %d: %q lacks %q", i+1, got[i+1], want)
		}
	}
	l.End(run("parley", "send", 64, 0, 2, 15000, 4))
	if after := screen(t, b.String()); len(after) != 3 || !strings.Contains(after[1], "15,000 op/s") {
		t.Errorf("%q", after)
	}
}

func TestLiveSaysWhenALoopIsBehind(t *testing.T) {
	if got := phase(watched, 35*time.Second); got != "behind its plan by 5 s" {
		t.Error(got)
	}
	if got := outcome(result.Run{Invalid: "neighbours"}); !strings.HasSuffix(got, "INVALID: neighbours") {
		t.Error(got)
	}
	if got := sparkline([]float64{0, 0}, 10); got != "▁▁" {
		t.Error(got)
	}
}

func TestLiveOfARunThatEndsByItsCount(t *testing.T) {
	var b bytes.Buffer
	l := NewLive(&b, false, 0)
	l.Begin(Task{Target: "parley", Scenario: "fill", Clients: 8, Operations: 250_000})
	for i := range 11 {
		l.Tick(Moment{Elapsed: time.Duration(i+1) * time.Second, Second: result.Second{Operations: 10_000}})
	}
	for _, want := range []string{"started, 250,000 operations", "100,000 of 250,000 in 10 s, 10,000 op/s"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
