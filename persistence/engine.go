package persistence

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// openEngine opens Pebble. A new database is closed and opened once more: only
// then is its write-ahead log written in the format that tells rot from a torn tail.
func (s *Store) openEngine() (err error) {
	defer func() {
		if reason := recover(); reason != nil { // the engine does not always mind its manners when it cannot open
			err = s.disk.why(fmt.Errorf("data directory %s cannot be opened: %v", s.dir, reason))
		}
	}()
	if err := makeDirectory(s.opts.FS, s.dir); err != nil {
		return fmt.Errorf("data directory %s: %w", s.dir, err)
	}
	s.fitDisk()
	lock, err := pebble.LockDirectory(s.dir, s.opts.FS)
	if err != nil {
		return fmt.Errorf("data directory %s %w", s.dir, lockError(err, ": a server that runs already; stop it, or use another directory"))
	}
	s.lock = lock
	if err := removeCheckpoints(s.opts.FS, s.dir); err != nil {
		return errors.Join(fmt.Errorf("data directory %s: %w", s.dir, err), lock.Close())
	}
	fresh, err := s.examine()
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	if fresh {
		if s.db, err = pebble.Open(s.dir, s.engineOptions()); err == nil {
			err = s.db.Close()
		}
	}
	if err == nil {
		s.db, err = pebble.Open(s.dir, s.engineOptions())
	}
	if err != nil {
		return errors.Join(s.damaged(err), s.witness.file.Close(), lock.Close())
	}
	return nil
}

// lockError tells a lock that somebody has, with advice, from one that cannot be
// taken.
func lockError(err error, advice string) error {
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) || noRoom(err) {
		return fmt.Errorf("cannot be locked: %w", err)
	}
	return fmt.Errorf("%w%s (%w)", ErrInUse, advice, err)
}

// ErrInUse: another process has the data directory open.
var ErrInUse = errors.New("is in use by another process")

// makeDirectory makes dir and what it lies in, and syncs every directory that
// got an entry by that: a loss of power must not take away the path to the data.
func makeDirectory(fs vfs.FS, dir string) error {
	parents := []string{fs.PathDir(dir)}
	for p := parents[0]; p != fs.PathDir(p); p = fs.PathDir(p) {
		if _, err := fs.Stat(p); err == nil {
			break
		}
		parents = append(parents, fs.PathDir(p))
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, p := range parents {
		parent, err := fs.OpenDir(p)
		if err != nil {
			return err
		}
		if err := errors.Join(parent.Sync(), parent.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) engineOptions() *pebble.Options {
	o := &pebble.Options{
		FS:                          dirSyncFS{s.opts.FS},
		Lock:                        s.lock,
		FormatMajorVersion:          pebble.FormatNewest,
		Merger:                      merger,
		CacheSize:                   s.opts.CacheBytes,
		MemTableSize:                s.opts.MemTableBytes,
		MemTableStopWritesThreshold: 4,
		// Compactions take whole cores for seconds: half of them are left to answers.
		CompactionConcurrencyRange: func() (int, int) { return 1, max(1, runtime.GOMAXPROCS(0)/2) },
		Logger:                     engineLogger{s},
		EventListener:              s.watchEngine(),
	}
	if s.small { // compactions, too, in pieces that find room
		o.LBaseMaxBytes = int64(s.opts.MemTableBytes)
		o.TargetFileSizes[0] = max(o.LBaseMaxBytes/tableShare, targetLeast)
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

// engineLogger passes the engine's complaints on and drops its chatter.
type engineLogger struct{ s *Store }

func (l engineLogger) Infof(string, ...any) {}

func (l engineLogger) Errorf(format string, args ...any) {
	l.s.opts.Logger.Error("storage engine: " + fmt.Sprintf(format, args...))
}

func (l engineLogger) Fatalf(format string, args ...any) {
	err := l.s.disk.why(fmt.Errorf("storage engine: "+format, args...))
	l.s.opts.Fatal(err)
	panic(err) // Fatal should have ended the process; the engine must not go on
}
