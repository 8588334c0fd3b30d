package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// faults has one fault for each rule, and the text of its report.
var faults = map[string]struct{ source, report string }{
	"errorlint":     {"func f(err error) bool { return err == io.EOF }", "will fail on wrapped errors"},
	"bodyclose":     {"func f() (int, error) { r, err := http.Get(\"\"); if err != nil { return 0, err }; return r.StatusCode, nil }", "response body must be closed"},
	"ineffassign":   {"func f() error { err := io.EOF; err = nil; return err }", "ineffectual assignment to err"},
	"wastedassign":  {"func f() error { err := io.EOF; err = nil; return err }", "reassigned without using the value"},
	"durationcheck": {"func f(d time.Duration) time.Duration { return d * time.Second }", "Multiplication of durations"},
	"predeclared":   {"func f() int { len := 1; return len }", "shadows predeclared identifier"},
	"nilness":       {"func f(p *int) int { if p == nil { return *p }; return 0 }", "nil dereference"},
	"unusedwrite":   {"type t struct{ a int }\n\nfunc f(s []t) { for _, x := range s { x.a = 1 } }", "unused write to field a"},
}

// TestRules builds the tool and checks that each rule reports its fault, and that
// none reports it in a test file or in sound code.
func TestRules(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "lint")
	if out, err := exec.Command("go", "build", "-o", tool, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	vet := func(file, source string) string {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"go.mod": "module planted\n\ngo 1.26\n",
			file:     "package planted\n\nimport (\n\t\"io\"\n\t\"net/http\"\n\t\"time\"\n)\n\nvar _, _, _ = io.EOF, http.NoBody, time.Now\n\n" + source + "\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		command := exec.Command("go", "vet", "-vettool="+tool, ".")
		command.Dir = dir
		out, err := command.CombinedOutput()
		if (err == nil) != (len(out) == 0) {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	for _, rule := range rules {
		fault, planted := faults[rule.Name]
		if !planted {
			t.Errorf("no fault is planted for %s", rule.Name)
		}
		if out := vet("a.go", fault.source); !strings.Contains(out, fault.report) {
			t.Errorf("%s: got %q, want %q", rule.Name, out, fault.report)
		}
	}
	for _, file := range []string{"a.go", "a_test.go"} {
		source := "func f() {}"
		if file != "a.go" {
			source = faults["errorlint"].source
		}
		if out := vet(file, source); out != "" {
			t.Errorf("%s: %q is reported: %s", file, source, out)
		}
	}
}
