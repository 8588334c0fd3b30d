package profile

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
	"parley/client/secretfile"
	"parley/cmd/parley/program"
)

func testAccount(url string) *Account {
	return &Account{URL: url, Brand: "svc", Credentials: client.Credentials{ClientID: parley.ClientID{1}, ClientSecret: "not for others"}}
}

// formerOpen is the control: it opens a profile without checking the mode of its
// file, the server or the transport.
func formerOpen(directory, server string) (*client.Session, error) {
	text, err := os.ReadFile(filepath.Join(directory, CredentialsFile))
	if err != nil {
		return nil, err
	}
	var a Account
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, err
	}
	return client.New(cmp.Or(server, a.URL), client.WithBrand(a.Brand), client.WithCredentials(a.Credentials), client.WithRetries(1, 0))
}

func saved(t *testing.T, a *Account) string {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "acme")
	if err := a.Save(directory); err != nil {
		t.Fatal(err)
	}
	return directory
}

func TestPlainHTTPNeedsAFlag(t *testing.T) {
	for server, refused := range map[string]bool{
		"http://127.0.0.1:8080": false, "http://localhost": false, "http://parley.localhost:1/x": false, "http://[::1]:8080": false,
		"http://[::ffff:127.0.0.1]": false, "https://parley.example": false,
		"http://parley.example": true, "http://10.0.0.1:8080": true, "http://localhost.example": true, "HTTP://PARLEY.example": true,
		"http://127.0.0.1.example": true, "http://0.0.0.0:8080": true,
	} {
		directory := saved(t, testAccount(server))
		_, _, err := (&Flags{Profile: directory}).Open()
		if errors.Is(err, errPlainHTTP) != refused || err != nil && program.ExitCode(err) != program.ExitUsage {
			t.Errorf("%s: %v", server, err)
		}
		if _, err := formerOpen(directory, ""); err != nil {
			t.Errorf("control: %s: %v", server, err)
		}
		if _, _, err := (&Flags{Profile: directory, AllowHTTP: true}).Open(); err != nil {
			t.Errorf("%s with --allow-http: %v", server, err)
		}
		kept := testAccount(server)
		kept.AllowHTTP = true
		if _, _, err := (&Flags{Profile: saved(t, kept)}).Open(); err != nil {
			t.Errorf("%s, allowed when it was registered: %v", server, err)
		}
	}
	_, err := Register(t.Context(), &Flags{URL: "http://192.0.2.1:1"}, api.Register{}, nil)
	if !errors.Is(err, errPlainHTTP) || program.ExitCode(err) != program.ExitUsage || !strings.Contains(err.Error(), "--allow-http") {
		t.Errorf("register: %v", err)
	}
}

func TestReadableCredentialsAreRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits here")
	}
	directory := saved(t, testAccount("http://127.0.0.1:8080"))
	path := filepath.Join(directory, CredentialsFile)
	for _, mode := range []os.FileMode{0o644, 0o640, 0o604, 0o620} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, _, err := (&Flags{Profile: directory}).Open(); !errors.Is(err, secretfile.ErrOpenToOthers) || !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("mode %o: %v", mode, err)
		}
		if _, err := formerOpen(directory, ""); err != nil {
			t.Errorf("control: mode %o: %v", mode, err)
		}
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := (&Flags{Profile: directory}).Open(); err != nil {
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
