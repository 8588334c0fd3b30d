package main

import (
	"context"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"parley/cmd/parley/program"
)

// TestKidsThatBeginLikeFlags: a key id that begins with a hyphen is accepted where a
// command expects a key id, and nowhere else.
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
		if code := run(t.Context(), func() {}, args, &program.Streams{In: strings.NewReader(""), RawOut: &said, RawErr: &said}); code != program.ExitForbidden { // no credentials there
			t.Errorf("%q: exit %d, %s", args, code, said.String())
		}
	}
}

// TestUnreachableAddressesAreRejected: every flag for an address rejects one that can never be
// reached. The error names the flag, is a usage error and contains no password.
func TestUnreachableAddressesAreRejected(t *testing.T) {
	urls := []string{"x:99999", "x:65536", "x:0", "x:", ":80", "", "x:http", "x:-1", "u:hush@:80", "x y"}
	for _, c := range []struct {
		flag   string
		before string
		bad    []string
		good   []string
		args   []string
	}{
		{"--smtp-url", "smtp://", append(urls, "x?y", "x#y", "u:hush@x:99999"), []string{"x", "x:1", "u:p@x:65535", "[::1]:25"}, []string{"config"}},
		{"--smtp-url", "", []string{"none", "mail.example:587", "http://x"}, []string{"smtps://x"}, []string{"config"}},
		{"--base-url", "https://", urls, []string{"x", "x:1/y", "[::1]:443"}, []string{"config"}},
		{"--otlp-endpoint", "http://", append(urls, "u:hush@x:1"), []string{"x:4318"}, []string{"config"}},
		{"--listen", "", []string{"x:99999", "x:65536", "x:+1", "x:-1", "x:http", "x:", "x", "1", "::1:1"}, []string{"x:0", ":1", "[::1]:65535"}, []string{"config"}},
		{"--admin-listen", "", []string{"x:65536", "x:+1", "none"}, []string{":0"}, []string{"config"}},
		{"--metrics-listen", "", []string{"x:65536", "x:+1", "none"}, []string{":0"}, []string{"config"}},
		{"--domain", "x:", []string{"0", "65536", ""}, []string{"1"}, []string{"config"}},
		{"--admin", "http://", append(urls, "u:hush@x:99999"), nil, []string{"org", "list"}},
		{"--admin", "http://", urls, nil, []string{"backup", "--to", "/nowhere"}},
		{"--url", "http://", urls, nil, []string{"register", "acme", "--email", "a@b.example", "--allow-http", "--profile", t.TempDir()}},
		{"--url", "http://", urls, nil, []string{"demo"}},
		{"--addr", "", []string{"127.0.0.1:99999", "x"}, nil, []string{"webhook", "listen"}},
		{"--as", "https://", urls, nil, []string{"webhook", "listen"}},
	} {
		for i, value := range slices.Concat(c.bad, c.good) {
			var out, said strings.Builder
			args := append(slices.Clone(c.args), c.flag, c.before+value)
			code := run(t.Context(), func() {}, args, &program.Streams{In: strings.NewReader(""), RawOut: &out, RawErr: &said})
			switch {
			case i >= len(c.bad) && code != 0:
				t.Errorf("%q: exit %d, %s", args, code, said.String())
			case i < len(c.bad) && (code != program.ExitUsage || strings.Contains(said.String(), "hush")):
				t.Errorf("%q: exit %d, %s", args, code, said.String())
			case i < len(c.bad) && !strings.Contains(said.String(), c.flag) && !strings.Contains(said.String(), "such as https://"):
				t.Errorf("%q does not name the flag: %s", args, said.String())
			}
		}
	}
}

// TestEverySettingHasItsVariable: the names of flags and variables correspond.
func TestEverySettingHasItsVariable(t *testing.T) {
	var chosen commands
	parser, err := newParser(&chosen, &program.Streams{RawOut: io.Discard, RawErr: io.Discard}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	serve := childNamed(parser.Model.Node, "serve")
	if len(serve.Flags) < 15 {
		t.Fatalf("serve has %d flags", len(serve.Flags))
	}
	for _, flag := range serve.Flags {
		want := "PARLEY_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		once := slices.Contains([]string{"hints", "accept-loss", "join", "join-token"}, flag.Name) // for a single start, not a setting
		if !once && (len(flag.Envs) != 1 || flag.Envs[0] != want) {
			t.Errorf("--%s has variables %q, want %q", flag.Name, flag.Envs, want)
		}
		if flag.Help == "" {
			t.Errorf("--%s has no help", flag.Name)
		}
	}
}

// TestCommandsGetTheirParameters: each parameter of a command's Run is bound by run or by kong, or provided
// by a method of the command.
func TestCommandsGetTheirParameters(t *testing.T) {
	var chosen commands
	parser, err := newParser(&chosen, &program.Streams{RawOut: io.Discard, RawErr: io.Discard}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, command := range parser.Model.Leaves(false) {
		target := command.Target.Addr()
		known := []reflect.Type{reflect.TypeFor[context.Context](), reflect.TypeFor[*program.Streams](), reflect.TypeFor[*kong.Kong](), reflect.TypeFor[*kong.Context]()}
		for i := range target.NumMethod() {
			if method := target.Type().Method(i); strings.HasPrefix(method.Name, "Provide") {
				known = append(known, method.Type.Out(0))
			}
		}
		runs := target.MethodByName("Run").Type()
		for i := range runs.NumIn() {
			checked++
			if !slices.Contains(known, runs.In(i)) {
				t.Errorf("%s: nothing provides %s", command.FullPath(), runs.In(i))
			}
		}
	}
	if checked < 100 {
		t.Errorf("%d parameters checked", checked)
	}
}
