package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"parley/bench/result"
)

// watched is the title of a run.
const watched = "[4/12] parley\x1b[2J, send, 64 clients, closed loop, repeat 2 of 3"

func watch(l *Live, until int) {
	l.Begin(watched, 2*time.Second, 28*time.Second)
	for i := 1; i <= until; i++ {
		l.Tick(time.Duration(i)*time.Second+3*time.Millisecond, result.Second{Operations: int64(1000 * i), Failures: 1})
	}
	l.End(run("parley", "send", 64, 0, 2, 15000, 4))
}

func TestLiveSpeaksEachTenSeconds(t *testing.T) {
	var b bytes.Buffer
	watch(NewLive(&b), 31)
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d lines:\n%s", len(lines), b.String())
	}
	for i, want := range []string{
		"started, 2 s of warm-up and 28 s",
		"10 s, 10,000 op/s, failures 10",
		"20 s, 20,000", "30 s, 30,000",
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

func TestLiveSaysWhyARunIsInvalid(t *testing.T) {
	var b bytes.Buffer
	l := NewLive(&b)
	l.Begin(watched, 2*time.Second, 28*time.Second)
	l.End(result.Run{Invalid: "neighbours"})
	if want := "INVALID: neighbours\n"; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, b.String())
	}
}
