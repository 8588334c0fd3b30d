package durability

import (
	"bytes"
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

	"parley/cmd/parley/blackbox/kit"
)

// served returns a data directory that a server has used, with its master key.
func served(t *testing.T) (dir, keyFile string, key []byte) {
	t.Helper()
	kit.OneServerOnly(t, "it works on the directory of a stopped server")
	s := kit.Start(t)
	s.Org(t)
	if err := s.Drain(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	keyFile = filepath.Join(s.Dir, "master.key")
	return s.Dir, keyFile, kit.ContentOf(t, keyFile)
}

func write(t *testing.T, path string, content []byte, mode fs.FileMode) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, content, mode), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

// serves starts a server on a directory and stops it in order.
func serves(t *testing.T, dir string, through ...string) {
	t.Helper()
	s, err := (&kit.Server{Dir: dir, Through: through}).Launched("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Drain(10 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// verified returns what `parley verify` reports about a directory's master key: the
// number of faults and how to fix them.
func verified(t *testing.T, dir string, through ...string) (faults float64, means string) {
	t.Helper()
	line := slices.Concat(through, []string{kit.Binary, "verify", "--json", "--data", dir})
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = kit.CleanEnvironment()
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
		if kit.Text(f.(obj), "check") != "master-key" {
			t.Errorf("verify finds %v", f)
		}
		means += kit.Text(f.(obj), "where") + ": " + kit.Text(f.(obj), "means") + "\n"
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
			said := kit.Fails(t, dir, flags...)
			kit.CheckMessage(t, what, said, "there was one", keyFile, "parley restore", "PARLEY_MASTER_KEY")
			if strings.Contains(said, "--accept-loss") {
				t.Errorf("%s: there is no log tail to discard:\n%s", what, said)
			}
			nothingIn(t, journal)
		}
		for name, args := range map[string][]string{
			"verify": {"verify", "--data", dir}, "backup": {"backup", "--data", dir, "--to", filepath.Join(t.TempDir(), "b")},
		} {
			_, said, code := kit.Command(t, args...)
			if kit.CheckMessage(t, what, said, "there was one", keyFile, "parley restore"); code != 1 {
				t.Errorf("%s, %s: exit code %d", what, name, code)
			}
		}
	}
	if !bytes.Equal(kit.ContentOf(t, keyFile), key) {
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
	kit.CheckMessage(t, "a key by hand", kit.Fails(t, dir), keyFile, "move", "PARLEY_MASTER_KEY")
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	serves(t, dir, kit.InEnvironment(key)...)
	if kit.Exists(keyFile) {
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
		kit.CheckMessage(t, what, kit.Fails(t, dir), keyFile, c.says)
		faults, means := verified(t, dir)
		if kit.CheckMessage(t, what, means, keyFile, c.says); faults != 1 {
			t.Errorf("%s: verify finds %v faults", what, faults)
		}
		if c.mode == 0o644 {
			continue // the key is intact, and so would a backup be
		}
		for _, more := range [][]string{nil, {"--without-key"}} { // the keyring opens with the key only
			_, said, code := kit.Command(t, append([]string{"backup", "--data", dir, "--to", filepath.Join(t.TempDir(), "b")}, more...)...)
			if kit.CheckMessage(t, what, said, keyFile, c.says); code == 0 {
				t.Errorf("%s: the backup succeeded", what)
			}
		}
		if !bytes.Equal(kit.ContentOf(t, keyFile), c.content) {
			t.Errorf("%s: the file was changed", what)
		}
	}
	write(t, keyFile, key, 0o600)
	foreign := kit.InEnvironment(flipped)
	_, means := verified(t, dir, foreign...)
	kit.CheckMessage(t, "another in the environment", means, "PARLEY_MASTER_KEY")
	if s, err := (&kit.Server{Dir: dir, Through: foreign}).Launched("127.0.0.1:0"); err == nil {
		s.Kill()
		t.Error("a server starts with another key in its environment")
	} else {
		kit.CheckMessage(t, "another in the environment", err.Error(), "PARLEY_MASTER_KEY", "first used")
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
	admin := kit.FreeAddress(t)
	s := kit.Start(t, "--admin-listen", admin)
	keyFile, backups := filepath.Join(s.Dir, "master.key"), filepath.Join(t.TempDir(), "b")
	key := kit.ContentOf(t, keyFile)
	write(t, keyFile, make([]byte, len(key)), 0o600)
	_, said, code := kit.Command(t, "backup", "--admin", "http://"+admin, "--data", s.Dir, "--to", backups)
	if kit.CheckMessage(t, "zeros", said, keyFile, "--without-key"); code == 0 || kit.Exists(backups) {
		t.Errorf("exit code %d; a backup exists: %v", code, kit.Exists(backups))
	}
	write(t, keyFile, key, 0o600)
	kit.Succeeds(t, "backup", "--admin", "http://"+admin, "--data", s.Dir, "--to", backups)
}

// TestALostMasterKeyIsNotMadeAnew: a new key could not decrypt what the lost one
// encrypted.
func TestALostMasterKeyIsNotMadeAnew(t *testing.T) {
	t.Parallel()
	dir, keyFile, key := served(t)
	backups, restored := filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "data")
	kit.Succeeds(t, "backup", "--data", dir, "--to", backups, "--without-key")
	kit.Succeeds(t, "restore", "--from", backups, "--data", restored)
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	for what, data := range map[string]string{"removed": dir, "not in the backup": restored} {
		file := filepath.Join(data, "master.key")
		words := []string{file, "missing", "encrypted", "parley restore", "PARLEY_MASTER_KEY"}
		kit.CheckMessage(t, what, kit.Fails(t, data), words...)
		faults, means := verified(t, data)
		if kit.CheckMessage(t, what, means, words...); faults != 1 {
			t.Errorf("%s: verify finds %v faults", what, faults)
		}
		if left, err := filepath.Glob(file + "*"); err != nil || len(left) > 0 {
			t.Errorf("%s: a refused start left %v (%v)", what, left, err)
		}
		if faults, means := verified(t, data, kit.InEnvironment(key)...); faults != 0 {
			t.Errorf("%s, with the key in the environment: %s", what, means)
		}
		serves(t, data, kit.InEnvironment(key)...)
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
	_, said, code := kit.Command(t, "backup", "--data", dir, "--to", "/dev/null/x")
	if kit.CheckMessage(t, "no directory above", said, "/dev/null/x", "not a directory"); code != 2 || strings.Contains(said, "is inside") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
	_, said, code = kit.Command(t, "backup", "--data", dir, "--to", filepath.Join(dir, "b"))
	if kit.CheckMessage(t, "within", said, "is inside the data directory"); code != 2 {
		t.Errorf("exit code %d:\n%s", code, said)
	}
}
