package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The engine's log ends at the first record that cannot be read. In its newest
// block the engine cannot tell a write that a power failure cut short from one
// that was synced, acknowledged and damaged since: it would open without that
// record and report nothing. So every commit has a number and a hash of all
// commits up to it, stored in the commit itself, and a small file beside the
// engine's files, the durability witness, says which commit was acknowledged
// last. A journal that ends before that commit, or has another hash there, has
// lost acknowledged data and is not opened. The witness also records what was
// acknowledged of the keyring (KeyringState), for the same reason: an old file of it looks
// like one that was never changed since.
//
// The witness lags the acknowledgements by at most witnessEvery plus one sync.
// After a crash, damage to the log inside that window goes undetected. An
// orderly close leaves no window.

const (
	// WitnessName is the name of the witness file in the data directory.
	WitnessName = "witness"
	// witnessEvery is the minimum pause between two writes of the witness.
	witnessEvery = 50 * time.Millisecond
	// witnessSlot is the distance in bytes between the two copies. A write goes to
	// one of them only, so the other stays intact whatever becomes of the write.
	witnessSlot  = 8192
	witnessMagic = "parleyW3"
	// witnessBytesMin is the size of a copy that records neither files nor a keyring,
	// witnessBytesMax that of the longest one. It fits into a slot.
	witnessBytesMin = 32 + fileChecksumsMin + 16 + 8
	witnessBytesMax = 32 + fileChecksumsMax + keyringStateMax + 8
)

var _ [witnessSlot - witnessBytesMax]struct{}

// ErrDamaged is returned if the directory lacks acknowledged data or a file that is
// needed cannot be read. The directory is not opened.
var ErrDamaged = errors.New("the data directory is damaged")

// Head identifies a commit: its number, counted from 1 without a gap over all
// openings, and the hash of everything committed up to it.
type Head struct {
	Number uint64
	Chain  uint64
}

// Next is the head after one more batch.
func (h Head) Next(batch []byte) Head {
	var b [24]byte
	binary.BigEndian.PutUint64(b[:], h.Chain)
	binary.BigEndian.PutUint64(b[8:], h.Number+1)
	binary.BigEndian.PutUint64(b[16:], xxhash.Sum64(batch))
	return Head{Number: h.Number + 1, Chain: xxhash.Sum64(b[:])}
}

// Append adds the 16 bytes of a head to b.
func (h Head) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, h.Number), h.Chain)
}

// DecodeHead reads what Append wrote. Anything but 16 bytes is ErrDamaged.
func DecodeHead(b []byte) (Head, error) {
	if len(b) != 16 {
		return Head{}, fmt.Errorf("%w: commit head of %d bytes", ErrDamaged, len(b))
	}
	return headAt(b), nil
}

func headAt(b []byte) Head {
	return Head{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}

// Witness is the open witness file of a data directory.
type Witness struct {
	file vfs.File
	// files is what the next write records about the engine's files. RetryingFS
	// updates it.
	files *fileChecksums

	// generation counts writes; its parity chooses the copy. The goroutine that
	// holds turn writes.
	turn       chan struct{}
	generation uint64

	mu      sync.Mutex
	head    Head
	keyring KeyringState
	news    chan struct{}
}

// WitnessRecord is the content of one sound copy of a witness file.
type WitnessRecord struct {
	// Head is the last commit that was acknowledged; zero if there was none.
	Head Head
	// Keyring is what was acknowledged of the keyring; zero if there was none.
	Keyring    KeyringState
	generation uint64
	files      *fileChecksums
}

// KnowsFiles reports whether the record names the manifest in use. Without it
// CheckFiles can say nothing.
func (t *WitnessRecord) KnowsFiles() bool { return t.files.known() }

// ForgetKeyring drops what the record says about the keyring.
func (t *WitnessRecord) ForgetKeyring() { t.Keyring = KeyringState{} }

// ForgetFiles drops what the record says about the engine's files.
func (t *WitnessRecord) ForgetFiles() { t.files.reset() }

// CheckFiles compares the engine's files in dir with the record; manifest is
// the file name that the marker names. It reports whether every log that exists
// is finished and whole, so that the end of the log need not be examined.
func (t *WitnessRecord) CheckFiles(fs vfs.FS, dir, manifest string) (whole bool, err error) {
	return t.files.check(fs, dir, manifest)
}

// ReadWitness reads the witness of a directory: the newer of its sound copies.
// Without a sound copy the error is ErrDamaged.
func ReadWitness(fs vfs.FS, dir string) (*WitnessRecord, error) {
	path := fs.PathJoin(dir, WitnessName)
	file, err := fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: the file %s cannot be read: %w", ErrDamaged, path, err)
	}
	b := make([]byte, 2*witnessSlot)
	n, _ := file.ReadAt(b, 0) // what cannot be read fails its checksum
	if err := file.Close(); err != nil {
		return nil, err
	}
	newest := (*WitnessRecord)(nil)
	for _, copied := range [][]byte{b[:min(n, witnessSlot)], b[min(n, witnessSlot):n]} {
		if record, ok := decodeWitnessRecord(copied); ok && (newest == nil || record.generation >= newest.generation) {
			newest = record
		}
	}
	if newest == nil {
		return nil, fmt.Errorf("%w: both copies in %s are unreadable", ErrDamaged, path)
	}
	return newest, nil
}

// OpenWitness opens a witness for writing; it continues from what was read.
func OpenWitness(fs vfs.FS, dir string, record *WitnessRecord) (*Witness, error) {
	file, err := fs.OpenReadWrite(fs.PathJoin(dir, WitnessName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return newWitness(file, *record), nil
}

func newWitness(file vfs.File, record WitnessRecord) *Witness {
	return &Witness{
		file: file, files: record.files, generation: record.generation, head: record.Head, keyring: record.Keyring,
		turn: make(chan struct{}, 1), news: make(chan struct{}, 1),
	}
}

// MakeWitness writes a witness that records commit h and nothing about files. It
// replaces any that exists.
func MakeWitness(fs vfs.FS, dir string, h Head) (*Witness, error) {
	file, err := fs.OpenReadWrite(fs.PathJoin(dir, WitnessName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	w := newWitness(file, WitnessRecord{Head: h, files: &fileChecksums{}})
	// Both copies in full: later writes do not change the size of the file.
	_, err = file.WriteAt(make([]byte, 2*witnessSlot), 0)
	for range 2 {
		if err == nil {
			err = w.Write()
		}
	}
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = SyncDirectory(fs, dir)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return w, nil
}

// Write records the current state in the older copy and syncs it. After a failed
// write the next one takes the same copy again: the other one is intact.
func (w *Witness) Write() error {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	generation := w.generation + 1
	b := append(make([]byte, 0, witnessSlot), witnessMagic...)
	w.mu.Lock()
	head, keyring := w.head, w.keyring
	w.mu.Unlock()
	b = head.Append(binary.BigEndian.AppendUint64(b, generation))
	b = keyring.append(w.files.append(b))
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

// decodeWitnessRecord reads one copy. Bytes of a longer, former copy may follow it.
func decodeWitnessRecord(b []byte) (*WitnessRecord, bool) {
	if len(b) < witnessBytesMin || string(b[:8]) != witnessMagic {
		return nil, false
	}
	record := &WitnessRecord{generation: binary.BigEndian.Uint64(b[8:]), Head: headAt(b[16:]), files: &fileChecksums{}}
	rest, ok := record.files.decode(b[32:])
	if ok {
		rest, ok = record.Keyring.decode(rest)
	}
	if !ok || len(rest) < 8 {
		return nil, false
	}
	end := len(b) - len(rest)
	return record, binary.BigEndian.Uint64(rest) == xxhash.Sum64(b[:end]) && record.generation > 0
}

// Note records that all commits up to h are acknowledged. The file follows later.
func (w *Witness) Note(h Head) {
	w.mu.Lock()
	newer := h.Number > w.head.Number
	if newer {
		w.head = h
	}
	w.mu.Unlock()
	if newer {
		w.again()
	}
}

// NoteKeyring records that a state of the keyring is durable: in addition to what is
// recorded of the same keyring, or instead of what is recorded of another one. The file
// follows later.
func (w *Witness) NoteKeyring(state KeyringState) {
	w.mu.Lock()
	news := w.keyring.raise(state)
	w.mu.Unlock()
	if news {
		w.again()
	}
}

// NoteShard records that a generation of a shard of the keyring is durable. The file
// follows later.
func (w *Witness) NoteShard(shard byte, generation uint64) {
	w.mu.Lock()
	news := generation > w.keyring.Generations[shard]
	if news {
		w.keyring.Generations[shard] = generation
	}
	w.mu.Unlock()
	if news {
		w.again()
	}
}

// Rewind lowers the recorded commit: the operator gave up what is missing.
func (w *Witness) Rewind(h Head) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.head = h
}

// Latest is the last commit that was noted.
func (w *Witness) Latest() Head {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.head
}

// again requests one more write of the witness.
func (w *Witness) again() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// Finish closes the witness of an orderly stop, after which there is no window:
// it writes the latest commit first.
func (w *Witness) Finish() error { return errors.Join(w.Write(), w.file.Close()) }

// Close closes the file and writes nothing.
func (w *Witness) Close() error { return w.file.Close() }
