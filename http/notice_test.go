package http

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"parley/client/api"
)

func routeNames() (all []string) {
	for _, e := range Endpoints() {
		all = append(all, e.Method+" "+e.Path)
	}
	return all
}

// TestNoticeNamesRoutes: what the notice and llms.txt send people to exists.
func TestNoticeNamesRoutes(t *testing.T) {
	routes := routeNames()
	for _, right := range noticeRights() {
		if right.Endpoint != nil && !slices.Contains(routes, *right.Endpoint) {
			t.Errorf("the right %s is at %s, which has no route", right.Right, *right.Endpoint)
		}
	}
	s := compliance{&core{}}
	for _, section := range s.llmsSections() {
		for _, l := range section.links {
			if !slices.Contains(routes, l.method+" "+l.path) {
				t.Errorf("llms.txt names %s %s, which has no route", l.method, l.path)
			}
		}
	}
}

func TestLLMsText(t *testing.T) {
	s := compliance{&core{ServiceOptions: ServiceOptions{BaseURL: "https://home.example", Domain: "home.example"}}}
	text := string(s.llmsText())
	// source: llmstxt.org: a heading, a quote, then sections with links
	for _, want := range []string{"# parley\n\n> ", "\n## Reference\n\n- [OpenAPI](https://home.example/openapi.json): ", "\n- Send `POST /messages`: ", "`name@organization.home.example`"} {
		if !strings.Contains(text, want) {
			t.Errorf("llms.txt does not contain %q:\n%s", want, text)
		}
	}
	if !strings.HasPrefix(text, "# parley\n") || strings.Count(text, "\n# ") != 0 {
		t.Errorf("llms.txt has another heading of the first level:\n%s", text)
	}
}

// TestComplianceInfo: without settings the provider is null, not invented.
func TestComplianceInfo(t *testing.T) {
	h := harnessInMemory(t, 1)
	defer h.close()
	visitor := h.tenant("visitor")
	visitor.token = ""
	get := func() (info api.ComplianceInfo, raw string) {
		a := visitor.ask("GET", "/compliance/info", "")
		if err := json.Unmarshal(a.raw, &info); err != nil {
			t.Fatalf("%v: %s", err, a.raw)
		}
		return info, string(a.raw)
	}
	info, raw := get()
	if info.Provider.Name != nil || !strings.Contains(raw, `"provider":{"name":null,`) || !strings.Contains(raw, `"subprocessors":[]`) {
		t.Errorf("a provider without settings: %s", raw)
	}
	if at := info.UpdatedAt.Time; !at.Equal(noticeWritten) {
		t.Errorf("updated at %v", at)
	}
	h.service.Notice = Notice{Name: "Acme", Country: "DE", Location: "Frankfurt", Subprocessors: []string{"Hosting"}, Updated: time.Unix(1, 0)}
	info, raw = get()
	if *info.Provider.Name != "Acme" || *info.Provider.Country != "DE" || *info.DataProcessing.Location != "Frankfurt" || len(info.DataProcessing.Subprocessors) != 1 || info.UpdatedAt.Time.Unix() != 1 {
		t.Errorf("a provider with settings: %s", raw)
	}
	if info.Service.Domain != "home.example" || !info.AITransparency.AgentsAreSoftware || info.AITransparency.GeneratesContent || len(info.Standards) < 5 {
		t.Errorf("the service: %s", raw)
	}
}
