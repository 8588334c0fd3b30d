package http

import (
	"strings"
	"testing"
	"time"

	"parley"
	"parley/http/auth"
)

// TestExpiredTokensOpenNothing asks every route of the table with a token whose
// time is over: those that ask for one say so, the others do not look at it.
func TestExpiredTokensOpenNothing(t *testing.T) {
	h := hallInMemory(t, 1)
	defer h.close()
	past := func() time.Time { return time.Now().Add(-parley.TokenLifetime - time.Second) }
	then := auth.NewIssuer("https://hall.example", "https://hall.example", h.service.Issuer.Keys(), past, parley.CountingEntropy())
	expired, _, err := then.Mint(h.owner, "hall", h.client)
	if err != nil {
		t.Fatal(err)
	}
	s := &toy{Server: h.server, dial: h.dial}
	asked := 0
	for _, r := range h.server.Routes() {
		path := strings.NewReplacer("{id}", h.agent("a"+strings.ToLower(derivedID(&r))).String(), "{client_id}", h.client.String(), "{token}", "x", "{file}", "page.css").Replace(r.Path)
		for _, token := range []string{expired, h.token(h.client)} {
			if (r.streams || strings.HasSuffix(r.Path, "/wait")) && token != expired {
				continue // it would not end, or late
			}
			said := s.say(t, r.Method+" "+path+" HTTP/1.1\r\nHost: hall\r\nConnection: close\r\nAuthorization: Bearer "+token+"\r\n\r\n")
			late := strings.HasPrefix(said, "HTTP/1.1 401 ") && strings.Contains(said, `"code":"token_expired"`) && strings.Contains(said, `error="invalid_token"`)
			if want := token == expired && (r.Access == bearer || r.Access == tier1); late != want || !strings.HasPrefix(said, "HTTP/1.1 ") {
				t.Errorf("%s %s, token expired %v: %.300s", r.Method, r.Path, token == expired, said)
			}
			asked++
		}
	}
	if asked < 60 {
		t.Errorf("only %d requests", asked)
	}
}
