package http

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"net"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"parley"
	"parley/actors/query"
	"parley/http/api"
	"parley/http/connlimit"
	"parley/http/limit"
	"parley/http/rest"
)

const (
	// exportChunk is about how many bytes are written at once.
	exportChunk = 64 << 10
	// exportStall is how long a reader may accept nothing.
	exportStall = 30 * time.Second
	// exportBytesLeast is the least memory that an export may be given for ids.
	exportBytesLeast = 1 << 20
	// exportOwn is about what an export takes besides: chunks, and the record at hand.
	exportOwn = 4 << 20
)

// exportStream is one export. It writes as fast as its reader reads.
type exportStream struct {
	*core
	org      parley.OrgID
	began    time.Time
	read     *query.Export
	hold     limit.Hold
	conn     net.Conn // guarded by exports.mu until attached
	broken   bool     // guarded by exports.mu
	draining <-chan struct{}

	chunk   []byte
	line    []byte
	records int
	sum     hash.Hash
	// theirs is set when the reader has failed: such an export counts.
	theirs bool
}

// export takes over a connection and writes everything that belongs to the caller's
// organization. // spec: Compliance and infrastructure
func (s compliance) export(c *rest.Call, in *api.GetExport) error {
	if in.ID != c.Caller.Org {
		return errForeignOrg
	}
	if !c.RequestCtx().Request.Header.IsHTTP11() {
		return errExportHTTP10
	}
	st := &exportStream{core: s.core, org: in.ID, draining: c.Draining(), sum: sha256.New()}
	capacity, err := st.reserve(c)
	if err != nil {
		return err
	}
	if err := s.exports.take(c, st, s.allowed(c.Caller, quotaExports)); err != nil {
		st.hold.Release()
		return err
	}
	if st.read, err = s.Node.Orgs.Export(c.Context(), in.ID, capacity); err != nil {
		s.exports.done(st, false)
		st.hold.Release()
		return err
	}
	head := c.AppendChunkedHead(nil, api.MediaNDJSON, s.recordsHeader()+", "+digestHeader)
	ctx := c.Context()
	c.RequestCtx().HijackSetNoResponse(true)
	c.RequestCtx().Hijack(func(conn net.Conn) { st.serve(ctx, conn, head) })
	return nil
}

// reserve counts the export's memory for its caller: as much for ids as the caller may
// have.
func (st *exportStream) reserve(c *rest.Call) (capacity int, err error) {
	st.hold = st.Budget.Hold(c.Account(), nil)
	for capacity = query.ExportBytes; capacity >= exportBytesLeast; capacity /= 2 {
		if st.hold.Grow(capacity + exportOwn) {
			return capacity, nil
		}
	}
	return 0, rest.ErrHeld
}

const digestHeader = "Repr-Digest"

// recordsHeader is the name of the trailer with the number of lines.
func (s *core) recordsHeader() string { return "X-" + rest.HeaderWord(s.Brand) + "-Export-Records" }

// serve writes the export, and closes the connection. It runs in the engine's hijack
// goroutine.
func (st *exportStream) serve(ctx context.Context, conn net.Conn, head []byte) {
	conn, line := connlimit.Hijack(conn)
	completed := false
	defer func() {
		if cause := recover(); cause != nil {
			st.Logger.Error("export failed", "panic", cause, "stack", string(debug.Stack()))
		}
		_ = conn.Close()
		if line != nil {
			line.Leave()
		}
		st.read.Close()
		st.exports.done(st, completed || st.theirs && !st.exports.isBroken(st))
		st.hold.Release()
	}()
	if !st.exports.attach(st, conn) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, exportLife)
	defer cancel()
	err := st.write(head)
	if err == nil {
		err = st.writeAll(ctx)
	}
	if err == nil {
		err = st.read.Readable() // else it was erased meanwhile, and records may lack
	}
	if err == nil {
		err = st.finish()
	}
	if completed = err == nil; !completed && !st.theirs {
		st.Logger.Warn("an export was broken off", "org", st.org.String(), "records", st.records, "error", err)
	}
}

// add writes one line.
func (st *exportStream) add(kind string, data []byte) error {
	st.chunk = append(append(append(append(append(st.chunk, `{"type":"`...), kind...), `","data":`...), data...), "}\n"...)
	st.records++
	if len(st.chunk) < exportChunk {
		return nil
	}
	return st.flush()
}

// addValue writes one line with a value.
func (st *exportStream) addValue(kind string, value any) error {
	data, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return err
	}
	return st.add(kind, data)
}

// flush writes the lines at hand as one chunk.
func (st *exportStream) flush() error {
	if len(st.chunk) == 0 {
		return nil
	}
	_, _ = st.sum.Write(st.chunk) // never fails
	err := st.write(fmt.Appendf(nil, "%x\r\n", len(st.chunk)), append(st.chunk, "\r\n"...))
	st.chunk = st.chunk[:0]
	return err
}

// finish writes the last chunk and the trailers.
func (st *exportStream) finish() error {
	if err := st.flush(); err != nil {
		return err
	}
	trailers := "0\r\n" + st.recordsHeader() + ": " + strconv.Itoa(st.records) + "\r\n" +
		digestHeader + ": " + encodedDigest(st.sum.Sum(nil)) + "\r\n\r\n"
	return st.write([]byte(trailers))
}

// write writes to the reader, and waits for it.
func (st *exportStream) write(parts ...[]byte) error {
	select {
	case <-st.draining:
		return errDraining
	default:
	}
	if err := st.conn.SetWriteDeadline(st.Clock().Add(exportStall)); err != nil {
		st.theirs = true
		return err
	}
	buffers := net.Buffers(parts)
	_, err := buffers.WriteTo(st.conn)
	st.theirs = err != nil
	return err
}
