package scenario

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/bench/load"
	"parley/bench/scenario/host"
)

// polls makes the fake count messages, all of which arrived before the first instant
// after the zero time.
func (s *fake) polls(mux *http.ServeMux) {
	mux.HandleFunc("POST /agents/{id}/poll-token", func(w http.ResponseWriter, r *http.Request) {
		tell(w, 200, map[string]any{"poll_url": "http://" + r.Host + "/poll/" + r.PathValue("id")})
	})
	mux.HandleFunc("GET /poll/{id}", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked++
		n := len(s.byID[r.PathValue("id")].rows)
		if since := r.URL.Query().Get("since"); !strings.HasPrefix(since, "1970") && s.fault != countsAll {
			n = 0
		}
		if s.fault == countsWildly && s.asked > 60+instants+2 { // after 60 sends
			n += s.asked
		}
		tell(w, 200, map[string]any{"count": n})
	})
}

// TestPollsAreJudged: servers count correctly and wrongly.
func TestPollsAreJudged(t *testing.T) {
	for f, sees := range map[fault]string{sound: "", countsWildly: "failures", countsAll: "preparation", losesOne: "preparation"} {
		t.Run(string(f), func(t *testing.T) {
			_, endpoint := newFake(t, f)
			h, err := NewSet(t.Context(), "fake", endpoint, host.Params{Seed: 1, Payload: host.PayloadMin, Agents: 2, Senders: 1, Messages: 60})
			if err != nil {
				t.Fatal(err)
			}
			dial, err := h.Prepare(t.Context(), Poll, 2)
			if (err != nil) != (sees == "preparation") {
				t.Fatalf("prepared: %v", err)
			}
			if err != nil {
				return
			}
			m, err := load.Run(t.Context(), load.Plan{Clients: 2, Duration: 50 * time.Millisecond}, dial, nil)
			if err != nil || m.Operations+m.Failures == 0 || (m.Failures > 0) != (sees == "failures") {
				t.Errorf("%v, %d operations, failures %v", err, m.Operations, m.Reasons)
			}
		})
	}
}
