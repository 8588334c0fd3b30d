package parley_test

import (
	"errors"
	"strings"
	"testing"

	"parley/client/parley"
)

func TestParseAccount(t *testing.T) {
	for resource, want := range map[string]string{
		"acct:echo@acme.svc.test":                              "echo@acme.svc.test",
		"ACCT:Echo@ACME.svc.TEST":                              "echo@acme.svc.test",
		"acct:%65cho@acme.svc.test":                            "echo@acme.svc.test",
		"acct:echo@%61cme.svc.test":                            "echo@acme.svc.test",
		"acct:echo@acme.svc.test:8443":                         "echo@acme.svc.test:8443",
		"acct:a-b-0@acme.localhost":                            "a-b-0@acme.localhost",
		"acct:" + strings.Repeat("a", 200) + "@acme.localhost": strings.Repeat("a", 200) + "@acme.localhost",
	} {
		h, err := parley.ParseAccount(resource)
		if err != nil || h.String() != want || h.Account() != "acct:"+want {
			t.Errorf("%s: %v, %v", resource, h, err)
		}
	}
	for resource, want := range map[string]*parley.Refusal{
		// Not URIs, or not acct URIs.
		"": parley.ErrBadResource, "echo@acme.svc.test": parley.ErrBadResource, "acct:": parley.ErrBadResource,
		":echo@acme.svc.test": parley.ErrBadResource, "1acct:a@b.c": parley.ErrBadResource, "acct:echo": parley.ErrBadResource,
		"acct:@acme.svc.test": parley.ErrBadResource, "acct:echo@": parley.ErrBadResource, "acct:a@b@acme.svc.test": parley.ErrBadResource,
		"acct:echo @acme.svc.test": parley.ErrBadResource, "acct:écho@acme.svc.test": parley.ErrBadResource, "acct:%zz@acme.svc.test": parley.ErrBadResource,
		"acct:echo@acme.svc.test%2": parley.ErrBadResource, "acct:#board@acme.svc.test": parley.ErrBadResource, "acct://echo@acme.svc.test": parley.ErrBadResource,
		"acct:echo@acme.svc.test/x": parley.ErrBadResource, "acct:echo@acme.svc.test?x": parley.ErrBadResource, "acct:echo@acme.svc.test\n": parley.ErrBadResource,
		"https:": parley.ErrBadResource, "https://a b": parley.ErrBadResource,
		// URIs that no agent has.
		"https://acme.svc.test/agents/echo": parley.ErrNotFound, "mailto:echo@acme.svc.test": parley.ErrNotFound,
		"did:web:acme.svc.test:agents:echo": parley.ErrNotFound, "acct:%23board@acme.svc.test": parley.ErrNotFound,
		"acct:e_o@acme.svc.test": parley.ErrNotFound, "acct:echo@localhost": parley.ErrNotFound, "acct:echo@acme.svc.test.": parley.ErrNotFound,
		"acct:echo@acme.svc.test:0": parley.ErrNotFound, "acct:%C3%A9cho@acme.svc.test": parley.ErrNotFound, "acct:a%40b@acme.svc.test": parley.ErrNotFound,
		"acct:echo%40acme.svc.test@acme.svc.test": parley.ErrNotFound, "acct:%2565cho@acme.svc.test": parley.ErrNotFound,
		"acct:" + strings.Repeat("a", 201) + "@acme.localhost": parley.ErrNotFound,
	} {
		if h, err := parley.ParseAccount(resource); !errors.Is(err, want) || h != (parley.Handle{}) {
			t.Errorf("%q: %v, %v, want %v", resource, h, err, want)
		}
	}
}

func TestDID(t *testing.T) {
	for domain, want := range map[string][2]string{
		"svc.test":      {"did:web:acme.svc.test:agents:echo", "https://acme.svc.test/agents/echo/did.json"},
		"svc.test:8443": {"did:web:acme.svc.test%3A8443:agents:echo", "https://acme.svc.test:8443/agents/echo/did.json"},
	} {
		h := parley.Handle{Name: "echo", Slug: "acme", Domain: domain}
		if h.DID() != want[0] || h.DIDAddress() != want[1] {
			t.Errorf("%s: %s at %s", domain, h.DID(), h.DIDAddress())
		}
	}
}

func TestSlugOfHost(t *testing.T) {
	for _, domain := range []string{"svc.test", "svc.test:8443"} {
		for host, want := range map[string]string{
			"acme.svc.test": "acme", "ACME.Svc.Test": "acme", "acme.svc.test:8443": "acme", "acme.svc.test:80": "acme",
			"svc.test": "", ".svc.test": "", "a.svc.test": "", "two.acme.svc.test": "", "acme.svc.test.": "", "acmesvc.test": "",
			"acme.svc.test.evil.example": "", "evil.example": "", "127.0.0.1:8080": "", "[::1]:8080": "", "": "", "-a.svc.test": "",
			strings.Repeat("a", 33) + ".svc.test": "", "\u212aite.svc.test": "",
		} {
			if got := parley.SlugOfHost(host, domain); got != want {
				t.Errorf("%q under %s: %q, want %q", host, domain, got, want)
			}
		}
	}
}

// FuzzIdentity: an account names the agent that is found, whatever its spelling; a host
// names an organization of the domain or none.
func FuzzIdentity(f *testing.F) {
	f.Add("acct:%45cho@acme.svc.test", "acme.svc.test:1")
	f.Add("acct:echo@acme.svc.test:8443", "ACME.svc.test")
	f.Add("did:web:acme.svc.test", "[::1]:80")
	f.Fuzz(func(t *testing.T, resource, host string) {
		h, err := parley.ParseAccount(resource)
		switch {
		case errors.Is(err, parley.ErrBadResource), errors.Is(err, parley.ErrNotFound):
		case err != nil:
			t.Fatalf("%q: %v", resource, err)
		default:
			again, err := parley.ParseAccount(h.Account())
			if err != nil || again != h || h.Group || !parley.ValidAgentName(h.Name) || !parley.ValidSlug(h.Slug) {
				t.Fatalf("%q: %v, then %v, %v", resource, h, again, err)
			}
			if parley.SlugOfHost(h.Host(), h.Domain) != h.Slug {
				t.Fatalf("%v is not found on its host", h)
			}
		}
		if slug := parley.SlugOfHost(host, "svc.test"); slug != "" && (!parley.ValidSlug(slug) || !strings.HasPrefix(asciiLower(host), slug+".svc.test")) {
			t.Fatalf("%q: %q", host, slug)
		}
	})
}
