package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"parley/bench/result"
)

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b []float64
		more bool
		want Judgement
	}{
		{"apart, more is better", []float64{100, 101, 102}, []float64{110, 111, 112}, true, Better},
		{"apart, less is better", []float64{100, 101, 102}, []float64{110, 111, 112}, false, Worse},
		{"fell", []float64{110, 111, 112}, []float64{100, 101, 102}, true, Worse},
		{"ranges touch", []float64{100, 101, 110}, []float64{110, 130, 131}, true, WithinNoise},
		{"apart by less than a spread", []float64{80, 100, 102}, []float64{103, 104, 105}, true, WithinNoise},
		{"the same", []float64{5, 5}, []float64{5, 5}, true, WithinNoise},
	} {
		if got := judge(NewSpread(c.a), NewSpread(c.b), c.more); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// faster is the sample after a change, on a slightly different machine.
func faster() *result.Report {
	r := sample()
	r.Machine.Cores, r.Versions["parley"], r.DiskBefore.P50ms = 4, "1.3.0", 0.4
	for i := range r.Runs {
		one := &r.Runs[i]
		if one.Target == "parley" && one.Scenario == "send" {
			one.PerSecond *= 1.4
			one.CPU.PerOperation *= 0.7
		}
	}
	r.Runs = append(r.Runs, run("parley", "inbox", 8, 0, 1, 100, 1))
	return r
}

func TestCompare(t *testing.T) {
	a := sample()
	a.Runs = append(a.Runs, run("floor", "inbox", 8, 0, 1, 100, 1), run("parley", "sync", 8, 0, 1, 100, 1))
	b := faster()
	b.Runs = append(b.Runs, run("parley", "sync", 8, 0, 1, 300, 1), run("parley", "sync", 8, 0, 2, 300, 1))
	c := Compare(a, b)
	judged := map[string]Change{}
	for _, change := range c.Changes {
		if change.Case.Growing != "" {
			continue
		}
		judged[change.Target+" "+change.Case.Scenario+" "+change.Quantity] = change
	}
	for key, want := range map[string]Judgement{
		"parley send throughput, op/s":      Better,
		"parley send p50, ms":               WithinNoise,
		"parley send CPU per operation, µs": Better,
		"floor send throughput, op/s":       WithinNoise,
		hostile + " send throughput, op/s":  Unproven,
		"parley sync throughput, op/s":      Unproven,
	} {
		if got := judged[key].Judgement; got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if len(c.OnlyA) != 1 || len(c.OnlyB) != 1 {
		t.Errorf("only in A %v, only in B %v", c.OnlyA, c.OnlyB)
	}
	var what []string
	for _, d := range c.Differences {
		what = append(what, d.What)
	}
	if got := strings.Join(what, "; "); got != "Cores; Disk, median sync before the runs; Version of parley" {
		t.Error(got)
	}
	var text bytes.Buffer
	if err := c.Markdown(&text); err != nil {
		t.Fatal(err)
	}
	golden(t, "comparison.md", text.Bytes())
	if strings.Index(text.String(), "| Cores ") > strings.Index(text.String(), "## send") {
		t.Error("the differences are not listed first")
	}
}

func TestCompareWithItselfFindsNothing(t *testing.T) {
	c := Compare(sample(), sample())
	if len(c.Differences)+len(c.OnlyA)+len(c.OnlyB) != 0 || len(c.Changes) == 0 {
		t.Errorf("%+v", c)
	}
	for _, change := range c.Changes {
		if change.Judgement == Better || change.Judgement == Worse || change.Percent() != 0 {
			t.Errorf("%+v", change)
		}
	}
}

func TestComparisonAsJSON(t *testing.T) {
	text, err := json.Marshal(Compare(sample(), faster()))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"differences":[{"what":"Cores","a":"2","b":"4"}`, `"only_a":[]`,
		`{"case":{"scenario":"send","clients":64,"rate":0},"target":"parley","quantity":"throughput, op/s","a":{"runs":2,"median":6250,"min":6200,"max":6300}`,
		`"doubtful_a":false,"doubtful_b":false,"judgement":"better"}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %.600s", want, text)
		}
	}
}
