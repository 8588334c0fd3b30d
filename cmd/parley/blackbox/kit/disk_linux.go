package kit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// SmallDisk is a small file system that a test can fill.
type SmallDisk struct {
	t   testing.TB
	Dir string
}

// MountDisk mounts a disk of the given size in memory. Without the permission to mount,
// it prints a prominent notice; in CI it fails.
func MountDisk(t testing.TB, mebibytes int) *SmallDisk {
	t.Helper()
	OneServerOnly(t, "its disk is too small for three")
	d := &SmallDisk{t: t, Dir: t.TempDir()}
	err := syscall.Mount("tmpfs", d.Dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mebibytes))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		const left = "!! NOT CHECKED: a full disk: mounting one needs root"
		if os.Getenv("CI") == "true" {
			t.Fatal(left)
		}
		t.Skip(left)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(d.Dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return d
}

// Free returns the free bytes.
func (d *SmallDisk) Free() int64 {
	d.t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(d.Dir, &s); err != nil {
		d.t.Fatal(err)
	}
	return int64(s.Bavail) * s.Bsize
}

// Ballast fills n bytes of the disk, or all free space if n is negative.
func (d *SmallDisk) Ballast(name string, n int64) {
	d.t.Helper()
	f, err := os.Create(filepath.Join(d.Dir, name))
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	// Write in ever smaller pieces, because the server writes at the same time.
	for piece := int64(1 << 16); n != 0 && piece > 0; {
		size := piece
		if n > 0 {
			size = min(size, n)
		}
		wrote, err := f.Write(make([]byte, size))
		if n > 0 {
			n -= int64(wrote)
		}
		if err != nil {
			piece /= 2
		}
	}
}

// Drop removes a file.
func (d *SmallDisk) Drop(name string) {
	d.t.Helper()
	if err := os.Remove(filepath.Join(d.Dir, name)); err != nil {
		d.t.Error(err)
	}
}

// Below fills the disk until left bytes are free, which is less than the server's
// reserve.
func (d *SmallDisk) Below(left int64) { d.Ballast("below", d.Free()-left) }
