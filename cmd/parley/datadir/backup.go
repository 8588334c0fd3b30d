package datadir

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"parley/client/parley"
	"parley/cmd/parley/program"
	"parley/http/auth"
	"parley/persistence"
	"parley/persistence/backup"
	"parley/persistence/keyring"
)

// BackupRequest is the body of POST /backup at the admin address.
type BackupRequest struct {
	To         string `json:"to"`
	Keep       int    `json:"keep"`
	WithoutKey bool   `json:"without_key"`
}

// Backup makes backups of an open store, for a running server or for the backup
// command when no server runs.
type Backup struct {
	Store *persistence.Store
	// Keyring is nil if the data directory has none yet.
	Keyring *keyring.Keyring
	Data    string
	// Master is the master key, nil if there is none.
	Master *auth.MasterKey
	// Target checks and resolves the directory of a backup. It is nil if a person runs
	// the backup with their own permissions.
	Target func(to string) (string, error)
}

// BackupOwner returns the name under which a server's snapshots are stored in a backup
// directory. It is derived from the master key, so a restored server keeps it. Without
// a key it is empty.
func BackupOwner(master *auth.MasterKey) (string, error) {
	if master == nil {
		return "", nil
	}
	name, err := master.Derive("backup owner")
	return hex.EncodeToString(name[:min(len(name), 8)]), err
}

// backupIndexKey returns the key that authenticates indexes of backups.
func backupIndexKey(master *auth.MasterKey) ([]byte, error) { return master.Derive("backup index") }

// Check rejects a request that cannot be carried out, or whose directory the server may
// not write to.
func (d *Backup) Check(r BackupRequest) error {
	switch {
	case !filepath.IsAbs(r.To):
		return fmt.Errorf("to: %q is not an absolute path", r.To)
	case r.Keep < 0:
		return fmt.Errorf("keep: %d is negative", r.Keep)
	}
	if d.Target == nil {
		return nil
	}
	if _, err := d.Target(r.To); err != nil {
		return errBackupTarget.Saying(fmt.Sprintf("%s cannot be a backup directory: %v.", r.To, err))
	}
	return nil
}

var errBackupTarget = parley.Refuse(parley.Forbidden, "forbidden", "The server may not write a backup there.")

// prepare creates the backup directory if necessary and returns its real path. It
// checks the directory again after creating it: somebody else may have created it in
// the meantime.
func (d *Backup) prepare(to string) (string, error) {
	if d.Target == nil {
		return to, nil
	}
	made, err := d.Target(to)
	if err == nil {
		err = os.MkdirAll(made, 0o700)
	}
	if err == nil {
		made, err = d.Target(made)
	}
	return made, err
}

// Take writes a snapshot. It rejects a backup directory inside the data directory, and a
// master key that does not open the data that the store has sealed.
func (d *Backup) Take(ctx context.Context, r BackupRequest, progress func(backup.Progress)) (*backup.Snapshot, error) {
	within, err := contains(d.Data, r.To)
	if err != nil {
		return nil, program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%s cannot be a backup directory: %w", r.To, err)}
	}
	if within {
		return nil, program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%s is inside the data directory: a backup there would be lost with it", r.To)}
	}
	owner, err := BackupOwner(d.Master)
	if err != nil {
		return nil, err
	}
	if r.Keep > 0 && owner == "" {
		return nil, program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("--keep: without the master key the server's own snapshots cannot be identified")}
	}
	options := backup.Options{Owner: owner, Keep: r.Keep, Progress: progress}
	if d.Master != nil {
		if options.IndexKey, err = backupIndexKey(d.Master); err != nil {
			return nil, err
		}
	}
	if d.Keyring != nil {
		options.Keyring = d.Keyring
	}
	if !r.WithoutKey {
		if options.MasterKey, err = d.key(); err != nil {
			return nil, fmt.Errorf("the master key cannot be backed up (use --without-key to leave it out): %w", err)
		}
	}
	if options.To, err = d.prepare(r.To); err != nil {
		return nil, err
	}
	made, err := backup.Take(ctx, d.Store, options)
	if errors.Is(err, keyring.ErrDiverged) {
		err = fmt.Errorf("%w\n  this server was started from a backup, and another one makes backups there: give each its own backup directory", err)
	}
	return made, err
}

// key returns the content of the master key's file. A key that cannot open the sealed
// data must not get into a backup: that would be noticed only at a restore, when
// snapshots with the right key may be gone.
func (d *Backup) key() ([]byte, error) {
	raw, err := os.ReadFile(filepath.Join(d.Data, MasterKeyFile))
	if err != nil {
		return nil, err
	}
	found := MasterKey{File: filepath.Join(d.Data, MasterKeyFile), Filed: true}
	if found.Key, err = auth.NewMasterKey(raw); err != nil {
		return nil, fmt.Errorf("%s: %w", found.File, err)
	}
	view := d.Store.View()
	defer view.Close()
	return raw, found.Fits(view.StreamReader)
}

// contains reports whether path is dir or lies in it. path need not exist.
func contains(dir, path string) (bool, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return false, err
	}
	rest := ""
	for ; ; path, rest = filepath.Dir(path), filepath.Join(filepath.Base(path), rest) {
		resolved, err := filepath.EvalSymlinks(path)
		if err == nil {
			path = filepath.Join(resolved, rest)
			break
		}
		if !errors.Is(err, os.ErrNotExist) || filepath.Dir(path) == path {
			return false, err
		}
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return false, err
	}
	between, err := filepath.Rel(dir, path)
	return err == nil && between != ".." && !strings.HasPrefix(between, ".."+string(filepath.Separator)), nil
}
