package parley_test

import (
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
