package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"parley"
	"parley/cmd/parley/program"
	"parley/http/client"
)

func testAccount(url string) *account {
	return &account{URL: url, Brand: "svc", Credentials: client.Credentials{ClientID: parley.ClientID{1}, ClientSecret: "not for others"}}
}

// formerOpen opens a profile as it was done before: whatever the mode of its file,
// for whichever server, over plain http too.
func formerOpen(directory, server string) (*client.Client, error) {
	text, err := os.ReadFile(filepath.Join(directory, credentialsFile))
	if err != nil {
		return nil, err
	}
	var a account
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, err
	}
	return client.New(cmp.Or(server, a.URL), client.WithBrand(a.Brand), client.WithCredentials(a.Credentials), client.WithRetries(1, 0))
}

func saved(t *testing.T, a *account) string {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "acme")
	if err := a.save(directory); err != nil {
		t.Fatal(err)
	}
	return directory
}

// A stored secret goes to the server that gave it, whatever --url says.
func TestSecretGoesToItsServerOnly(t *testing.T) {
	var asked, shown atomic.Int32
	trap := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if _, secret, _ := r.BasicAuth(); secret == url.QueryEscape("not for others") {
			shown.Add(1)
		}
	}))
	defer trap.Close()
	directory := saved(t, testAccount("http://127.0.0.1:8080"))
	for _, command := range [][]string{
		{"agent", "list"}, {"inbox"}, {"group", "list"}, {"agent", "keys", "ann"}, {"agent", "keys", "ann@acme.localhost"}, {"send", "bob@globex.localhost", "hello"},
	} {
		var out, err strings.Builder
		args := append(command, "--profile", directory, "--url", trap.URL)
		code := run(t.Context(), func() {}, args, &program.Streams{In: strings.NewReader(""), Out: &out, Err: &err})
		if code != program.ExitUsage || !strings.Contains(err.String(), "belongs to http://127.0.0.1:8080") || strings.Contains(err.String(), "not for others") {
			t.Errorf("%v: exit %d, %s", command, code, err.String())
		}
	}
	if asked.Load() != 0 {
		t.Fatal("another server was asked")
	}
	// The control: the former way shows it to the trap.
	if c, err := formerOpen(directory, trap.URL); err != nil {
		t.Error(err)
	} else if _, err := c.Org(t.Context()); err == nil || shown.Load() == 0 {
		t.Errorf("control: another server was not shown the secret (%v)", err)
	}
	for _, same := range []string{"http://127.0.0.1:8080", "HTTP://127.0.0.1:8080/", ""} {
		if _, _, err := (&profileFlags{Profile: directory, URL: same}).open(); err != nil {
			t.Errorf("%s: %v", same, err)
		}
	}
}

func TestPlainHTTPNeedsAFlag(t *testing.T) {
	for server, refused := range map[string]bool{
		"http://127.0.0.1:8080": false, "http://localhost": false, "http://parley.localhost:1/x": false, "http://[::1]:8080": false,
		"http://[::ffff:127.0.0.1]": false, "https://parley.example": false,
		"http://parley.example": true, "http://10.0.0.1:8080": true, "http://localhost.example": true, "HTTP://PARLEY.example": true,
		"http://127.0.0.1.example": true, "http://0.0.0.0:8080": true,
	} {
		directory := saved(t, testAccount(server))
		_, _, err := (&profileFlags{Profile: directory}).open()
		if errors.Is(err, errPlainHTTP) != refused || err != nil && program.ExitCode(err) != program.ExitUsage {
			t.Errorf("%s: %v", server, err)
		}
		if _, err := formerOpen(directory, ""); err != nil {
			t.Errorf("control: %s: %v", server, err)
		}
		if _, _, err := (&profileFlags{Profile: directory, AllowHTTP: true}).open(); err != nil {
			t.Errorf("%s with --allow-http: %v", server, err)
		}
		kept := testAccount(server)
		kept.AllowHTTP = true
		if _, _, err := (&profileFlags{Profile: saved(t, kept)}).open(); err != nil {
			t.Errorf("%s, allowed when it was registered: %v", server, err)
		}
	}
	var err strings.Builder
	args := []string{"register", "acme", "--email", "a@b.example", "--url", "http://192.0.2.1:1", "--profile", t.TempDir()}
	if code := run(t.Context(), func() {}, args, &program.Streams{In: strings.NewReader(""), Out: &err, Err: &err}); code != program.ExitUsage || !strings.Contains(err.String(), "--allow-http") {
		t.Errorf("register: exit %d, %s", code, err.String())
	}
}

func TestReadableCredentialsAreRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits here")
	}
	directory := saved(t, testAccount("http://127.0.0.1:8080"))
	path := filepath.Join(directory, credentialsFile)
	for _, mode := range []os.FileMode{0o644, 0o640, 0o604, 0o620} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, _, err := (&profileFlags{Profile: directory}).open(); !errors.Is(err, client.ErrKeyFileOpen) || !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("mode %o: %v", mode, err)
		}
		if _, err := formerOpen(directory, ""); err != nil {
			t.Errorf("control: mode %o: %v", mode, err)
		}
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := (&profileFlags{Profile: directory}).open(); err != nil {
		t.Error(err)
	}
}

func TestSameServer(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"http://Parley.example", "http://parley.example:80/", true},
		{"https://parley.example", "https://parley.example:443", true},
		{"https://parley.example/a", "https://parley.example/a/", true},
		{"https://parley.example", "http://parley.example", false},
		{"https://parley.example", "https://parley.example:8443", false},
		{"https://parley.example", "https://parley.example.evil.example", false},
		{"https://parley.example/a", "https://parley.example/A", false},
		{"https://parley.example", "https://parley.example@evil.example", false},
		{"://", "://", false},
	} {
		if sameServer(c.a, c.b) != c.same {
			t.Errorf("%s and %s", c.a, c.b)
		}
	}
}
