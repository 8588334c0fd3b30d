package bench

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestLiveBytes(t *testing.T) {
	for what, c := range map[string]struct {
		says string
		want uint64
	}{
		"a profile":       {"heap profile: 1: 2 [3: 4] @ heap/1\n# HeapAlloc = 1000\n# HeapSys = 70000\n# Stack = 234 / 500\n", 1234},
		"without a stack": {"# HeapAlloc = 1000\n", 0},
		"no number":       {"# HeapAlloc = many\n# Stack = 234 / 500\n", 0},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.String() != "/debug/pprof/heap?gc=1&debug=1" || r.Header.Get("Authorization") != "Bearer t" {
				w.WriteHeader(401)
			}
			_, _ = w.Write([]byte(c.says))
		}))
		admin := strings.TrimPrefix(server.URL, "http://")
		got, err := liveBytes(t.Context(), admin, "t")
		if (err == nil) != (c.want > 0) || err == nil && got != c.want {
			t.Errorf("%s: %d, %v", what, got, err)
		}
		if _, err := liveBytes(t.Context(), admin, "wrong"); err == nil {
			t.Errorf("%s: a refusal passes", what)
		}
		server.Close()
	}
}
