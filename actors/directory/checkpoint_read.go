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
	l := &loader{from: bufio.NewReaderSize(from, 1<<18), index: New(o), open: open}
	mark, err := l.header()
	if err == nil {
		err = l.blocks()
	}
	if err == nil {
		err = l.assemble()
	}
	if err != nil {
		return nil, nil, err
	}
	return l.index, mark, nil
}

// loader reads a checkpoint into an index that no reader has. Workers open and decode the
// blocks, each with a vocabulary of its own; assemble joins these.
type loader struct {
	from  *bufio.Reader
	index *Index
	open  func(org parley.OrgID, block int, sealed []byte) ([]byte, error)
	dim   int  // of the stored vectors
	keep  bool // the vectors
	// generation is that of all cards.
	generation uint64
	workers    []*decoder

	mu    sync.Mutex
	limit uint32
	pages []*page
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
	l.generation = l.index.state.Load().generation + 1
	return mark, nil
}

// blocks reads all blocks. Each worker decodes some of them.
func (l *loader) blocks() error {
	parts, spare := make(chan part), make(chan []byte, 4*runtime.GOMAXPROCS(0))
	failed := make(chan error, 1)
	var running sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		d := newDecoder(l)
		l.workers = append(l.workers, d)
		running.Go(func() {
			for p := range parts {
				if err := d.part(p); err != nil {
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
			failed <- err
			return err
		}
	}
}

// reserve returns the first of n ordinals, and the pages that hold them.
func (l *loader) reserve(n uint32) (uint32, []*page) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.limit
	l.limit += n
	for len(l.pages)*pageSize < int(l.limit) {
		l.pages = append(l.pages, &page{})
	}
	return first, l.pages
}

// recordBytesMin is less than the shortest record takes.
const recordBytesMin = 32

// decoder decodes blocks. Terms and values have numbers of its own, which assemble
// replaces.
type decoder struct {
	*loader
	terms   termTable
	values  map[string]uint32
	byValue []string
	blocks  []decoded
	carve   carver
	// numbered and counts are of the block that is decoded, term of the record.
	numbered []uint64
	term     []byte
}

// decoded is a block: the terms of its cards one after another, each with its number and
// frequencies, and how many each card has.
type decoded struct {
	first    uint32
	numbered []uint64
	counts   []uint32
}

func newDecoder(l *loader) *decoder {
	return &decoder{loader: l, terms: newTermTable(), values: map[string]uint32{}, term: make([]byte, 0, words.BytesMax+8)}
}

// part opens and decodes a block.
func (d *decoder) part(p part) error {
	plain, err := d.open(parley.OrgID(p.owner), p.number, p.content)
	if err != nil || plain == nil {
		return err
	}
	if uint64(p.cards)*recordBytesMin > uint64(len(plain)) {
		return fmt.Errorf("%w: a block of %d bytes for %d cards", ErrCheckpoint, len(plain), p.cards)
	}
	first, pages := d.reserve(p.cards)
	b := decoded{first: first, counts: make([]uint32, 0, p.cards)}
	cards := make([]card, p.cards)
	r := reader{data: plain}
	d.numbered = d.numbered[:0]
	for i := range cards {
		before := len(d.numbered)
		ordinal := first + uint32(i)
		cards[i].owner = p.owner
		d.record(&r, &cards[i], pages[ordinal/pageSize], int(ordinal%pageSize))
		if r.failed {
			return fmt.Errorf("%w: bad card", ErrCheckpoint)
		}
		b.counts = append(b.counts, uint32(len(d.numbered)-before))
	}
	if len(r.data) > 0 {
		return fmt.Errorf("%w: bytes after the last card of a block", ErrCheckpoint)
	}
	b.numbered = append(make([]uint64, 0, len(d.numbered)), d.numbered...)
	d.blocks = append(d.blocks, b)
	return nil
}

// record decodes a card into its place.
func (d *decoder) record(r *reader, c *card, p *page, i int) {
	copy(c.id[:], r.bytes(16))
	c.version.Store(r.uint64())
	c.embedded = r.uint64()
	p.created[i], c.updated = r.varint(), r.varint()
	copy(p.lengths[i][:], r.bytes(fieldsMax))
	c.key = string(r.text())
	p.begin[i], p.born[i], p.cards[i] = beginOf(c.key), d.generation, c
	count := r.uvarint()
	var before []byte
	vals := make([]uint32, 0, min(count, 32))
	for ; count > 0 && !r.failed; count-- {
		key := r.text()
		if bytes.Compare(before, key) >= 0 {
			r.failed = true
			return
		}
		before = key
		val, known := d.values[string(key)]
		if !known {
			val = uint32(len(d.byValue))
			text := string(key)
			d.values[text], d.byValue = val, append(d.byValue, text)
		}
		vals = append(vals, val)
	}
	c.values = append(make([]uint32, 0, len(vals)), vals...)
	d.readTerms(r)
	d.readVector(r, p, i)
}

// readTerms decodes the terms of a card, which ascend.
func (d *decoder) readTerms(r *reader) {
	count := r.uvarint()
	if count > uint64(len(r.data)) {
		r.failed = true
		return
	}
	term, data := d.term[:0], r.data
	for ; count > 0; count-- {
		if len(data) < 3 {
			r.failed = true
			return
		}
		shared, more, f := int(data[0]), int(data[1]), data[2]
		data = data[3:]
		if more == 0 || more > len(data) || shared > len(term) || shared+more > words.BytesMax || shared < len(term) && data[0] <= term[shared] {
			r.failed = true
			return
		}
		term = append(term[:shared], data[:more]...)
		data = data[more:]
		d.numbered = append(d.numbered, uint64(d.terms.number(term))<<8|uint64(f))
	}
	r.data = data
}

// readVector decodes the vector of a card, if there is one, into its block.
func (d *decoder) readVector(r *reader, p *page, i int) {
	kind := r.byte()
	if kind == vectorNone || r.failed {
		return
	}
	var set []byte
	n := d.dim
	if kind == vectorSparse {
		set = r.bytes((d.dim + 7) / 8)
		n = 0
		for _, b := range set {
			n += bits.OnesCount8(b)
		}
	}
	data := r.bytes(4 * n)
	if kind > vectorSparse || r.failed || n > d.dim {
		r.failed = true
		return
	}
	if !d.keep {
		return
	}
	b := p.blocks[i/blockSize].Load()
	if b == nil { // the block may have cards of two workers
		p.blocks[i/blockSize].CompareAndSwap(nil, &block{data: make([]float32, d.dim*blockSize)})
		b = p.blocks[i/blockSize].Load()
	}
	b.since[i%blockSize] = d.generation
	next := 0
	for row := range d.dim {
		if set != nil && set[row/8]&(1<<(row%8)) == 0 {
			continue
		}
		b.data[row*blockSize+i%blockSize] = math.Float32frombits(binary.LittleEndian.Uint32(data[next:]))
		next += 4
	}
}
