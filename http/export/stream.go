package export

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"net"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	stored "parley/actors/query/export"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/connlimit"
	"parley/http/limit"
	"parley/http/rest"
)

const (
	// chunkBytes is about how many bytes are written at once, chunks how many chunks
	// there are: one is filled, one waits, one is written.
	chunkBytes = 64 << 10
	chunks     = 3
	// chunkHead is the head of a chunk, with a size of eight digits, and chunkEnd its end.
	// source: RFC 9112 section 7.1
	chunkHead = "00000000\r\n"
	chunkEnd  = "\r\n"
	// stall is how long a reader may accept nothing.
	stall = 30 * time.Second
	// idBytesLeast is the least memory that an export may be given for ids.
	idBytesLeast = 1 << 20
	// sendBuffer is how much of an export the kernel may hold: with the usual send buffer a
	// distant reader would wait for each part of it. The kernel takes twice as much memory.
	sendBuffer = 1 << 20
	// ownBytes is about what an export takes besides: chunks, the record at hand, and what the
	// kernel holds.
	ownBytes = 4<<20 + 2*sendBuffer
)

// stream is one export. It writes as fast as its reader reads.
type stream struct {
	*Exports
	org      parley.OrgID
	began    time.Time
	read     *stored.Export
	hold     limit.Hold
	conn     net.Conn // guarded by exports.mu until attached
	broken   bool     // guarded by exports.mu
	draining <-chan struct{}
	// place is closed when the export may begin.
	place chan struct{}
	speed speed

	// chunk is being filled: room for its head, then lines.
	chunk   []byte
	records int
	// full are chunks to write, written those that were. One goroutine fills chunks, another
	// one hashes and writes them.
	full    chan []byte
	written chan writtenChunk

	sum hash.Hash // of the goroutine that writes
	// theirs is set when the reader has failed: such an export counts. It is of the
	// goroutine that writes until that ends.
	theirs bool
}

// writtenChunk is a chunk that may be filled again, unless an error occurred.
type writtenChunk struct {
	chunk []byte
	err   error
}

// Serve takes over a connection and writes everything that belongs to the caller's
// organization. // spec: Compliance and infrastructure
func (x *Exports) Serve(c *rest.Call, in *api.GetExport) error {
	if in.ID != c.Caller.Org {
		return errForeignOrg
	}
	if !c.RequestCtx().Request.Header.IsHTTP11() {
		return errHTTP10
	}
	st := &stream{Exports: x, org: in.ID, draining: c.Draining(), place: make(chan struct{}), sum: sha256.New()}
	if err := x.take(c, st, x.Quotas.Allowed(c.Caller, access.QuotaExports)); err != nil {
		return err
	}
	capacity, err := st.reserve(c)
	if err != nil {
		x.done(st, false)
		st.hold.Release()
		return err
	}
	if st.read, err = x.Node.Orgs.Export(c.Context(), in.ID, capacity); err != nil {
		x.done(st, false)
		st.hold.Release()
		return err
	}
	head := c.AppendChunkedHead(nil, api.MediaNDJSON, x.recordsHeader()+", "+digestHeader)
	ctx := c.Context()
	c.RequestCtx().HijackSetNoResponse(true)
	c.RequestCtx().Hijack(func(conn net.Conn) { st.serve(ctx, conn, head) })
	return nil
}

// reserve counts the export's memory for its caller: as much for ids as the caller may
// have.
func (st *stream) reserve(c *rest.Call) (capacity int, err error) {
	st.hold = st.Budget.Hold(c.Account(), nil)
	for capacity = stored.Bytes; capacity >= idBytesLeast; capacity /= 2 {
		if st.hold.Grow(capacity + ownBytes) {
			return capacity, nil
		}
	}
	return 0, rest.ErrHeld
}

const digestHeader = "Repr-Digest"

// recordsHeader is the name of the trailer with the number of lines.
func (x *Exports) recordsHeader() string {
	return "X-" + rest.HeaderWord(x.Show.Brand) + "-Export-Records"
}

// serve writes the export, and closes the connection. It runs in the engine's hijack
// goroutine.
func (st *stream) serve(ctx context.Context, conn net.Conn, head []byte) {
	conn, line := connlimit.Hijack(conn)
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // otherwise it is slower
	}
	completed := false
	defer func() {
		if cause := recover(); cause != nil {
			st.Logger.Error("export failed", "panic", cause, "stack", string(debug.Stack()))
		}
		if completed {
			connlimit.AwaitRead(conn, st.draining)
		}
		_ = connlimit.Shut(conn)
		if line != nil {
			line.Leave()
		}
		st.read.Close()
		st.done(st, completed || st.theirs && !st.isBroken(st))
		st.hold.Release()
	}()
	if !st.attach(st, conn) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, life)
	defer cancel()
	err := st.write(head)
	if err == nil {
		err = st.writeBody(ctx)
	}
	if completed = err == nil; !completed && !st.theirs {
		st.Logger.Warn("an export was broken off", "org", st.org.String(), "records", st.records, "error", err)
	}
}

// writeBody writes all lines, and the trailers if nothing lacks.
func (st *stream) writeBody(ctx context.Context) error {
	st.full, st.written = make(chan []byte, chunks), make(chan writtenChunk, chunks)
	for range chunks - 1 {
		st.written <- writtenChunk{}
	}
	st.chunk = append(st.chunk, chunkHead...)
	go st.writeChunks()
	err := st.fillChunks(ctx)
	for w := range st.written {
		err = cmp.Or(err, w.err)
	}
	if err != nil {
		return err
	}
	return st.write([]byte("0\r\n" + st.recordsHeader() + ": " + strconv.Itoa(st.records) + "\r\n" +
		digestHeader + ": " + encodedDigest(st.sum.Sum(nil)) + "\r\n\r\n"))
}

// fillChunks fills chunks with all lines. There are no more when it returns.
func (st *stream) fillChunks(ctx context.Context) error {
	defer close(st.full)
	if err := st.writeAll(ctx); err != nil {
		return err
	}
	if err := st.read.Readable(); err != nil { // it was erased meanwhile, and records may lack
		return err
	}
	return st.flush()
}

// begin begins a line, end ends it. What comes between is appended to chunk.
func (st *stream) begin(kind string) {
	st.chunk = append(append(append(st.chunk, `{"type":"`...), kind...), `","data":`...)
}

func (st *stream) end() error {
	st.chunk = append(st.chunk, "}\n"...)
	st.records++
	return st.flushFull()
}

// flushFull hands the chunk over if it is full, which it may be within a line.
func (st *stream) flushFull() error {
	if len(st.chunk) < chunkBytes {
		return nil
	}
	return st.flush()
}

// addValue writes one line with a value.
func (st *stream) addValue(kind string, value any) error {
	data, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return err
	}
	st.begin(kind)
	st.chunk = append(st.chunk, data...)
	return st.end()
}

// flush hands the lines at hand over as one chunk, and begins the next one.
func (st *stream) flush() error {
	if len(st.chunk) == len(chunkHead) {
		return nil
	}
	st.full <- st.chunk
	next := <-st.written
	st.chunk = append(next.chunk[:0], chunkHead...)
	return next.err
}

// writeChunks hashes and writes chunks until there are no more. After an error it only
// takes them.
func (st *stream) writeChunks() {
	defer close(st.written)
	var err error
	for chunk := range st.full {
		if err == nil {
			lines := chunk[len(chunkHead):]
			_, _ = st.sum.Write(lines) // never fails
			copy(chunk, fmt.Sprintf("%08x", len(lines)))
			err = st.write(append(chunk, chunkEnd...))
		}
		st.written <- writtenChunk{chunk, err}
	}
}

// write writes to the reader, and waits for it.
func (st *stream) write(b []byte) error {
	select {
	case <-st.draining:
		return rest.ErrDraining
	default:
	}
	if err := st.conn.SetWriteDeadline(st.Clock().Add(stall)); err != nil {
		st.theirs = true
		return err
	}
	st.speed.begin(st.Clock())
	n, err := st.conn.Write(b)
	st.speed.end(st.Clock(), n)
	st.theirs = err != nil
	return err
}
