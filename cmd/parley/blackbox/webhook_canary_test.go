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
	own(t, func(t *testing.T, journals string) {
		admin := freeAddress(t)
		s := start(t, "--journals", journals, "--webhook-ca", theSink(t).caFile, "--log-level", "debug", "--admin-listen", admin)
		a, b := pair(t, s)
		h, failing := b.listens(), b.listens(says(500), says(410))
		c := canaries{}
		secrets := func(what, secret string) {
			raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
			if err != nil {
				t.Fatal(err)
			}
			c[what], c[what+" in bytes"] = strings.TrimSuffix(strings.TrimPrefix(secret, "whsec_"), "="), string(raw)
		}
		secrets("first", h.secret)
		secrets("second", failing.secret)
		token := "Canary" + randomHex(12)
		b.hooksAt("https://" + closedAddress(t) + "/" + token).want(201)
		m := a.send(b)
		h.waitForStatus(m, "delivered")
		failing.waitForStatus(m, "failed")
		rotated := b.post(h.path("/rotate-secret"), nil).want(200)
		secrets("rotated", rotated.str("secret"))
		h.secret = rotated.str("secret")
		b.post(h.path("/test"), nil).want(200)
		h.waitForCounts(2, 0, 0, 0)
		var seen []byte
		for _, path := range []string{"/webhooks?include_inactive=true", h.path("/deliveries"), h.path("/deliveries/summary"), "/messages/" + text(m, "id") + "/trace", "/org", "/org/quotas", b.path("")} {
			seen = append(seen, b.get(path).want(200).raw...)
		}
		seen = append(seen, b.patch(h.path(""), obj{"active": true}).want(200).raw...)
		for _, path := range []string{"/metrics", "/readyz", "/debug/pprof/goroutine?debug=2"} {
			seen = append(seen, fetch(t, s.adminToken(t), "http://"+admin+path)...)
		}
		backup := filepath.Join(t.TempDir(), "backup")
		if out, said, code := command(t, "backup", "--to", backup, "--admin", "http://"+admin, "--data", s.dir); code != 0 {
			t.Errorf("no backup: %s%s", out, said)
		} else {
			seen = append(seen, contentOfAll(t, backup)...)
		}
		before := s.log
		s.kill()
		seen = append(seen, contentOfAll(t, s.dir)...)
		s.restart(t)
		a.send(b)
		h.to.waitForDelivery(t, 3).judged(t, h)
		if err := s.drain(10 * time.Second); err != nil {
			t.Error(err)
		}
		logs := before.text() + s.log.text()
		seen = append(seen, logs...)
		if names := c.found(seen); len(names) > 0 {
			t.Errorf("leaked: %v", names)
		}
		if strings.Contains(logs, token) {
			t.Error("the log shows the path of a target")
		}
		c.control(t, seen)
		checkKeyFiles(t, s.dir)
	})
}

// control: a secret that was planted is found.
func (c canaries) control(t *testing.T, in []byte) {
	t.Helper()
	for name, secret := range c {
		planted := append(in[:len(in):len(in)], "x"+secret+"y"...)
		if got := c.found(planted); len(got) == 0 {
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
	s := startThrough(t, through(key), "--webhook-ca", theSink(t).caFile)
	a, b := pair(t, s)
	h := b.listens()
	a.send(b)
	h.to.waitForDelivery(t, 1).judged(t, h)
	s.kill()
	if names := (canaries{"master key": "0123456789abcdefCanary!@#$%^&*()"}).found(append(contentOfAll(t, s.dir), s.log.text()...)); len(names) > 0 {
		t.Errorf("leaked: %v", names)
	}
	again, err := (&server{dir: s.dir, flags: s.flags, through: through(key)}).launched(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	*s = *again
	a.send(b)
	h.to.waitForDelivery(t, 2).judged(t, h)
	s.kill()
	other := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("o", 32)))
	for what, k := range map[string]string{"another key": other, "a short key": "c2hvcnQ=", "no base64": "!"} {
		if wrong, err := (&server{dir: s.dir, flags: s.flags, through: through(k)}).launched(s.addr); err == nil {
			wrong.kill()
			t.Errorf("the server started with %s", what)
		} else if strings.Contains(err.Error(), "goroutine ") || strings.Contains(err.Error(), other) {
			t.Errorf("with %s the server's error is: %v", what, err)
		}
	}
}
