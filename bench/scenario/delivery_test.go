package scenario

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/bench/load"
)

// polls has the fake count messages, all of which came before the first instant
// that is not the beginning of time.
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

// TestPollsAreJudged has servers count rightly and wrongly.
func TestPollsAreJudged(t *testing.T) {
	for f, sees := range map[fault]string{sound: "", countsWildly: "failures", countsAll: "preparation", losesOne: "preparation"} {
		t.Run(string(f), func(t *testing.T) {
			_, door := newFake(t, f)
			h, err := NewHost(t.Context(), "fake", door, Params{Seed: 1, Payload: PayloadMin, Agents: 2, Senders: 1, Polled: 60})
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

// take delivers the news of a message to a sink and gives the status.
func take(t *testing.T, s *sink, body string) int {
	t.Helper()
	answer, err := http.Post(s.base+"/take/x", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// TestASinkKnowsWhatCame delivers before and after the acknowledgement, twice,
// never, and what nobody was told of.
func TestASinkKnowsWhatCame(t *testing.T) {
	s, err := openSink()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	id := func(n byte) uuid { return uuid{6: 0x70, 15: n} }
	tell := func(n byte) {
		if status := take(t, s, `{"event":"message.received","message_id":"`+id(n).String()+`"}`); status != 204 {
			t.Errorf("a delivery is answered with %d", status)
		}
	}
	tell(1)
	time.Sleep(2 * time.Millisecond)
	s.accepted(id(1), time.Now()) // the delivery was faster
	s.accepted(id(2), time.Now().Add(-time.Second))
	tell(2)
	tell(2)
	tell(3)
	s.accepted(id(4), time.Now())
	c := s.catch()
	if c.accepted != 3 || c.came != 2 || c.again != 1 || len(c.waits) != 2 {
		t.Errorf("of three messages one did not come and one came twice: %+v", c)
	}
	if least, most := min(c.waits[0], c.waits[1]), max(c.waits[0], c.waits[1]); least != 0 || most < time.Second || most > time.Minute {
		t.Errorf("the deliveries took %v", c.waits)
	}
	for _, bad := range []string{"", "{}", `{"message_id":null}`, `{"message_id":"1"}`} {
		if status := take(t, s, bad); status != 400 {
			t.Errorf("%q is answered with %d", bad, status)
		}
	}
	if s.forget(); s.catch().accepted != 0 {
		t.Error("a sink that begins anew knows of messages")
	}
}
