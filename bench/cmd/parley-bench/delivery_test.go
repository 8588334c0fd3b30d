package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"parley/bench/result"
)

// TestBenchOfDeliveryAndLimits runs quota and webhook for a moment. It does not
// measure, but the limits are checked, every delivery arrives, and no acknowledged one
// is lost by a kill.
func TestBenchOfDeliveryAndLimits(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	said, err := parley("bench", "quota", "webhook", "--verify", "--duration", "400ms", "--warmup", "10ms", "--repeats", "1",
		"--clients", "8", "--agents", "4", "--hooks", "20", "--dir", t.TempDir(), "--out", out).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	var report result.Report
	text, err := os.ReadFile(filepath.Join(out, "results.json"))
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Runs) != 2 {
		t.Fatalf("%d runs", len(report.Runs))
	}
	for i, figures := range [][]string{
		{"free_per_second", "limited_per_second", "limited_of_free"},
		{"without_webhook_per_second", "with_webhook_per_second", "webhook_deliveries_per_second", "drain_per_second", "beside_hanging_p99_ms"},
	} {
		run := report.Runs[i]
		if run.Failures != 0 || run.Operations == 0 {
			t.Errorf("%s: %d operations, failures %v", run.Scenario, run.Operations, run.Reasons)
		}
		for _, figure := range figures {
			if run.Figures[figure] <= 0 {
				t.Errorf("%s: %s is %v", run.Scenario, figure, run.Figures[figure])
			}
		}
	}
	if v := report.Verified; !v.Killed || !v.Clean() || v.Found != v.Acknowledged || v.Deliveries == 0 {
		t.Errorf("verification: %+v", v)
	}
}

// TestBenchOfDirectory fills a small directory and searches it for a moment.
func TestBenchOfDirectory(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	said, err := parley("bench", "directory", "--cards", "300", "--duration", "500ms", "--warmup", "10ms", "--repeats", "1", "--dir", t.TempDir(), "--out", out).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	var report result.Report
	text, err := os.ReadFile(filepath.Join(out, "results.json"))
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil || len(report.Runs) != 1 {
		t.Fatalf("%v, %d runs", err, len(report.Runs))
	}
	run := report.Runs[0]
	if run.Failures != 0 || run.Operations == 0 || run.Figures["cards"] != 300 || run.Figures["restart_all_cards_ms"] <= 0 {
		t.Errorf("%d operations, failures %v, figures %v", run.Operations, run.Reasons, run.Figures)
	}
	if l := run.Parts["100 published a second: found by its words after the 200"]; l.Count == 0 {
		t.Errorf("parts %v", run.Parts)
	}
}

// TestBenchOfA2A calls agents over the bridge for a moment and subscribes to a few tasks,
// each of which ends.
func TestBenchOfA2A(t *testing.T) {
	t.Parallel()
	report, _ := measured(t, "a2a", "--duration", "400ms", "--warmup", "10ms", "--repeats", "1", "--clients", "4", "--agents", "2", "--subscriptions", "60")
	if len(report.Runs) != 1 {
		t.Fatalf("%d runs", len(report.Runs))
	}
	run := report.Runs[0]
	if run.Failures != 0 || run.Operations == 0 || run.Figures["subscriptions"] != 60 {
		t.Errorf("%d operations, failures %v, figures %v", run.Operations, run.Reasons, run.Figures)
	}
	for _, figure := range []string{"sync_per_second", "a2a_per_second", "a2a_of_sync", "last_end_ms"} {
		if run.Figures[figure] <= 0 {
			t.Errorf("%s is %v", figure, run.Figures[figure])
		}
	}
	if run.Parts["subscriptions: end of a task after its reply was sent"] == nil {
		t.Errorf("parts %v", run.Parts)
	}
}

// TestBenchOfQuotaWantsServersOfItsOwn: names a server and requests quota. The bench
// refuses before it sends any request.
func TestBenchOfQuotaWantsServersOfItsOwn(t *testing.T) {
	t.Parallel()
	said, err := parley("bench", "quota", "--url", "http://127.0.0.1:1", "--dir", t.TempDir(), "--out", t.TempDir()).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitUsage || !strings.Contains(string(said), "a server of the bench's own") {
		t.Errorf("%v\n%s", err, said)
	}
}

// TestUndeliveredIsAViolation: a lost delivery makes the bench fail.
func TestUndeliveredIsAViolation(t *testing.T) {
	lost := &result.Report{Verified: &result.Verification{Acknowledged: 9, Found: 9, Deliveries: 5, DeliveriesLost: 1}}
	if err := judge(lost); err == nil || !strings.Contains(err.Error(), "1 webhook deliveries never made") {
		t.Errorf("a lost delivery passes: %v", err)
	}
	again := &result.Report{Verified: &result.Verification{Acknowledged: 9, Found: 9, Deliveries: 5, DeliveredAgain: 5}}
	if err := judge(again); err != nil {
		t.Errorf("deliveries made twice are no violation: %v", err)
	}
}
