package blackbox

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// benchRun is what these tests look at of a run in results.json.
type benchRun struct {
	Scenario   string             `json:"scenario"`
	Rate       float64            `json:"rate"`
	Repeat     int                `json:"repeat"`
	Operations int                `json:"operations"`
	Failures   int                `json:"failures"`
	Reasons    map[string]int     `json:"reasons"`
	Laps       map[string]any     `json:"laps"`
	Figures    map[string]float64 `json:"figures"`
}

type benchReport struct {
	Schema   string         `json:"schema"`
	Runs     []benchRun     `json:"runs"`
	Verified map[string]any `json:"verified"`
}

// measured runs the bench and gives what it saved.
func measured(t *testing.T, args ...string) (benchReport, string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "results")
	cmd := exec.Command(binary, append([]string{"bench", "--out", out, "--dir", t.TempDir()}, args...)...)
	cmd.Env = cleanEnvironment()
	began := time.Now()
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("parley bench %v: %v\n%s", args, err, said)
	}
	t.Logf("took %v", time.Since(began))
	var report benchReport
	text, err := os.ReadFile(filepath.Join(out, "results.json"))
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil {
		t.Fatalf("results.json: %v", err)
	}
	for _, name := range []string{"results.md", "results.html"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	return report, out
}

// TestBench runs the scenarios for a moment (but for cold, which is hot with ten
// thousand conversations): nothing of it is a measurement,
// but each answer is checked and each acknowledged message read back after a
// kill.
func TestBench(t *testing.T) {
	t.Parallel()
	scenarios := []string{"send", "reply", "sync", "inbox", "deep", "stream", "mixed", "hot", "idle"}
	args := append([]string{
		"--duration", "100ms", "--warmup", "10ms", "--repeats", "2", "--clients", "4", "--agents", "12", "--depth", "3",
		"--streams", "40", "--verify", "--serve-args=--journals 2",
	}, scenarios...)
	report, out := measured(t, args...)
	if report.Schema != "parley-bench/1" || len(report.Runs) != 2*len(scenarios) {
		t.Fatalf("%s with %d runs", report.Schema, len(report.Runs))
	}
	for i, run := range report.Runs {
		if run.Scenario != scenarios[i/2] || run.Repeat != i%2+1 {
			t.Errorf("run %d is repeat %d of %s", i, run.Repeat, run.Scenario)
		}
		if run.Failures != 0 || run.Operations == 0 && run.Scenario != "idle" {
			t.Errorf("%s: %d operations, failures %v", run.Scenario, run.Operations, run.Reasons)
		}
		for _, lap := range map[string][]string{"reply": {"accepted", "delivery"}, "deep": {"first page", "deep page"}}[run.Scenario] {
			if run.Laps[lap] == nil {
				t.Errorf("%s: no lap %q", run.Scenario, lap)
			}
		}
		for _, figure := range map[string][]string{"stream": {"p50_ms", "last_ms", "disconnect_ms"}, "idle": {"resident_bytes"}}[run.Scenario] {
			if run.Figures[figure] <= 0 {
				t.Errorf("%s: %s is %v", run.Scenario, figure, run.Figures[figure])
			}
		}
	}
	v := report.Verified
	if v["killed"] != true || v["acknowledged"] != v["found"] || v["acknowledged"].(float64) < 1000 || v["restart_seconds"].(float64) <= 0 {
		t.Errorf("verification: %v", v)
	}
	for _, violation := range []string{"missing", "twice", "altered", "stray"} {
		if v[violation] != 0.0 {
			t.Errorf("%v %s", v[violation], violation)
		}
	}
	results := filepath.Join(out, "results.json")
	said, err := exec.Command(binary, "bench", "compare", results, results).CombinedOutput()
	if err != nil || !strings.Contains(string(said), "send") {
		t.Errorf("compare: %v\n%s", err, said)
	}
}

// TestBenchOfARunningServer measures a server that is not the bench's own: it is
// neither killed nor stopped.
func TestBenchOfARunningServer(t *testing.T) {
	t.Parallel()
	s := start(t)
	report, _ := measured(t, "--url", s.base, "--duration", "100ms", "--warmup", "0s", "--repeats", "1",
		"--clients", "2", "--agents", "2", "--rates", "100", "--verify", "send")
	rates := []float64{}
	for _, run := range report.Runs {
		rates = append(rates, run.Rate)
	}
	if !slices.Equal(rates, []float64{0, 100}) || report.Verified["killed"] != false || report.Verified["missing"] != 0.0 {
		t.Errorf("%v, %v", rates, report.Verified)
	}
	s.call(t, "", "GET", "/health", nil).want(200)
}
