package report

import (
	"bytes"
	"encoding/json"
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
	if text := render(t, Markdown, bare); !strings.Contains(text, "open loop at 5/s") {
		t.Errorf("runs without figures read:\n%s", text)
	}
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
		if paths, err = Save(dir, want); err != nil || len(paths) != 3 {
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
}

func TestSaveKeepsTheOthersWhenOneFails(t *testing.T) {
	r := sample()
	r.Runs[0].CPU.PerOperation = math.NaN()
	paths, err := Save(t.TempDir(), r)
	if err == nil || !strings.Contains(err.Error(), "results.json") || len(paths) != 2 {
		t.Errorf("%v, %v", paths, err)
	}
}
