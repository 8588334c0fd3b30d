package persistence

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/persistence/backup"
	"parley/persistence/disk"
	"parley/persistence/keyring"
)

// keyringIn makes and opens a keyring in the directory of an open store.
func keyringIn(t testing.TB, fs vfs.FS, s *Store) *keyring.Keyring {
	t.Helper()
	dir := s.dir + "/" + KeyringName
	if err := keyring.Make(fs, dir, keyringWrapping, nil); err != nil {
		t.Fatal(err)
	}
	k, err := keyring.Open(fs, dir, keyringWrapping, keyring.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.Adopt(k)
	return k
}

// orgOf returns an organization whose key is in a shard of its own.
func orgOf(n byte) parley.OrgID {
	return parley.NewID[parley.OrgID](1, testStart, [10]byte{7: n, 9: n})
}

func mustHaveKey(t testing.TB, k *keyring.Keyring, n byte) keyring.Key {
	t.Helper()
	key, err := k.Create(orgOf(n))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// openRestored opens a restored directory with its keyring, which its witness must record.
func openRestored(t testing.TB, fs vfs.FS, to string) (*Store, *keyring.Keyring) {
	t.Helper()
	var k *keyring.Keyring
	opts := testOptions(fs, 0)
	opts.OpenKeyring = func(witnessed disk.KeyringState) (Keyring, error) {
		var err error
		if k, err = keyring.Open(fs, to+"/journal/"+KeyringName, keyringWrapping, keyring.Options{Witnessed: witnessed}); err == nil && witnessed != k.State() {
			t.Errorf("%s: the witness does not record the restored keyring", to)
		}
		return k, err
	}
	return mustOpen(t, to+"/journal", opts), k
}

func mustRestore(t testing.TB, fs vfs.FS, snapshot, to string) (*Store, *keyring.Keyring) {
	t.Helper()
	if _, err := backup.Restore(context.Background(), backup.RestoreOptions{FS: fs, From: "backup", Snapshot: snapshot, To: to}); err != nil {
		t.Fatal(err)
	}
	return openRestored(t, fs, to)
}

// TestBackupOfUnsyncedKeys: a snapshot needs a keyring that has all keys that were in use when it
// was taken, also those that were not written yet.
func TestBackupOfUnsyncedKeys(t *testing.T) {
	fs := vfs.NewMem()
	s, _ := filled(t, fs, 3)
	k := keyringIn(t, fs, s)
	change, err := k.Creation(orgOf(1))
	if err == nil {
		err = k.CarryUnsynced([][]byte{change})
	}
	if err != nil {
		t.Fatal(err)
	}
	key, _ := k.Key(orgOf(1))
	before := k.State()
	taken := mustBackup(t, s, backup.Options{To: "backup", Keyring: k})
	mustClose(t, s)
	if taken.Keyring == before || taken.Keyring != k.State() {
		t.Error("an older keyring, without the key, would do for a restore")
	}
	r, restored := mustRestore(t, fs, taken.ID, "restored")
	if found, _ := restored.Key(orgOf(1)); found != key {
		t.Error("the key is missing")
	}
	mustClose(t, r)
}

// TestBackupHasTheKeyring: every snapshot is restored with the present keyring, so a key
// that was destroyed later is not in it. Servers that share a backup directory each have
// their own.
func TestBackupHasTheKeyring(t *testing.T) {
	fs := vfs.NewMem()
	s, _ := filled(t, fs, 3)
	k := keyringIn(t, fs, s)
	mustHaveKey(t, k, 1)
	kept := mustHaveKey(t, k, 2)
	first := mustBackup(t, s, backup.Options{To: "backup", Keyring: k})
	if err := k.Destroy(orgOf(1), testStart); err != nil {
		t.Fatal(err)
	}
	later := mustHaveKey(t, k, 3)
	second := mustBackup(t, s, backup.Options{To: "backup", Keyring: k})
	mustClose(t, s)

	other := running(t, fs, "other/journal", 1)
	foreign := keyringIn(t, fs, other)
	own := mustHaveKey(t, foreign, 1)
	third := mustBackup(t, other, backup.Options{To: "backup", Keyring: foreign})
	mustClose(t, other)

	for _, snapshot := range []*backup.Snapshot{first, second} {
		if checked, err := backup.Check(context.Background(), fs, "backup", snapshot.ID, nil); err != nil || checked.Keyring != snapshot.Keyring {
			t.Errorf("check: %v", err)
		}
		s, k := mustRestore(t, fs, snapshot.ID, "r"+snapshot.ID)
		if _, state := k.Key(orgOf(1)); state != keyring.Erased {
			t.Errorf("%s: a destroyed key is %v after a restore", snapshot.ID, state)
		}
		for n, want := range map[byte]keyring.Key{2: kept, 3: later} {
			if found, _ := k.Key(orgOf(n)); found != want {
				t.Errorf("%s: the key of organization %d is missing", snapshot.ID, n)
			}
		}
		mustClose(t, s)
	}
	r, k := mustRestore(t, fs, third.ID, "r3")
	if found, _ := k.Key(orgOf(1)); found != own {
		t.Error("the other server's key is missing")
	}
	mustClose(t, r)
}

// uncopied is a keyring that no backup copies.
type uncopied struct{ *keyring.Keyring }

func (uncopied) CopyTo(vfs.FS, string) error { return nil }

// TestDamagedKeyringIsNotRestored: a snapshot is neither restored nor passes a check if its
// keyring is missing, has lost a shard, or is older than the snapshot. One sound copy of
// a shard is enough.
func TestDamagedKeyringIsNotRestored(t *testing.T) {
	fs := vfs.NewMem()
	s, _ := filled(t, fs, 3)
	k := keyringIn(t, fs, s)
	mustHaveKey(t, k, 1)
	mustBackup(t, s, backup.Options{To: "backup", Keyring: k})
	names := files(t, fs, "backup/keyrings")
	if len(names) != 1 {
		t.Fatalf("%q", names)
	}
	dir := "backup/keyrings/" + names[0]
	former := vfs.NewMem()
	if ok, err := vfs.Clone(fs, former, dir, dir); !ok || err != nil {
		t.Fatal(ok, err)
	}
	mustHaveKey(t, k, 2)
	mustBackup(t, s, backup.Options{To: "backup", Keyring: k})
	mustBackup(t, s, backup.Options{To: "uncopied", Keyring: uncopied{k}})
	mustClose(t, s)
	attacked := 0
	judge := func(what, from, says string, attack func(fs *vfs.MemFS) error) {
		t.Helper()
		on := vfs.NewMem()
		if ok, err := vfs.Clone(fs, on, from, from); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if err := attack(on); err != nil {
			t.Fatal(err)
		}
		attacked++
		_, unchecked := backup.Check(context.Background(), on, from, "", nil)
		_, err := backup.Restore(context.Background(), backup.RestoreOptions{FS: on, From: from, To: "r"})
		for how, err := range map[string]error{"check": unchecked, "restore": err} {
			if says == "" && err != nil || says != "" && (!errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), says)) {
				t.Errorf("%s: %s: %v", what, how, err)
			}
		}
		if _, err := on.Stat("r"); says != "" && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was restored", what)
		}
	}
	judge("control", "backup", "", func(*vfs.MemFS) error { return nil })
	judge("a copy is missing", "backup", "", func(fs *vfs.MemFS) error { return fs.Remove(dir + "/01.a") })
	judge("both copies are missing", "backup", "shard 01", func(fs *vfs.MemFS) error {
		return errors.Join(fs.Remove(dir+"/01.a"), fs.Remove(dir+"/01.b"))
	})
	judge("the keyring is missing", "backup", "is missing", func(fs *vfs.MemFS) error { return fs.RemoveAll(dir) })
	judge("it is an old one", "backup", "shard 02", func(fs *vfs.MemFS) error {
		_, err := vfs.Clone(former, fs, dir, dir)
		return err
	})
	judge("it was not copied", "uncopied", "is missing", func(*vfs.MemFS) error { return nil })
	if attacked != 6 {
		t.Errorf("%d attacks", attacked)
	}
}

// TestKeyringFilesInTheDirectory damages the files of a keyring in the directory of a
// killed process: the key is there, or the start is refused and names the shard. A
// refused directory stays as it was.
func TestKeyringFilesInTheDirectory(t *testing.T) {
	unraced(t)
	t.Parallel()
	d := keyringDirectory{t, vfs.NewMem()}
	s := mustOpen(t, "d", testOptions(d.fs, 1))
	if err := startQuietly(s); err != nil {
		t.Fatal(err)
	}
	k := keyringIn(t, d.fs, s)
	mustHaveKey(t, k, 1)
	old := map[string][]byte{}
	content := func(fs vfs.FS, name string) []byte {
		b, err := readFile(fs, "d/keyring/"+name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, name := range []string{"01.a", "01.b"} {
		old[name] = content(d.fs, name)
	}
	if err := k.Destroy(orgOf(1), testStart); err != nil {
		t.Fatal(err)
	}
	waitForKeyring(t, s, k)
	killed := d.copied("d")
	mustClose(t, s)
	tried := map[string]int{}
	for what, change := range map[string]func(name string, b []byte) []byte{
		"gone": func(string, []byte) []byte { return nil }, "emptied": func(string, []byte) []byte { return []byte{} },
		"cut":     func(_ string, b []byte) []byte { return b[:len(b)/2] },
		"flipped": func(_ string, b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"another": func(name string, _ []byte) []byte { return content(killed, "02"+name[2:]) },
		"old":     func(name string, _ []byte) []byte { return old[name] },
	} {
		for _, names := range [][]string{{"01.a"}, {"01.b"}, {"01.a", "01.b"}} {
			d := keyringDirectory{t, vfs.NewMem()}
			d.put(killed, "d")
			for _, name := range names {
				b := change(name, content(killed, name))
				if err := d.fs.Remove("d/keyring/" + name); err != nil {
					t.Fatal(err)
				}
				if b != nil {
					writeFile(t, d.fs, "d/keyring/"+name, b)
				}
			}
			tried[d.judgeKeyring(what, len(names) == 2)]++
		}
	}
	t.Log(tried)
	if tried["refused"] != 6 || tried["repaired"] != 12 {
		t.Error("one sound copy must be enough, and none must be refused")
	}
}

// judgeKeyring opens a directory whose keyring was damaged.
func (d keyringDirectory) judgeKeyring(what string, both bool) string {
	d.t.Helper()
	before := d.copied("d/keyring")
	var k *keyring.Keyring
	opts := testOptions(d.fs, 0)
	opts.OpenKeyring = func(witnessed disk.KeyringState) (_ Keyring, err error) {
		k, err = keyring.Open(d.fs, "d/keyring", keyringWrapping, keyring.Options{Witnessed: witnessed})
		return k, err
	}
	s, err := Open("d", opts)
	if err != nil {
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "shard 01") {
			d.t.Errorf("%s, both copies %v: %v", what, both, err)
		}
		for _, name := range files(d.t, before, "d/keyring") {
			was, _ := readFile(before, "d/keyring/"+name)
			is, err := readFile(d.fs, "d/keyring/"+name)
			if err != nil || string(was) != string(is) {
				d.t.Errorf("%s: a refused start changed %s (%v)", what, name, err)
			}
		}
		return "refused"
	}
	defer mustClose(d.t, s)
	if _, state := k.Key(orgOf(1)); state != keyring.Erased {
		d.t.Errorf("%s, both copies %v: SILENT: the destroyed key is %v", what, both, state)
	}
	return "repaired"
}
