package webhooks

import (
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/hooktest"
)

// TestWebhookSecretsAreKept searches for the secrets of webhooks wherever they must not
// be: in answers after the first, in the log at its lowest level, on the admin listener,
// in the data directory and in a backup. The test includes targets that fail and targets
// with a token in the URL.
func TestWebhookSecretsAreKept(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		admin := kit.FreeAddress(t)
		s := kit.Start(t, "--journals", journals, "--webhook-ca", hooktest.SharedSink(t).CAFile, "--log-level", "debug", "--admin-listen", admin)
		a, b := kit.Pair(t, s)
		h, failing := hooktest.Listening(b), hooktest.Listening(b, hooktest.Says(500), hooktest.Says(410))
		c := kit.Canaries{}
		secrets := func(what, secret string) {
			raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
			if err != nil {
				t.Fatal(err)
			}
			c[what], c[what+" in bytes"] = strings.TrimSuffix(strings.TrimPrefix(secret, "whsec_"), "="), string(raw)
		}
		secrets("first", h.Secret)
		secrets("second", failing.Secret)
		token := "Canary" + kit.RandomHex(12)
		hooktest.TryNew(b, "https://"+kit.ClosedAddress(t)+"/"+token).Want(201)
		m := a.Send(b)
		h.WaitForStatus(m, "delivered")
		failing.WaitForStatus(m, "failed")
		rotated := b.Post(h.Path("/rotate-secret"), nil).Want(200)
		secrets("rotated", rotated.Str("secret"))
		h.Secret = rotated.Str("secret")
		b.Post(h.Path("/test"), nil).Want(200)
		h.WaitForCounts(2, 0, 0, 0)
		var seen []byte
		for _, path := range []string{"/webhooks?include_inactive=true", h.Path("/deliveries"), h.Path("/deliveries/summary"), "/messages/" + kit.Text(m, "id") + "/trace", "/org", "/org/quotas", b.Path("")} {
			seen = append(seen, b.Get(path).Want(200).Raw...)
		}
		seen = append(seen, b.Patch(h.Path(""), obj{"active": true}).Want(200).Raw...)
		for _, path := range []string{"/metrics", "/readyz", "/debug/pprof/goroutine?debug=2"} {
			seen = append(seen, kit.Fetch(t, s.AdminToken(t), "http://"+admin+path)...)
		}
		backup := filepath.Join(t.TempDir(), "backup")
		if out, said, code := kit.Command(t, "backup", "--to", backup, "--admin", "http://"+admin, "--data", s.Dir); code != 0 {
			t.Errorf("no backup: %s%s", out, said)
		} else {
			seen = append(seen, contentOfAll(t, backup)...)
		}
		before := s.Log
		s.Kill()
		seen = append(seen, contentOfAll(t, s.Dir)...)
		s.Restart(t)
		a.Send(b)
		h.To.WaitForDelivery(t, 3).Judged(t, h)
		if err := s.Drain(10 * time.Second); err != nil {
			t.Error(err)
		}
		logs := before.Text() + s.Log.Text()
		seen = append(seen, logs...)
		if names := c.Found(seen); len(names) > 0 {
			t.Errorf("leaked: %v", names)
		}
		if strings.Contains(logs, token) {
			t.Error("the log shows the path of a target")
		}
		c.Control(t, seen)
		checkKeyFiles(t, s.Dir)
	})
}

// contentOfAll returns the content of all files of a directory.
func contentOfAll(t *testing.T, dir string) (all []byte) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all = append(all, b...)
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%d bytes in %s: %v", len(all), dir, err)
	}
	return all
}

// checkKeyFiles checks that only their owner can access files with keys.
func checkKeyFiles(t *testing.T, dir string) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(d.Name(), "key") {
			return err
		}
		found++
		info, err := d.Info()
		if err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil || found == 0 {
		t.Errorf("%d key files in %s: %v", found, dir, err)
	}
}

// TestMasterKeyByEnvironment: a key from the environment is not written to disk, and
// without it the server signs nothing.
func TestMasterKeyByEnvironment(t *testing.T) {
	t.Parallel()
	key := base64.StdEncoding.EncodeToString([]byte("0123456789abcdefCanary!@#$%^&*()"))
	through := func(k string) []string { return []string{"/usr/bin/env", "PARLEY_MASTER_KEY=" + k} }
	s := kit.StartThrough(t, through(key), "--webhook-ca", hooktest.SharedSink(t).CAFile)
	a, b := kit.Pair(t, s)
	h := hooktest.Listening(b)
	a.Send(b)
	h.To.WaitForDelivery(t, 1).Judged(t, h)
	s.Kill()
	if names := (kit.Canaries{"master key": "0123456789abcdefCanary!@#$%^&*()"}).Found(append(contentOfAll(t, s.Dir), s.Log.Text()...)); len(names) > 0 {
		t.Errorf("leaked: %v", names)
	}
	again, err := (&kit.Server{Dir: s.Dir, Flags: s.Flags, Through: through(key)}).Launched(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	*s = *again
	a.Send(b)
	h.To.WaitForDelivery(t, 2).Judged(t, h)
	s.Kill()
	other := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("o", 32)))
	for what, k := range map[string]string{"another key": other, "a short key": "c2hvcnQ=", "no base64": "!"} {
		if wrong, err := (&kit.Server{Dir: s.Dir, Flags: s.Flags, Through: through(k)}).Launched(s.Addr); err == nil {
			wrong.Kill()
			t.Errorf("the server started with %s", what)
		} else if strings.Contains(err.Error(), "goroutine ") || strings.Contains(err.Error(), other) {
			t.Errorf("with %s the server's error is: %v", what, err)
		}
	}
}
