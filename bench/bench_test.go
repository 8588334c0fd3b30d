package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/bench/report"
	"parley/bench/result"
	"parley/bench/scenario"
	"parley/bench/scenario/host"
	"parley/bench/target"
)

// plain is a target in this process that accepts sends and returns pages.
type plain struct {
	name string
	// refuses makes its start fail. dies makes it drop every connection after that many
	// requests.
	refuses error
	dies    int64
	asked   atomic.Int64
	stopped atomic.Int64
	server  *httptest.Server
	mu      sync.Mutex
	boxes   map[string][]json.RawMessage
}

func (p *plain) Name() string     { return p.name }
func (p *plain) Processes() []int { return nil }
func (p *plain) Kill() error      { return target.ErrNotOurs }

func (p *plain) Stop() error {
	p.stopped.Add(1)
	if p.server != nil {
		p.server.CloseClientConnections()
		p.server.Close()
		p.server = nil
	}
	return nil
}

func (p *plain) Start(context.Context) (target.Endpoint, error) {
	if p.refuses != nil {
		return target.Endpoint{}, p.refuses
	}
	p.boxes = map[string][]json.RawMessage{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /messages", func(w http.ResponseWriter, r *http.Request) {
		n := p.asked.Add(1)
		if p.dies > 0 && n > p.dies {
			panic(http.ErrAbortHandler)
		}
		var in struct {
			To      string `json:"to_handle"`
			Payload string `json:"encrypted_payload"`
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		name, _, _ := strings.Cut(strings.TrimPrefix(in.To, "worker-"), "@")
		m, _ := json.Marshal(map[string]any{"id": fmt.Sprintf("01900000-0000-7000-8000-%012x", n), "encrypted_payload": in.Payload})
		p.mu.Lock()
		p.boxes[name] = append(p.boxes[name], m)
		p.mu.Unlock()
		w.WriteHeader(201)
		_, _ = w.Write(m)
	})
	mux.HandleFunc("GET /agents/{id}/messages", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		box := p.boxes[r.PathValue("id")]
		page := slices.Clone(box[max(0, len(box)-20):])
		p.mu.Unlock()
		slices.Reverse(page)
		_ = json.NewEncoder(w).Encode(map[string]any{"messages": page})
	})
	p.server = httptest.NewServer(mux)
	p.server.Config.ErrorLog = nil
	return target.Endpoint{Address: strings.TrimPrefix(p.server.URL, "http://"), Token: "t", Kind: target.Plain, Version: p.name + " 1"}, nil
}

func quick(t *testing.T, targets ...target.Target) (Config, *bytes.Buffer) {
	var said bytes.Buffer
	return Config{
		Targets: targets, Repeats: 2, Duration: 30 * time.Millisecond,
		Cases:  []Case{{Scenario: scenario.Send, Clients: 2}},
		Params: host.Params{Payload: 64, Agents: 2, Senders: 1},
		Dir:    t.TempDir(), ProbeTime: 10 * time.Millisecond, Live: report.NewLive(&said),
	}, &said
}

func names(runs []result.Run) (all []string) {
	for _, run := range runs {
		all = append(all, fmt.Sprintf("%s %s %d", run.Target, run.Scenario, run.Repeat))
	}
	return all
}

// A case of its own length goes to our server and the one peer that it names, and does not
// count as capacity.
func TestLongWindows(t *testing.T) {
	config, _ := quick(t, &plain{name: "a"}, &plain{name: "b"}, &plain{name: "c"})
	config.Repeats = 1
	config.Cases = []Case{
		{Scenario: scenario.Send, Clients: 2},
		{Scenario: scenario.Send, Clients: 2, Window: 300 * time.Millisecond, Peer: "c"},
	}
	out, err := Run(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	var long []string
	for _, run := range out.Runs {
		if run.Window == 0 != (run.Seconds < 0.2) {
			t.Errorf("a run of %s with a window of %v s took %v s", run.Target, run.Window, run.Seconds)
		}
		if run.Window > 0 {
			long = append(long, run.Target)
		}
	}
	if len(out.Runs) != 5 || !slices.Equal(long, []string{"a", "c"}) {
		t.Errorf("of %d runs %v are long", len(out.Runs), long)
	}
}

func TestTargetsTakeTurns(t *testing.T) {
	a, b := &plain{name: "a"}, &plain{name: "b"}
	config, _ := quick(t, a, b)
	config.Cases = append(config.Cases, Case{Scenario: scenario.Inbox, Clients: 2}, Case{Scenario: scenario.Send, Clients: 2, Share: 0.5})
	out, err := Run(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"a send 1", "b send 1", "a send 2", "b send 2",
		"a inbox 1", "b inbox 1", "a inbox 2", "b inbox 2",
		"a send 1", "a send 2", // only our target is also asked for a share of its own capacity
	}
	if got := names(out.Runs); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, run := range out.Runs {
		late := run.Reasons["never sent"] // a busy machine may not keep up with an open loop
		if run.Failures != late || late > 0 && run.Rate == 0 || run.Operations == 0 {
			t.Errorf("%s: %d operations, failures %v", run.Scenario, run.Operations, run.Reasons)
		}
	}
	closed := report.NewSpread([]float64{out.Runs[0].PerSecond, out.Runs[2].PerSecond}).Median
	if rate := out.Runs[8].Rate; rate != out.Runs[9].Rate || rate > closed/2 || rate < closed/2-100 {
		t.Errorf("half of %v/s is %v/s and then %v/s", closed, rate, out.Runs[9].Rate)
	}
	if out.Versions["a"] != "a 1" || out.DiskBefore.Syncs == 0 || out.DiskAfter.Syncs == 0 || a.stopped.Load() == 0 || b.stopped.Load() == 0 {
		t.Errorf("%+v", out)
	}
}

func TestPeerThatFailsIsLeftOut(t *testing.T) {
	for name, peer := range map[string]*plain{
		"at its start": {name: "b", refuses: errors.New("install it first")},
		"half-way":     {name: "b", dies: 5},
	} {
		t.Run(name, func(t *testing.T) {
			config, said := quick(t, &plain{name: "a"}, peer)
			config.Cases = append(config.Cases, Case{Scenario: scenario.Inbox, Clients: 1})
			out, err := Run(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			ours := 0
			for _, run := range out.Runs {
				if run.Target == "a" {
					ours++
				} else if run.Failures == 0 {
					t.Errorf("the failure is not reported: %+v", run)
				}
			}
			if ours != 4 {
				t.Errorf("ours has %d runs of 4: %q", ours, names(out.Runs))
			}
			if !strings.Contains(said.String(), "b ") || out.Versions["b"] == "b 1" || out.Versions["b"] == "" {
				t.Errorf("the report has %q about it, the log %q", out.Versions["b"], said)
			}
		})
	}
}

func TestOursThatFailsEndsTheBench(t *testing.T) {
	ours := &plain{name: "a", refuses: errors.New("no such file")}
	config, _ := quick(t, ours, &plain{name: "b"})
	if out, err := Run(t.Context(), config); err == nil || !strings.Contains(err.Error(), "no such file") || len(out.Runs) != 0 {
		t.Errorf("%v, %q", err, names(out.Runs))
	}
}

func TestInterruptLeavesWhatThereIs(t *testing.T) {
	config, _ := quick(t, &plain{name: "a"})
	config.Repeats = 1000
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	out, err := Run(ctx, config)
	if err == nil || out == nil || len(out.Runs) == 0 || len(out.Runs) > 100 {
		t.Fatalf("%v, %+v", err, out)
	}
	for _, run := range out.Runs[:len(out.Runs)-1] {
		if strings.HasPrefix(run.Invalid, "broken off") {
			t.Errorf("run %d: %s", run.Repeat, run.Invalid)
		}
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the interrupt took %v", took)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for what, change := range map[string]func(*Config){
		"nothing to measure": func(c *Config) { c.Targets = nil },
		"repeats":            func(c *Config) { c.Repeats = 0 },
		"a token lives":      func(c *Config) { c.Duration = time.Hour },
		"clients":            func(c *Config) { c.Cases[0].Clients = 0 },
		"are called a":       func(c *Config) { c.Targets = append(c.Targets, &plain{name: "a"}) },
		"payload":            func(c *Config) { c.Params.Payload = 1 },
	} {
		config, _ := quick(t, &plain{name: "a"})
		change(&config)
		if _, err := Run(t.Context(), config); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("no error contains %q, only %v", what, err)
		}
	}
}

func TestCases(t *testing.T) {
	for _, c := range []struct {
		scenarios []string
		clients   []int
		rates     []float64
		want      []Case
	}{
		{[]string{"send"}, nil, nil, []Case{{Scenario: "send", Clients: 1}, {Scenario: "send", Clients: 64}, {Scenario: "send", Clients: 256}}},
		{[]string{"inbox", "stream"}, nil, nil, []Case{{Scenario: "inbox", Clients: 64}, {Scenario: "stream", Clients: 1}}},
		{[]string{"fanout", "hotgroup"}, nil, nil, []Case{{Scenario: "fanout", Clients: 8}, {Scenario: "hotgroup", Clients: 64}}},
		{[]string{"reply"}, []int{2, 8}, []float64{100}, []Case{{Scenario: "reply", Clients: 2}, {Scenario: "reply", Clients: 8}, {Scenario: "reply", Clients: 8, Rate: 100}}},
	} {
		got, err := Cases(c.scenarios, c.clients, c.rates, 0)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, %v", c.scenarios, got, err)
		}
	}
	if _, err := Cases([]string{"sned"}, nil, nil, 0); err == nil || !strings.Contains(err.Error(), "sned") || !strings.Contains(err.Error(), "send, reply") {
		t.Errorf("an unknown scenario: %v", err)
	}
	for _, c := range Goals() {
		if !slices.Contains(scenario.Names(), c.Scenario) || c.Clients < 1 {
			t.Errorf("no such case: %+v", c)
		}
	}
}
