package keyring

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"parley/client/parley"
)

// organization is what the model knows of one.
type organization struct {
	state State
	key   Key
	at    time.Time
}

// model is a keyring as a map, and the disk of the keyring that must behave like it.
type model struct {
	t      *testing.T
	fs     *vfs.MemFS
	k      *Keyring
	orgs   map[parley.OrgID]organization
	server Key
	// copied is the model when the last backup was made, nil before.
	copied   map[parley.OrgID]organization
	restores int
	// destroyed are all keys that ever were.
	destroyed []Key
	// unsynced are all changes that ever were made without syncing, as the log of a node has them.
	unsynced [][]byte
}

func drawOrg(t *rapid.T) parley.OrgID {
	return orgIn([]byte{0, 1, 0xff}[rapid.IntRange(0, 2).Draw(t, "shard")], rapid.IntRange(0, 4).Draw(t, "organization"))
}

func (m *model) create(t *rapid.T) {
	org := drawOrg(t)
	key, err := m.k.Create(org)
	switch was := m.orgs[org]; {
	case was.state == Erased:
		if !errors.Is(err, ErrErased) {
			t.Fatalf("a key for an erased organization: %v", err)
		}
	case err != nil || was.state == Live && key != was.key:
		t.Fatalf("another key, or %v", err)
	default:
		m.orgs[org] = organization{state: Live, key: key}
	}
}

// carry makes keys without syncing them, which readers see at once.
func (m *model) carry(t *rapid.T) {
	var some [][]byte
	for range rapid.IntRange(1, 3).Draw(t, "keys") {
		org := drawOrg(t)
		change, err := m.k.Creation(org)
		if err != nil {
			t.Fatal(err)
		}
		some = append(some, change)
		if m.orgs[org].state == Unknown {
			c, err := m.k.wrapper.decodeChange(change)
			if err != nil {
				t.Fatal(err)
			}
			m.orgs[org] = organization{state: Live, key: c.key}
		}
	}
	if err := m.k.CarryUnsynced(some); err != nil {
		t.Fatal(err)
	}
	m.unsynced = append(m.unsynced, some...)
}

func (m *model) destroy(t *rapid.T) {
	org, at := drawOrg(t), time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(t, "at")).UTC()
	if err := m.k.Destroy(org, at); err != nil {
		t.Fatal(err)
	}
	was := m.orgs[org]
	if was.state == Live {
		m.destroyed = append(m.destroyed, was.key)
	}
	if was.state != Erased {
		m.orgs[org] = organization{state: Erased, at: at}
	}
}

func (m *model) reopen(t *rapid.T) {
	k, err := Open(m.fs, testDir, testWrapping, Options{Witnessed: m.k.State()})
	if err != nil {
		t.Fatal(err)
	}
	m.k = k
	if err := k.CarryUnsynced(m.unsynced); err != nil { // those that were not synced are lost
		t.Fatal(err)
	}
}

// damage spoils one copy of a shard, then opens the keyring again.
func (m *model) damage(t *rapid.T) {
	path := testDir + "/" + fileName([]byte{0, 1, 0xff, 9}[rapid.IntRange(0, 3).Draw(t, "shard")], rapid.IntRange(0, 1).Draw(t, "copy"))
	err := m.fs.Remove(path)
	if err == nil && rapid.Bool().Draw(t, "present") {
		err = writeFile(m.fs, path, rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "content"))
	}
	if err != nil {
		t.Fatal(err)
	}
	m.reopen(t)
	if len(m.k.Repaired()) != 1 {
		t.Fatalf("repaired: %+v", m.k.Repaired())
	}
}

func (m *model) backup(t *rapid.T) {
	if err := m.k.CopyTo(m.fs, backupDir); err != nil {
		t.Fatal(err)
	}
	m.copied = maps.Clone(m.orgs)
	files := contentsOf(m.t, readFiles(m.t, m.fs, backupDir))
	for _, key := range m.destroyed {
		if name := files.reveal(key); name != "" {
			t.Fatalf("the backup's %s holds a destroyed key", name)
		}
	}
}

func (m *model) restore(t *rapid.T) {
	if m.copied == nil {
		return
	}
	m.restores++
	to := fmt.Sprint("restored", m.restores)
	state, err := Restore(m.fs, backupDir, to)
	if err != nil {
		t.Fatal(err)
	}
	k, err := Open(m.fs, to, testWrapping, Options{Witnessed: state})
	if err != nil {
		t.Fatal(err)
	}
	m.compare(t, k, m.copied)
}

// compare compares a keyring with a model.
func (m *model) compare(t *rapid.T, k *Keyring, orgs map[parley.OrgID]organization) {
	for _, shard := range []byte{0, 1, 0xff} {
		for i := range 5 {
			org := orgIn(shard, i)
			key, state := k.Key(org)
			at, _ := k.ErasedAt(org)
			if want := orgs[org]; key != want.key || state != want.state || !at.Equal(want.at) {
				t.Fatalf("organization %v is in state %d (%v), want %d (%v)", org, state, at, want.state, want.at)
			}
		}
	}
	if k.ServerKey() != m.server {
		t.Fatal("another server key")
	}
}

// check compares the open keyring with the model.
func (m *model) check(t *rapid.T) { m.compare(t, m.k, m.orgs) }

// verify counts what the files hold once they are synced, and looks for destroyed keys.
func (m *model) verify(t *rapid.T) {
	if err := m.k.Sync(); err != nil {
		t.Fatal(err)
	}
	live, erased := 0, 0
	for _, o := range m.orgs {
		if o.state == Live {
			live++
		} else {
			erased++
		}
	}
	report, err := Verify(m.fs, testDir, testWrapping)
	if err != nil || report.Live != live || report.Erased != erased || len(report.Findings) != 0 || report.State != m.k.State() {
		t.Fatalf("verified: %+v, %v", report, err)
	}
	files := contentsOf(m.t, readFiles(m.t, m.fs, testDir))
	for _, key := range m.destroyed {
		if name := files.reveal(key); name != "" {
			t.Fatalf("%s holds a destroyed key", name)
		}
	}
}

// TestMain sets how many runs of random commands TestModel makes by default.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
	m.Run()
}

// TestModel runs random commands against a keyring and a map, as often as -rapid.checks
// says.
func TestModel(t *testing.T) {
	unraced(t)
	t.Parallel()
	fsys := vfs.NewMem()
	if err := Make(fsys, testDir, testWrapping, randomOf(1)); err != nil {
		t.Fatal(err)
	}
	files := readFiles(t, fsys, testDir)
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{t: t, fs: fsWith(t, files), orgs: map[parley.OrgID]organization{}}
		k, err := Open(m.fs, testDir, testWrapping, Options{Random: randomOf(2)})
		if err != nil {
			rt.Fatal(err)
		}
		m.k, m.server = k, k.ServerKey()
		rt.Repeat(map[string]func(*rapid.T){
			"create": m.create, "create more": m.create, "destroy": m.destroy, "destroy more": m.destroy, "carry": m.carry, "reopen": m.reopen,
			"damage": m.damage, "backup": m.backup, "restore": m.restore, "verify": m.verify, "": m.check,
		})
	})
}

// TestRandom: keys come from the source that is passed in, and one that fails, or returns
// zeros, makes no key.
func TestRandom(t *testing.T) {
	fsys := vfs.NewMem()
	for _, random := range []*bytes.Reader{bytes.NewReader(nil), bytes.NewReader(make([]byte, 1000))} {
		if err := Make(fsys, testDir, testWrapping, random); err == nil {
			t.Error("a keyring was made without random bytes")
		}
	}
	mustMake(t, fsys, testDir)
	want := Key(bytes.Repeat([]byte{5}, KeyBytes))
	k, err := Open(fsys, testDir, testWrapping, Options{Random: bytes.NewReader(append(want[:], make([]byte, KeyBytes)...))})
	if err != nil {
		t.Fatal(err)
	}
	if key := mustCreate(t, k, orgIn(1, 1)); key != want {
		t.Error("the key is not what the source returned")
	}
	for range 2 {
		if _, err := k.Create(orgIn(1, 2)); err == nil {
			t.Error("a key was made without random bytes")
		}
	}
	k.random = randomOf(1)
	mustCreate(t, k, orgIn(1, 2))
}
