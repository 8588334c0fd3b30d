package main

import (
	"slices"
	"strings"
	"testing"

	"parley/cmd/parley/program"
)

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
		if code := run(t.Context(), func() {}, args, &program.Streams{In: strings.NewReader(""), Out: &said, Err: &said}); code != program.ExitForbidden { // no credentials there
			t.Errorf("%q: exit %d, %s", args, code, said.String())
		}
	}
}
