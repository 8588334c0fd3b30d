package disk

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
)

const (
	// A pulse that comes pulseLate or more after the one before shows that the
	// process itself was stopped, or had no processor: the disk is not to blame.
	pulseEvery = 100 * time.Millisecond
	pulseLate  = 400 * time.Millisecond
	// failuresEvery is how often failures of background work are logged.
	failuresEvery = time.Second
)

// Why new writes are refused. Nothing was done in either case.
var (
	errStalled = parley.ErrOverloaded.Saying("The disk takes no writes at present; nothing was done. Try again shortly.")
	errFull    = parley.ErrOverloaded.Saying("The disk is nearly full; nothing was done. Try again when there is room.")
	errNoFiles = parley.ErrOverloaded.Saying("The server has no file descriptor left; nothing was done. Try again shortly.")
)

// Options of a Monitor. All but FreeBytesMin are required.
type Options struct {
	// FS holds the data directory Dir.
	FS  vfs.FS
	Dir string
	// Clock times stalls.
	Clock  parley.Clock
	Logger *slog.Logger
	// Fatal is called when a file cannot be written without which the engine
	// cannot go on. It must end the process.
	Fatal func(error)
	// FreeBytesMin of the disk below which writes are refused, capped by
	// FloorShare. 0 or less refuses none.
	FreeBytesMin int64
	// Patience is how long the engine may stall writes, or a sync may take, before new writes are
	// refused.
	Patience time.Duration
	// Closing is closed when the store closes: nothing waits any longer.
	Closing <-chan struct{}
	// Replicated says that other nodes have the same content.
	Replicated bool
}

// Monitor knows the health of the disk under one data directory. Its methods may
// be called from any goroutine.
//
// Instants are ages: nanoseconds since the Monitor was made, by its clock, so
// that a correction of the wall clock looks like no stall. Age 0 means "not".
type Monitor struct {
	space
	o     Options
	began time.Time
	// witness is set before the engine opens any file that it records.
	witness *Witness

	// stalled is since when the engine stalls writes.
	stalled atomic.Int64
	// flushing is since when memtables cannot be flushed, witnessing since when
	// the witness is being written.
	flushing, witnessing atomic.Int64
	// pulse is when the process was last seen to run, woke when it last came back
	// after it had been stopped.
	pulse, woke atomic.Int64
	// Failures since the last success, and when the last one happened.
	flushFailures, flushFailed, compactionFailures, compactionFailed atomic.Int64
	// starved counts the writes that wait for space, filesShort those that wait for a file
	// descriptor.
	starved, filesShort atomic.Int64
	// watched is set once Watch runs: from then on Trouble reports refusals.
	watched atomic.Bool
	// trouble is the last failure of the file system.
	trouble atomic.Pointer[failure]
	// read is the last file that was opened for reading before watched was set.
	read atomic.Pointer[string]
	// failureLogged is when the last failure of background work was logged: the engine tries again
	// without a pause.
	failureLogged atomic.Int64
	// damage is the first file that was found damaged.
	damage atomic.Pointer[string]
}

// NewMonitor makes a Monitor that does not watch yet.
func NewMonitor(o Options) *Monitor {
	return &Monitor{space: space{o: o, look: make(chan struct{}, 1)}, o: o, began: o.Clock()}
}

// Record has the file systems of this Monitor keep w up to date.
func (m *Monitor) Record(w *Witness) { m.witness = w }

// Age is the time since the Monitor was made, in nanoseconds, never 0.
func (m *Monitor) Age() int64 { return int64(m.o.Clock().Sub(m.began)) + 1 }

// Watch starts the goroutines that watch the disk; they end when the store closes.
// witness says whether the witness is kept up to date.
func (m *Monitor) Watch(loops *sync.WaitGroup, witness bool) {
	m.pulse.Store(m.Age())
	m.watched.Store(true)
	loops.Go(m.keepPulse)
	if m.measure() { // before any write is admitted
		loops.Go(m.watch)
	}
	if witness {
		loops.Go(m.keepWitness)
	}
}

// Trouble is why new writes are refused, nil if they are not: the engine stalls
// writes, a commit or a sync hangs, or the disk is nearly full. busySince is the
// age since when the oldest commit or sync of the caller is under way, 0 if none
// is. Trouble passes when its cause does.
func (m *Monitor) Trouble(busySince int64) *parley.Refusal {
	if m.full.Load() || m.starved.Load() > 0 {
		return errFull
	}
	if m.filesShort.Load() > 0 {
		return errNoFiles
	}
	oldest := Earliest(busySince, Earliest(Earliest(m.stalled.Load(), m.flushing.Load()), m.witnessing.Load()))
	if oldest == 0 {
		return nil
	}
	now := m.Age()
	if m.watched.Load() && time.Duration(now-m.pulse.Load()) >= pulseLate {
		return nil // the process has just resumed: the disk has had no time yet
	}
	if time.Duration(now-max(oldest, m.woke.Load())) > m.o.Patience {
		return errStalled
	}
	return nil
}

// keepPulse notes when the process runs, so that a second in which the process
// was stopped does not count as one in which the disk hung.
func (m *Monitor) keepPulse() {
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for {
		now := m.Age()
		if time.Duration(now-m.pulse.Load()) >= pulseLate {
			m.woke.Store(now)
		}
		m.pulse.Store(now)
		select {
		case <-m.o.Closing:
			return
		case <-tick.C:
		}
	}
}

// keepWitness writes the witness whenever there is something new, until the
// store closes. Stored data does not depend on it. While it cannot be written
// the window of undetected damage stays open, so new writes are refused (see
// Trouble).
func (m *Monitor) keepWitness() {
	w := m.witness
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-m.o.Closing:
			return
		case <-w.news:
		}
		m.witnessing.CompareAndSwap(0, m.Age())
		wait := witnessEvery
		if err := w.Write(); err != nil {
			wait = retryEvery
			m.o.Logger.Error("the witness cannot be written", "file", WitnessName, "error", err)
			w.again()
		} else {
			m.witnessing.Store(0)
		}
		pause.Reset(wait)
		select {
		case <-m.o.Closing:
			return
		case <-pause.C:
		}
	}
}

// Damage is the first file that was found damaged since the directory was opened,
// empty if none was. Reads that need the damaged part get an error, never an
// incomplete result; everything else is served.
func (m *Monitor) Damage() string {
	if path := m.damage.Load(); path != nil {
		return *path
	}
	return ""
}

// FoundDamage notes a damaged file, unless one is known.
func (m *Monitor) FoundDamage(path string) { m.damage.CompareAndSwap(nil, &path) }

// damaged notes a damaged file, tells the operator, and returns the error for the
// reader.
func (m *Monitor) damaged(path string, reason error) error {
	m.FoundDamage(path)
	advice := "Stop the server, see how much it is with `parley verify`, and restore the last backup with `parley restore`"
	if m.o.Replicated {
		advice = "Other nodes have the same content: stop this one, and put a new one in its place with `parley cluster replace`"
	}
	m.o.Logger.Error("a file of the data directory is damaged: reads of the damaged part fail. "+advice, "file", path, "error", OneLine(reason))
	return fmt.Errorf("%w: %s: %w", ErrDamaged, path, reason)
}

// oneLine is an error whose text is the first line of another's.
type oneLine struct{ error }

// OneLine returns an error with only the first line of its text. The further lines of the
// engine's errors, and the stack traces that they print as details, are not for operators.
func OneLine(err error) error { return oneLine{err} }

func (l oneLine) Error() string {
	first, _, _ := strings.Cut(l.error.Error(), "\n")
	return first
}

func (l oneLine) Unwrap() error { return l.error }

// LastRead is the file that was opened last for reading before Watch, empty if
// none was.
func (m *Monitor) LastRead() string {
	if path := m.read.Load(); path != nil {
		return *path
	}
	return ""
}

// Listener receives the engine's events.
func (m *Monitor) Listener() *pebble.EventListener {
	log := m.o.Logger
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			now, last := m.Age(), m.failureLogged.Load()
			if (last == 0 || time.Duration(now-last) >= failuresEvery) && m.failureLogged.CompareAndSwap(last, now) {
				log.Error("storage engine: background work failed", "error", err.Error())
			}
		},
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			_ = m.damaged(i.Path, i.Details) // the engine returns an error of its own
		},
		WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
			m.stalled.Store(m.Age())
			log.Warn("storage engine: writes stall", "reason", i.Reason)
		},
		WriteStallEnd: func() { m.stalled.Store(0) },
		FlushEnd:      func(i pebble.FlushInfo) { m.flushed(i.Err) },
		CompactionEnd: func(i pebble.CompactionInfo) { m.compacted(i.Err) },
		DiskSlow:      func(i pebble.DiskSlowInfo) { log.Warn("storage engine: slow disk", "info", i.String()) },
	}
}

// Earliest is the smaller of two ages, where 0 means "not".
func Earliest(a, b int64) int64 {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
