package persistence

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/persistence/disk"
	"parley/persistence/keyring"
)

// keyringDirectory is a data directory with a store and a keyring.
type keyringDirectory struct {
	t  *testing.T
	fs *vfs.MemFS
}

var keyringOrg = parley.NewID[parley.OrgID](1, testStart, [10]byte{9: 0x3f, 2: 1, 7: 0x3f})

var keyringWrapping = bytes.Repeat([]byte{1}, keyring.WrappingKeyBytes)

// open opens the store with the keyring that is there.
func (d keyringDirectory) open(acceptLoss bool) (s *Store, k *keyring.Keyring, err error) {
	d.t.Helper()
	opts := testOptions(d.fs, 0)
	opts.AcceptLoss = acceptLoss
	opts.OpenKeyring = func(witnessed disk.KeyringState) (Keyring, error) {
		var err error
		k, err = keyring.Open(d.fs, "keyring", keyringWrapping, keyring.Options{Witnessed: witnessed})
		return k, err
	}
	s, err = Open("d", opts)
	return s, k, err
}

func (d keyringDirectory) mustOpen() (*Store, *keyring.Keyring) {
	d.t.Helper()
	s, k, err := d.open(false)
	if err != nil {
		d.t.Fatal(err)
	}
	return s, k
}

// copied returns a copy of a directory on a disk of its own.
func (d keyringDirectory) copied(dir string) *vfs.MemFS {
	d.t.Helper()
	to := vfs.NewMem()
	if ok, err := vfs.Clone(d.fs, to, dir, dir); err != nil || !ok {
		d.t.Fatal(ok, err)
	}
	return to
}

// put replaces a directory by a copy of it.
func (d keyringDirectory) put(from *vfs.MemFS, dir string) {
	d.t.Helper()
	if err := d.fs.RemoveAll(dir); err != nil {
		d.t.Fatal(err)
	}
	if ok, err := vfs.Clone(from, d.fs, dir, dir); err != nil || !ok {
		d.t.Fatal(ok, err)
	}
}

// TestWitnessCoversKeyring: a store whose keyring is older than what was acknowledged is
// not opened, and says which shard it is. One that is newer is opened: the witness lags.
func TestWitnessCoversKeyring(t *testing.T) {
	d := keyringDirectory{t, vfs.NewMem()}
	mustClose(t, mustOpen(t, "d", testOptions(d.fs, 0)))
	if err := keyring.Make(d.fs, "keyring", keyringWrapping, nil); err != nil {
		t.Fatal(err)
	}
	s, k := d.mustOpen()
	if _, err := k.Create(keyringOrg); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	live, store := d.copied("keyring"), d.copied("d")
	s, k = d.mustOpen()
	if err := k.Destroy(keyringOrg, testStart); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	erased := d.copied("keyring")
	record, err := disk.ReadWitness(d.fs, "d")
	if err != nil || record.Keyring != k.State() {
		t.Fatalf("the witness records %+v, %v", record, err)
	}

	d.put(live, "keyring") // the destroyed key is there again
	if _, _, err := d.open(false); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "shard 3f of the keyring has generation 2, and generation 3 was acknowledged") {
		t.Errorf("with an old keyring: %v", err)
	}
	opts := testOptions(d.fs, 0)
	mustClose(t, mustOpen(t, "d", opts)) // a store without a keyring keeps what the witness records
	if _, _, err := d.open(false); !errors.Is(err, ErrDamaged) {
		t.Errorf("with an old keyring, the second time: %v", err)
	}
	s, _, err = d.open(true)
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s, _ = d.mustOpen() // the loss was accepted once and for all
	mustClose(t, s)

	d.put(store, "d")
	d.put(erased, "keyring")
	s, k = d.mustOpen()
	if _, state := k.Key(keyringOrg); state != keyring.Erased {
		t.Error("the keyring is newer than the store, and lost what it knew")
	}
	mustClose(t, s)
}

// waitForKeyring returns when the witness on disk records all of a keyring.
func waitForKeyring(t testing.TB, s *Store, k *keyring.Keyring) {
	t.Helper()
	for range 2000 {
		w, err := disk.ReadWitness(s.opts.FS, s.dir)
		if err != nil {
			t.Fatal(err)
		}
		if w.Keyring == k.State() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the witness does not catch up with the keyring")
}
