package blackbox

import (
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestWebhookSecretsAreKept searches for the secrets of webhooks wherever they must not
// be: in answers after the first, in the log at its lowest level, on the admin listener,
// in the data directory and in a backup. The test includes targets that fail and targets
// with a token in the URL.
func TestWebhookSecretsAreKept(t *testing.T) {
	Own(t, func(t *testing.T, journals string) {
		admin := FreeAddress(t)
		s := Start(t, "--journals", journals, "--webhook-ca", theSink(t).caFile, "--log-level", "debug", "--admin-listen", admin)
		a, b := Pair(t, s)
		h, failing := b.listens(), b.listens(says(500), says(410))
		c := Canaries{}
		secrets := func(what, secret string) {
			raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
			if err != nil {
				t.Fatal(err)
			}
			c[what], c[what+" in bytes"] = strings.TrimSuffix(strings.TrimPrefix(secret, "whsec_"), "="), string(raw)
		}
		secrets("first", h.secret)
		secrets("second", failing.secret)
		token := "Canary" + RandomHex(12)
		b.hooksAt("https://" + ClosedAddress(t) + "/" + token).Want(201)
		m := a.Send(b)
		h.waitForStatus(m, "delivered")
		failing.waitForStatus(m, "failed")
		rotated := b.Post(h.path("/rotate-secret"), nil).Want(200)
		secrets("rotated", rotated.Str("secret"))
		h.secret = rotated.Str("secret")
		b.Post(h.path("/test"), nil).Want(200)
		h.waitForCounts(2, 0, 0, 0)
		var seen []byte
		for _, path := range []string{"/webhooks?include_inactive=true", h.path("/deliveries"), h.path("/deliveries/summary"), "/messages/" + Text(m, "id") + "/trace", "/org", "/org/quotas", b.Path("")} {
			seen = append(seen, b.Get(path).Want(200).Raw...)
		}
		seen = append(seen, b.Patch(h.path(""), obj{"active": true}).Want(200).Raw...)
		for _, path := range []string{"/metrics", "/readyz", "/debug/pprof/goroutine?debug=2"} {
			seen = append(seen, Fetch(t, s.AdminToken(t), "http://"+admin+path)...)
		}
		backup := filepath.Join(t.TempDir(), "backup")
		if out, said, code := Command(t, "backup", "--to", backup, "--admin", "http://"+admin, "--data", s.Dir); code != 0 {
			t.Errorf("no backup: %s%s", out, said)
		} else {
			seen = append(seen, contentOfAll(t, backup)...)
		}
		before := s.Log
		s.Kill()
		seen = append(seen, contentOfAll(t, s.Dir)...)
		s.Restart(t)
		a.Send(b)
		h.to.waitForDelivery(t, 3).judged(t, h)
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

// Control: a secret that was planted is found.
func (c Canaries) Control(t *testing.T, in []byte) {
	t.Helper()
	for name, secret := range c {
		planted := append(in[:len(in):len(in)], "x"+secret+"y"...)
		if got := c.Found(planted); len(got) == 0 {
			t.Errorf("control: %s was not found", name)
		}
	}
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
	s := StartThrough(t, through(key), "--webhook-ca", theSink(t).caFile)
	a, b := Pair(t, s)
	h := b.listens()
	a.Send(b)
	h.to.waitForDelivery(t, 1).judged(t, h)
	s.Kill()
	if names := (Canaries{"master key": "0123456789abcdefCanary!@#$%^&*()"}).Found(append(contentOfAll(t, s.Dir), s.Log.Text()...)); len(names) > 0 {
		t.Errorf("leaked: %v", names)
	}
	again, err := (&Server{Dir: s.Dir, Flags: s.Flags, Through: through(key)}).Launched(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	*s = *again
	a.Send(b)
	h.to.waitForDelivery(t, 2).judged(t, h)
	s.Kill()
	other := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("o", 32)))
	for what, k := range map[string]string{"another key": other, "a short key": "c2hvcnQ=", "no base64": "!"} {
		if wrong, err := (&Server{Dir: s.Dir, Flags: s.Flags, Through: through(k)}).Launched(s.Addr); err == nil {
			wrong.Kill()
			t.Errorf("the server started with %s", what)
		} else if strings.Contains(err.Error(), "goroutine ") || strings.Contains(err.Error(), other) {
			t.Errorf("with %s the server's error is: %v", what, err)
		}
	}
}
