package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const sampleRules = "## 1. Today\n" +
	"`parley serve` with `--listen ADDR` and `parley org hold|release`. `GET /agents/{id}/wait?after=<id>` → `{\"items\":[Message, oldest first],\"state\":\"ready|down\"}`.\n" +
	"Unknown: 404 `not_found`. `X-<Brand>-Agent: <uuid>`; `group.member.joined|left`; `GET /groups/{id}/mls/commits` and `GET …/mls/welcomes`.\n" +
	"Codes: self_message, gone.\n" +
	"Request statuses: `pending, invited`. Quotas of `GET /org/quotas`: `agents`, `groups`. Rate limits (all): register 10/h, public reads 120/min.\n" +
	"## 16. Amended\n" +
	"**Claims (7).** `POST /agents/{id}/claims {limit? 1-20 (1), from? (id or handle), after?}` → `{claim_id}`; 409 `lease_lost`; `…/done`; `--claim-max N`.\n" +
	"And more: `event: contact {handle}`.\n" +
	"**Groups (10).** Codes added: lease_lost, frozen (409). `PUT|DELETE /agents/{id}/blocks/{agent id | handle}` → 204; `GET`: page. `frozen`, `-32001`.\n"

const sampleSpec = "### Message\n\n| Field | Type |\n|---|---|\n| to_handle | string |\n\n| GET | /poll/{token} | none |\n"

// TestList: each form of a span gives its entries, and those of later work alone are marked.
func TestList(t *testing.T) {
	l := newList()
	l.readSpec(sampleSpec)
	l.readRules(sampleRules)
	l.settle()
	want := []string{
		"code frozen", "code gone", "code lease_lost", "code not_found", "code self_message",
		"command parley org hold", "command parley org release", "command parley serve",
		"event contact later: claims", "event group.member.joined", "event group.member.left",
		"flag --claim-max later: claims", "flag --listen", "header X-<Brand>-Agent",
		"member after", "member claim_id later: claims", "member from later: claims", "member handle later: claims",
		"member items", "member limit later: claims", "member state", "member to_handle",
		"quota agents", "quota groups", "rate public", "rate register",
		"route DELETE /agents/{}/blocks/{}", "route GET /agents/{}/blocks", "route GET /agents/{}/wait",
		"route GET /groups/{}/mls/commits", "route GET /groups/{}/mls/welcomes", "route GET /org/quotas", "route GET /poll/{}",
		"route POST /agents/{}/claims later: claims", "route POST /agents/{}/done later: claims", "route PUT /agents/{}/blocks/{}",
		"status invited", "status pending", "word down", "word ready",
	}
	got := l.lines()
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("unexpected: %s", line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("missing: %s", line)
		}
	}
	if l.dropped["-32001"] == "" || len(l.unknown) != 0 {
		t.Errorf("dropped %v, unknown %q", l.dropped, l.unknown)
	}
}

// TestUnknownSpansFail: a span that the tool cannot classify is an error that names it.
func TestUnknownSpansFail(t *testing.T) {
	from := filepath.Join(t.TempDir(), "rules.md")
	if err := os.WriteFile(from, []byte("`?? what is this`\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, report strings.Builder
	err := run(from, from, &out, &report)
	if err == nil || !strings.Contains(err.Error(), "?? what is this") {
		t.Errorf("the error is %v", err)
	}
}
