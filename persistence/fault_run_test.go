package persistence

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/journaltest"
	"parley/persistence/layout"
)

// failing describes an operation and the kind of its file, as `write of log`.
func failing(op errorfs.Op) string {
	what := map[errorfs.OpKind]string{
		errorfs.OpCreate: "create", errorfs.OpReuseForWrite: "create",
		errorfs.OpLink: "link", errorfs.OpRename: "rename", errorfs.OpRemove: "remove",
		errorfs.OpOpenDir: "open", errorfs.OpMkdirAll: "create", errorfs.OpLock: "create",
		errorfs.OpFileWrite: "write", errorfs.OpFileWriteAt: "write",
		errorfs.OpFileSync: "sync", errorfs.OpFileSyncData: "sync", errorfs.OpFileSyncTo: "sync",
		errorfs.OpFileClose: "close",
	}[op.Kind]
	if what == "" {
		return ""
	}
	kind := kindOf(op.Path)
	switch {
	case strings.HasSuffix(op.Path, ".dbtmp"):
		kind = "temporary file"
	case strings.Contains(op.Path, "LOCK"):
		kind = "lock"
	case kind == "other":
		kind = "directory"
	}
	return what + " of " + kind
}

// fault describes a disk failure.
type fault struct {
	what    string // see failing
	at      int64  // the first operation that fails, counted from 1
	forever bool
	err     error
}

func (f fault) String() string {
	often := "once"
	if f.forever {
		often = "for ever"
	}
	return fmt.Sprintf("%v at %s %d, %s", f.err, f.what, f.at, often)
}

// faulty is a disk that counts operations and fails as its fault says.
type faulty struct {
	fault  fault
	mended atomic.Bool
	hit    atomic.Int64
	seen   atomic.Int64
	mu     sync.Mutex
	counts map[string]int64
}

func (d *faulty) String() string { return d.fault.String() }

func (d *faulty) MaybeError(op errorfs.Op) error {
	what := failing(op)
	if d.counts != nil && what != "" {
		d.mu.Lock()
		d.counts[what]++
		d.mu.Unlock()
	}
	if what == "" || what != d.fault.what || d.mended.Load() {
		return nil
	}
	if n := d.seen.Add(1); n == d.fault.at || n > d.fault.at && d.fault.forever {
		d.hit.Add(1)
		return d.fault.err
	}
	return nil
}

// faultRun is a store on a faulty disk, its clients, and what was acknowledged to
// them.
type faultRun struct {
	t     testing.TB
	mem   *vfs.MemFS
	disk  *faulty
	store *Store

	mu sync.Mutex
	// acked are the operations that were acknowledged before the process ended.
	acked map[journal.Stream]uint64
	// ended is closed when the process ends; reason is why, files what it left.
	ended  chan struct{}
	reason error
	files  *vfs.MemFS
	over   atomic.Bool

	streams []journal.Stream
	clients sync.WaitGroup
	undone  atomic.Int64
	// change alters the options, for controls.
	change func(*Options)
}

const (
	faultClients    = 4
	faultOperations = 45
	faultBytes      = 1400
)

// faultBase is a directory with tables, logs and a manifest. All runs start from
// it.
func faultBase(t testing.TB, journals int) (*vfs.MemFS, []journal.Stream, map[journal.Stream]uint64) {
	t.Helper()
	o := &faultRun{t: t, mem: vfs.NewCrashableMem(), disk: &faulty{}, acked: map[journal.Stream]uint64{}, ended: make(chan struct{})}
	for i := range faultClients {
		o.streams = append(o.streams, newStream(journaltest.SpreadSlot(i)))
	}
	if err := o.open(journals); err != nil {
		t.Fatal(err)
	}
	o.startClients()
	o.clients.Wait()
	mustClose(t, o.store)
	return o.mem, o.streams, o.acked
}

// open opens and starts the store. If the process ends, it does not return.
func (o *faultRun) open(journals int) error {
	opts := testOptions(errorfs.Wrap(o.mem, o.disk), journals)
	opts.Clock, opts.CacheBytes = time.Now, 64<<10
	opts.Fatal = o.end
	if o.change != nil {
		o.change(&opts)
	}
	opened := make(chan error, 1)
	go func() {
		s, err := Open("d", opts)
		if err == nil {
			o.store = s
			err = startQuietly(s)
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		return err
	case <-o.ended:
		return errEnded
	case <-time.After(hangsAfter):
		return errors.New("Open hangs")
	}
}

var errEnded = errors.New("the process has ended")

// end simulates os.Exit: nothing is answered after it, the files stay as they are, and
// the caller does not continue.
func (o *faultRun) end(err error) {
	o.mu.Lock()
	if !o.over.Swap(true) {
		o.reason = err
		o.files = o.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: seeded(1)})
		close(o.ended)
	}
	o.mu.Unlock()
	select {}
}

// startClients starts clients, each of which appends one operation after another.
func (o *faultRun) startClients() {
	for i, stream := range o.streams {
		o.clients.Go(func() {
			activation := o.store.NextActivation()
			o.append(&journal.Entry{Activate: true}, stream, activation)
			to := parley.NewID[parley.AgentID](journaltest.SpreadSlot(i+1), testStart, testEntropy())
			for range faultOperations {
				o.mu.Lock()
				n := o.acked[stream]
				o.mu.Unlock()
				e := &journal.Entry{
					Expect:  n,
					Events:  []journal.StoredEvent{{Tag: 7, Data: append(layout.EncodeNumber(n), make([]byte, faultBytes)...)}},
					Effects: []journal.Effect{journal.AppendFeed{To: to, Kind: journal.StatusEntry}},
				}
				if !o.append(e, stream, activation) {
					return
				}
				o.mu.Lock()
				if !o.over.Load() {
					o.acked[stream] = n + 1
				}
				o.mu.Unlock()
			}
		})
	}
}

// append appends an entry and reports whether it was acknowledged.
func (o *faultRun) append(e *journal.Entry, stream journal.Stream, activation uint64) bool {
	e.Slot, e.Stream, e.Activation = stream.Slot(), stream, activation
	o.undone.Add(1)
	defer o.undone.Add(-1)
	select {
	case err := <-appended(o.store, e):
		if err != nil {
			o.t.Errorf("%v: an entry was rejected with %v", o.disk.fault, err)
		}
		return err == nil
	case <-o.ended:
		return false
	}
}

// done is closed when every client has its answers or the process has ended.
func (o *faultRun) done() <-chan struct{} {
	done := make(chan struct{})
	go func() { o.clients.Wait(); close(done) }()
	return done
}

// Outcomes of a process whose disk failed.
const (
	faultRefused   = "start refused with the reason"
	faultEnded     = "ended with the reason"
	faultRecovered = "shed, and recovered when the cause was gone"
	faultHarmless  = "nobody noticed"
)

// The bounds distinguish a store that hangs from a machine under load. The tests of slow
// disks check how soon trouble is reported on an idle one.
const (
	hangsAfter    = time.Minute
	noticedWithin = 20 * time.Second
)

// run opens the store, runs the clients, closes the store, and returns the outcome.
func (o *faultRun) run(journals int) string {
	if err := o.open(journals); err != nil {
		return o.stopped(err, faultRefused)
	}
	o.startClients()
	outcome, began := faultHarmless, time.Now()
	done := o.done()
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case <-time.After(5 * time.Millisecond):
			switch stalled := time.Since(began); {
			case o.store.Trouble() != nil && outcome == faultHarmless:
				outcome = faultRecovered
				o.checkTrouble(began)
			case stalled > hangsAfter:
				o.t.Errorf("%v: %d entries hang", o.disk.fault, o.undone.Load())
				return "HANGS"
			}
		}
	}
	if o.over.Load() {
		return o.stopped(errEnded, faultEnded)
	}
	closed := make(chan error, 1)
	go func() { closed <- o.store.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			return o.stopped(err, faultEnded)
		}
	case <-o.ended:
		return o.stopped(errEnded, faultEnded)
	case <-time.After(hangsAfter):
		o.t.Errorf("%v: Close hangs", o.disk.fault)
		return "HANGS"
	}
	o.files = o.mem
	return outcome
}

// checkTrouble checks what must hold while the store reports trouble, then repairs
// the disk: all clients must continue, and the store must report no trouble.
func (o *faultRun) checkTrouble(began time.Time) {
	if _, err := o.store.Admit(0, 100); !errors.Is(err, parley.ErrOverloaded) {
		o.t.Errorf("%v: while in trouble, an entry was admitted: %v", o.disk.fault, err)
	}
	if took := time.Since(began); took > noticedWithin {
		o.t.Errorf("%v: trouble was reported after %v", o.disk.fault, took)
	}
	time.Sleep(10 * time.Millisecond)
	o.disk.mended.Store(true)
	for wait := time.Now(); o.store.Trouble() != nil && !o.over.Load(); time.Sleep(time.Millisecond) {
		if time.Since(wait) > noticedWithin {
			o.t.Errorf("%v: the disk is repaired and the store reports %v", o.disk.fault, o.store.Trouble())
			return
		}
	}
}

// stopped checks that a process ended with an error that names the fault.
func (o *faultRun) stopped(err error, outcome string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if errors.Is(err, errEnded) {
		err = o.reason
	}
	if o.files == nil {
		o.files = o.mem
	}
	if !strings.Contains(err.Error(), o.disk.fault.err.Error()) {
		o.t.Errorf("%v: the reason given is %v", o.disk.fault, err)
	}
	return outcome
}

// checkSurvivors opens the remaining files, as after the death of the process and as
// after a power failure: everything acknowledged must exist.
func (o *faultRun) checkSurvivors(journals int) {
	o.mu.Lock()
	acked := maps.Clone(o.acked)
	o.mu.Unlock()
	for _, kept := range []int{100, 0} {
		fs := o.files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: seeded(1)})
		s, err := Open("d", testOptions(fs, journals))
		if err != nil {
			o.t.Errorf("%v: the files with %d%% of the unsynced data cannot be opened: %v", o.disk.fault, kept, err)
			continue
		}
		v := s.View()
		for stream, n := range acked {
			found := uint64(0)
			err := v.Events(stream, 1, false, func(_ uint64, _ int64, f journal.StoredEvent) bool {
				if layout.Number(f.Data) == found {
					found++
				}
				return true
			})
			if err != nil || found < n {
				o.t.Errorf("%v: lost: %d events were acknowledged, %d are stored (%v)", o.disk.fault, n, found, err)
			}
		}
		v.Close()
		mustClose(o.t, s)
	}
}

var (
	errIO      = syscall.EIO
	errNoSpace = syscall.ENOSPC
)
