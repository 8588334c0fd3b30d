package telemetry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"
)

// TestScrapesAreKept: metrics are gathered once in a while for each kind of request, however many
// ask, and what is kept is bounded.
func TestScrapesAreKept(t *testing.T) {
	now, gathered := time.Unix(0, 0), 0
	k := Kept(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		gathered++
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprint(w, gathered)
	}), func() time.Time { return now })
	ask := func(accept string) string {
		r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil), httptest.NewRecorder()
		r.Header.Set("Accept", accept)
		k.ServeHTTP(w, r)
		if w.Code != http.StatusAccepted || w.Header().Get("Content-Type") != "text/plain" {
			t.Errorf("%d, %v", w.Code, w.Header())
		}
		return w.Body.String()
	}
	for _, want := range []string{"1", "1", "2", "2"} {
		if got := ask("a"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		now = now.Add(keptFor / 2)
	}
	if got := ask("b"); got != "3" {
		t.Errorf("another kind: %s", got)
	}
	for n := range 100 {
		ask(strconv.Itoa(n))
	}
	if kept := len(k.(*keptMetrics).scrapes); kept > keptMax {
		t.Errorf("%d are kept", kept)
	}
}
