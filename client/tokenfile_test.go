package client

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/client/api"
	"parley/client/clienttest"
	"parley/client/parley"
)

// keeping is a script whose GET /org accepts every token but one, and a token file.
func keeping(t *testing.T, refused string) (s *script, path string) {
	t.Helper()
	s = newScript(t)
	s.Mux.HandleFunc("GET /org", func(w http.ResponseWriter, r *http.Request) {
		if token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); token == refused || refused == "all" {
			clienttest.Refuse(w, 401, "not_authenticated", nil)
			return
		}
		clienttest.Answer(w, 200, api.Org{Name: "acme"})
	})
	return s, filepath.Join(t.TempDir(), "profile", "token.json")
}

func mustOrg(t *testing.T, c *Session) {
	t.Helper()
	if _, err := c.Org.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestTokenFileIsShared: programs that run one after the other request one token.
// Without the file each requests its own.
func TestTokenFileIsShared(t *testing.T) {
	for _, c := range []struct {
		file bool
		want int64
	}{{true, 1}, {false, 5}} {
		s, path := keeping(t, "")
		for range 5 {
			var opts []Option
			if c.file {
				opts = append(opts, WithTokenFile(path))
			}
			mustOrg(t, s.client(t, opts...))
		}
		if got := s.Tokens.Load(); got != c.want {
			t.Errorf("with a file: %t; 5 programs requested %d tokens", c.file, got)
		}
		info, err := os.Stat(path)
		if c.file && (err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600) {
			t.Errorf("the file: %v, %v", info, err)
		}
	}
}

// TestUnusableTokenFileIsReplaced: a saved token of another user, an expired or damaged
// token, or one that others can read is not used. It is replaced.
func TestUnusableTokenFileIsReplaced(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	for name, spoil := range map[string]func(saved *savedToken) (mode os.FileMode, text string){
		"another server's": func(s *savedToken) (os.FileMode, string) { s.Server = "http://192.0.2.1"; return 0o600, "" },
		"another client's": func(s *savedToken) (os.FileMode, string) { s.ClientID = parley.ClientID{7}.String(); return 0o600, "" },
		"near its end":     func(s *savedToken) (os.FileMode, string) { s.RenewAt = start; return 0o600, "" },
		"of years hence":   func(s *savedToken) (os.FileMode, string) { s.RenewAt = start.AddDate(1, 0, 0); return 0o600, "" },
		"empty":            func(s *savedToken) (os.FileMode, string) { s.Token = ""; return 0o600, "" },
		"another format":   func(s *savedToken) (os.FileMode, string) { s.Version = 2; return 0o600, "" },
		"readable":         func(s *savedToken) (os.FileMode, string) { return 0o644, "" },
		"damaged":          func(s *savedToken) (os.FileMode, string) { return 0o600, "{\"version\":1" },
	} {
		if runtime.GOOS == "windows" && name == "readable" {
			continue
		}
		s, path := keeping(t, "")
		clock := WithClock(func() time.Time { return start })
		mustOrg(t, s.client(t, WithTokenFile(path), clock))
		var saved savedToken
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &saved)
		}
		if err != nil || !saved.RenewAt.Equal(start.Add(14*time.Minute)) {
			t.Fatalf("saved %s, %v", text, err)
		}
		mode, replaced := spoil(&saved)
		if text = []byte(replaced); replaced == "" {
			text, _ = json.Marshal(saved)
		}
		if err := errors.Join(os.WriteFile(path, text, 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		mustOrg(t, s.client(t, WithTokenFile(path), clock))
		if got := s.Tokens.Load(); got != 2 {
			t.Errorf("%s: %d tokens were requested, want 2", name, got)
		}
		if mustOrg(t, s.client(t, WithTokenFile(path), clock)); s.Tokens.Load() != 2 {
			t.Errorf("%s: the file was not replaced", name)
		}
	}
}

// TestRefusedTokenLeavesTheFile: a token that the server refuses is discarded, and a
// new one is requested once.
func TestRefusedTokenLeavesTheFile(t *testing.T) {
	s, path := keeping(t, "token-1")
	mustOrg(t, s.client(t, WithTokenFile(path)))
	mustOrg(t, s.client(t, WithTokenFile(path)))
	if saved, ok := s.client(t, WithTokenFile(path)).readToken(); !ok || saved.Token != "token-2" || s.Tokens.Load() != 2 {
		t.Errorf("%d tokens, the file has %q", s.Tokens.Load(), saved.Token)
	}
	s, path = keeping(t, "all")
	if _, err := s.client(t, WithTokenFile(path)).Org.Get(t.Context()); !errors.Is(err, NotAuthenticated) || s.Tokens.Load() != 2 {
		t.Errorf("%v after %d tokens", err, s.Tokens.Load())
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused token stays in the file: %v", err)
	}
	// A newer token that another program has saved meanwhile stays.
	other := s.client(t, WithTokenFile(path))
	other.saveToken(other.tokens.credentials, "newer", time.Now().Add(time.Minute))
	other.discardToken("older")
	if saved, ok := other.loadToken(other.tokens.credentials); !ok || saved.Token != "newer" {
		t.Errorf("the file has %q", saved.Token)
	}
}

// TestConcurrentTokenFileWrites: programs that save at the same time leave a complete
// file. If saving fails, the call still succeeds.
func TestConcurrentTokenFileWrites(t *testing.T) {
	s, path := keeping(t, "")
	var all sync.WaitGroup
	for range 16 {
		c := s.client(t, WithTokenFile(path))
		all.Go(func() {
			for range 5 {
				c.saveToken(c.tokens.credentials, "token", time.Now().Add(time.Hour))
				if saved, ok := c.readToken(); !ok || saved.Token != "token" {
					t.Errorf("an incomplete file: %+v", saved)
				}
			}
		})
	}
	all.Wait()
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); err != nil || len(left) != 1 {
		t.Errorf("left %q, %v", left, err)
	}
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mustOrg(t, s.client(t, WithTokenFile(filepath.Join(blocked, "token.json"))))
}
