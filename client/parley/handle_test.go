package parley_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/client/parley"
)

func TestHandles(t *testing.T) {
	long := strings.Repeat("a", 200)
	for text, want := range map[string]parley.Handle{
		"alice@acme.localhost":             {Name: "alice", Slug: "acme", Domain: "localhost"},
		"Alice@ACME.Example.ORG":           {Name: "alice", Slug: "acme", Domain: "example.org"},
		"a@ab.c":                           {Name: "a", Slug: "ab", Domain: "c"},
		"a--b@a-b.c":                       {Name: "a--b", Slug: "a-b", Domain: "c"},
		long + "@acme.localhost":           {Name: long, Slug: "acme", Domain: "localhost"},
		"#team@acme.localhost":             {Name: "team", Slug: "acme", Domain: "localhost", Group: true},
		"bot@acme.localhost:8080":          {Name: "bot", Slug: "acme", Domain: "localhost:8080"},
		"bot@acme." + long[:63] + ".x-y.0": {Name: "bot", Slug: "acme", Domain: long[:63] + ".x-y.0"},
		"bot@" + long[:32] + ".localhost":  {Name: "bot", Slug: long[:32], Domain: "localhost"},
	} {
		got, err := parley.ParseHandle(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if got.String() != strings.ToLower(text) {
			t.Errorf("%q is written %q", text, got)
		}
	}
	for _, text := range []string{
		"", "alice", "@acme.localhost", "alice@", "alice@acme", "alice@acme.", "alice@.localhost", "-a@acme.localhost",
		"a-@acme.localhost", "a_b@acme.localhost", "a b@acme.localhost", "al@ice@acme.localhost", "alice@a.localhost",
		"alice@-acme.localhost", "alice@" + long[:33] + ".localhost", long + "a@acme.localhost", "#@acme.localhost",
		"#" + long[:64] + "@acme.localhost", "##x@acme.localhost", "аlice@acme.localhost", "alice@acme.local host", "alice@acme.x/y",
		"alice@acme..localhost", "alice@acme.example..org", "alice@acme.example.", "alice@acme.-example.org", "alice@acme.example-.org",
		"alice@acme.exa_mple.org", "alice@acme.exa!mple", "alice@acme.*", "alice@acme." + long[:64], "alice@acme.localhost:", "alice@acme.:80",
		"alice@acme.localhost:0", "alice@acme.localhost:65536", "alice@acme.localhost:80:80", "alice@acme.localhost:8a", "alice@acme.localhost:+1",
		"alice@acme." + strings.Repeat("abc.", 63) + "ab",
	} {
		if got, err := parley.ParseHandle(text); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

func TestSlugs(t *testing.T) {
	for slug, want := range map[string]bool{
		"ab": true, "a-b": true, "0": false, "a": false, "-a": false, "a-": false, "A1": false, "a.b": false,
		strings.Repeat("x", 32): true, strings.Repeat("x", 33): false,
	} {
		if parley.ValidSlug(slug) != want {
			t.Errorf("%q: %v", slug, !want)
		}
	}
	// Control: the former list does not reserve these.
	former := []string{"www", "api", "admin", "docs", "well-known", "a2a", "localhost"}
	passed := 0
	for slug, want := range map[string]bool{
		"well-known": true, "parley": true, "root": true, "support": true, "svc": true, "xn--80ak6aa92e": true,
		"acme": false, "svc2": false, "xn-a": false, "a-xn--b": false, "supporters": false,
	} {
		if parley.ReservedSlug(slug, "svc") != want {
			t.Errorf("%q is reserved: %v", slug, !want)
		}
		if want && !slices.Contains(former, slug) {
			passed++
		}
	}
	if passed != 5 {
		t.Errorf("control: the former list allows %d slugs, want 5", passed)
	}
	if parley.ReservedSlug("svc", "relay") || !parley.ReservedSlug("relay", "relay") {
		t.Error("a fixed word is reserved and not the brand")
	}
}

// The hand-written checks accept the same names as the published patterns.
func TestLabelsMatchThePatterns(t *testing.T) {
	slug, agent := regexp.MustCompile(parley.SlugPattern), regexp.MustCompile(parley.AgentNamePattern)
	group := regexp.MustCompile(parley.GroupNamePattern)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.StringMatching(`[a-z0-9-]{0,4}`), rapid.StringMatching(`[a-z0-9-]{30,34}`), rapid.StringMatching(`[a-z0-9-]{60,66}`),
			rapid.StringMatching(`[a-z0-9]{197,203}`), rapid.StringN(0, 5, 8),
		).Draw(t, "text")
		if parley.ValidSlug(text) != slug.MatchString(text) || parley.ValidAgentName(text) != agent.MatchString(text) {
			t.Fatalf("%q: slug %v, name %v", text, parley.ValidSlug(text), parley.ValidAgentName(text))
		}
		_, err := parley.ParseHandle("#" + text + "@org.example.org")
		if (err == nil) != group.MatchString(strings.ToLower(text)) {
			t.Fatalf("%q as a group's name: %v", text, err)
		}
	})
}
