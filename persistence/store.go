package persistence

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/apply"
	"parley/persistence/disk"
	"parley/persistence/layout"
	"parley/persistence/notify"
)

// JournalsMax is how many journals a directory can be made with.
const JournalsMax = 64

// Options of a Store.
type Options struct {
	// FS is where the directory lives; nil is the operating system's.
	FS vfs.FS
	// Journals is how many journals a new directory gets; an existing one keeps
	// what it was made with and refuses another number. 0 is "as it is", or 1.
	Journals int
	// Clock stamps entries of the store itself. Required.
	Clock parley.Clock
	// Logger receives the engine's warnings. Required.
	Logger *slog.Logger
	// Fatal is called when the store cannot go on, for instance after a failed
	// sync, when it is unknown what is stored. It must end the process.
	Fatal func(error)
	// FilesMax bounds the tables and blob files that are open at once; 0 is 1,000.
	FilesMax int
	// CacheBytes of the block cache; 0 is 128 MiB.
	CacheBytes int64
	// TimerEvery is the interval at which due timers are looked for, and so the
	// delay of a timer; 0 is a second.
	TimerEvery time.Duration
	// MemTableBytes before a flush; 0 is 64 MiB.
	MemTableBytes uint64
	// QueueEntries and QueueBytes bound what is admitted to one journal and not yet
	// released; 0 is 16,384 entries and 64 MiB.
	QueueEntries int
	QueueBytes   int
	// AcceptLoss opens a directory that lacks acknowledged data, and gives the
	// missing data up.
	AcceptLoss bool
	// OpenKeyring, if set, opens the keyring of a directory that holds a journal. It is
	// called when the directory is locked and its format is known, before anything in it
	// changes. witnessed is what the durability witness records about the keyring, zero
	// with AcceptLoss; a keyring that lacks a part of it must not be opened. The result is
	// nil if there is no keyring yet: then Adopt gets one later. The witness records the
	// keyring from then on.
	OpenKeyring func(witnessed disk.KeyringState) (Keyring, error)
	// FreeBytesMin of the disk below which writes are refused, so that admitted
	// entries still find space; 0 is 256 MiB, negative none. At most an eighth of
	// the disk.
	FreeBytesMin int64
	// StallPatience is how long the engine may stall writes, or a sync may take, before new writes
	// are refused and the server is reported unhealthy; 0 is 800 ms.
	StallPatience time.Duration
	// Sequencer, if set, makes the store a replica: it applies batches in the order that
	// the sequencer decides, and takes entries while it leads. The sequencer's log keeps
	// the batches until they are durable here.
	Sequencer Sequencer
	// Unsynced commits without waiting for the disk. Only controls of crash tests
	// set it: it breaks the guarantee that this package exists for.
	Unsynced bool
	// Existing requires that the directory holds a journal: none is created, and
	// its absence is ErrDamaged.
	Existing bool
	// noRetries gives the engine the file system without retries. Only controls of
	// tests set it.
	noRetries bool
	// trustBlobs neither looks for blob files at the start nor checks what is read
	// from them. Only controls of tests set it.
	trustBlobs bool
	// forgetful does not resume the outboxes of journals to themselves. Only
	// controls of tests set it.
	forgetful bool
}

// KeyringName is the name of the keyring's directory in the directory of a store. Its
// files are not the engine's.
const KeyringName = disk.KeyringName

// Keyring is what the store needs of the keyring of its data directory.
// keyring.Keyring is one.
type Keyring interface {
	// State is what is durable now.
	State() disk.KeyringState
	// Follow has a witness record what is durable, now and later.
	Follow(w *disk.Witness)
}

func (o *Options) ensureDefaults() error {
	if o.Clock == nil || o.Logger == nil {
		return errors.New("persistence: options without a clock or a logger")
	}
	if o.Journals < 0 || o.Journals > JournalsMax {
		return fmt.Errorf("journals: %d is not within 1 to %d", o.Journals, JournalsMax)
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Fatal == nil {
		o.Fatal = func(err error) { panic(err) }
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 128 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 64 << 20
	}
	if o.QueueEntries == 0 {
		o.QueueEntries = 16384
	}
	if o.FreeBytesMin == 0 {
		o.FreeBytesMin = 256 << 20
	}
	if o.StallPatience == 0 {
		o.StallPatience = 800 * time.Millisecond
	}
	if o.QueueBytes == 0 {
		o.QueueBytes = 64 << 20
	}
	return nil
}

// Store is a directory of journals. Its methods may be called from any goroutine.
type Store struct {
	journal.Journal
	db        *pebble.DB
	lock      *pebble.Lock
	dir       string
	opts      Options
	homes     layout.Homes // the number of journals
	positions []*feedPositions
	// lead is the writing side; nil while another replica leads.
	lead      atomic.Pointer[leadership]
	hub       *hub
	observers notify.Observers
	replica   *Replica // nil without a Sequencer
	// activation numbers activations. It starts above all earlier ones.
	activation atomic.Uint64
	// replacements counts the beginnings and the ends of replacements of the content.
	replacements atomic.Uint64
	// onQueue and onTimer wake actors that have something to do. Set by Start.
	onQueue func(journal.Stream)
	onTimer func(journal.Stream, time.Time)

	// commit serializes the commits of all journals, so that applied counts batches
	// in the order in which the shared write-ahead log holds them. The engine logs
	// a batch and inserts it into memory in one call; both happen under the lock.
	commit  sync.Mutex
	head    disk.Head // of the last commit; under commit
	applied atomic.Uint64
	// visible is the number of the last batch that every new view shows.
	visible atomic.Uint64
	feeds   notify.FeedChanges
	durable notify.Watermark
	witness *disk.Witness
	keyring Keyring // as OpenKeyring returned it

	disk *disk.Monitor
	// plain is the file system below the engine's: a backup that finds no space
	// fails at once, and the store goes on.
	plain vfs.FS
	// small: the disk is small, and what the engine writes is made to fit.
	small bool
	// readers counts open views. Once shut is set, no more are opened.
	readers  atomic.Int64
	shut     atomic.Bool
	closing  chan struct{}
	loops    sync.WaitGroup
	closeErr error
	// beganClose closes closing, closed everything else.
	beganClose, closed sync.Once
}

// The parts of the journal that a store is.
type (
	writer struct{ *Store }
	reader struct{ *Store }
	feeds  struct{ *Store }
	health struct{ *Store }
)

func newStore(dir string, opts Options) *Store {
	s := &Store{opts: opts, dir: dir, hub: newHub(), closing: make(chan struct{})}
	s.Journal = journal.Journal{Writer: writer{s}, Reader: reader{s}, Feeds: feeds{s}, Health: health{s}}
	return s
}

// Observe calls o for each change that is durable, until stop is called.
func (s reader) Observe(o journal.Observer) (stop func()) { return s.observers.Add(o) }

// Open opens the directory, or creates it. It refuses a directory that another
// process has open.
func Open(dir string, opts Options) (*Store, error) {
	if err := opts.ensureDefaults(); err != nil {
		return nil, err
	}
	s := newStore(dir, opts)
	o := opening{s}
	s.plain, s.disk = opts.FS, o.newMonitor()
	if !opts.noRetries {
		s.opts.FS = s.disk.RetryingFS()
	}
	if err := o.openEngine(); err != nil {
		return nil, err
	}
	if err := o.openJournals(); err != nil {
		return nil, errors.Join((examination{o}).unreadable(err), s.db.Close(), s.witness.Close(), s.lock.Close())
	}
	if s.keyring != nil {
		s.Adopt(s.keyring)
	}
	return s, nil
}

// Adopt has the durability witness record a keyring from now on. Call it with a keyring
// that was made after the store was opened.
func (s *Store) Adopt(k Keyring) { k.Follow(s.witness) }

// openJournals reads the format of the directory, or writes it for a new one, and
// opens the journals.
func (s opening) openJournals() error {
	journals, incarnation, err := s.readFormat()
	if err != nil {
		return err
	}
	if err := (examination{s}).checkHeads(); err != nil {
		return err
	}
	incarnation++
	synced := pebble.Sync
	if s.opts.Sequencer != nil { // a replica has no log: the row is stored with the first flush
		synced = pebble.NoSync
	}
	if err := s.db.Set(layout.StoreKey(layout.FormatFamily), layout.Format{Journals: journals, Openings: incarnation}.Encode(), synced); err != nil {
		return err
	}
	s.activation.Store(incarnation << activationBits)
	s.homes = layout.Homes(journals)
	if err := s.openPositions(); err != nil {
		return err
	}
	if s.opts.Sequencer != nil {
		return s.openReplica()
	}
	l, err := s.newLeadership(0)
	s.lead.Store(l)
	return err
}

// readFormat returns the number of journals, and how often the directory was opened
// before.
func (s opening) readFormat() (journals int, incarnation uint64, err error) {
	journals = s.opts.Journals
	format, found, err := layout.ReadFormat(s.db)
	switch {
	case err != nil:
		return 0, 0, err
	case found && journals != 0 && journals != format.Journals:
		return 0, 0, fmt.Errorf("the data directory was made with %d journals and cannot be opened with %d: the number is fixed when a directory is made", format.Journals, journals)
	case found:
		return format.Journals, format.Openings, nil
	}
	return max(journals, 1), 0, nil
}

// Start begins to wake actors with queued messages and due timers. onQueue must not
// block; onTimer is called again for a timer that its actor has not cancelled.
func (s writer) Start(onQueue func(journal.Stream), onTimer func(journal.Stream, time.Time)) error {
	s.onQueue, s.onTimer = onQueue, onTimer
	if l := s.lead.Load(); l != nil {
		if err := l.start(); err != nil {
			return err
		}
	}
	s.disk.Watch(&s.loops, !s.opts.Unsynced)
	return nil
}

// newMonitor creates the monitor of the store's directory, on the file system below
// the engine's.
func (s opening) newMonitor() *disk.Monitor {
	return disk.NewMonitor(disk.Options{
		FS: s.opts.FS, Dir: s.dir, Clock: s.opts.Clock, Logger: s.opts.Logger, Fatal: s.opts.Fatal,
		FreeBytesMin: s.opts.FreeBytesMin, Patience: s.opts.StallPatience, Closing: s.closing, Replicated: s.opts.Sequencer != nil,
	})
}

// record makes the file systems keep the witness up to date.
func (s opening) record(w *disk.Witness) {
	s.witness = w
	s.disk.Record(w)
}

// Trouble is the reason why the store takes no writes, nil if it does: the engine
// stalls writes, a sync hangs, or the disk is nearly full. It ends when its cause
// does.
func (s health) Trouble() *parley.Refusal {
	return s.disk.Trouble(s.lead.Load().busySince())
}

// Damage is the first file that was found damaged since the directory was opened,
// empty if none was. Reads that need the damaged part return an error, never an
// incomplete result; everything else is served.
func (s health) Damage() string { return s.disk.Damage() }

// Journals is the number of journals.
func (s *Store) Journals() int { return int(s.homes) }

// NextActivation numbers a new activation.
func (s writer) NextActivation() uint64 { return s.activation.Add(1) }

// positionsOf are the positions of the journal in which a slot lives.
func (s *Store) positionsOf(slot parley.Slot) *feedPositions { return s.positions[s.homes.Of(slot)] }

// SameHome reports whether two slots live in one journal.
func (s *Store) SameHome(a, b parley.Slot) bool { return s.homes.Same(a, b) }

// Append hands an entry to its journal. It never blocks and never fails at once:
// the outcome is passed to the entry's Release.
func (s writer) Append(e *journal.Entry) {
	l := s.lead.Load()
	if l == nil {
		if e.Release != nil {
			e.Release(journal.ErrNotLeader)
		}
		return
	}
	l.home(e.Slot).append(&item{Item: apply.Item{Entry: e}})
}

// activationBits is how many bits number the activations of one opening of a store, or of
// one term of a replica.
const activationBits = 40

// readersWait is how many milliseconds a closing store waits for open views.
const readersWait = 5000

// BeginClose ends all waits for room on the disk: what does not fit now is an error. What
// else writes to the disk can be closed after it, before Close.
func (s *Store) BeginClose() { s.beganClose.Do(func() { close(s.closing) }) }

// Close stores and releases everything that was appended, then closes the
// directory.
func (s *Store) Close() error {
	s.closed.Do(func() {
		s.BeginClose()
		if s.replica != nil {
			s.replica.StepDown(nil)
		} else {
			s.lead.Load().finish()
		}
		s.loops.Wait()
		s.shut.Store(true)
		for tries := 0; s.readers.Load() > 0 && tries < readersWait; tries++ {
			time.Sleep(time.Millisecond)
		}
		s.closeErr = errors.Join(s.replica.finish(), s.db.Close(), s.closeWitness(), s.lock.Close())
	})
	return s.closeErr
}

// RetryingFS is the file system of the directory as the engine has it: it waits for space.
func (s *Store) RetryingFS() vfs.FS { return s.opts.FS }

// AwaitSpace calls do, which writes a file beside the store. From Start to BeginClose, do is
// retried while there is no space, and meanwhile Trouble reports a full disk.
func (s *Store) AwaitSpace(path string, do func() error) error { return s.disk.AwaitSpace(path, do) }

// closeWitness leaves no window of undetected damage, unless commits were not
// synced.
func (s *Store) closeWitness() error {
	if s.opts.Unsynced {
		return s.witness.Close()
	}
	return s.witness.Finish()
}

// commitBatch numbers a batch, which changes the feeds of agents, applies it, and returns
// its size.
func (s *Store) commitBatch(b *pebble.Batch, agents []parley.AgentID) (h disk.Head, bytes int, err error) {
	s.commit.Lock()
	defer s.commit.Unlock()
	defer s.endOfEngine()
	h = s.head.Next(b.Repr())
	if err := b.Set(layout.HeadKey(h.Number), h.Append(nil), nil); err != nil {
		return disk.Head{}, 0, err
	}
	s.head, bytes = h, b.Len() // the engine owns a large batch once it is applied
	return h, bytes, s.write(b, h.Number, agents, !s.opts.Unsynced)
}

// write is the only way into the engine: it applies a numbered batch, which changes the feeds
// of agents, and begins to sync it if it is to be synced. The number is published first: a
// view that sees the batch waits for at least that number. The caller holds commit.
func (s *Store) write(b *pebble.Batch, number uint64, agents []parley.AgentID, synced bool) (err error) {
	s.applied.Store(number)
	s.feeds.Note(agents, number)
	if synced {
		err = s.db.ApplyNoSyncWait(b, pebble.Sync)
	} else {
		err = s.db.Apply(b, pebble.NoSync)
	}
	if err == nil {
		s.visible.Store(number)
	}
	return err
}

// endOfEngine ends the process with the reason if the engine panics, which it does
// when it cannot start another log.
func (s *Store) endOfEngine() {
	if reason := recover(); reason != nil {
		s.opts.Fatal(s.disk.Explain(fmt.Errorf("storage engine: %v", reason)))
		panic(reason) // Fatal should have ended the process
	}
}
