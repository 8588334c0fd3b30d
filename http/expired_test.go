package http

import (
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/client/parley"
	"parley/http/auth"
)

// TestExpiredTokensAreRefused: calls every route with an expired token. Routes that
// require a token refuse it, the others ignore it.
func TestExpiredTokensAreRefused(t *testing.T) {
	h := harnessInMemory(t, 1)
	defer h.close()
	past := func() time.Time { return time.Now().Add(-parley.TokenLifetime - time.Second) }
	then := auth.NewIssuer("https://home.example", "https://home.example", h.service.Issuer.Keys(), past, parley.CountingEntropy())
	expired, _, err := then.Mint(auth.Grant{Org: h.owner, Slug: "home", Client: h.client})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for i, r := range h.server.Routes() {
		path := strings.NewReplacer("{id}", h.agent("a"+strconv.Itoa(i)).String(), "{client_id}", h.client.String(), "{token}", "x", "{file}", "page.css").Replace(r.Path)
		for _, token := range []string{expired, h.token(h.client)} {
			if (r.Streams || strings.HasSuffix(r.Path, "/wait")) && token != expired {
				continue // a stream does not end, or ends late
			}
			said := say(t, h.dial, r.Method+" "+path+" HTTP/1.1\r\nHost: home\r\nConnection: close\r\nAuthorization: Bearer "+token+"\r\n\r\n")
			late := strings.HasPrefix(said, "HTTP/1.1 401 ") && strings.Contains(said, `"code":"token_expired"`) && strings.Contains(said, `error="invalid_token"`)
			if want := token == expired && r.Access.NeedsToken(); late != want || !strings.HasPrefix(said, "HTTP/1.1 ") {
				t.Errorf("%s %s, token expired %v: %.300s", r.Method, r.Path, token == expired, said)
			}
			asked++
		}
	}
	if asked < 60 {
		t.Errorf("only %d requests", asked)
	}
}

// say sends raw bytes. It reads until the server closes the connection or one second
// has passed.
func say(t *testing.T, dial func() (net.Conn, error), text string) string {
	t.Helper()
	conn, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, text) }()
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	all, _ := io.ReadAll(conn)
	return string(all)
}
