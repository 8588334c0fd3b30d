package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestProgramName: what is printed for the user to type is found by a shell.
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

// TestKidsThatBeginLikeFlags: the id of a key is taken for one although it begins
// with a hyphen, where a command expects one and nowhere else.
func TestKidsThatBeginLikeFlags(t *testing.T) {
	const kid = "-8pHksToliydzbswtoqaz-BlIa6hDaoH5h3FoippsHI"
	for _, c := range []struct{ args, want []string }{
		{[]string{"send", "a@b", "--accept-key", kid, "--accept-key", kid}, []string{"send", "a@b", "--accept-key=" + kid, "--accept-key=" + kid}},
		{[]string{"key", "retire", "alice", kid, "--profile", "p"}, []string{"key", "retire", "alice", "--profile", "p", "--", kid}},
		{[]string{"key", "retire", "alice", "--", kid}, []string{"key", "retire", "alice", "--", kid}},
		{[]string{"inbox", kid}, []string{"inbox", kid}},
		{[]string{"inbox", "-a", "b"}, []string{"inbox", "-a", "b"}},
	} {
		if got := usual(c.args); !slices.Equal(got, c.want) {
			t.Errorf("%q is read as %q, want %q", c.args, got, c.want)
		}
	}
	var said strings.Builder
	dir := t.TempDir()
	for _, args := range [][]string{{"send", "a@b.c", "x", "--accept-key", kid, "--profile", dir}, {"key", "retire", "alice", kid, "--profile", dir}} {
		if code := run(t.Context(), func() {}, args, &streams{in: strings.NewReader(""), out: &said, err: &said}); code != exitForbidden { // no credentials there
			t.Errorf("%q: exit %d, %s", args, code, said.String())
		}
	}
}
