package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"parley/bench/result"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s changed; run with -update and read the difference. Got:\n%.2000s", name, got)
	}
}

func render(t *testing.T, write func(io.Writer, *result.Report) error, r *result.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestMarkdownGolden(t *testing.T) {
	golden(t, "report.md", []byte(render(t, Markdown, sample())))
}

func TestNoRunsStillRender(t *testing.T) {
	empty := &result.Report{}
	if text := render(t, Markdown, empty); !strings.Contains(text, "no runs in this report") || !strings.Contains(text, "Not verified") {
		t.Errorf("an empty report reads:\n%s", text)
	}
	bare := &result.Report{Runs: []result.Run{{Target: "a", Scenario: "send"}, {Target: "b", Scenario: "send", Rate: 5}}}
	for _, r := range []*result.Report{empty, bare} {
		if drawings, err := draw(r); err != nil || len(drawings) != 0 {
			t.Errorf("%d plots of nothing, %v", len(drawings), err)
		}
	}
}

// checkPlots checks that the plots are well-formed XML without impossible numbers.
func checkPlots(t *testing.T, r *result.Report, least int) (text string) {
	t.Helper()
	drawings, err := draw(r)
	if err != nil || len(drawings) < least {
		t.Errorf("%d plots, want %d or more, %v", len(drawings), least, err)
	}
	files := map[string]bool{}
	for _, d := range drawings {
		if files[d.file] || d.title == "" {
			t.Errorf("%s is there twice, or without a title", d.file)
		}
		files[d.file] = true
		decoder := xml.NewDecoder(bytes.NewReader(d.svg))
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v in:\n%.2000s", d.file, err, d.svg)
			}
			start, _ := token.(xml.StartElement)
			for _, a := range start.Attr {
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Errorf("%s: %s=%q in %s", d.file, a.Name.Local, a.Value, start.Name.Local)
				}
			}
		}
		text += string(d.svg)
	}
	return text
}

func TestPlotsEscapeNames(t *testing.T) {
	text := checkPlots(t, sample(), 8)
	if strings.Contains(text, "<script>") || strings.Contains(text, "\x1b") {
		t.Error("a hostile name came through")
	}
	if !strings.Contains(text, "&lt;script&gt;alert(1)") {
		t.Error("the hostile name is not shown")
	}
}

func TestNumbersThatAreNoneDoNotBreakThePlots(t *testing.T) {
	r := sample()
	for i, v := range []float64{math.NaN(), math.Inf(1), -1, 0, 1e300} {
		r.Runs[i].PerSecond, r.Runs[i].Rate = v, 0
		r.Runs[i].Latency.Curve[3].Ms = v
	}
	checkPlots(t, r, 1)
	one := run("parley", "send", 64, 0, 1, 1000, 2)
	for i := range one.Latency.Curve {
		one.Latency.Curve[i].Ms = 2
	}
	checkPlots(t, &result.Report{Runs: []result.Run{one}}, 1) // a line that is level
}

// TestBenchmarksAreForBenchstat: a line for each valid run, in the form of go test -bench.
func TestBenchmarksAreForBenchstat(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(render(t, Benchmarks, sample())), "\n")
	form := regexp.MustCompile(`^Benchmark[A-Z][^ ]* [1-9][0-9]*( [-+.e0-9]+ [^ 0-9][^ ]*)+$`)
	var first string
	valid := 0
	for _, line := range lines[3:] {
		if !form.MatchString(line) {
			t.Errorf("not a benchmark: %q", line)
		}
		if valid++; first == "" {
			first = line
		}
	}
	want := 0
	for _, run := range sample().Runs {
		if run.Invalid == "" {
			want++
		}
	}
	if valid != want {
		t.Errorf("%d benchmarks of %d valid runs", valid, want)
	}
	if want := "BenchmarkSend/clients=64/target=parley 31000 6200 op/s 9.2 p50-ms "; !strings.HasPrefix(first, want) || !strings.HasSuffix(first, " cpu-us/op") {
		t.Errorf("the first is %q, want %q", first, want)
	}
}

func TestMarkdownKeepsHostileNamesInTheirCell(t *testing.T) {
	text := render(t, Markdown, sample())
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "# z") || strings.Contains(line, "\x1b") {
			t.Errorf("a hostile name broke out: %q", line)
		}
		if strings.HasPrefix(line, "| ") && strings.Contains(line, " of 3 |") {
			if bars := strings.Count(line, "|") - strings.Count(line, `\|`); bars != 9 {
				t.Errorf("%d cell borders in %q", bars, line)
			}
		}
	}
	if unescaped := regexp.MustCompile(`[^\\]<script>`).FindString(text); unescaped != "" {
		t.Errorf("markup came through: %q", unescaped)
	}
}

func TestSave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "er")
	want := sample()
	var paths []string
	for range 2 {
		var err error
		if paths, err = Save(dir, want); err != nil || len(paths) < 3+8 {
			t.Fatal(paths, err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != len(paths) {
		t.Errorf("%d files in the directory, %v", len(left), err)
	}
	var got result.Report
	text, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil || !reflect.DeepEqual(&got, want) {
		t.Error("the saved report differs", err)
	}
	text, err = os.ReadFile(filepath.Join(dir, "results.md"))
	for _, path := range paths[3:] {
		if !strings.Contains(string(text), "]("+filepath.Base(path)+")") {
			t.Errorf("results.md does not show %s, %v", path, err)
		}
	}
}

func TestSaveKeepsTheOthersWhenOneFails(t *testing.T) {
	r := sample()
	r.Runs[0].CPU.PerOperation = math.NaN()
	paths, err := Save(t.TempDir(), r)
	if err == nil || !strings.Contains(err.Error(), "results.json") || len(paths) < 2 {
		t.Errorf("%v, %v", paths, err)
	}
}
