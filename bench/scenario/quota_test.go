package scenario

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/bench/load"
	"parley/bench/scenario/host"
)

// terms makes the fake state what organizations may do, and lets its operator change
// it.
func (s *fake) terms(mux *http.ServeMux) {
	mux.HandleFunc("GET /org/quotas", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		used := s.posts
		if s.fault == countsNothing {
			used = 0
		}
		limit := func(name string) any {
			if !s.limited || s.fault == openQuota && name == "groups" {
				return nil
			}
			return 1_000_000
		}
		tell(w, 200, map[string]any{"tier": s.tier, "quotas": map[string]any{
			"agents": map[string]any{"limit": limit("agents"), "used": 1}, "groups": map[string]any{"limit": limit("groups"), "used": 0},
			"messages_per_day": map[string]any{"limit": limit("messages_per_day"), "used": used, "resets_at": "2026-03-15T00:00:00.000000Z"},
			"exports_per_hour": map[string]any{"limit": 1, "used": nil},
		}})
	})
	mux.HandleFunc("POST /orgs/{org}/tier", func(w http.ResponseWriter, r *http.Request) {
		tier, named := hear(r)["tier"].(float64)
		if !named || r.Header.Get("Content-Type") != "application/json" {
			tell(w, 422, map[string]any{"code": "validation_error"})
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.fault != lowTier {
			s.tier = int(tier)
		}
		tell(w, 200, map[string]any{"trust_tier": s.tier})
	})
}

// rated states a rate on every answer of a server with limits.
func (s *fake) rated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.limited && (s.fault != lacksRate || r.URL.Path != "/messages") {
			w.Header().Set("RateLimit-Limit", "1000000")
		}
		next.ServeHTTP(w, r)
	})
}

// TestTermsAreChecked checks each of two servers as what it is and as what it is not,
// and leaves out one check at a time.
func TestTermsAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		fault            fault
		limited, takenAs bool
		says             string
	}{
		"limits":                {limited: true, takenAs: true},
		"none":                  {},
		"none, taken as limits": {takenAs: true, says: "there is no limit of agents, groups, messages_per_day"},
		"limits, taken as none": {limited: true, says: "messages_per_day is limited to 1000000"},
		"a quota is open":       {fault: openQuota, limited: true, takenAs: true, says: "there is no limit of groups"},
		"nothing is counted":    {fault: countsNothing, limited: true, takenAs: true, says: "messages_per_day went from 0 to 0"},
		"writes have no rate":   {fault: lacksRate, limited: true, takenAs: true, says: "the rate of writes is not checked"},
		"a tier too low":        {fault: lowTier, limited: true, takenAs: true, says: "trust tier 0, not 3"},
	} {
		t.Run(name, func(t *testing.T) {
			s, endpoint := newFake(t, c.fault)
			s.limited = c.limited
			params := host.Params{Seed: 7, Payload: 64, Agents: 2, Senders: 1}
			if c.takenAs {
				params.Tier = 3
			}
			h, err := NewSet(t.Context(), "fake", endpoint, params)
			if err != nil {
				t.Fatal(err)
			}
			spent, err := terms{h.Host}.verify(t.Context(), c.takenAs)
			switch {
			case c.says == "" && (err != nil || spent.messages != 1 || spent.resets.IsZero()):
				t.Errorf("%v, %+v", err, spent)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("no error contains %q, only %v", c.says, err)
			}
		})
	}
}

// TestTiersNeedTheOperator: without the operator's API no organization is raised.
func TestTiersNeedTheOperator(t *testing.T) {
	_, endpoint := newFake(t, sound)
	endpoint.Admin = ""
	params := host.Params{Seed: 7, Payload: 64, Agents: 2, Senders: 1, Tier: 3}
	if _, err := NewSet(t.Context(), "fake", endpoint, params); err == nil || !strings.Contains(err.Error(), "the operator's address is not known") {
		t.Errorf("an organization is raised without the operator: %v", err)
	}
}

// TestLimitedFlags: every quota and rate that affects a sender is a number.
func TestLimitedFlags(t *testing.T) {
	for _, wanted := range []string{
		"public", "tier3.agents=", "tier3.messages_per_day=", "tier3.groups=", "register=", "token=", "writes=", "reads=", "public=",
	} {
		if !slices.ContainsFunc(limitedFlags, func(word string) bool { return strings.HasPrefix(word, wanted) }) {
			t.Errorf("the server with limits has no %s", wanted)
		}
	}
}

// TestQuotaIsCounted: a server that counts fewer messages than it accepted has not
// enforced its quota, unless the day ended meanwhile.
func TestQuotaIsCounted(t *testing.T) {
	midnight := time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC)
	before := spent{messages: 10, resets: midnight}
	for _, c := range []struct {
		after   spent
		refused bool
	}{
		{spent{messages: 110, resets: midnight}, false},
		{spent{messages: 111, resets: midnight}, false}, // one answer was lost
		{spent{messages: 109, resets: midnight}, true},
		{spent{messages: 10, resets: midnight}, true},
		{spent{messages: 5, resets: midnight.AddDate(0, 0, 1)}, false},
	} {
		if err := counted(before, c.after, 100); (err != nil) != c.refused {
			t.Errorf("%+v: %v", c.after, err)
		}
	}
}

// TestQuota: sends to two servers in turn. If one of them refuses a send, the run is invalid.
func TestQuota(t *testing.T) {
	params := host.Params{Seed: 7, Payload: 64, Agents: 2, Senders: 1}
	for refusing, invalid := range map[fault]bool{sound: false, notCreated: true} {
		_, endpoint := newFake(t, sound)
		h, err := NewSet(t.Context(), "fake", endpoint, params)
		if err != nil {
			t.Fatal(err)
		}
		s, limited := newFake(t, refusing)
		s.limited = true
		var w window
		run, err := runOnce(t, h, Quota, load.Plan{Clients: 1, Duration: 20 * time.Millisecond}, around{meter: blindMeter{}, window: &w, another: limited})
		f := run.Figures
		if invalid {
			if err == nil && run.Invalid == "" {
				t.Errorf("refused sends are compared: %+v", run)
			}
			continue
		}
		if err != nil || run.Failures != 0 || w != (window{1, 1}) || f[FigureLimited] <= 0 || f[FigureLimitedOfFree] != f[FigureLimited]/f[FigureFree] {
			t.Errorf("%v, failures %v, figures %v, window %+v", err, run.Reasons, f, w)
		}
	}
}
