package report

import (
	"bytes"
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

func TestHTMLGolden(t *testing.T) {
	golden(t, "report.html", []byte(render(t, HTML, sample())))
}

func TestNoRunsStillRender(t *testing.T) {
	empty := &result.Report{}
	if text := render(t, Markdown, empty); !strings.Contains(text, "no runs in this report") || !strings.Contains(text, "Not verified") {
		t.Errorf("an empty report reads:\n%s", text)
	}
	checkPage(t, render(t, HTML, empty), 0)
	bare := &result.Report{Runs: []result.Run{{Target: "a", Scenario: "send"}, {Target: "b", Scenario: "send", Rate: 5}}}
	checkPage(t, render(t, HTML, bare), 2)
}

var (
	svgs  = regexp.MustCompile(`(?s)<svg.*?</svg>`)
	loads = regexp.MustCompile(`(?i)(src|href|srcset|data|action|poster)\s*=\s*["']?\s*(https?:|//)|url\(|@import|<(script|link|iframe|img|object|embed)\b`)
)

// checkPage checks that the plots are well-formed and that the page loads nothing.
func checkPage(t *testing.T, text string, least int) {
	t.Helper()
	found := svgs.FindAllString(text, -1)
	if len(found) < least {
		t.Errorf("%d plots, want %d or more", len(found), least)
	}
	ids := map[string]bool{}
	for _, svg := range found {
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in:\n%s", err, svg)
			}
			start, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			for _, a := range start.Attr {
				if a.Name.Local == "id" && ids[a.Value] {
					t.Errorf("id %s is used twice", a.Value)
				}
				if a.Name.Local == "id" {
					ids[a.Value] = true
				}
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Errorf("%s=%q in %s", a.Name.Local, a.Value, start.Name.Local)
				}
			}
		}
		if !strings.Contains(svg, "<title ") || !strings.Contains(svg, `role="img"`) {
			t.Errorf("a plot without a title:\n%.300s", svg)
		}
	}
	if bad := loads.FindString(text); bad != "" {
		t.Errorf("the page would load something: %q", bad)
	}
}

func TestPageLoadsNothingAndEscapes(t *testing.T) {
	text := render(t, HTML, sample())
	checkPage(t, text, 4*4+1)
	if strings.Contains(text, "alert(1)</script>") || strings.Contains(text, "\x1b") {
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
		r.Runs[i].Series[1].P99 = v
	}
	checkPage(t, render(t, HTML, r), 1)
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

func TestSaveAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "er")
	want := sample()
	for range 2 {
		paths, err := Save(dir, want)
		if err != nil || len(paths) != 3 {
			t.Fatal(paths, err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 3 {
		t.Errorf("%d files in the directory, %v", len(left), err)
	}
	got, err := Load(filepath.Join(dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Error("the loaded report differs from the saved one")
	}
}

func TestLoadRefusesAnotherLayout(t *testing.T) {
	for name, text := range map[string]string{
		"later":  `{"schema":"parley-bench/2","runs":17}`,
		"none":   `{}`,
		"broken": `{"schema":`,
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path)
		if !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "later" && !strings.Contains(err.Error(), `"parley-bench/2"`) {
			t.Errorf("the error does not name the schema it found: %v", err)
		}
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
