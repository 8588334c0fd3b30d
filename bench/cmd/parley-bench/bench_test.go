package main

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
)

// benchRun has the fields of a run in results.json that these tests read.
type benchRun struct {
	Scenario   string  `json:"scenario"`
	Rate       float64 `json:"rate"`
	Share      float64 `json:"share"`
	Repeat     int     `json:"repeat"`
	Size       int64   `json:"size"`
	Resident   int64   `json:"resident_bytes"`
	Operations int     `json:"operations"`
	Latency    struct {
		Count int `json:"count"`
	} `json:"latency"`
	Failures int                `json:"failures"`
	Reasons  map[string]int     `json:"reasons"`
	Parts    map[string]any     `json:"parts"`
	Figures  map[string]float64 `json:"figures"`
}

type benchReport struct {
	Schema   string         `json:"schema"`
	Runs     []benchRun     `json:"runs"`
	Verified map[string]any `json:"verified"`
}

// TestBench runs the scenarios for a moment, except cold, which is hot with ten
// thousand conversations. It does not measure, but each answer is checked and each
// acknowledged message is read back after a kill.
func TestBench(t *testing.T) {
	t.Parallel()
	scenarios := []string{"send", "reply", "sync", "inbox", "stream", "hot", "idle", "fanout", "hotgroup"}
	args := append([]string{
		"--duration", "150ms", "--warmup", "10ms", "--repeats", "2", "--clients", "4", "--agents", "12",
		"--streams", "40", "--members", "300", "--electors", "50", "--verify", "--serve-args=--journals 2",
	}, scenarios...)
	report, _ := measured(t, args...)
	if report.Schema != "parley-bench/1" || len(report.Runs) != 2*len(scenarios) {
		t.Fatalf("%s with %d runs", report.Schema, len(report.Runs))
	}
	for i, run := range report.Runs {
		if run.Scenario != scenarios[i/2] || run.Repeat != i%2+1 {
			t.Errorf("run %d is repeat %d of %s", i, run.Repeat, run.Scenario)
		}
		// On a busy machine one operation may take as long as such a short run.
		done := run.Operations + report.Runs[i^1].Operations
		if run.Failures != 0 || done == 0 && run.Scenario != "idle" {
			t.Errorf("%s: %d operations, failures %v", run.Scenario, done, run.Reasons)
		}
		for _, part := range map[string][]string{"reply": {"accepted", "delivery"}}[run.Scenario] {
			if run.Parts[part] == nil {
				t.Errorf("%s: part %q is missing", run.Scenario, part)
			}
		}
		for _, figure := range map[string][]string{
			"stream": {"p50_ms", "last_ms", "disconnect_ms"}, "idle": {"resident_bytes"},
			"fanout": {"recipients", "deliveries_per_second", "broadcast_of_direct_p50", "us_per_copy", "log_bytes_per_copy"},
		}[run.Scenario] {
			if run.Figures[figure] <= 0 {
				t.Errorf("%s: %s is %v", run.Scenario, figure, run.Figures[figure])
			}
		}
	}
	v := report.Verified
	if v["killed"] != true || v["acknowledged"] != v["found"] || v["acknowledged"].(float64) < 200 || v["restart_seconds"].(float64) <= 0 {
		t.Errorf("verification: %v", v)
	}
	for _, violation := range []string{"missing", "twice", "altered", "stray"} {
		if v[violation] != 0.0 {
			t.Errorf("%v %s", v[violation], violation)
		}
	}
	broadcasts, _ := v["broadcasts"].(float64)
	if commands, _ := v["commands"].(float64); broadcasts < 4 || v["copies"] != 300*broadcasts || commands < 20 || v["partial"] != nil || v["commands_lost"] != nil {
		t.Errorf("verification of groups: %v", v)
	}
}

// TestBenchOfARunningServer measures a server that the bench did not start. It is
// neither killed nor stopped.
func TestBenchOfARunningServer(t *testing.T) {
	t.Parallel()
	s := running(t)
	endpoint, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	report, _ := measured(t, "--url", "http://"+endpoint.Address, "--duration", "100ms", "--warmup", "0s", "--repeats", "1",
		"--clients", "2", "--agents", "2", "--rates", "100", "--verify", "send")
	rates := []float64{}
	for _, run := range report.Runs {
		rates = append(rates, run.Rate)
	}
	if !slices.Equal(rates, []float64{0, 100}) || report.Verified["killed"] != false || report.Verified["missing"] != 0.0 {
		t.Errorf("%v, %v", rates, report.Verified)
	}
	answer, err := http.Get("http://" + endpoint.Address + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("/health answers %d", answer.StatusCode)
	}
}

// TestBenchErase erases a small organization. It does not measure, but what the erasure
// counts, removes and leaves to others is checked, also after a kill.
func TestBenchErase(t *testing.T) {
	t.Parallel()
	report, _ := measured(t, "erase", "--members", "12", "--messages", "600", "--clients", "4", "--rates", "100", "--agents", "5", "--senders", "5",
		"--duration", "300ms", "--warmup", "100ms", "--serve-args=--journals 2")
	if len(report.Runs) != 1 {
		t.Fatalf("%d runs", len(report.Runs))
	}
	figures := report.Runs[0].Figures
	if figures["agents"] != 12 || figures["messages"] != 600 || figures["erase_seconds"] <= 0 {
		t.Errorf("figures: %v", figures)
	}
	if v := report.Verified; v["killed"] != true || v["acknowledged"] != v["found"] || v["acknowledged"].(float64) < 30 || v["stray"] != 0.0 {
		t.Errorf("verification: %v", v)
	}
}

// TestBenchGrowth: grows a server a little. It does not measure, but every figure must
// be present and possible.
func TestBenchGrowth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scenario      string
		most          int64
		args          []string
		figures, last []string
	}{
		{
			"grow-agents", 200,
			[]string{"--active", "40"},
			[]string{"resident_active_bytes", "active_agents", "disk_bytes", "disk_bytes_per_agent"},
			[]string{"resident_restarted_bytes", "restart_kill_seconds", "restart_term_seconds"},
		},
		{
			"grow-messages", 4000,
			[]string{"--agents", "10", "--pages", "3", "--verify"},
			[]string{"disk_bytes", "disk_bytes_per_message", "restart_kill_seconds", "restart_term_seconds"},
			[]string{"deep_page", "first_page_p50_ms", "deep_page_p50_ms", "of_empty", "empty_beside_per_second"},
		},
	} {
		report, _ := measured(t, append([]string{c.scenario, "--grow", fmt.Sprint(c.most), "--clients", "2", "--duration", "200ms", "--warmup", "0s"}, c.args...)...)
		for i, run := range report.Runs {
			names := c.figures
			if i == len(report.Runs)-1 {
				names = append(names, c.last...)
			}
			for _, name := range names {
				if run.Figures[name] <= 0 {
					t.Errorf("%s at %d: %s is %v", c.scenario, run.Size, name, run.Figures[name])
				}
			}
			if run.Operations == 0 || run.Failures != 0 || run.Resident < 10<<20 || run.Resident > 1<<30 {
				t.Errorf("%s at %d: %d operations, %d resident, failures %v", c.scenario, run.Size, run.Operations, run.Resident, run.Reasons)
			}
		}
		last := report.Runs[len(report.Runs)-1]
		if last.Size < c.most || last.Figures["deep_page"] > 3 || last.Figures["restart_kill_seconds"] > 10 {
			t.Errorf("%s at %d: %v", c.scenario, last.Size, last.Figures)
		}
		if v := report.Verified; v != nil && (v["killed"] != true || v["acknowledged"] != v["found"] || v["sample_of"].(float64) < 4000 || v["missing"] != 0.0) {
			t.Errorf("verification: %v", v)
		}
	}
}

// TestBenchOverload: overloads a server a little. It does not measure, but every step
// is present, nothing failed, and every accepted message was read back.
func TestBenchOverload(t *testing.T) {
	t.Parallel()
	report, _ := measured(t, "overload", "--duration", "200ms", "--warmup", "50ms", "--repeats", "1", "--connections", "300", "--agents", "8")
	var factors []float64
	answered := 0
	for _, run := range report.Runs {
		f := run.Figures
		factors = append(factors, run.Share)
		answered += run.Latency.Count
		if run.Scenario != "overload" || run.Operations == 0 || run.Failures != 0 || f["resident_peak_bytes"] < 10<<20 {
			t.Errorf("%+v", run)
		}
		// On a busy machine such a short window may pass before anything is sent in it.
		sent := run.Latency.Count > 0
		if run.Rate > 0 && (sent && f["intended_per_second"] == 0 || f["offered_per_second"] > f["intended_per_second"] || run.Parts["generator's delay"] == nil) {
			t.Errorf("%+v", run)
		}
	}
	if answered == 0 {
		t.Error("nothing was sent and answered within a window")
	}
	if !slices.Equal(factors, []float64{0, 0.5, 1, 2, 5}) {
		t.Errorf("steps %v", factors)
	}
	if v := report.Verified; v["acknowledged"] != v["found"] || v["missing"] != 0.0 || v["stray"] != 0.0 {
		t.Errorf("verification: %v", v)
	}
	if said, err := parley("bench", "send", "--overload").CombinedOutput(); err == nil {
		t.Errorf("--overload without --goals: %s", said)
	}
}
