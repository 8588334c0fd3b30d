package persistence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The engine's log ends where it cannot be read any more. Of its newest block
// it cannot tell a write that a loss of power cut short from one that was
// synced, acknowledged and has rotted since: it would open without it and say
// nothing. So every commit has a number and a hash of all that was committed
// up to it, kept in the commit itself; and a small file beside the engine's,
// the witness, says which commit was the last to be acknowledged. A journal that
// ends before its witness, or has another hash there, has lost something that
// somebody was told, and is not opened.
//
// The witness follows the acknowledgements, by witnessEvery and a sync at most:
// that is the window within which rot of the last log block goes unnoticed,
// and only after a crash. Closing in order leaves none.

const (
	witnessName = "witness"
	// witnessEvery is the least pause between two writes of the witness.
	witnessEvery = 50 * time.Millisecond
	// headsKept is how many commits back the hash is known: many more than can be
	// committed while the witness follows.
	headsKept = 4096
	// witnessSlot is the distance of the two copies, one of which is intact
	// whatever becomes of a write to the other.
	witnessSlot  = 4096
	witnessMagic = "parleyW2"
	// formerMagic begins a copy of a release that told of commits alone.
	formerMagic = "parleyW1"
	formerBytes = 40
)

// ErrDamaged: the directory does not hold what was acknowledged, or cannot be
// read where it should. It is not opened.
var ErrDamaged = errors.New("the data directory is damaged")

// head is a commit: its number, from 1 on without a gap over all openings, and
// the hash of everything committed up to it.
type head struct {
	number uint64
	chain  uint64
}

// next is the head after a batch.
func (h head) next(batch []byte) head {
	var b [24]byte
	binary.BigEndian.PutUint64(b[:], h.chain)
	binary.BigEndian.PutUint64(b[8:], h.number+1)
	binary.BigEndian.PutUint64(b[16:], xxhash.Sum64(batch))
	return head{number: h.number + 1, chain: xxhash.Sum64(b[:])}
}

func (h head) append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, h.number), h.chain)
}

func decodeHead(b []byte) (head, error) {
	if len(b) != 16 {
		return head{}, fmt.Errorf("%w: commit head of %d bytes", ErrDamaged, len(b))
	}
	return head{number64(b, 0), number64(b, 8)}, nil
}

// headKey is where the head of a commit is kept, until headsKept more have come.
func headKey(number uint64) []byte {
	return binary.BigEndian.AppendUint16(metaKey(headFamily, 0, 2), uint16(number%headsKept))
}

// floorKey is where the commit is kept up to which heads are not asked for: some
// of those were given up.
func floorKey() []byte {
	return binary.BigEndian.AppendUint16(metaKey(headFamily, 0, 2), math.MaxUint16)
}

// lastHead is the newest commit of a journal; at is the one numbered so, zero
// if it is not known any more or not yet. whole says that none is missing of
// those that are kept.
func lastHead(r pebble.Reader, number uint64) (last, at head, whole bool, err error) {
	prefix := metaKey(headFamily, 0, 0)
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return head{}, head{}, false, err
	}
	floor, known := uint64(0), uint64(0)
	for ok := iter.First(); ok && err == nil; ok = iter.Next() {
		var h head
		h, err = decodeHead(iter.Value())
		if bytes.Equal(iter.Key(), floorKey()) {
			floor = h.number
			continue
		}
		if h.number > last.number {
			last = h
		}
		known++
		if h.number == number {
			at = h
		}
	}
	return last, at, known == min(last.number-floor, headsKept), errors.Join(err, iter.Close())
}

// witness is the file that says how far the journals are acknowledged, and
// which files there are to be.
type witness struct {
	file vfs.File
	// files is what the next write says of the engine's files. It is shared with
	// those who write them.
	files *fileChecksums

	// generation counts writes; its parity chooses the copy. Whoever writes has
	// the turn.
	turn       chan struct{}
	generation uint64

	mu   sync.Mutex
	head head
	news chan struct{}
}

// witnessCopy is what one copy says.
type witnessCopy struct {
	generation uint64
	head       head
	files      *fileChecksums
}

// readWitness gives what the witness of a directory says: the newer of its sound
// copies. ErrDamaged says that there is none.
func readWitness(fs vfs.FS, dir string) (*witnessCopy, error) {
	path := fs.PathJoin(dir, witnessName)
	file, err := fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: the file %s cannot be read: %w", ErrDamaged, path, err)
	}
	b := make([]byte, 2*witnessSlot)
	n, _ := file.ReadAt(b, 0) // what cannot be read fails its checksum
	if err := file.Close(); err != nil {
		return nil, err
	}
	newest := (*witnessCopy)(nil)
	for _, copied := range [][]byte{b[:min(n, witnessSlot)], b[min(n, witnessSlot):n]} {
		if said, ok := decodeWitness(copied); ok && (newest == nil || said.generation >= newest.generation) {
			newest = said
		}
	}
	if newest == nil {
		return nil, fmt.Errorf("%w: both copies in %s are unreadable", ErrDamaged, path)
	}
	return newest, nil
}

// openWitness opens a witness for writing that goes on from what it said.
func openWitness(fs vfs.FS, dir string, said *witnessCopy) (*witness, error) {
	file, err := fs.OpenReadWrite(fs.PathJoin(dir, witnessName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return newWitness(file, *said), nil
}

func newWitness(file vfs.File, said witnessCopy) *witness {
	return &witness{
		file: file, files: said.files, generation: said.generation, head: said.head,
		turn: make(chan struct{}, 1), news: make(chan struct{}, 1),
	}
}

// makeWitness writes a witness that says h and nothing of files, over any that
// is there.
func makeWitness(fs vfs.FS, dir string, h head) (*witness, error) {
	file, err := fs.OpenReadWrite(fs.PathJoin(dir, witnessName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	w := newWitness(file, witnessCopy{head: h, files: &fileChecksums{}})
	// Both copies, whole: later writes change no file's size.
	_, err = file.WriteAt(make([]byte, 2*witnessSlot), 0)
	for range 2 {
		if err == nil {
			err = w.write()
		}
	}
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = syncDirectory(fs, dir)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return w, nil
}

func syncDirectory(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// write puts what is known now into the older copy. Where that fails, the next
// write takes the same copy again: the other one is intact.
func (w *witness) write() error {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	generation := w.generation + 1
	b := append(make([]byte, 0, witnessSlot), witnessMagic...)
	b = w.latest().append(binary.BigEndian.AppendUint64(b, generation))
	b = w.files.append(b)
	b = binary.BigEndian.AppendUint64(b, xxhash.Sum64(b))
	_, err := w.file.WriteAt(b, int64(generation%2)*witnessSlot)
	if err == nil {
		err = w.file.SyncData()
	}
	if err == nil {
		w.generation = generation
	}
	return err
}

// decodeWitness reads a copy. Behind it may stand what a longer one left.
func decodeWitness(b []byte) (*witnessCopy, bool) {
	if len(b) < formerBytes {
		return nil, false
	}
	said, end := &witnessCopy{generation: number64(b, 8), head: head{number64(b, 16), number64(b, 24)}, files: &fileChecksums{}}, 32
	switch string(b[:8]) {
	case formerMagic:
	case witnessMagic:
		rest, ok := said.files.decode(b[end:])
		if !ok || len(rest) < 8 {
			return nil, false
		}
		end = len(b) - len(rest)
	default:
		return nil, false
	}
	return said, number64(b, end) == xxhash.Sum64(b[:end]) && said.generation > 0
}

// note takes down that all commits up to h are acknowledged.
func (w *witness) note(h head) {
	w.mu.Lock()
	newer := h.number > w.head.number
	if newer {
		w.head = h
	}
	w.mu.Unlock()
	if newer {
		w.again()
	}
}

// rewind has the witness say less than it did: what is missing was given up.
func (w *witness) rewind(h head) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.head = h
}

func (w *witness) latest() head {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.head
}

// keepWitness writes the witness whenever there is something new, until the
// store closes. What is stored does not rest on it: where it cannot be written
// the window stays open, so no more is taken in (see Trouble) until it can.
func (s *Store) keepWitness() {
	w := s.witness
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-w.news:
		}
		s.disk.witnessing.CompareAndSwap(0, s.age())
		wait := witnessEvery
		if err := w.write(); err != nil {
			wait = roomEvery
			s.opts.Logger.Error("the witness cannot be written", "file", witnessName, "error", err)
			w.again()
		} else {
			s.disk.witnessing.Store(0)
		}
		pause.Reset(wait)
		select {
		case <-s.closing:
			return
		case <-pause.C:
		}
	}
}

// again has the witness written once more.
func (w *witness) again() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// close leaves a witness without a window.
func (w *witness) close(synced bool) error {
	var err error
	if synced {
		err = w.write()
	}
	return errors.Join(err, w.file.Close())
}

// testify holds the journal that was opened against its witness.
func (s *Store) testify() error {
	last, at, whole, err := lastHead(s.db, s.witness.head.number)
	if err == nil {
		err = s.compare(s.witness.head, last, at, whole)
	}
	if err != nil && s.opts.AcceptLoss {
		s.opts.Logger.Warn("what is missing is given up", "error", err)
		s.witness.rewind(last)
		if err = s.giveUp(last); err == nil {
			err = s.witness.write()
		}
	}
	s.head = last
	s.applied.Store(last.number)
	s.durable.raise(last.number)
	return err
}

// compare tells what is missing of what was acknowledged. whole says that there
// is no gap before the last commit.
func (s *Store) compare(said, last, at head, whole bool) error {
	switch {
	case last.number < said.number:
		return fmt.Errorf("%w: the journal in %s ends at commit %d, and commits up to %d were acknowledged: %d are missing from the end of its log",
			ErrDamaged, s.dir, last.number, said.number, said.number-last.number)
	case said.number > 0 && last.number-said.number < headsKept && at != said:
		return fmt.Errorf("%w: commit %d of the journal in %s is not the one that was acknowledged", ErrDamaged, said.number, s.dir)
	case !whole:
		return fmt.Errorf("%w: of the newest commits of the journal in %s, up to %d, some are missing: a log, or a part of the manifest, is not there", ErrDamaged, s.dir, last.number)
	}
	return nil
}

// giveUp asks for no heads before the last any more, some of which are missing.
func (s *Store) giveUp(last head) error {
	b := s.db.NewBatch()
	defer func() { _ = b.Close() }()
	prefix := metaKey(headFamily, 0, 0)
	if err := b.DeleteRange(prefix, after(prefix), nil); err != nil {
		return err
	}
	if last.number > 0 {
		err := errors.Join(b.Set(headKey(last.number), last.append(nil), nil), b.Set(floorKey(), head{number: last.number - 1}.append(nil), nil))
		if err != nil {
			return err
		}
	}
	return b.Commit(pebble.Sync)
}
