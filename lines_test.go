package parley_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestLines: the table of lines in docs/architecture.md is true within 5 %.
func TestLines(t *testing.T) {
	counted, err := exec.CommandContext(t.Context(), "tools/lines.sh").Output()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(string(counted)), "\n")
	if len(rows) != 5 {
		t.Fatalf("%s", counted)
	}
	for _, row := range rows {
		kind, number, _ := strings.Cut(row, " ")
		lines, err := strconv.ParseFloat(number, 64)
		if err != nil || lines == 0 {
			t.Fatalf("%q: %v", row, err)
		}
		stated := regexp.MustCompile(fmt.Sprintf(`(?m)^\| %s \|.*\| ([0-9,]+) \|$`, kind)).FindSubmatch(doc)
		if stated == nil {
			t.Errorf("docs/architecture.md has no row for %s: %.0f lines", kind, lines)
			continue
		}
		told, err := strconv.ParseFloat(strings.ReplaceAll(string(stated[1]), ",", ""), 64)
		if err != nil || math.Abs(told-lines) > lines/20 {
			t.Errorf("docs/architecture.md says that %s has %.0f lines; these are %.0f", kind, told, lines)
		}
	}
}

// TestNewcomersLines: the picture in docs/newcomers.md has the lines of each folder within 5 %.
func TestNewcomersLines(t *testing.T) {
	counted := map[string]float64{}
	for _, s := range sources(t, os.DirFS(".")) {
		if folder, _, nested := strings.Cut(s.file, "/"); nested && !s.test && !s.generated {
			counted[folder] += float64(bytes.Count(s.text, []byte("\n")))
		}
	}
	page, err := os.ReadFile("docs/newcomers.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^ ([a-z]+)(?:/parley)? +([0-9,]+)   `).FindAllStringSubmatch(string(page), -1)
	if len(rows) != 8 {
		t.Fatalf("found %d folders in the picture, want 8", len(rows))
	}
	for _, row := range rows {
		lines := counted[row[1]]
		if told, err := strconv.ParseFloat(strings.ReplaceAll(row[2], ",", ""), 64); err != nil || math.Abs(told-lines) > lines/20 {
			t.Errorf("docs/newcomers.md says that %s has %s lines; these are %.0f", row[1], row[2], lines)
		}
	}
}
