package datadir

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"parley/cmd/parley/program"
)

// adminTokenFile holds the token that operator calls need. Backups do not contain it; the
// next start creates a new one.
const adminTokenFile = "admin.token"

// adminTokenVariable holds the token for commands that cannot read the file. The
// server does not read it.
const adminTokenVariable = "PARLEY_ADMIN_TOKEN"

const (
	// adminTokenBytes is the number of random bytes in a token that the server makes.
	adminTokenBytes = 32
	// adminTokenLeast is the minimum length, in characters, of a token that somebody else
	// has written to the file: an empty file must not open the listener.
	adminTokenLeast = 32
	adminTokenMost  = 4096
)

// AdminToken is the SHA-256 hash of the token that operator calls need.
type AdminToken [sha256.Size]byte

// Matches reports whether a presented token is this one. It takes the same time for
// every token of the same length.
func (t AdminToken) Matches(presented []byte) bool {
	hash := sha256.Sum256(presented)
	return subtle.ConstantTimeCompare(hash[:], t[:]) == 1
}

// MakeAdminToken reads the token of a data directory, and makes one if there is none.
func MakeAdminToken(data string) (AdminToken, error) {
	path := filepath.Join(data, adminTokenFile)
	text, err := readAdminToken(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = writeAdminToken(path); err == nil {
			text, err = readAdminToken(path)
		}
	}
	return AdminToken(sha256.Sum256([]byte(text))), err
}

// writeAdminToken writes a new token. The file appears under its name either complete or
// not at all.
func writeAdminToken(path string) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), adminTokenFile+".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // fails harmlessly after the rename
	random := make([]byte, adminTokenBytes)
	_, _ = rand.Read(random) // never fails since Go 1.24
	_, err = fmt.Fprintln(temporary, base64.RawURLEncoding.EncodeToString(random))
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}

// readAdminToken reads a token's file, which must be readable by its owner only.
func readAdminToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	if mode := info.Mode().Perm(); filesHaveOwners && mode&0o077 != 0 {
		return "", fmt.Errorf("%s has mode %04o: others could read the admin token; chmod 600 it, or delete it and restart the server for a new one", path, mode)
	}
	text, err := io.ReadAll(io.LimitReader(f, adminTokenMost))
	token := strings.TrimSpace(string(text))
	if err == nil && len(token) < adminTokenLeast {
		err = fmt.Errorf("%s does not contain an admin token of at least %d characters; delete it and restart the server for a new one", path, adminTokenLeast)
	}
	return token, err
}

// FindAdminToken returns the token of the server with this data directory, for a command
// on the same machine: from the environment, else from the file. origin names the source,
// for messages.
func FindAdminToken(data string) (token, origin string, err error) {
	if token = strings.TrimSpace(os.Getenv(adminTokenVariable)); token != "" {
		return token, adminTokenVariable, nil
	}
	path := filepath.Join(data, adminTokenFile)
	token, err = readAdminToken(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("operator calls need the server's admin token, but %s does not exist\n"+
			"  on the server's machine      name its data directory with --data DIR or PARLEY_DATA\n"+
			"  on another machine           put the content of its %s into %s", path, adminTokenFile, adminTokenVariable)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("operator calls need the server's admin token: %w\n"+
			"  run this as the user that the server runs as, or put the token into %s", err, adminTokenVariable)
	}
	if err != nil {
		return "", path, program.ExitError{Code: program.ExitForbidden, Err: err}
	}
	return token, path, nil
}
