package report

import (
	"math"
	"strings"
	"testing"

	"parley/bench/result"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Spread
	}{
		{nil, Spread{}},
		{[]float64{4}, Spread{1, 4, 4, 4}},
		{[]float64{9, 1, 2}, Spread{3, 2, 1, 9}},
		{[]float64{4, 1, 3, 8}, Spread{4, 3.5, 1, 8}},
	} {
		if got := NewSpread(c.values); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.values, got, c.want)
		}
	}
}

func TestInvalidRunsEnterNoMedian(t *testing.T) {
	cases := byCase(sample())
	ours := cases[0].groups[0]
	if s := ours.spread(throughput); ours.doubtful || s != (Spread{2, 6250, 6200, 6300}) {
		t.Errorf("ours: %+v", s)
	}
	worst := cases[0].groups[2]
	if s := worst.spread(throughput); !worst.doubtful || s.Runs != 3 || s.Median != 1520 {
		t.Errorf("all invalid: %+v, doubtful %v", s, worst.doubtful)
	}
	if text := spreadText(worst.spread(throughput), true); text != "(1,520, 1,510–1,530)" {
		t.Error(text)
	}
}

func TestRatioIsOfMediansWithPairsByRepeat(t *testing.T) {
	cases := byCase(sample())
	groups := cases[0].groups
	got := ratio(groups[0], groups[1], throughput)
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }
	if !near(got.OfMedians, 6250.0/8600) || got.Paired.Runs != 2 || !near(got.Paired.Min, 6200.0/8600) || !near(got.Paired.Max, 6300.0/8400) {
		t.Errorf("%+v", got)
	}
	if doubtful := ratio(groups[0], groups[2], throughput); !doubtful.Doubtful || ratioText(doubtful) != "(4.11 ×, 4.08–4.12)" {
		t.Errorf("%+v %s", doubtful, ratioText(doubtful))
	}
	if text := ratioText(Ratio{}); text != none {
		t.Error(text)
	}
}

func TestCasesKeepTheOrderOfScenarios(t *testing.T) {
	r := &result.Report{Runs: []result.Run{
		{Target: "a", Scenario: "sync", Clients: 64, Rate: 0.5},
		{Target: "a", Scenario: "sync", Clients: 8, Rate: 100},
		{Target: "a", Scenario: "sync", Clients: 64},
		{Target: "a", Scenario: "inbox", Clients: 1},
		{Target: "a", Scenario: "sync", Clients: 1},
	}}
	var got []string
	for _, c := range byCase(r) {
		got = append(got, c.String())
	}
	want := "sync, 1 client, closed loop; sync, 64 clients, closed loop; sync, 8 clients, open loop at 100/s; " +
		"sync, 64 clients, open loop at 0.5/s; inbox, 1 client, closed loop"
	if strings.Join(got, "; ") != want {
		t.Errorf("got %v", got)
	}
}

func TestVerdict(t *testing.T) {
	for want, v := range map[string]*result.Verification{
		"Not verified": nil,
		"Clean: every acknowledged message is there":                                                  {Acknowledged: 2, Found: 2, Killed: true},
		"Clean: every acknowledged message of the sample":                                             {Acknowledged: 2, Found: 2, Killed: true, SampleOf: 9},
		"Every acknowledged message is there, once and as it was sent; but the server was not killed": {Acknowledged: 2, Found: 2},
		"VIOLATED: 1 missing, 3 stray":                                                                {Acknowledged: 2, Found: 1, Missing: 1, Stray: 3},
		"Nothing was":                                                                                 {},
		"INCOMPLETE: ":                                                                                {Acknowledged: 2, Found: 1},
	} {
		if got, _ := verification(v); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for want, v := range map[string]float64{
		"0": 0, "0.0123": 0.01234, "1.23": 1.234, "12.3": 12.34, "123": 123.4, "12,345": 12345.2, "-1,000": -1000, none: math.NaN(), "100": 99.97, "10.0": 9.999, "1.00": 1, "0.00100": 0.001,
	} {
		if got := number(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	if got := bytesSize(3 << 29); got != "1.50 GiB" {
		t.Error(got)
	}
}
