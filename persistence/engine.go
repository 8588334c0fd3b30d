package persistence

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"

	"parley/persistence/disk"
	"parley/persistence/layout"
)

const (
	// The memtable of a small disk is at most one part in tableShare of it: the
	// engine keeps several times that in preallocated log files.
	tableShare  = 64
	tableLeast  = 128 << 10
	targetLeast = 64 << 10
	// The queues of a small disk hold at most one part in queueShare of the space
	// that is kept free.
	queueShare = 4
	queueLeast = 2 << 20
	// What a start flushes fits in ballastTables memtables; ballastMore is for several starts on a disk
	// that stays full, less on a small one.
	ballastTables = 2
	ballastMore   = 16 << 20
)

// opening opens the directory of a store that does not serve yet.
type opening struct{ *Store }

// openEngine opens Pebble, in a new directory too in the engine format that we pin:
// its write-ahead logs distinguish corruption from a torn tail.
func (s opening) openEngine() (err error) {
	defer func() {
		if reason := recover(); reason != nil { // the engine panics on some directories that it cannot open
			err = s.disk.Explain(fmt.Errorf("data directory %s cannot be opened: %v", s.dir, reason))
		}
	}()
	if err := disk.MakeDirectory(s.opts.FS, s.dir); err != nil {
		return fmt.Errorf("data directory %s: %w", s.dir, err)
	}
	s.fitDisk()
	lock, err := pebble.LockDirectory(s.dir, s.opts.FS)
	if err != nil {
		return fmt.Errorf("data directory %s %w", s.dir, lockError(err, ": a server that runs already; stop it, or use another directory"))
	}
	s.lock = lock
	if err := errors.Join(removeLeft(s.opts.FS, s.dir), s.useBallast()); err != nil {
		return errors.Join(fmt.Errorf("data directory %s: %w", s.dir, err), lock.Close())
	}
	x := examination{s}
	fresh, err := x.examine()
	if err != nil {
		return errors.Join(x.unreadable(err), lock.Close())
	}
	if fresh {
		err = disk.StoreEngineFormat(s.opts.FS, s.dir)
	}
	if err == nil {
		s.db, err = pebble.Open(s.dir, s.engineOptions())
	}
	if err != nil {
		return errors.Join(x.damaged(err), s.witness.Close(), lock.Close())
	}
	return nil
}

// lockError distinguishes a lock that another process holds, which gets the advice,
// from one that cannot be taken.
func lockError(err error, advice string) error {
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) || disk.NoSpace(err) {
		return fmt.Errorf("cannot be locked: %w", err)
	}
	return fmt.Errorf("%w%s (%w)", ErrInUse, advice, err)
}

// ErrDamaged is returned if the directory lacks acknowledged data or a file that is
// needed cannot be read. The directory is not opened.
var ErrDamaged = disk.ErrDamaged

// ErrInUse is returned if another process has the data directory open.
var ErrInUse = errors.New("is in use by another process")

func (s opening) engineOptions() *pebble.Options {
	compactions := max(1, runtime.GOMAXPROCS(0)/2)
	o := &pebble.Options{
		FS:                          disk.DirSyncFS{FS: s.disk.BlobFS(s.opts.FS)},
		Lock:                        s.lock,
		FormatMajorVersion:          disk.EngineFormat,
		Merger:                      layout.Merger,
		CacheSize:                   s.opts.CacheBytes,
		MaxOpenFiles:                s.opts.FilesMax,
		MemTableSize:                s.opts.MemTableBytes,
		MemTableStopWritesThreshold: 4,
		// A compaction takes a whole core for seconds: leave half of the cores to requests.
		CompactionConcurrencyRange: func() (int, int) { return 1, compactions },
		Logger:                     engineLogger{s.Store},
		EventListener:              s.disk.Listener(),
		DisableWAL:                 s.opts.Sequencer != nil, // the sequencer's log has what is lost
	}
	if s.small { // compactions in small steps, which need little space
		o.LBaseMaxBytes = int64(s.opts.MemTableBytes)
		o.TargetFileSizes[0] = max(o.LBaseMaxBytes/tableShare, targetLeast)
	}
	if s.opts.trustBlobs {
		o.FS = disk.DirSyncFS{FS: s.opts.FS}
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return &compression }
	}
	o.Experimental.ValueSeparationPolicy = separateValues
	return o
}

const (
	// separatedLeast is the size from which a value goes into a blob file, which
	// compactions do not copy. Records of messages do; feed entries and other rows
	// that pages scan stay in tables.
	separatedLeast = 512
	// blobDepthMax is how many blob files may hold the values of neighbouring keys. A
	// compaction that would exceed it copies the values into one, without those that
	// were overwritten or deleted. The topmost level alone has up to a dozen layers:
	// with 10, most compactions copied values, and up to a fifth of the bytes in blob
	// files were copied values whose first file was still needed for others.
	blobDepthMax = 25
	// The engine can also rewrite a blob file of which too much was overwritten or
	// deleted. At a share of 1 it never does: the process would panic if it met a
	// damaged block, or one that cannot be read (blob_rewrite.go of v2.1.7). Messages
	// are not overwritten, so there is little to gain.
	blobGarbageMax = 1
)

// compression spares the values in blob files, which are sealed and so do not get smaller.
var compression = func() sstable.CompressionProfile {
	c := *sstable.SnappyCompression
	c.ValueBlocks = sstable.NoCompression.ValueBlocks
	return c
}()

func separateValues() pebble.ValueSeparationPolicy {
	return pebble.ValueSeparationPolicy{
		Enabled: true, MinimumSize: separatedLeast, MaxBlobReferenceDepth: blobDepthMax, TargetGarbageRatio: blobGarbageMax,
	}
}

// engineLogger passes the engine's errors on and drops its information.
type engineLogger struct{ s *Store }

func (l engineLogger) Infof(string, ...any) {}

func (l engineLogger) Errorf(format string, args ...any) {
	l.s.opts.Logger.Error("storage engine: " + fmt.Sprintf(format, args...))
}

func (l engineLogger) Fatalf(format string, args ...any) {
	err := l.s.disk.Explain(fmt.Errorf("storage engine: "+format, args...))
	l.s.opts.Fatal(err)
	panic(err) // Fatal should have ended the process; the engine must not go on
}

// useBallast makes room for the start, and has the ballast restored when there is room again. A
// disk on which nothing is kept free has none.
func (s opening) useBallast() error {
	if s.opts.FreeBytesMin <= 0 {
		return nil
	}
	tables := int64(s.opts.MemTableBytes)
	b := &disk.Ballast{FS: s.plain, Dir: s.dir, Bytes: ballastTables*tables + min(ballastMore, ballastTables*2*tables)}
	s.disk.Keep(b)
	return b.Release()
}

// fitDisk makes memtables and queues fit a small disk.
func (s opening) fitDisk() {
	usage, err := s.opts.FS.GetDiskUsage(s.dir)
	if err != nil || usage.TotalBytes == 0 {
		return
	}
	if fit := max(usage.TotalBytes/tableShare, tableLeast); fit < s.opts.MemTableBytes {
		s.opts.MemTableBytes, s.small = fit, true
	}
	if floor := usage.TotalBytes / disk.FloorShare; floor < uint64(max(s.opts.FreeBytesMin, 0)) {
		s.opts.QueueBytes = min(s.opts.QueueBytes, int(max(floor/queueShare, queueLeast)))
	}
}
