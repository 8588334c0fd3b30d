package blackbox

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// served returns a data directory that a server has used, with its master key.
func served(t *testing.T) (dir, keyFile string, key []byte) {
	t.Helper()
	OneServerOnly(t, "it works on the directory of a stopped server")
	s := Start(t)
	s.Org(t)
	if err := s.Drain(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	keyFile = filepath.Join(s.Dir, "master.key")
	return s.Dir, keyFile, ContentOf(t, keyFile)
}

func ContentOf(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, path string, content []byte, mode fs.FileMode) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, content, mode), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

// CheckMessage checks that an error contains all of the words and no stack trace.
func CheckMessage(t *testing.T, what, said string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Errorf("%s: the output does not contain %q:\n%s", what, w, said)
		}
	}
	if strings.Contains(said, "goroutine ") || strings.Contains(said, Announcement) {
		t.Errorf("%s: the output is\n%s", what, said)
	}
}

// serves starts a server on a directory and stops it in order.
func serves(t *testing.T, dir string, through ...string) {
	t.Helper()
	s, err := (&Server{Dir: dir, Through: through}).Launched("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Drain(10 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// InEnvironment runs a program with a master key in its environment.
func InEnvironment(key []byte) []string {
	return []string{"/usr/bin/env", "PARLEY_MASTER_KEY=" + base64.StdEncoding.EncodeToString(key)}
}

// verified returns what `parley verify` reports about a directory's master key: the
// number of faults and how to fix them.
func verified(t *testing.T, dir string, through ...string) (faults float64, means string) {
	t.Helper()
	line := slices.Concat(through, []string{Binary, "verify", "--json", "--data", dir})
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = CleanEnvironment()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var v obj
	if json.Unmarshal(out, &v) != nil {
		t.Fatalf("verify: %v\n%s%s", err, out, stderr.Bytes())
	}
	faults, _ = v["faults"].(float64)
	if (err == nil) != (faults == 0) {
		t.Errorf("verify ended with %v and found %v faults", err, faults)
	}
	for _, f := range v["first"].([]any) {
		if Text(f.(obj), "check") != "master-key" {
			t.Errorf("verify finds %v", f)
		}
		means += Text(f.(obj), "where") + ": " + Text(f.(obj), "means") + "\n"
	}
	return faults, means
}

// TestALostJournalIsNoNewOne: a directory with a key has had a journal. If the journal is
// missing, the server starts, creates and backs up nothing until the operator confirms.
func TestALostJournalIsNoNewOne(t *testing.T) {
	t.Parallel()
	dir, keyFile, key := served(t)
	journal := filepath.Join(dir, "journal")
	for what, lose := range map[string]func() error{
		"gone":    func() error { return os.RemoveAll(journal) },
		"emptied": func() error { return errors.Join(os.RemoveAll(journal), os.Mkdir(journal, 0o700)) },
	} {
		for _, flags := range [][]string{nil, {"--accept-loss"}} {
			if err := lose(); err != nil {
				t.Fatal(err)
			}
			said := Fails(t, dir, flags...)
			CheckMessage(t, what, said, "there was one", keyFile, "parley restore", "PARLEY_MASTER_KEY")
			if strings.Contains(said, "--accept-loss") {
				t.Errorf("%s: there is no log tail to discard:\n%s", what, said)
			}
			nothingIn(t, journal)
		}
		for name, args := range map[string][]string{
			"verify": {"verify", "--data", dir}, "backup": {"backup", "--data", dir, "--to", filepath.Join(t.TempDir(), "b")},
		} {
			_, said, code := Command(t, args...)
			if CheckMessage(t, what, said, "there was one", keyFile, "parley restore"); code != 1 {
				t.Errorf("%s, %s: exit code %d", what, name, code)
			}
		}
	}
	if !bytes.Equal(ContentOf(t, keyFile), key) {
		t.Error("the key was changed")
	}
	if err := os.Rename(keyFile, keyFile+".former"); err != nil {
		t.Fatal(err)
	}
	serves(t, dir)
}

// nothingIn checks that a journal's directory contains at most a lock.
func nothingIn(t *testing.T, journal string) {
	t.Helper()
	left, err := os.ReadDir(journal)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, entry := range left {
		if entry.Name() != "LOCK" {
			t.Errorf("a refused start left %s", entry.Name())
		}
	}
}

// TestMasterKeyOfTheOperator: an operator supplies a key of their own in the variable. A
// key file in an empty directory is rejected, because it looks like that of a lost
// journal.
func TestMasterKeyOfTheOperator(t *testing.T) {
	t.Parallel()
	dir, key := t.TempDir(), []byte(strings.Repeat("k", 32))
	keyFile := filepath.Join(dir, "master.key")
	write(t, keyFile, key, 0o600)
	CheckMessage(t, "a key by hand", Fails(t, dir), keyFile, "move", "PARLEY_MASTER_KEY")
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	serves(t, dir, InEnvironment(key)...)
	if Exists(keyFile) {
		t.Error("the key from the variable was written to disk")
	}
	write(t, keyFile, key, 0o600) // now that the journal exists, a file may hold the key
	serves(t, dir)
}

func TestADamagedMasterKeyIsNamed(t *testing.T) {
	t.Parallel()
	dir, keyFile, key := served(t)
	flipped := bytes.Clone(key)
	flipped[7] ^= 1
	for what, c := range map[string]struct {
		content []byte
		mode    fs.FileMode
		says    string
	}{
		"flipped":  {flipped, 0o600, "parley restore"},
		"short":    {key[:31], 0o600, "parley restore"},
		"emptied":  {nil, 0o600, "parley restore"},
		"readable": {key, 0o644, "chmod 600"},
	} {
		write(t, keyFile, c.content, c.mode)
		CheckMessage(t, what, Fails(t, dir), keyFile, c.says)
		faults, means := verified(t, dir)
		if CheckMessage(t, what, means, keyFile, c.says); faults != 1 {
			t.Errorf("%s: verify finds %v faults", what, faults)
		}
		if c.mode == 0o644 {
			continue // the key is intact, and so would a backup be
		}
		for _, more := range [][]string{nil, {"--without-key"}} { // the keyring opens with the key only
			_, said, code := Command(t, append([]string{"backup", "--data", dir, "--to", filepath.Join(t.TempDir(), "b")}, more...)...)
			if CheckMessage(t, what, said, keyFile, c.says); code == 0 {
				t.Errorf("%s: the backup succeeded", what)
			}
		}
		if !bytes.Equal(ContentOf(t, keyFile), c.content) {
			t.Errorf("%s: the file was changed", what)
		}
	}
	write(t, keyFile, key, 0o600)
	foreign := InEnvironment(flipped)
	_, means := verified(t, dir, foreign...)
	CheckMessage(t, "another in the environment", means, "PARLEY_MASTER_KEY")
	if s, err := (&Server{Dir: dir, Through: foreign}).Launched("127.0.0.1:0"); err == nil {
		s.Kill()
		t.Error("a server starts with another key in its environment")
	} else {
		CheckMessage(t, "another in the environment", err.Error(), "PARLEY_MASTER_KEY", "first used")
	}
	if faults, means := verified(t, dir); faults != 0 {
		t.Errorf("the key was restored, but verify finds: %s", means)
	}
	serves(t, dir)
}

// TestARunningServerBacksUpNoDamagedKey: the server has the right key in memory, but a
// backup would copy the damaged file.
func TestARunningServerBacksUpNoDamagedKey(t *testing.T) {
	t.Parallel()
	admin := FreeAddress(t)
	s := Start(t, "--admin-listen", admin)
	keyFile, backups := filepath.Join(s.Dir, "master.key"), filepath.Join(t.TempDir(), "b")
	key := ContentOf(t, keyFile)
	write(t, keyFile, make([]byte, len(key)), 0o600)
	_, said, code := Command(t, "backup", "--admin", "http://"+admin, "--data", s.Dir, "--to", backups)
	if CheckMessage(t, "zeros", said, keyFile, "--without-key"); code == 0 || Exists(backups) {
		t.Errorf("exit code %d; a backup exists: %v", code, Exists(backups))
	}
	write(t, keyFile, key, 0o600)
	Succeeds(t, "backup", "--admin", "http://"+admin, "--data", s.Dir, "--to", backups)
}

// TestALostMasterKeyIsNotMadeAnew: a new key could not decrypt what the lost one
// encrypted.
func TestALostMasterKeyIsNotMadeAnew(t *testing.T) {
	t.Parallel()
	dir, keyFile, key := served(t)
	backups, restored := filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "data")
	Succeeds(t, "backup", "--data", dir, "--to", backups, "--without-key")
	Succeeds(t, "restore", "--from", backups, "--data", restored)
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	for what, data := range map[string]string{"removed": dir, "not in the backup": restored} {
		file := filepath.Join(data, "master.key")
		words := []string{file, "missing", "encrypted", "parley restore", "PARLEY_MASTER_KEY"}
		CheckMessage(t, what, Fails(t, data), words...)
		faults, means := verified(t, data)
		if CheckMessage(t, what, means, words...); faults != 1 {
			t.Errorf("%s: verify finds %v faults", what, faults)
		}
		if left, err := filepath.Glob(file + "*"); err != nil || len(left) > 0 {
			t.Errorf("%s: a refused start left %v (%v)", what, left, err)
		}
		if faults, means := verified(t, data, InEnvironment(key)...); faults != 0 {
			t.Errorf("%s, with the key in the environment: %s", what, means)
		}
		serves(t, data, InEnvironment(key)...)
		write(t, file, key, 0o600)
		if faults, means := verified(t, data); faults != 0 {
			t.Errorf("%s, with the key restored: %s", what, means)
		}
		serves(t, data)
	}
}

// TestUnsuitableBackupTargets: the error says why the target is unsuitable.
func TestUnsuitableBackupTargets(t *testing.T) {
	t.Parallel()
	dir, _, _ := served(t)
	_, said, code := Command(t, "backup", "--data", dir, "--to", "/dev/null/x")
	if CheckMessage(t, "no directory above", said, "/dev/null/x", "not a directory"); code != 2 || strings.Contains(said, "is inside") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
	_, said, code = Command(t, "backup", "--data", dir, "--to", filepath.Join(dir, "b"))
	if CheckMessage(t, "within", said, "is inside the data directory"); code != 2 {
		t.Errorf("exit code %d:\n%s", code, said)
	}
}
