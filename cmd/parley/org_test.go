package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"parley/cmd/parley/admin"
	"parley/cmd/parley/program"
)

// TestOrgListWalksAllPages: the command requests pages until there is no cursor, and
// sorts the rows by slug.
func TestOrgListWalksAllPages(t *testing.T) {
	cursor := "m&m"
	pages := map[string]admin.OrgPage{
		"":     {Items: []admin.OrgItem{{Slug: "zeta"}, {Slug: "mid"}}, NextCursor: &cursor, HasMore: true},
		cursor: {Items: []admin.OrgItem{{Slug: "alpha"}}},
	}
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, known := pages[r.URL.Query().Get("cursor")]
		if !known || r.URL.Path != "/orgs" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.MarshalWrite(w, page)
	}))
	defer admin.Close()
	t.Setenv("PARLEY_ADMIN_TOKEN", "a token of the test's")
	var out, said strings.Builder
	args := []string{"org", "list", "--json", "--admin", admin.URL}
	if code := run(t.Context(), func() {}, args, &program.Streams{In: strings.NewReader(""), RawOut: &out, RawErr: &said}); code != program.ExitOK {
		t.Fatalf("exit %d: %s", code, said.String())
	}
	last := -1
	for _, slug := range []string{"alpha", "mid", "zeta"} {
		at := strings.Index(out.String(), `"slug":"`+slug+`"`)
		if at <= last {
			t.Errorf("%s is at the wrong place: %s", slug, out.String())
		}
		last = at
	}
}
