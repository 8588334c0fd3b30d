package keyring

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/disk"
)

// Shards is the number of shards of every keyring.
const Shards = disk.KeyringShards

// copies are the suffixes of the two files of a shard. The first is always written
// first.
var copies = [2]string{".a", ".b"}

// unfinished is the suffix of files that are being written, and of a directory that is
// being made.
const unfinished = ".tmp"

// fileName returns the name of one copy of a shard, such as 3f.a.
func fileName(shard byte, copied int) string { return fmt.Sprintf("%02x", shard) + copies[copied] }

// fileNames are the names of all files of a keyring.
var fileNames = func() map[string]bool {
	names := map[string]bool{}
	for shard := range Shards {
		names[fileName(byte(shard), 0)], names[fileName(byte(shard), 1)] = true, true
	}
	return names
}()

// isUnfinished reports whether a file of this name is one that a crash left.
func isUnfinished(name string) bool {
	whole, cut := strings.CutSuffix(name, unfinished)
	return cut && fileNames[whole]
}

// writeFile creates a file and syncs it. It leaves nothing behind when it fails, if the
// file system permits.
func writeFile(fsys vfs.FS, path string, content []byte) error {
	f, err := fsys.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(bytes.Clone(content)) // a file system may change the bytes passed to it
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = fsys.Remove(path) // the next writer of this file, or the next opening, removes it otherwise
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// replaceFile replaces a file atomically. That is durable once the directory is synced.
func replaceFile(fsys vfs.FS, dir, name string, content []byte) error {
	path := fsys.PathJoin(dir, name)
	if err := writeFile(fsys, path+unfinished, content); err != nil {
		return err
	}
	if err := fsys.Rename(path+unfinished, path); err != nil {
		_ = fsys.Remove(path + unfinished)
		return err
	}
	return nil
}

// replaceShard writes both copies of a shard. The first is durable before the second is
// touched, so one of them is sound at every instant.
func replaceShard(fsys vfs.FS, dir string, shard byte, content []byte) error {
	for i := range copies {
		if err := replaceFile(fsys, dir, fileName(shard, i), content); err != nil {
			return err
		}
		if err := disk.SyncDirectory(fsys, dir); err != nil {
			return err
		}
	}
	return nil
}

// replaceShards is replaceShard for many shards: all first copies are durable before any
// second one is touched.
func replaceShards(fsys vfs.FS, dir string, content map[byte][]byte) error {
	if len(content) == 0 {
		return nil
	}
	for i := range copies {
		for shard, b := range content {
			if err := replaceFile(fsys, dir, fileName(shard, i), b); err != nil {
				return err
			}
		}
		if err := disk.SyncDirectory(fsys, dir); err != nil {
			return err
		}
	}
	return nil
}

// removeUnfinished removes the files that a crash left, and what it left of a directory
// that was being made, and makes durable what was renamed before it.
func removeUnfinished(fsys vfs.FS, dir string, names []string) error {
	if hasUnfinished(fsys, dir) {
		if err := fsys.RemoveAll(beside(fsys, dir)); err != nil {
			return err
		}
		if err := disk.SyncDirectory(fsys, fsys.PathDir(beside(fsys, dir))); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := fsys.Remove(fsys.PathJoin(dir, name)); err != nil {
			return err
		}
	}
	return disk.SyncDirectory(fsys, dir)
}

// hasUnfinished reports whether a directory that was being made is beside dir.
func hasUnfinished(fsys vfs.FS, dir string) bool {
	_, err := fsys.Stat(beside(fsys, dir))
	return !errors.Is(err, fs.ErrNotExist)
}

// beside returns the name of a directory until it is complete.
func beside(fsys vfs.FS, dir string) string { return fsys.PathJoin(dir) + unfinished }

// writeDirectory makes a keyring's directory with all files, or nothing. The error wraps
// fs.ErrExist if there is one.
func writeDirectory(fsys vfs.FS, dir string, content func(shard byte) ([]byte, error)) error {
	if _, err := fsys.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fs.ErrExist
		}
		return fmt.Errorf("the keyring %s: %w", dir, err)
	}
	aside := beside(fsys, dir)
	if err := fsys.RemoveAll(aside); err != nil {
		return err
	}
	if err := disk.MakeDirectory(fsys, aside); err != nil {
		return err
	}
	if err := writeShards(fsys, aside, content); err != nil {
		return err
	}
	if err := disk.SyncDirectory(fsys, aside); err != nil {
		return err
	}
	if err := fsys.Rename(aside, dir); err != nil {
		return err
	}
	return disk.SyncDirectory(fsys, fsys.PathDir(aside))
}

// writers is how many files writeShards writes at a time: a file system that keeps a log
// makes many small files durable with one write of it.
const writers = 16

// writeShards writes all files of a new directory.
func writeShards(fsys vfs.FS, dir string, content func(shard byte) ([]byte, error)) error {
	var next, failed atomic.Int64
	var running sync.WaitGroup
	errs := make([]error, writers)
	for i := range errs {
		running.Go(func() {
			for errs[i] == nil && failed.Load() == 0 {
				shard := next.Add(1) - 1
				if shard >= Shards {
					return
				}
				var b []byte
				b, errs[i] = content(byte(shard))
				for copied := range copies {
					if errs[i] == nil {
						errs[i] = writeFile(fsys, fsys.PathJoin(dir, fileName(byte(shard), copied)), b)
					}
				}
			}
			if errs[i] != nil {
				failed.Add(1)
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}
