package persistence

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/apply"
	"parley/persistence/disk"
	"parley/persistence/layout"
)

// examination looks for what a directory lacks, before and while it is opened.
type examination struct{ opening }

// examine checks a directory before the engine may change anything in it, so that a
// directory that is refused stays as it was found. It opens the witness, and
// creates it if the directory is new.
func (s examination) examine() (fresh bool, err error) {
	desc, err := pebble.Peek(s.dir, s.opts.FS)
	if err != nil {
		return false, s.damaged(err)
	}
	record, missing := disk.ReadWitness(s.opts.FS, s.dir)
	if !desc.Exists {
		if err := s.requireManifest(record); err != nil {
			return false, err
		}
		return true, s.makeWitness()
	}
	switch {
	case s.opts.AcceptLoss:
		if err := s.inspect(withoutLogs, nothingMore); err != nil {
			return false, err
		}
		if err := s.openKeyring(disk.KeyringState{}); err != nil {
			return false, err
		}
		if err := s.requireKeyring(record); err != nil {
			return false, err
		}
		if missing != nil {
			s.opts.Logger.Warn("continuing without the witness", "error", missing)
			return false, s.makeWitness()
		}
		record.ForgetFiles()
		record.ForgetKeyring()
	case missing != nil:
		if err := s.requireFirstOpening(missing); err != nil {
			return false, err
		}
		if err := s.openKeyring(disk.KeyringState{}); err != nil {
			return false, err
		}
		return false, s.makeWitness()
	default:
		if err := s.compareFiles(record, desc.ManifestFilename); err != nil {
			return false, err
		}
		if err := s.openKeyring(record.Keyring); err != nil {
			return false, err
		}
	}
	if s.opts.noRetries { // without the retrying file system nothing records checksums
		record.ForgetFiles()
	}
	w, err := disk.OpenWitness(s.opts.FS, s.dir, record)
	if err != nil {
		return false, err
	}
	s.record(w)
	return false, nil
}

// makeWitness creates a witness that records no commit yet.
func (s examination) makeWitness() error {
	w, err := disk.MakeWitness(s.opts.FS, s.dir, disk.Head{})
	if err != nil {
		return err
	}
	s.record(w)
	return nil
}

// requireManifest refuses a directory whose witness records a manifest but which has
// none: the engine would start a new database and remove files that it does not
// know.
func (s examination) requireManifest(record *disk.WitnessRecord) error {
	was := s.opts.Existing || record != nil && (record.Head.Number > 0 || record.KnowsFiles())
	names, err := s.opts.FS.List(s.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		was = was || disk.IsLog(name) || disk.IsTable(name) || name == KeyringName
	}
	if was {
		return fmt.Errorf("%w: the journal in %s is gone, or its file marker.manifest.* is, without which it cannot be read", ErrDamaged, s.dir)
	}
	return nil
}

// requireFirstOpening refuses a directory without a witness, unless its first opening was
// interrupted before anything was stored.
func (s examination) requireFirstOpening(missing error) error {
	return s.inspect(withLogs, func(look examination) error {
		if _, openings, err := look.readFormat(); err != nil || openings > 0 {
			return errors.Join(missing, err)
		}
		return nil
	})
}

// openKeyring opens the keyring, which must have what the witness records.
func (s examination) openKeyring(witnessed disk.KeyringState) (err error) {
	if s.opts.OpenKeyring == nil {
		return nil
	}
	if s.keyring, err = s.opts.OpenKeyring(witnessed); err != nil {
		return fmt.Errorf("data directory %s cannot be opened: %w", s.dir, err)
	}
	return nil
}

// requireKeyring returns an error if losses are accepted and the keyring is missing
// altogether: nothing would be left that could be read.
func (s examination) requireKeyring(record *disk.WitnessRecord) error {
	if s.opts.OpenKeyring == nil || s.keyring != nil || record == nil || !record.Keyring.Known() {
		return nil
	}
	return fmt.Errorf("%w: the keyring of %s is missing, which cannot be given up: the keys of its organizations were in it", ErrDamaged, s.dir)
}

// compareFiles compares the directory's files with the witness. If the witness does
// not record the newest log as finished, as after a crash, the end of the log is
// examined.
func (s examination) compareFiles(record *disk.WitnessRecord, manifest string) error {
	if record.KnowsFiles() {
		whole, err := record.CheckFiles(s.opts.FS, s.dir, s.opts.FS.PathBase(manifest))
		if err != nil {
			return err
		}
		if whole {
			return s.inspect(withoutLogs, nothingMore)
		}
	}
	return s.inspect(withLogs, func(look examination) error {
		last, at, whole, err := layout.LastHead(look.db, record.Head.Number)
		if err != nil {
			return err
		}
		if err := s.compare(record.Head, last, at, whole); err != nil {
			return err
		}
		return look.readOwnRows()
	})
}

// readOwnRows reads what an opening reads of the journals' own rows, so that damage
// there is found before anything is changed.
func (s examination) readOwnRows() error {
	journals, openings, err := s.readFormat()
	for n := 0; err == nil && openings > 0 && n < journals; n++ {
		_, _, err = apply.Load(s.db, layout.Homes(journals), n)
	}
	return err
}

// logged says whether an inspection replays the logs, which takes a while.
type logged bool

const (
	withLogs    logged = true
	withoutLogs logged = false
)

func nothingMore(examination) error { return nil }

// inspect opens the engine without changing anything on the disk, refuses a directory
// of another format, and looks whether the blob files are there. It replays the logs
// also if the tables do not say which format the directory has.
func (s examination) inspect(logs logged, see func(examination) error) error {
	look := examination{opening{&Store{opts: s.opts, dir: s.dir, lock: s.lock}}}
	look.opts.FS = disk.ReadOnlyFS{FS: s.opts.FS}
	if !logs {
		look.opts.FS = disk.WithoutLogsFS{FS: look.opts.FS}
	}
	look.disk = look.newMonitor()
	o := look.engineOptions()
	o.ReadOnly, o.DisableAutomaticCompactions = true, true
	db, err := pebble.Open(s.dir, o)
	if err != nil {
		return s.damaged(err)
	}
	look.db = db
	_, found, err := layout.ReadFormat(db)
	if err == nil && !found && logs == withoutLogs {
		if err := db.Close(); err != nil {
			return err
		}
		return s.inspect(withLogs, see)
	}
	if err == nil {
		err = look.requireBlobs()
	}
	if err == nil {
		err = see(look)
	}
	return errors.Join(err, db.Close())
}

// requireBlobs returns an error if a blob file is missing or has another size. When
// it opens a directory the engine checks this of tables only. Nothing may be written
// meanwhile.
func (s examination) requireBlobs() error {
	if s.opts.trustBlobs {
		return nil
	}
	var missing error
	for blob := range s.db.DebugCurrentVersion().BlobFiles.All() {
		path := s.opts.FS.PathJoin(s.dir, disk.BlobName(uint64(blob.Physical.FileNum)))
		switch info, err := s.opts.FS.Stat(path); {
		case err != nil:
			missing = errors.Join(missing, fmt.Errorf("%w: %s cannot be read: %w", ErrDamaged, path, err))
		case uint64(info.Size()) != blob.Physical.Size:
			missing = errors.Join(missing, fmt.Errorf("%w: %s has %d bytes, and %d were written", ErrDamaged, path, info.Size(), blob.Physical.Size))
		}
	}
	return missing
}

// damaged turns an error of the engine at an opening into ErrDamaged, unless the
// operating system refused. The engine does not always name the file.
func (s examination) damaged(err error) error {
	var number syscall.Errno
	if errors.As(err, &number) && !errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrDamaged) {
		return fmt.Errorf("data directory %s cannot be opened: %w", s.dir, err)
	}
	file := ""
	if last := s.disk.LastRead(); last != "" && !strings.Contains(err.Error(), s.opts.FS.PathBase(last)) {
		file = " (the file read last was " + last + ")"
	}
	return fmt.Errorf("%w: %s cannot be opened: %w%s", ErrDamaged, s.dir, err, file)
}

// unreadable turns an error of the engine's checksums during an opening into ErrDamaged.
// The error says the number of the file.
func (s examination) unreadable(err error) error {
	if !pebble.IsCorruptionError(err) {
		return err
	}
	return fmt.Errorf("%w: %s cannot be opened: %w", ErrDamaged, s.dir, disk.OneLine(err))
}
