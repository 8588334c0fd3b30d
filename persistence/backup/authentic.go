package backup

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/disk"
)

// restoredIndex is the file of a restored data directory that has the index of its snapshot, until
// the index was checked with the master key. A restore needs no key, so it cannot tell whether
// somebody who can write to the backup directory has replaced files and their hashes.
const restoredIndex = "restored.index"

// ErrForged is returned if the index of the snapshot that was restored was not written with this
// master key.
var ErrForged = errors.New("the index of the backup that was restored was not written with this master key")

// mac is the authenticator of an index, in hexadecimal digits.
func mac(key, body []byte) string {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write(body) // never fails
	return hex.EncodeToString(h.Sum(nil))
}

// CheckRestored checks with which key the snapshot was written that a data directory was restored
// from. key is the one of Options.IndexKey. Once that is known to be so it returns nil, and it does
// so for directories that were not restored. A nil fsys is the operating system's.
func CheckRestored(fsys vfs.FS, data string, key func() ([]byte, error)) error {
	fsys = orDefault(fsys)
	path := fsys.PathJoin(data, restoredIndex)
	text, err := readFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	s, err := decodeSnapshot(text)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrForged, path, err)
	}
	secret, err := key()
	if err != nil {
		return err
	}
	if !hmac.Equal([]byte(s.mac), []byte(mac(secret, s.body()))) {
		return fmt.Errorf("%w (snapshot %s): restore another one, or remove %s if you know that nobody else could write to the backup directory", ErrForged, s.ID, path)
	}
	return errors.Join(fsys.Remove(path), disk.SyncDirectory(fsys, data))
}
