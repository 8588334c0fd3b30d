package server

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"parley/cluster"
	"parley/cluster/link"
	"parley/cmd/parley/admin"
	"parley/cmd/parley/telemetry"
)

// dashboard is the part of docs/grafana.json that the tests read.
type dashboard struct {
	UID        string `json:"uid"`
	Title      string `json:"title"`
	Schema     int    `json:"schemaVersion"`
	Templating struct {
		List []struct{ Name, Type string } `json:"list"`
	} `json:"templating"`
	Panels []struct {
		ID      int    `json:"id"`
		Type    string `json:"type"`
		Title   string `json:"title"`
		GridPos struct{ H, W, X, Y int }
		Targets []struct {
			Expr       string `json:"expr"`
			Datasource struct{ Type, UID string }
		} `json:"targets"`
	} `json:"panels"`
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// startTestServer starts a server on free ports and returns its public and its admin
// address.
func startTestServer(t *testing.T, args ...string) (public, private string) {
	t.Helper()
	h := testServer(t, args...)
	return "http://" + h.listener.Addr().String(), "http://" + h.adminListener.Addr().String()
}

// testServer starts a server on free ports, in a new data directory unless args name one.
func testServer(t *testing.T, args ...string) *running {
	t.Helper()
	cfg, err := parseServe(t, append([]string{
		"--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data", t.TempDir(), "--cache", "4MiB",
	}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	h, err := start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 2)
	go func() { served <- h.http.Serve(h.listener) }()
	go func() { served <- admin.Serve(h.admin.Admin, h.adminListener) }()
	t.Cleanup(func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-served; err != nil {
				t.Error(err)
			}
		}
	})
	return h
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

var metricName = regexp.MustCompile(`\b(?:parley|go|process)_[a-z0-9_]+`)

// unknownNames returns the metrics that an expression names and the server does not
// expose.
func unknownNames(expression, exposed string) (unknown []string) {
	for _, name := range metricName.FindAllString(expression, -1) {
		if !regexp.MustCompile(`(?m)^` + name + `[{ ]`).MatchString(exposed) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// ofNode returns the metrics of a server as if it were a node of a cluster with a peer.
func ofNode(t *testing.T, h *running) string {
	t.Helper()
	registry := telemetry.Metrics(telemetry.Sources{
		Store: h.store, Node: h.node, HTTP: h.http, Service: h.service, Webhooks: h.webhooks.sender, Requests: h.meter,
		Cluster: func() (cluster.Stats, bool) {
			return cluster.Stats{Links: []link.Stats{{Peer: 0xab}}, ClockOffsets: map[uint64]time.Duration{0xab: -1500 * time.Millisecond}}, true
		},
	})
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("metrics: %d %s", answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// TestDashboardNamesWhatThereIs: the dashboard shows all metrics, and it and the page for
// operators name no others.
func TestDashboardNamesWhatThereIs(t *testing.T) {
	h := testServer(t, "--poll-limit", "1/1", "--journals", "2")
	public, private := "http://"+h.listener.Addr().String(), "http://"+h.adminListener.Addr().String()
	for _, want := range []int{404, 429} {
		if status, body := fetch(t, public+"/poll/hush"); status != want {
			t.Fatalf("a poll was answered %d: %s", status, body)
		}
	}
	fetch(t, public+"/health")
	status, exposed := fetch(t, private+"/metrics")
	if status != 200 {
		t.Fatalf("metrics: %d %s", status, exposed)
	}
	for _, want := range []string{
		`parley_http_request_seconds_count{method="GET",route="/poll/{token}",status="4xx"} 2`,
		`parley_http_refusals_total{code="rate_limited"} 1`, `parley_rate_limit_refusals_total{route="/poll/{token}"} 1`,
		`parley_writes_accepted 1`, `parley_quota_refusals_total{quota="messages_per_day"} 0`, `parley_journal_entries_total{journal="1"} `,
		`parley_webhook_attempts_total{outcome="delivered"} 0`,
	} {
		if !strings.Contains(exposed, "\n"+want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	if strings.Contains(exposed, "parley_cluster_") {
		t.Error("a server on its own has metrics of a cluster")
	}
	exposed = ofNode(t, h)
	for _, want := range []string{`parley_cluster_leads{group="0"} 0`, `parley_cluster_link_up{peer="00000000000000ab"} 0`, `parley_cluster_clock_offset_seconds{peer="00000000000000ab"} -1.5`, `parley_cluster_forwarded_total{group="0",outcome="unknown"} 0`} {
		if !strings.Contains(exposed, "\n"+want) {
			t.Errorf("the metrics of a node have no %s", want)
		}
	}
	for _, secret := range []string{"hush", "127.0.0.1"} {
		if strings.Contains(exposed, secret) {
			t.Errorf("the metrics show %q", secret)
		}
	}
	for _, page := range []string{"operations.md", "cluster.md"} {
		text, err := os.ReadFile("../../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range unknownNames(string(text), exposed) {
			if !strings.HasSuffix(name, "_") && !strings.Contains(exposed, "\n# TYPE "+name+" histogram") {
				t.Errorf("%s names %s, and there is no such metric", page, name)
			}
		}
	}
	named := ""
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			for _, name := range unknownNames(target.Expr, exposed) {
				t.Errorf("panel %q: there is no metric %s", p.Title, name)
			}
			named += target.Expr + "\n"
		}
	}
	for line := range strings.Lines(exposed) {
		name, isType := strings.CutPrefix(line, "# TYPE parley_")
		if name, _, _ = strings.Cut(name, " "); isType && !strings.Contains(named, "parley_"+name) {
			t.Errorf("no panel shows parley_%s", name)
		}
	}
	if unknown := unknownNames(`rate(parley_nothing_total{a="b"}[5m]) / parley_writes_accepted`, exposed); !slices.Equal(unknown, []string{"parley_nothing_total"}) {
		t.Errorf("a planted name: %q", unknown)
	}
}

// TestDashboardCanBeImported checks what Grafana requires of an import: an identity, a
// choice of data source, and a position for each panel.
func TestDashboardCanBeImported(t *testing.T) {
	d := readDashboard(t)
	if d.UID == "" || d.Title == "" || d.Schema < 36 || len(d.Panels) == 0 {
		t.Fatalf("uid %q, title %q, schema %d, %d panels", d.UID, d.Title, d.Schema, len(d.Panels))
	}
	if len(d.Templating.List) == 0 || d.Templating.List[0].Name != "datasource" || d.Templating.List[0].Type != "datasource" {
		t.Errorf("the first variable is not a data source: %+v", d.Templating.List)
	}
	ids, taken := map[int]string{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if other, twice := ids[p.ID]; twice || p.ID == 0 {
			t.Errorf("panel %q has the id of %q", p.Title, other)
		}
		ids[p.ID] = p.Title
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			if target.Datasource.Type != "prometheus" || target.Datasource.UID != "${datasource}" {
				t.Errorf("panel %q queries %+v", p.Title, target.Datasource)
			}
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, there := taken[[2]int{x, y}]; there || x >= 24 {
					t.Fatalf("panel %q overlaps %q, or is beyond the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

func TestAccessLogTellsRoutesNotPaths(t *testing.T) {
	var said bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewJSONHandler(&said, nil)))
	defer slog.SetDefault(before)
	t.Run("serve", func(t *testing.T) {
		public, _ := startTestServer(t, "--access-log")
		for _, path := range []string{"/poll/hush", "/hush/hush?hush=hush", "/health?hush"} {
			fetch(t, public+path)
		}
	})
	if strings.Contains(said.String(), "hush") {
		t.Errorf("the log shows a path:\n%s", &said)
	}
	type line struct {
		Msg, Level, Method, Route, Code string
		Status                          int
		ID                              string  `json:"request_id"`
		Took                            float64 `json:"took_ms"`
	}
	var lines []line
	for text := range strings.Lines(said.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		if l.Msg == "request" {
			if l.ID == "" || l.Took <= 0 {
				t.Errorf("a line without id or time: %s", text)
			}
			l.ID, l.Took = "", 0
			lines = append(lines, l)
		}
	}
	want := []line{
		{Msg: "request", Level: "INFO", Method: "GET", Route: "/poll/{token}", Status: 404, Code: "not_found"},
		{Msg: "request", Level: "INFO", Method: "none", Route: "none", Status: 404, Code: "not_found"},
		{Msg: "request", Level: "INFO", Method: "GET", Route: "/health", Status: 200},
	}
	if !slices.Equal(lines, want) {
		t.Errorf("the log has %+v", lines)
	}
}
