package server

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/cmd/parley/admin"
	"parley/cmd/parley/datadir"
)

// answeredIntruders makes admin requests that an unauthenticated peer, or a page in the operator's
// browser, must not make, and returns those that were answered.
func answeredIntruders(t *testing.T, admin http.Handler, token string) (faults []string) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "backups")
	for _, call := range [][3]string{
		{"GET", "/orgs", ""},
		{"POST", "/backup", `{"to":"` + to + `"}`},
		{"GET", "/debug/pprof/goroutine?debug=2", ""},
	} {
		for who, headers := range map[string][]string{
			"without the token": nil,
			"with another":      {"Authorization", "Bearer another"},
			"rebound":           {"Authorization", "Bearer " + token, "Host", "evil.example"},
			"of another site":   {"Authorization", "Bearer " + token, "Sec-Fetch-Site", "cross-site"},
		} {
			r := httptest.NewRequestWithContext(t.Context(), call[0], call[1], strings.NewReader(call[2]))
			r.Host = "localhost"
			r.Header.Set("Content-Type", "application/json")
			for i := 0; i < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			if host := r.Header.Get("Host"); host != "" {
				r.Host = host
			}
			w := httptest.NewRecorder()
			admin.ServeHTTP(w, r)
			if w.Code != http.StatusUnauthorized && w.Code != http.StatusForbidden {
				faults = append(faults, fmt.Sprintf("%s %s: %d", call[1], who, w.Code))
			}
		}
	}
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		faults = append(faults, "a backup was made")
	}
	slices.Sort(faults)
	return faults
}

// withToken gives every request the right token.
func withToken(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+token)
		next.ServeHTTP(w, r)
	})
}

// TestAdminGuard: each control removes one guard; the requests that it blocked are then
// answered.
func TestAdminGuard(t *testing.T) {
	data := t.TempDir()
	h := testServer(t, "--data", data)
	const token = "a token of the test's"
	guard := admin.Guard{Token: sha256.Sum256([]byte(token))}
	calls := []admin.Endpoint{&admin.OrgEndpoint{Node: h.node, Service: h.service}, &admin.BackupEndpoint{Backup: &datadir.Backup{Store: h.store, Data: data}}}
	power := admin.Privileged(calls...)
	for name, c := range map[string]struct {
		admin http.Handler
		want  []string
	}{
		"guarded": {admin.NewServer(h.service, http.NotFoundHandler(), guard, calls...).Admin.Handler, nil},
		"control: no token": {guard.RefuseBrowsers(withToken(token, guard.NeedsToken(power))), []string{
			"/backup with another: 200", "/backup without the token: 200",
			"/debug/pprof/goroutine?debug=2 with another: 200", "/debug/pprof/goroutine?debug=2 without the token: 200",
			"/orgs with another: 200", "/orgs without the token: 200", "a backup was made",
		}},
		"control: browsers": {guard.NeedsToken(power), []string{
			"/backup of another site: 200", "/backup rebound: 200",
			"/debug/pprof/goroutine?debug=2 of another site: 200", "/debug/pprof/goroutine?debug=2 rebound: 200",
			"/orgs of another site: 200", "/orgs rebound: 200", "a backup was made",
		}},
	} {
		if faults := answeredIntruders(t, c.admin, token); !slices.Equal(faults, c.want) {
			t.Errorf("%s: found %q, want %q", name, faults, c.want)
		}
	}
}
