package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"parley/client"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

// TestSecretGoesToItsServerOnly: commands send a stored secret to the server that
// issued it, whatever --url says.
func TestSecretGoesToItsServerOnly(t *testing.T) {
	var asked, shown atomic.Int32
	trap := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if _, secret, _ := r.BasicAuth(); secret == url.QueryEscape("not for others") {
			shown.Add(1)
		}
	}))
	defer trap.Close()
	kept := &profile.Account{URL: "http://127.0.0.1:8080", Brand: "svc", Credentials: client.Credentials{ClientID: parley.ClientID{1}, ClientSecret: "not for others"}}
	directory := filepath.Join(t.TempDir(), "acme")
	if err := kept.Save(directory); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{"agent", "list"}, {"inbox"}, {"group", "list"}, {"agent", "keys", "ann"}, {"agent", "keys", "ann@acme.localhost"}, {"send", "bob@globex.localhost", "hello"},
	} {
		var out, err strings.Builder
		args := append(command, "--profile", directory, "--url", trap.URL)
		code := run(t.Context(), func() {}, args, &program.Streams{In: strings.NewReader(""), RawOut: &out, RawErr: &err})
		if code != program.ExitUsage || !strings.Contains(err.String(), "belongs to http://127.0.0.1:8080") || strings.Contains(err.String(), "not for others") {
			t.Errorf("%v: exit %d, %s", command, code, err.String())
		}
	}
	if asked.Load() != 0 {
		t.Fatal("another server received a request")
	}
	// The control: a client with these credentials sends them to any server.
	if c, err := client.New(trap.URL, client.WithBrand(kept.Brand), client.WithCredentials(kept.Credentials), client.WithRetries(1, 0)); err != nil {
		t.Error(err)
	} else if _, err := c.Org.Get(t.Context()); err == nil || shown.Load() == 0 {
		t.Errorf("control: another server did not receive the secret (%v)", err)
	}
	for _, same := range []string{"http://127.0.0.1:8080", "HTTP://127.0.0.1:8080/", ""} {
		if _, _, err := (&profile.Flags{Profile: directory, URL: same}).Open(); err != nil {
			t.Errorf("%s: %v", same, err)
		}
	}
}
