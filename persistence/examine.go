package persistence

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/disk"
	"parley/persistence/layout"
)

// examine looks at a directory before the engine may change anything in it: what
// is refused stays as it was found, to be looked at or mended. It opens the
// witness, and makes it first where there is nothing yet.
func (s *Store) examine() (fresh bool, err error) {
	desc, err := pebble.Peek(s.dir, s.opts.FS)
	if err != nil {
		return false, s.damaged(err)
	}
	said, missing := disk.ReadWitness(s.opts.FS, s.dir)
	if !desc.Exists {
		if err := s.neverThere(said); err != nil {
			return false, err
		}
		return true, s.makeWitness()
	}
	switch {
	case s.opts.AcceptLoss:
		if missing != nil {
			s.opts.Logger.Warn("going on without the witness", "error", missing)
			return false, s.makeWitness()
		}
		said.ForgetFiles()
	case missing != nil:
		if err := s.neverOpened(missing); err != nil {
			return false, err
		}
		return false, s.makeWitness()
	default:
		if err := s.compareFiles(said, desc.ManifestFilename); err != nil {
			return false, err
		}
	}
	if s.opts.noRetries { // nobody follows what is written
		said.ForgetFiles()
	}
	w, err := disk.OpenWitness(s.opts.FS, s.dir, said)
	if err != nil {
		return false, err
	}
	s.record(w)
	return false, nil
}

// makeWitness begins a witness that records no commit yet.
func (s *Store) makeWitness() error {
	w, err := disk.MakeWitness(s.opts.FS, s.dir, disk.Head{})
	if err != nil {
		return err
	}
	s.record(w)
	return nil
}

// neverThere refuses a directory without a manifest in which there was one: the
// engine would begin anew, and remove what it does not know.
func (s *Store) neverThere(said *disk.Testimony) error {
	was := s.opts.Existing || said != nil && (said.Head.Number > 0 || said.KnowsFiles())
	names, err := s.opts.FS.List(s.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		was = was || disk.IsLog(name) || strings.HasSuffix(name, ".sst")
	}
	if was {
		return fmt.Errorf("%w: the journal in %s is gone, or its file marker.manifest.* is, without which it cannot be read", ErrDamaged, s.dir)
	}
	return nil
}

// neverOpened refuses a directory without a witness, unless its making was cut
// short before anything was stored in it.
func (s *Store) neverOpened(missing error) error {
	return s.lookInto(func(look *Store) error {
		if _, openings, err := look.readFormat(); err != nil || openings > 0 {
			return errors.Join(missing, err)
		}
		return nil
	})
}

// compareFiles holds the directory's files against what the witness says of
// them. Where it says nothing of the newest log, as after a crash, its end is
// looked for.
func (s *Store) compareFiles(said *disk.Testimony, manifest string) error {
	if said.KnowsFiles() {
		whole, err := said.CheckFiles(s.opts.FS, s.dir, s.opts.FS.PathBase(manifest))
		if err != nil || whole {
			return err
		}
	}
	return s.lookInto(func(look *Store) error {
		last, at, whole, err := layout.LastHead(look.db, said.Head.Number)
		if err != nil {
			return err
		}
		return s.compare(said.Head, last, at, whole)
	})
}

// lookInto opens the engine in a way that changes nothing on the disk.
func (s *Store) lookInto(see func(*Store) error) error {
	look := &Store{opts: s.opts, dir: s.dir, lock: s.lock}
	look.opts.FS = disk.ReadOnlyFS{FS: s.opts.FS}
	look.disk = look.newMonitor()
	o := look.engineOptions()
	o.ReadOnly, o.DisableAutomaticCompactions = true, true
	db, err := pebble.Open(s.dir, o)
	if err != nil {
		return s.damaged(err)
	}
	look.db = db
	return errors.Join(see(look), db.Close())
}

// damaged says of an error of the engine, met at an opening, that what it could
// not read is not what was written; unless it is the system that refused. The
// engine does not always name the file.
func (s *Store) damaged(err error) error {
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
