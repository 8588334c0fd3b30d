package persistence

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"parley/persistence/backup"
	"parley/persistence/keyring"
)

// imageRecorder records an image of the disk before every change of a backup directory.
type imageRecorder struct {
	disk   *vfs.MemFS
	rng    *rand.Rand
	mu     sync.Mutex
	on     bool
	images []*vfs.MemFS
	ops    []string
}

func (b *imageRecorder) MaybeError(op errorfs.Op) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.on || op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	for _, kept := range []int{0, 50} {
		b.images = append(b.images, b.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: b.rng}))
		b.ops = append(b.ops, fmt.Sprintf("%d of %s, %d%% kept", op.Kind, op.Path, kept))
	}
	return nil
}

func (b *imageRecorder) String() string { return "imageRecorder" }

// serializedFS serializes three calls of the disk in memory with the recording of
// images: they take the lock against clones twice, and deadlock if an image is
// recorded in between.
type serializedFS struct {
	*vfs.MemFS
	recorder *imageRecorder
}

func (d serializedFS) Link(oldname, newname string) error {
	d.recorder.mu.Lock()
	defer d.recorder.mu.Unlock()
	return d.MemFS.Link(oldname, newname)
}

func (d serializedFS) Lock(name string) (io.Closer, error) {
	d.recorder.mu.Lock()
	defer d.recorder.mu.Unlock()
	return d.MemFS.Lock(name)
}

func (d serializedFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	d.recorder.mu.Lock()
	defer d.recorder.mu.Unlock()
	return d.MemFS.ReuseForWrite(oldname, newname, category)
}

// unsyncedFS does not sync the files of a backup directory.
type unsyncedFS struct{ vfs.FS }

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error                    { return nil }
func (unsyncedFile) SyncData() error                { return nil }
func (unsyncedFile) SyncTo(int64) (bool, error)     { return true, nil }
func (f unsyncedFile) Preallocate(_, _ int64) error { return nil }

func (c unsyncedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := c.FS.Create(name, category)
	if err == nil && strings.HasPrefix(name, "backup/files/") {
		return unsyncedFile{f}, nil
	}
	return f, err
}

// backupCrashes simulates a power failure at every change of the disk during a second
// backup, which also prunes, and returns the faults of the images.
func backupCrashes(t *testing.T, around func(vfs.FS) vfs.FS) (images int, faults []string) {
	b := &imageRecorder{disk: vfs.NewCrashableMem(), rng: rand.New(rand.NewPCG(1, 2))}
	fs := around(errorfs.Wrap(serializedFS{b.disk, b}, b))
	s, c := filled(t, fs, 200)
	k := keyringIn(t, fs, s)
	mustHaveKey(t, k, 1)
	kept := mustHaveKey(t, k, 2)
	first := mustBackup(t, s, backup.Options{To: "backup", Keyring: k})
	for range 100 {
		c.write(t, s)
	}
	later := mustHaveKey(t, k, 3)
	if err := k.Destroy(orgOf(1), testStart); err != nil {
		t.Fatal(err)
	}
	b.on = true
	second := mustBackup(t, s, backup.Options{To: "backup", Keep: 1, Keyring: k})
	b.mu.Lock()
	b.on = false
	b.mu.Unlock()
	mustClose(t, s)
	promised := map[string]uint64{first.ID: 200, second.ID: 300}
	for i, image := range b.images {
		complain := func(format string, args ...any) {
			faults = append(faults, b.ops[i]+": "+fmt.Sprintf(format, args...))
		}
		left, err := backup.List(image, "backup")
		if err != nil || len(left) == 0 {
			complain("%d snapshots (%v)", len(left), err)
		}
		for _, snapshot := range left {
			to := "r" + snapshot.ID
			if _, err := backup.Restore(context.Background(), backup.RestoreOptions{FS: image, From: "backup", Snapshot: snapshot.ID, To: to}); err != nil {
				complain("listed, and yet %v", err)
				continue
			}
			again, k := openRestored(t, image, to)
			if found, _ := k.Key(orgOf(2)); found != kept {
				complain("a key is missing")
			}
			found, _ := k.Key(orgOf(3))
			if _, state := k.Key(orgOf(1)); snapshot.ID == second.ID && (found != later || state != keyring.Erased) {
				complain("a destroyed key is %v, and a later one may be missing", state)
			}
			if n := c.found(t, again); n != promised[snapshot.ID] {
				complain("%d rows, want %d", n, promised[snapshot.ID])
			}
			mustClose(t, again)
		}
		own := mustOpen(t, "data/journal", testOptions(image, 0))
		if n := c.found(t, own); n != 300 {
			complain("the store itself has %d rows", n)
		}
		mustClose(t, own)
		if names := strings.Join(files(t, image, "data/journal"), " "); strings.Contains(names, checkpointPrefix) {
			complain("something stays laid aside: %s", names)
		}
	}
	if ops := strings.Join(b.ops, "\n"); !strings.Contains(ops, "backup/keyrings/") {
		t.Error("no image was taken at a change of the keyring")
	}
	return len(b.images), faults
}

// TestBackupCrash: after a power failure at any time, every listed snapshot is complete,
// at least one is listed, and the store opens without leftovers.
func TestBackupCrash(t *testing.T) {
	unraced(t)
	images, faults := backupCrashes(t, func(fs vfs.FS) vfs.FS { return fs })
	t.Logf("%d images", images)
	if images < 100 {
		t.Errorf("only %d images", images)
	}
	for _, f := range faults[:min(len(faults), 10)] {
		t.Error(f)
	}
}

// TestBackupCrashControl does not sync copies: the checks must notice.
func TestBackupCrashControl(t *testing.T) {
	unraced(t)
	images, faults := backupCrashes(t, func(fs vfs.FS) vfs.FS { return unsyncedFS{fs} })
	if len(faults) == 0 {
		t.Errorf("copies are not synced, and none of %d images shows it", images)
	}
}
