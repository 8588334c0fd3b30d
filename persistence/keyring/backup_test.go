package keyring

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"parley/persistence/disk"
)

const backupDir = "b/keyring"

func mustCopy(t testing.TB, k *Keyring, fsys vfs.FS) {
	t.Helper()
	if err := k.CopyTo(fsys, backupDir); err != nil {
		t.Fatal(err)
	}
}

// restored returns the keyring that a backup restores to.
func restored(t testing.TB, fsys vfs.FS, to string) *Keyring {
	t.Helper()
	state, err := Restore(fsys, backupDir, to)
	if err != nil {
		t.Fatal(err)
	}
	k, err := Open(fsys, to, testWrapping, Options{Witnessed: state})
	if err != nil || k.State() != state || len(k.Repaired()) != 0 {
		t.Fatalf("restored: %v, %v", k, err)
	}
	return k
}

func TestBackup(t *testing.T) {
	fsys := vfs.NewMem()
	mustMake(t, fsys, testDir)
	k := mustOpen(t, fsys, testDir)
	a, b := orgIn(1, 1), orgIn(2, 1)
	key := mustCreate(t, k, a)
	kept := mustCreate(t, k, b)
	mustCopy(t, k, fsys)
	if k := restored(t, fsys, "r1"); k.ServerKey() != mustOpen(t, fsys, testDir).ServerKey() {
		t.Error("another server key was restored")
	}
	if revealed(t, readFiles(t, fsys, backupDir), key) == "" {
		t.Error("control: the backup does not hold the key")
	}
	before := readFiles(t, fsys, backupDir)
	mustDestroy(t, k, a, testStart)
	mustCopy(t, k, fsys)
	after := readFiles(t, fsys, backupDir)
	if name := revealed(t, after, key); name != "" {
		t.Errorf("after the next backup, %s holds the destroyed key", name)
	}
	changed := 0
	for name := range after {
		if !bytes.Equal(before[name], after[name]) {
			changed++
		}
	}
	if changed != 2 || len(after) != 2*Shards {
		t.Errorf("one key was destroyed, and %d of %d files written", changed, len(after))
	}
	if err := writeFile(fsys, backupDir+"/01.b"+unfinished, before["01.b"]); err != nil {
		t.Fatal(err)
	}
	mustCopy(t, k, fsys) // no shard has changed
	if name := revealed(t, readFiles(t, fsys, backupDir), key); name != "" {
		t.Errorf("after the next backup, %s, which a crash left, holds the destroyed key", name)
	}
	r := restored(t, fsys, "r2")
	if found, state := r.Key(b); found != kept || state != Live {
		t.Error("a key was not restored")
	}
	if at, erased := r.ErasedAt(a); !erased || !at.Equal(testStart) {
		t.Error("a tombstone was not restored")
	}
	if _, err := Restore(fsys, backupDir, "r2"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("restored over another one: %v", err)
	}
}

// TestBackupRefusals: a backup of another keyring, or one that has more than this one, is
// left as it is.
func TestBackupRefusals(t *testing.T) {
	fsys := vfs.NewMem()
	mustMake(t, fsys, testDir)
	k := mustOpen(t, fsys, testDir)
	mustCreate(t, k, orgIn(1, 1))
	mustCopy(t, k, fsys)
	twin := restored(t, fsys, "twin")
	mustMake(t, fsys, "other")
	refused := func(what string, k *Keyring, want error) {
		t.Helper()
		before := readFiles(t, fsys, backupDir)
		if err := k.CopyTo(fsys, backupDir); !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
		if !maps.EqualFunc(before, readFiles(t, fsys, backupDir), bytes.Equal) {
			t.Errorf("%s: the backup was changed", what)
		}
	}
	refused("another keyring", mustOpen(t, fsys, "other"), ErrForeign)
	foreign, own := readFiles(t, fsys, "other")["3f.b"], readFiles(t, fsys, backupDir)["3f.b"]
	for _, b := range [][]byte{foreign, own} {
		if err := writeFile(fsys, backupDir+"/3f.b", b); err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(b, foreign) {
			refused("a file of another keyring", k, ErrForeign)
		}
	}
	mustCreate(t, k, orgIn(9, 1))
	mustCopy(t, k, fsys)
	refused("an older state", twin, ErrDiverged)
	mustCreate(t, twin, orgIn(9, 2))
	refused("another state of one generation", twin, ErrDiverged)
	mustCreate(t, twin, orgIn(9, 3))
	mustCreate(t, k, orgIn(8, 1))
	mustCopy(t, k, fsys)
	refused("newer here and older there", twin, ErrDiverged)
	other := mustOpen(t, fsys, testDir)
	other.wrapper.key[0]++
	refused("another wrapping key", other, ErrWrappingKey)
}

// TestBackupRot: damaged files of a backup are replaced by the next one, and restored
// from the other copy until then. A shard without a sound copy is not restored.
func TestBackupRot(t *testing.T) {
	fsys := vfs.NewMem()
	mustMake(t, fsys, testDir)
	k := mustOpen(t, fsys, testDir)
	key := mustCreate(t, k, orgIn(0x3f, 1))
	mustCopy(t, k, fsys)
	sound := readFiles(t, fsys, backupDir)
	for what, b := range map[string][]byte{"3f.a": nil, "3f.b": flipped(sound["3f.b"], 100)} {
		rotten := fsys
		remove := func(name string) {
			t.Helper()
			if err := rotten.Remove(backupDir + "/" + name); err != nil {
				t.Fatal(err)
			}
		}
		put := func(name string, b []byte) {
			t.Helper()
			if err := writeFile(rotten, backupDir+"/"+name, b); err != nil {
				t.Fatal(err)
			}
		}
		if remove(what); b != nil {
			put(what, b)
		}
		r := restored(t, fsys, "one "+what)
		if found, _ := r.Key(orgIn(0x3f, 1)); found != key {
			t.Errorf("%s: the key was not restored", what)
		}
		put("3f.a", []byte("x"))
		put("3f.b", []byte("y"))
		if _, err := Restore(fsys, backupDir, "none "+what); !errors.Is(err, disk.ErrDamaged) || !strings.Contains(err.Error(), "shard 3f ") {
			t.Errorf("%s: a lost shard is restored with %v", what, err)
		}
		if _, err := fsys.Stat("none " + what); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: something was restored", what)
		}
		mustCopy(t, k, fsys)
		if report, err := Verify(fsys, backupDir, testWrapping); err != nil || len(report.Findings) != 0 || report.Live != 1 {
			t.Errorf("%s: after the next backup: %+v, %v", what, report, err)
		}
	}
	for name := range sound {
		if err := fsys.Remove(backupDir + "/" + name); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.CopyTo(fsys, backupDir); !errors.Is(err, disk.ErrDamaged) {
		t.Errorf("into an empty directory: %v", err)
	}
}

// backupCrash is a backup that is written over an older one. In between, a key was
// destroyed and one made in each of some shards.
type backupCrash struct {
	t         *testing.T
	k         *Keyring
	old       map[string][]byte
	destroyed map[Key]bool
}

const backupCrashShards = 3

func newBackupCrash(t *testing.T) *backupCrash {
	x := &backupCrash{t: t, destroyed: map[Key]bool{}}
	fsys := vfs.NewMem()
	mustMake(t, fsys, testDir)
	x.k = mustOpen(t, fsys, testDir)
	for shard := range byte(backupCrashShards) {
		x.destroyed[mustCreate(t, x.k, orgIn(shard, 1))] = true
		mustCreate(t, x.k, orgIn(shard, 2))
		for i := range 100 {
			mustCreate(t, x.k, orgIn(shard, 10+i))
		}
	}
	mustCopy(t, x.k, fsys)
	x.old = readFiles(t, fsys, backupDir)
	for shard := range byte(backupCrashShards) {
		mustDestroy(t, x.k, orgIn(shard, 1), testStart)
		mustCreate(t, x.k, orgIn(shard, 3))
	}
	return x
}

// check restores what a power failure left of the backup: every shard is the old or the
// new one. The next backup completes it, and no destroyed key is left in it.
func (x *backupCrash) check(what string, fsys *vfs.MemFS, completed bool) (faults []string) {
	state, err := Restore(fsys, backupDir, "r")
	if err != nil {
		return []string{what + ": lost: " + err.Error()}
	}
	r, err := Open(fsys, "r", testWrapping, Options{Witnessed: state})
	if err != nil {
		return []string{what + ": lost: " + err.Error()}
	}
	for shard := range byte(backupCrashShards) {
		first, _ := r.Key(orgIn(shard, 1))
		second, kept := r.Key(orgIn(shard, 2))
		third, added := r.Key(orgIn(shard, 3))
		wasSecond, _ := x.k.Key(orgIn(shard, 2))
		wasThird, _ := x.k.Key(orgIn(shard, 3))
		_, erased := r.ErasedAt(orgIn(shard, 1))
		old := x.destroyed[first] && added == Unknown
		current := erased && added == Live && third == wasThird
		if kept != Live || second != wasSecond || !current && (completed || !old) {
			faults = append(faults, what+": lost: a shard is neither old nor new")
		}
	}
	if err := x.k.CopyTo(fsys, backupDir); err != nil {
		return append(faults, what+": the next backup: "+err.Error())
	}
	files := contentsOf(x.t, readFiles(x.t, fsys, backupDir))
	for key := range x.destroyed {
		if name := files.reveal(key); name != "" || len(files) != 2*Shards {
			faults = append(faults, what+": revealed: after the next backup, "+name+" holds a destroyed key")
		}
	}
	return faults
}

// disk returns a disk with the old backup, all of it durable.
func (x *backupCrash) disk() *vfs.MemFS {
	x.t.Helper()
	mem := fsWith(x.t, x.old)
	if err := disk.MakeDirectory(mem, "b"); err != nil {
		x.t.Fatal(err)
	}
	if err := mem.Rename(testDir, backupDir); err != nil {
		x.t.Fatal(err)
	}
	for _, dir := range []string{"d", "b"} {
		if err := disk.SyncDirectory(mem, dir); err != nil {
			x.t.Fatal(err)
		}
	}
	return mem
}

// TestBackupCrash has the disk fail, and the power after it, at the operations of a
// backup over an older one, in particular at all that write.
func TestBackupCrash(t *testing.T) {
	unraced(t)
	t.Parallel()
	x := newBackupCrash(t)
	count := &faulty{}
	mustCopy(t, x.k, errorfs.Wrap(x.disk(), count))
	all, tried := count.seen.Load(), 0
	step := int64(3)
	if *exhaustive {
		step = 1
	}
	for at := all - 80; at <= all+1; at += step {
		for _, forever := range []bool{false, true} {
			mem, d := x.disk(), &faulty{at: at, forever: forever, err: syscall.ENOSPC}
			err := x.k.CopyTo(errorfs.Wrap(mem, d), backupDir)
			if !errors.Is(err, syscall.ENOSPC) && forever && at <= all {
				t.Errorf("%v: %v", d, err)
			}
			for _, kept := range powerLosses {
				tried++
				for _, f := range x.check(d.String(), afterPowerLoss(mem, kept), err == nil) {
					t.Error(f)
				}
			}
		}
	}
	t.Logf("%d images of %d operations", tried, all)
}

// TestBackupCrashControls: with files or the directory unsynced, the checks notice.
func TestBackupCrashControls(t *testing.T) {
	x := newBackupCrash(t)
	for name, breaks := range map[string]func(vfs.FS) vfs.FS{
		"the directory is not synced": func(d vfs.FS) vfs.FS { return noDirectorySyncs{d} },
		"files are not synced":        func(d vfs.FS) vfs.FS { return noFileSyncs{d} },
	} {
		mem := x.disk()
		mustCopy(t, x.k, breaks(mem))
		faults := []string{}
		for _, kept := range []int{0, 30, 50, 70} {
			faults = append(faults, x.check(name, afterPowerLoss(mem, kept), true)...)
		}
		if !strings.Contains(strings.Join(faults, "\n"), "lost: ") {
			t.Errorf("%s: nothing was noticed", name)
		}
	}
	mem := x.disk()
	mustCopy(t, x.k, noSecondCopies{mem})
	if found := contentsOf(t, readFiles(t, mem, backupDir)); func() bool {
		for key := range x.destroyed {
			if found.reveal(key) != "" {
				return false
			}
		}
		return true
	}() {
		t.Error("second copies are not written, and no destroyed key is found")
	}
}

// TestRestoreIsAtomic: a restore makes all of the directory or none.
func TestRestoreIsAtomic(t *testing.T) {
	unraced(t)
	x := newBackupCrash(t)
	count := &faulty{}
	if _, err := Restore(errorfs.Wrap(x.disk(), count), backupDir, "r"); err != nil {
		t.Fatal(err)
	}
	all := count.seen.Load()
	for at := int64(1); at <= all; at++ {
		if at < all-12 && at%211 != 0 {
			continue
		}
		mem, d := x.disk(), &faulty{at: at, forever: true, err: syscall.ENOSPC}
		if _, err := Restore(errorfs.Wrap(mem, d), backupDir, "r"); err == nil {
			t.Errorf("%v: restored", d)
		}
		for _, kept := range powerLosses {
			left := afterPowerLoss(mem, kept)
			if _, err := left.Stat("r"); errors.Is(err, fs.ErrNotExist) {
				restored(t, left, "r")
			} else {
				mustOpen(t, left, "r")
			}
		}
	}
}
