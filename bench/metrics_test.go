package bench

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/bench/target"
)

func TestAdminNumbers(t *testing.T) {
	for what, c := range map[string]struct {
		body string
		want float64
	}{
		"a profile":       {"heap profile: 1: 2 [3: 4] @ heap/1\n# HeapAlloc = 1000\n# HeapSys = 70000\n# Stack = 234 / 500\n", 1234},
		"without a stack": {"# HeapAlloc = 1000\n", 0},
		"no number":       {"# HeapAlloc = many\n# Stack = 234 / 500\n", 0},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.String() != heapPage || r.Header.Get("Authorization") != "Bearer t" {
				w.WriteHeader(401)
			}
			_, _ = w.Write([]byte(c.body))
		}))
		endpoint := target.Endpoint{Admin: strings.TrimPrefix(server.URL, "http://"), AdminToken: "t"}
		got, err := adminNumbers(t.Context(), endpoint, heapPage, heapAlive, heapStacks)
		if (err == nil) != (c.want > 0) || err == nil && got != c.want {
			t.Errorf("%s: %v, %v", what, got, err)
		}
		endpoint.AdminToken = "wrong"
		if _, err := adminNumbers(t.Context(), endpoint, heapPage, heapAlive); err == nil {
			t.Errorf("%s: a refusal passes", what)
		}
		server.Close()
	}
}
