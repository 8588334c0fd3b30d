package sealed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/persistence/disk"
	"parley/persistence/seal"
)

// File is a file beside the store whose blocks are sealed under the keys of the
// organizations that they belong to. Everything in it can be derived from the store: it is
// replaced as a whole, and a caller that finds it missing or damaged does without.
type File struct {
	fs     vfs.FS
	path   string
	sealer *seal.Sealer
	mu     sync.Mutex // held by Replace
}

// unfinished is the suffix of a file that is being written.
const unfinished = ".tmp"

// fileFamily is the family of blocks of files.
const fileFamily = 'F'

// NewFile returns the file at a path, which need not exist. A nil fsys is the operating
// system's.
func NewFile(fsys vfs.FS, path string, s *seal.Sealer) *File {
	if fsys == nil {
		fsys = vfs.Default
	}
	return &File{fs: fsys, path: path, sealer: s}
}

// Open opens the file for reading. The error wraps fs.ErrNotExist if there is none.
func (f *File) Open() (io.ReadCloser, error) {
	return f.fs.Open(f.path, vfs.SequentialReadsOption)
}

// Replace puts what write writes in the place of the file. A crash leaves either the one
// or the other, and an error the former.
func (f *File) Replace(write func(io.Writer) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := f.fs.Create(f.path+unfinished, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if err = write(file); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = f.fs.Rename(f.path+unfinished, f.path)
	}
	if err != nil {
		if removed := f.fs.Remove(f.path + unfinished); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
		return fmt.Errorf("%s: %w", f.path, err)
	}
	return disk.SyncDirectory(f.fs, f.fs.PathDir(f.path))
}

// Seal encrypts a block under an organization's key. It returns nil and no error if the
// organization was erased.
func (f *File) Seal(org parley.OrgID, block int, plain []byte) ([]byte, error) {
	content, err := f.sealer.AppendSealed(nil, plain, seal.Single(org), fileFamily, blockIdentity(block))
	return unlessErased(content, err)
}

// Unseal decrypts what Seal returned for a block. It returns nil and no error if the
// organization was erased.
func (f *File) Unseal(org parley.OrgID, block int, content []byte) ([]byte, error) {
	if owners, err := seal.OwnersOf(content); err != nil || owners != seal.Single(org) {
		return nil, fmt.Errorf("%w: a block of another organization", ErrDamaged)
	}
	plain, err := f.sealer.AppendOpened(nil, content, fileFamily, blockIdentity(block))
	return unlessErased(plain, err)
}

func blockIdentity(block int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(block)) }

func unlessErased(b []byte, err error) ([]byte, error) {
	if errors.Is(err, seal.ErrErased) {
		return nil, nil
	}
	return b, err
}
