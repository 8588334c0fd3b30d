package program

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestProgramName: a shell finds the program name that hints tell users to type.
func TestProgramName(t *testing.T) {
	dir := t.TempDir()
	here, elsewhere := filepath.Join(dir, "parley"), filepath.Join(dir, "other", "parley")
	if err := os.Mkdir(filepath.Dir(elsewhere), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{here, elsewhere} {
		if err := os.WriteFile(file, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	finds := func(path string) func(string) (string, error) {
		return func(string) (string, error) { return path, nil }
	}
	nothing := func(string) (string, error) { return "", errors.New("not on PATH") }
	spaced := filepath.Join(dir, "my tools", "parley")
	for _, c := range []struct {
		started  string
		lookPath func(string) (string, error)
		want     string
	}{
		{"parley", finds(here), "parley"},
		{here, finds(here), "parley"},
		{here, finds(elsewhere), here},
		{"./parley", nothing, "./parley"},
		{spaced, nothing, "'" + spaced + "'"},
	} {
		if got := programName(c.started, c.lookPath); got != c.want {
			t.Errorf("started as %s: %s, want %s", c.started, got, c.want)
		}
	}
}
