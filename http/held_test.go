package http

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"parley/client/parley"
	"parley/http/httpserver"
	"parley/http/limit"
	"parley/http/rest"
)

// heldPerAnswer sends the same request on many connections whose clients do not read
// the answer. It returns the bytes of heap that each holds meanwhile. careless, if set,
// changes each answer.
func (h *wired) heldPerAnswer(t *testing.T, request []byte, careless func(*fasthttp.RequestCtx)) float64 {
	t.Helper()
	const readers = arrivals
	var made atomic.Int64
	var asked sync.Map // of *fasthttp.RequestCtx by request id
	*inside[func(*rest.Call) error](h.server, "judge") = func(c *rest.Call) error {
		asked.Store(c.RequestID(), c.RequestCtx())
		return nil
	}
	h.observe(func(a httpserver.Answer) {
		if ctx, ok := asked.Load(a.RequestID); ok && careless != nil {
			careless(ctx.(*fasthttp.RequestCtx))
		}
		made.Add(1)
	})

	wires := make([]*wire, readers)
	for i := range wires {
		wires[i] = newWire(&receiver{streaming: true, said: make(chan struct{}, 1)})
		wires[i].answer = nil
		defer wires[i].Close()
		defer wires[i].hold()()
		h.conns <- wires[i]
	}
	before := liveHeap()
	for _, w := range wires {
		w.asked <- request
	}
	for until := time.Now().Add(20 * time.Second); made.Load() < readers; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d of %d answers are ready", made.Load(), readers)
		}
	}
	return (liveHeap() - before) / readers
}

// liveHeap returns the bytes that are reachable, without pools: the second collection
// empties them.
func liveHeap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// heldFile bounds the memory of an answer whose body all answers share: the
// connection's own buffers.
const heldFile = 64 << 10

func TestDocumentationFilesAreShared(t *testing.T) {
	for _, path := range []string{"/docs/swagger-ui-bundle.js", "/openapi.json"} {
		h := wireHarness(t, 1)
		request := h.request("GET", path, nil)
		w := newWire(newReceiver(false))
		h.conns <- w
		if body := w.ask(t, request, 200); len(body) < heldFile {
			t.Errorf("%s has only %d bytes, too few for this test", path, len(body))
		}
		_ = w.Close()
		if held := h.heldPerAnswer(t, request, nil); held > heldFile {
			t.Errorf("an unread answer of %s holds %.0f bytes, at most %d are allowed", path, held, heldFile)
		}
		h.close()
	}
}

// TestDocumentationFilesAreSharedControl inflates the file for each answer.
func TestDocumentationFilesAreSharedControl(t *testing.T) {
	if raceDetector {
		t.Skip("inflating hundreds of files takes too long, and connections time out")
	}
	h := wireHarness(t, 1)
	defer h.close()
	packed, err := os.ReadFile("docs/swagger-ui-bundle.js.gz")
	if err != nil {
		t.Fatal(err)
	}
	careless := func(ctx *fasthttp.RequestCtx) {
		r, _ := gzip.NewReader(bytes.NewReader(packed))
		body, _ := io.ReadAll(r)
		ctx.Response.SetBodyRaw(body)
	}
	if held := h.heldPerAnswer(t, h.request("GET", "/docs/swagger-ui-bundle.js", nil), careless); held < 4*heldFile {
		t.Errorf("an answer that inflates the file itself holds only %.0f bytes", held)
	}
}

// announced is the head of a send of 1 MiB and the first bytes of its body.
func (h *wired) announced(bytes int) []byte {
	head := fmt.Appendf(nil, "POST /messages HTTP/1.1\r\nHost: home\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", h.bearer, parley.BodyBytesMax)
	return append(head, strings.Repeat("x", bytes)...)
}

// arriving opens connections on which a body begins to arrive and never ends.
func (h *wired) arriving(connections, bytes int) (wires []*wire) {
	for range connections {
		w := newWire(newReceiver(false))
		w.answer = nil
		h.conns <- w
		w.asked <- h.announced(bytes)
		wires = append(wires, w)
	}
	return wires
}

func closeAll(wires []*wire) {
	for _, w := range wires {
		_ = w.Close()
	}
}

func await(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("after 20 s: %s", what)
		}
	}
}

// Of a body with 20,000 bytes received, the server holds 32 KiB, plus the connection's
// own buffers.
const (
	arrivals    = 50
	arrivedHeld = 32 << 10
)

func TestBodyMemoryGrowsWithReceivedBytes(t *testing.T) {
	h := wireHarness(t, 1)
	defer h.close()
	h.setBudget(limit.NewBudget(1 << 30))
	before := liveHeap()
	wires := h.arriving(arrivals, 20_000)
	await(t, "not all of it counts", func() bool { return h.budget().Stats().Held == arrivals*arrivedHeld })
	if each := (liveHeap() - before) / arrivals; each > arrivedHeld+heldFile {
		t.Errorf("a body of 1 MiB with 20,000 bytes received holds %.0f bytes", each)
	}
	closeAll(wires)
	await(t, "those who left still hold", func() bool { return h.budget().Stats().Held == 0 })
}

// TestBodyMemoryGrowsWithReceivedBytesControl: the engine reads the bodies, and
// allocates the announced length.
func TestBodyMemoryGrowsWithReceivedBytesControl(t *testing.T) {
	h := wireHarness(t, 1)
	defer h.close()
	inside[fasthttp.Server](h.server, "engine").StreamRequestBody = false
	before := liveHeap()
	defer closeAll(h.arriving(arrivals, 20_000))
	await(t, "the engine reserves no more than what came", func() bool { return (liveHeap()-before)/arrivals > parley.BodyBytesMax/2 })
}

// TestIncomingBodiesHaveABudget: one organization's bodies cannot hold more than its
// share of the budget. Small requests are still served.
func TestIncomingBodiesHaveABudget(t *testing.T) {
	h := wireHarness(t, 1)
	defer h.close()
	const share = 10 * arrivedHeld
	h.setBudget(limit.NewBudget(9 * share))
	wires := h.arriving(arrivals, 20_000)
	defer closeAll(wires)
	refused := func() (n int) {
		for _, w := range wires {
			w.mu.Lock()
			if status, body, whole := wholeAnswer(w.answer); whole && status == 503 && bytes.Contains(body, []byte(`"overloaded"`)) && bytes.Contains(w.answer, []byte("Retry-After: ")) {
				n++
			}
			w.mu.Unlock()
		}
		return n
	}
	await(t, "too many bodies arrive", func() bool { return refused() == arrivals-10 })
	if s := h.budget().Stats(); s.Held != share || s.Peak > share || s.Refused != arrivals-10 {
		t.Errorf("%+v, want %d held", s, share)
	}
	w := newWire(newReceiver(false))
	defer w.Close()
	h.conns <- w
	w.ask(t, h.sendRequest(), 201)
}

// longInbox fills the recipient's inbox and returns the request for a page of nearly 1
// MiB.
func (h *wired) longInbox(t *testing.T) []byte {
	t.Helper()
	w := newWire(newReceiver(false))
	defer w.Close()
	h.conns <- w
	h.payload = bytes.Repeat([]byte("Q"), parley.PayloadCharsMax)
	for range 8 {
		w.ask(t, h.sendRequest(), 201)
	}
	h.payload = []byte("Q")
	page := h.request("GET", "/agents/"+h.to.String()+"/messages", nil)
	w.ask(t, page, 200) // marks them as transferred
	await(t, "answers that have left still hold", func() bool { return h.budget().Stats().Held == 0 })
	return page
}

// TestUnreadAnswersHaveABudget: clients request pages and do not read them. The server
// renders only as many pages as the organization's budget allows, and each counts once.
// When they are released, it renders others again.
func TestUnreadAnswersHaveABudget(t *testing.T) {
	h := wireHarness(t, 1)
	defer h.close()
	h.setBudget(limit.NewBudget(9 * 5 << 20))
	page := h.longInbox(t)
	before := liveHeap()
	var open []func()
	for range arrivals {
		w := newWire(newReceiver(false))
		defer w.Close()
		w.answer = nil
		open = append(open, w.hold())
		h.conns <- w
		w.asked <- page
	}
	await(t, "pages are made without end", func() bool { s := h.budget().Stats(); return s.Refused >= arrivals-5 })
	held := h.budget().Stats().Held
	if grown := int64(liveHeap() - before); held < 4<<20 || held > 5<<20 || grown > held+arrivals*heldFile {
		t.Errorf("%d bytes are held, the heap grew by %d", held, grown)
	}
	w := newWire(newReceiver(false))
	defer w.Close()
	h.conns <- w
	w.ask(t, h.sendRequest(), 201)
	w.ask(t, page, 503)
	for _, let := range open {
		let()
	}
	await(t, "what has left still holds", func() bool { return h.budget().Stats().Held == 0 })
	w.ask(t, page, 200)
}

// TestUnreadAnswersHaveABudgetControl: without a budget, every page is rendered and
// held.
func TestUnreadAnswersHaveABudgetControl(t *testing.T) {
	h := wireHarness(t, 1)
	defer h.close()
	page := h.longInbox(t)
	var held atomic.Int64
	h.heldPerAnswer(t, page, func(ctx *fasthttp.RequestCtx) { held.Add(int64(ctx.Response.Header.ContentLength())) })
	if each := held.Load() / arrivals; each < 800<<10 {
		t.Errorf("an unread page holds only %d bytes", each)
	}
}

// TestChangeWithoutRoomForAnswerIsOutcomeUnknown: if the budget has no room for an
// answer, a read is refused, but a change reports an unknown outcome.
func TestChangeWithoutRoomForAnswerIsOutcomeUnknown(t *testing.T) {
	h := wireHarness(t, 1)
	defer h.close()
	page := h.longInbox(t)
	w := newWire(newReceiver(false))
	defer w.Close()
	h.conns <- w
	_, id, _ := bytes.Cut(w.ask(t, page, 200), []byte(`"id":"`))
	id, _, _ = bytes.Cut(bytes.Clone(id[:50]), []byte(`"`))
	h.setBudget(limit.NewBudget(1))
	for _, c := range []struct{ method, path, code string }{
		{"GET", "/messages/" + string(id), "overloaded"},
		{"POST", "/messages/" + string(id) + "/read", "outcome_unknown"},
	} {
		if body := w.ask(t, h.request(c.method, c.path, nil), 503); !bytes.Contains(body, []byte(`"`+c.code+`"`)) {
			t.Errorf("%s %s: %s", c.method, c.path, body)
		}
	}
}

// TestSlowStreamReadersHaveABudget: what a stream holds for a reader that reads nothing
// counts towards its organization's budget. Beyond the budget the stream ends, and the
// next stream sends what it missed.
func TestSlowStreamReadersHaveABudget(t *testing.T) {
	for _, c := range []struct {
		budget *limit.Budget
		open   int
	}{{limit.NewBudget(1), 0}, {limit.NewBudget(64 << 20), 1}, {nil, 1}} {
		h := wireHarness(t, 1)
		h.service.streams.Budget = c.budget
		e := newReceiver(true)
		open := h.held(e, 1)
		w := newWire(newReceiver(false))
		h.conns <- w
		h.payload = bytes.Repeat([]byte("Q"), parley.PayloadCharsMax)
		w.ask(t, h.sendRequest(), 201)
		await(t, "the event is not written", func() bool {
			return h.service.OpenStreams() == 0 || h.service.StreamStats().Lagging > 0
		})
		if n := h.service.OpenStreams(); n != c.open {
			t.Errorf("%d streams are open, want %d", n, c.open)
		}
		if held := c.budget.Stats().Held; c.budget != nil && (held > 0) != (c.open > 0) {
			t.Errorf("%d bytes are held", held)
		}
		open()
		if c.open == 0 {
			h.service.streams.Budget = nil
			again := newWire(e)
			defer again.Close()
			h.stream(again, again)
		}
		await(t, "the event is lost", func() bool { return e.events.Load() == 1 })
		await(t, "what was taken is held", func() bool { return c.budget.Stats().Held == 0 })
		_ = w.Close()
		h.close()
	}
}

// fullBudget makes organizations send bodies that never end until the budget is full.
// It returns the status of a send of another organization and how many connections were
// evicted. yields: the budget may end requests in favour of others.
func fullBudget(t *testing.T, yields bool) (status int, evicted uint64) {
	h := wireHarness(t, 1, func(o *harnessOptions) { o.Server.Connections.Fixed = !yields })
	defer h.close()
	h.setBudget(limit.NewBudget(48 << 20))
	own := h.bearer
	probe := newWire(newReceiver(false))
	defer probe.Close()
	h.conns <- probe
	probe.ask(t, h.request("GET", "/org", nil), 200)
	settled := func() { // none of them grows any more
		await(t, "bodies arrive without end", func() bool {
			n := h.budget().Stats().Held
			time.Sleep(8 * time.Millisecond)
			return n == h.budget().Stats().Held
		})
	}
	var wires []*wire
	defer func() { closeAll(wires) }()
	for i := range 32 {
		h.bearer = h.tenant("org" + strconv.Itoa(i)).token
		some := h.arriving(6, 600_000>>(i/8)) // they hold 1 MiB each, later ones less
		settled()
		wires = append(wires, some...)
	}
	h.bearer, h.payload = own, bytes.Repeat([]byte("Q"), parley.PayloadCharsMax)
	w := newWire(newReceiver(false))
	defer w.Close()
	h.conns <- w
	w.asked <- h.sendRequest()
	await(t, "the send is not answered", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		var whole bool
		status, _, whole = wholeAnswer(w.answer)
		return whole
	})
	count := h.server.Load().Exceeded
	await(t, "what was ended stays", func() bool { return h.budget().Stats().Leaving == 0 })
	return status, count.Evicted
}

// TestManyOrganizationsLeaveRoom: 32 organizations whose bodies never end cannot keep
// another organization from sending a large message.
func TestManyOrganizationsLeaveRoom(t *testing.T) {
	if status, evicted := fullBudget(t, true); status != 201 || evicted == 0 {
		t.Errorf("a large send is answered %d, and %d requests were ended", status, evicted)
	}
	if status, evicted := fullBudget(t, false); status != 503 || evicted != 0 {
		t.Errorf("control: without eviction it is answered %d, and %d requests were ended", status, evicted)
	}
}
