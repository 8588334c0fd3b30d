package report

import (
	"time"

	"parley/bench/result"
)

// hostile is a name with markup for every format it is written in.
const hostile = "<script>alert(1)</script>\"'&|]]>`*_[x](y)\x1b[2J\n# z"

// distributionOf returns a plausible distribution around a median.
func distributionOf(count int64, median float64) result.Latency {
	return result.Latency{Count: count, Mean: median * 1.1, P50: median, P90: median * 2, P99: median * 4, P999: median * 5, Max: median * 7}
}

func run(target, scenario string, clients int, rate float64, repeat int, perSecond, median float64) result.Run {
	r := result.Run{
		Target: target, Scenario: scenario, Clients: clients, Rate: rate, Repeat: repeat,
		Seconds: 5, Operations: int64(perSecond * 5), PerSecond: perSecond,
		Resident: uint64(40<<20 + repeat<<20),
		CPU:      result.CPU{Target: 1.25, Generator: 0.5, Neighbours: 0.03, PerOperation: 1.25e6 / perSecond},
	}
	r.Latency = distributionOf(r.Operations, median)
	r.Service = distributionOf(r.Operations, median*0.8)
	return r
}

// grown are the runs of two scaling curves.
func grown() (runs []result.Run) {
	for i, size := range []int64{1000, 10_000, 100_000} {
		k := float64(i)
		r := run("parley", "grow-agents", 128, 0, 1, 4400-200*k, 12)
		r.Size, r.Resident = size, uint64(60+i*40)<<20
		r.Figures = map[string]float64{
			"disk_bytes": 3e8 + 1e8*k, "disk_bytes_per_agent": 900 - 50*k, "resident_active_bytes": float64(r.Resident) * 1.2,
		}
		runs = append(runs, r)
	}
	for i, size := range []int64{0, 100_000, 1_000_000, 10_000_000} {
		k := float64(i)
		r := run("parley", "grow-messages", 128, 0, 1, 9500-150*k, 9)
		r.Size, r.Resident = size, uint64(60+i*30)<<20
		r.Figures = map[string]float64{"restart_kill_seconds": 0.3 + 0.2*k, "restart_term_seconds": 0.2 + 0.1*k}
		if i > 0 {
			r.Figures["disk_bytes_per_message"] = 2900 - 100*k
			r.Figures["first_page_p50_ms"], r.Figures["first_page_p99_ms"] = 0.4+k/20, 2.1
			r.Figures["deep_page_p50_ms"], r.Figures["deep_page_p99_ms"] = 0.5+k/20, 2.6
		}
		if i == 2 {
			r.Invalid = "neighbours used 0.31 cores"
		}
		runs = append(runs, r)
	}
	return runs
}

// sample is a bench of three targets with everything in it that can go wrong.
func sample() *result.Report {
	r := &result.Report{
		Schema:   result.Schema,
		Began:    time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC),
		Ended:    time.Date(2026, 11, 20, 9, 12, 30, 0, time.UTC),
		Command:  []string{"parley", "bench", "--targets", "parley, floor"},
		Versions: map[string]string{"parley": "1.2.0", "floor": "1.2.0", hostile: hostile},
		Machine: result.Machine{
			CPU: "Example 3000", Cores: 2, Memory: 8 << 30, Kernel: "6.1.0", Go: "go1.26.8", DataPath: "/data/bench",
		},
		DiskBefore: result.Disk{Syncs: 900, P50ms: 1.05, P99ms: 3.4},
		DiskAfter:  result.Disk{Syncs: 610, P50ms: 1.62, P99ms: 5.1},
		Verified:   &result.Verification{Acknowledged: 120000, Unknown: 3, Found: 120000, Killed: true, RestartSeconds: 0.84},
	}
	for repeat := 1; repeat <= 3; repeat++ {
		k := float64(repeat)
		r.Runs = append(r.Runs,
			run("parley", "send", 64, 0, repeat, 6000+100*k, 9+k/10),
			run("floor", "send", 64, 0, repeat, 9000-200*k, 6),
			run(hostile, "send", 64, 0, repeat, 1500+10*k, 40))
		for _, rate := range []float64{1000, 2000, 4000} {
			r.Runs = append(r.Runs,
				run("parley", "reply", 16, rate, repeat, rate, 1+rate/2000+k/20),
				run("floor", "reply", 16, rate, repeat, min(rate, 3000), 0.8+rate/4000+k/30))
		}
	}
	r.Runs = append(r.Runs, grown()...)
	r.Runs[0].Invalid = "neighbours took 0.31 cores."
	r.Runs[0].PerSecond = 3000
	for i := range r.Runs {
		one := &r.Runs[i]
		if one.Target == hostile {
			one.Invalid = "its <disk> was | full"
		}
		if one.Scenario == "reply" && one.Target == "parley" {
			one.Parts = map[string]result.Latency{"delivery": distributionOf(one.Operations, 2)}
			one.Figures = map[string]float64{"bytes_per_stream": 3900 + float64(one.Repeat)}
		}
		if one.Target == "floor" && one.Rate == 4000 {
			one.Failures, one.Reasons = 7, map[string]int64{"429 " + hostile: 2, "broken": 4}
		}
	}
	return r
}
