package directory

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/bits"
	"runtime"
	"sync"

	"parley/actors/directory/words"
	"parley/client/parley"
)

// ReadCheckpoint returns the index that WriteCheckpoint wrote, and its mark. It leaves
// out vectors of another embedder or dimension than o names. open gets what seal
// returned, and is called from several goroutines; if it returns nil and no error, the
// cards of the block are left out: their organization is erased. Damage, also in what
// open returns, is ErrCheckpoint.
func ReadCheckpoint(from io.Reader, o Options, open func(org parley.OrgID, block int, sealed []byte) ([]byte, error)) (*Index, []byte, error) {
	l := newLoader(from, o, open)
	mark, err := l.header()
	if err == nil {
		err = l.blocks()
	}
	if err != nil {
		return nil, nil, err
	}
	l.state.settle()
	l.index.state.Store(l.state)
	return l.index, mark, nil
}

// loader reads a checkpoint into an index that no reader has. Workers open and decode the
// blocks, and one of them at a time adds what it has decoded.
type loader struct {
	from  *bufio.Reader
	index *Index
	open  func(org parley.OrgID, block int, sealed []byte) ([]byte, error)
	dim   int  // of the stored vectors
	keep  bool // the vectors

	mu    sync.Mutex
	state *state
}

func newLoader(from io.Reader, o Options, open func(org parley.OrgID, block int, sealed []byte) ([]byte, error)) *loader {
	return &loader{
		from: bufio.NewReaderSize(from, 1<<18), index: New(o), open: open, dim: o.Dim, keep: true,
		state: &state{generation: 1, vocab: newVocabulary(), vals: newValues()},
	}
}

// part is a block as it is stored.
type part struct {
	number  int
	owner   parley.AnyID
	cards   uint32
	content []byte
}

// read returns n bytes in b, and checks the checksum that follows them. sum is that of
// what precedes them in the part.
func (l *loader) read(b []byte, n int, sum uint32) ([]byte, error) {
	if cap(b) < n+4 {
		b = make([]byte, n+4)
	}
	b = b[:n+4]
	if _, err := io.ReadFull(l.from, b); err != nil {
		return nil, notWhole(err)
	}
	if crc32.Update(sum, castagnoli, b[:n]) != binary.BigEndian.Uint32(b[n:]) {
		return nil, fmt.Errorf("%w: wrong checksum", ErrCheckpoint)
	}
	return b[:n], nil
}

func notWhole(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: not whole", ErrCheckpoint)
	}
	return err
}

func (l *loader) header() ([]byte, error) {
	var fixed [len(checkpointMagic) + 6]byte
	if _, err := io.ReadFull(l.from, fixed[:]); err != nil {
		return nil, notWhole(err)
	}
	if string(fixed[:len(checkpointMagic)]) != checkpointMagic {
		return nil, fmt.Errorf("%w: another kind of file", ErrCheckpoint)
	}
	if version := binary.BigEndian.Uint16(fixed[len(checkpointMagic):]); version != checkpointVersion {
		return nil, fmt.Errorf("%w: version %d, want %d", ErrCheckpoint, version, checkpointVersion)
	}
	n := binary.BigEndian.Uint32(fixed[len(checkpointMagic)+2:])
	if n > headerBytesMax {
		return nil, fmt.Errorf("%w: a header of %d bytes", ErrCheckpoint, n)
	}
	header, err := l.read(nil, int(n), crc32.Checksum(fixed[:], castagnoli))
	if err != nil {
		return nil, err
	}
	r := reader{data: header}
	embedder, dim, mark := string(r.text()), r.uvarint(), bytes.Clone(r.text())
	if r.failed || dim > 1<<16 {
		return nil, fmt.Errorf("%w: bad header", ErrCheckpoint)
	}
	l.dim = int(dim)
	l.keep = embedder == l.index.options.Embedder && l.dim == l.index.options.Dim
	return mark, nil
}

// blocks reads all blocks. Each worker decodes some of them.
func (l *loader) blocks() error {
	parts, spare := make(chan part), make(chan []byte, 4*runtime.GOMAXPROCS(0))
	failed := make(chan error, 1)
	var running sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			for p := range parts {
				if err := l.part(p); err != nil {
					select {
					case failed <- err:
					default: // another one has failed before
					}
				}
				select {
				case spare <- p.content:
				default:
				}
			}
		})
	}
	err := l.send(parts, spare, failed)
	close(parts)
	running.Wait()
	select {
	case first := <-failed:
		return first
	default:
		return err
	}
}

// send reads the blocks and passes them on, until the end or until one has failed.
func (l *loader) send(parts chan<- part, spare <-chan []byte, failed chan error) error {
	cards := uint64(0)
	for number := 0; ; number++ {
		var fixed [24]byte
		if _, err := io.ReadFull(l.from, fixed[:4]); err != nil {
			return notWhole(err)
		}
		n := binary.BigEndian.Uint32(fixed[:4])
		if n == 0 {
			end, err := l.read(nil, 8, crc32.Checksum(fixed[:4], castagnoli))
			if err == nil && binary.BigEndian.Uint64(end) != cards {
				err = fmt.Errorf("%w: cards are missing", ErrCheckpoint)
			}
			return err
		}
		if n > blockBytesMax {
			return fmt.Errorf("%w: a block of %d bytes", ErrCheckpoint, n)
		}
		if _, err := io.ReadFull(l.from, fixed[4:]); err != nil {
			return notWhole(err)
		}
		var b []byte
		select {
		case b = <-spare:
		default:
		}
		content, err := l.read(b, int(n), crc32.Checksum(fixed[:], castagnoli))
		if err != nil {
			return err
		}
		p := part{number, parley.AnyID(fixed[4:20]), binary.BigEndian.Uint32(fixed[20:]), content}
		cards += uint64(p.cards)
		select {
		case parts <- p:
		case err := <-failed:
			return err
		}
	}
}

// recordBytesMin is less than the shortest record takes.
const recordBytesMin = 32

// record is a document with the terms that the vocabulary had when it was decoded, and
// its vector, which is nil if it has none.
type record struct {
	document
	known  []*term
	vector *vector
}

// part opens and decodes a block, and adds its documents.
func (l *loader) part(p part) error {
	plain, err := l.open(parley.OrgID(p.owner), p.number, p.content)
	if err != nil || plain == nil {
		return err
	}
	if uint64(p.cards)*recordBytesMin > uint64(len(plain)) {
		return fmt.Errorf("%w: a block of %d bytes for %d cards", ErrCheckpoint, len(plain), p.cards)
	}
	records := make([]record, p.cards)
	r, text := reader{data: plain}, string(plain)
	for i := range records {
		records[i].owner = p.owner
		l.record(&r, text, &records[i])
		records[i].known = l.state.vocab.known(&records[i].document)
	}
	if r.failed || len(r.data) > 0 {
		return fmt.Errorf("%w: bad cards", ErrCheckpoint)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range records {
		if _, twice := l.index.ordinals[records[i].id]; twice {
			return fmt.Errorf("%w: a card is there twice", ErrCheckpoint)
		}
		if l.state.limit%64 == 0 {
			l.state.live = append(l.state.live, 0)
		}
		x := &records[i]
		l.index.insert(l.state, &x.document, x.known, x.vector, true)
	}
	return nil
}

// record decodes a document. Its terms are parts of text, which is the block: the vocabulary copies
// those that are new to it.
func (l *loader) record(r *reader, text string, x *record) {
	copy(x.id[:], r.bytes(16))
	x.version, x.embedded = r.uint64(), r.uint64()
	x.created, x.updated = r.varint(), r.varint()
	copy(x.lengths[:], r.bytes(fieldsMax))
	x.key = string(r.text())
	values := r.count()
	for range values {
		x.values = append(x.values, string(r.text()))
	}
	terms := r.count()
	x.terms = make([]occurrence, 0, terms)
	for range terms {
		n := len(r.text())
		if r.failed = r.failed || n == 0 || n > words.BytesMax; r.failed {
			return
		}
		end := len(text) - len(r.data)
		x.terms = append(x.terms, occurrence{text[end-n : end], frequencies(r.byte())})
	}
	x.vector = l.vector(r)
}

// count reads the number of things that have at least a byte each.
func (r *reader) count() int {
	n := r.uvarint()
	if n > uint64(len(r.data)) {
		r.data, r.failed = nil, true
		return 0
	}
	return int(n)
}

// vector decodes the vector of a document, nil if there is none or it is not to be kept.
func (l *loader) vector(r *reader) *vector {
	kind := r.byte()
	if kind == vectorNone || r.failed {
		return nil
	}
	var set []byte
	n := l.dim
	if kind == vectorSparse {
		set = r.bytes((l.dim + 7) / 8)
		n = 0
		for _, b := range set {
			n += bits.OnesCount8(b)
		}
	}
	data := r.bytes(4 * n)
	if kind > vectorSparse || r.failed || n > l.dim {
		r.failed = true
		return nil
	}
	if !l.keep {
		return nil
	}
	v := &vector{data: make([]float32, l.dim)}
	for row := range v.data {
		if set == nil || set[row/8]&(1<<(row%8)) != 0 {
			v.data[row] = math.Float32frombits(binary.LittleEndian.Uint32(data))
			data = data[4:]
		}
	}
	return v
}
