package http

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/client/parley"
	"parley/http/content"
)

// wire is a connection that counts the system calls of a real one and allocates nothing
// itself, so that tests measure only the server.
type wire struct {
	asked    chan []byte
	rest     []byte // the unread part of a request; only Read uses it
	closed   chan struct{}
	once     sync.Once
	receiver *receiver
	gate     atomic.Pointer[chan struct{}]

	mu     sync.Mutex
	answer []byte
}

// receiver counts what the server writes to one or more wires.
type receiver struct {
	// streaming: the answer is an event stream. Its events are counted and not kept.
	streaming bool
	writes    atomic.Int64
	events    atomic.Int64
	said      chan struct{}
	// careless, if set, processes each write, like a server that wastes memory.
	careless func([]byte)
}

func newReceiver(streaming bool) *receiver {
	return &receiver{streaming: streaming, said: make(chan struct{}, 1)}
}

func newWire(e *receiver) *wire {
	return &wire{asked: make(chan []byte, 1), closed: make(chan struct{}), receiver: e, answer: make([]byte, 0, 256<<10)}
}

func (w *wire) Read(p []byte) (int, error) {
	for len(w.rest) == 0 {
		select {
		case w.rest = <-w.asked:
		case <-w.closed:
			return 0, io.EOF
		}
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

var messageEvent = []byte("event: message\n")

// Write stands for one system call of a server on a socket.
func (w *wire) Write(p []byte) (int, error) {
	if gate := w.gate.Load(); gate != nil {
		<-*gate
	}
	if w.receiver.streaming {
		w.receiver.events.Add(int64(bytes.Count(p, messageEvent)))
	} else {
		w.mu.Lock()
		w.answer = append(w.answer, p...)
		w.mu.Unlock()
	}
	if w.receiver.careless != nil {
		w.receiver.careless(p)
	}
	w.receiver.writes.Add(1)
	select {
	case w.receiver.said <- struct{}{}:
	default:
	}
	return len(p), nil
}

// hold delays writes until the returned function is called.
func (w *wire) hold() (open func()) {
	gate := make(chan struct{})
	w.gate.Store(&gate)
	return func() { w.gate.Store(nil); close(gate) }
}

func (w *wire) Close() error                     { w.once.Do(func() { close(w.closed) }); return nil }
func (w *wire) LocalAddr() net.Addr              { return &wireAddress }
func (w *wire) RemoteAddr() net.Addr             { return &wireAddress }
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

var wireAddress = net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}

// splitConn writes each piece of the data that ends with mark separately.
type splitConn struct {
	*wire
	mark string
}

func (a splitConn) Write(p []byte) (int, error) {
	for piece := range bytes.SplitAfterSeq(p, []byte(a.mark)) {
		if len(piece) == 0 {
			continue
		}
		if _, err := a.wire.Write(piece); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func undressed(w *wire) net.Conn { return w }

// ask sends a request and returns the body of the answer, which the next call
// overwrites.
func (w *wire) ask(t testing.TB, request []byte, status int) (body []byte) {
	w.mu.Lock()
	w.answer = w.answer[:0]
	w.mu.Unlock()
	w.asked <- request
	for {
		select {
		case <-w.receiver.said:
		case <-w.closed:
			t.Fatal("the server closed the connection")
		}
		w.mu.Lock()
		got, body, whole := wholeAnswer(w.answer)
		w.mu.Unlock()
		if !whole {
			continue
		}
		if got != status {
			t.Fatalf("answered %d: %s", got, body)
		}
		return body
	}
}

// wholeAnswer parses an answer, if b contains all of it.
func wholeAnswer(b []byte) (status int, body []byte, whole bool) {
	head := bytes.Index(b, []byte("\r\n\r\n"))
	if head < 0 {
		return 0, nil, false
	}
	status, _ = strconv.Atoi(string(b[len("HTTP/1.1 "):][:3]))
	_, length, _ := bytes.Cut(b[:head+2], []byte("\r\nContent-Length: "))
	length, _, _ = bytes.Cut(length, []byte("\r\n"))
	n, err := strconv.Atoi(string(length))
	body = b[head+4:]
	return status, body, err == nil && len(body) >= n
}

// wired is a harness whose connections are wires.
type wired struct {
	*harness
	conns   chan net.Conn
	bearer  string
	to      parley.AgentID
	from    parley.AgentID
	payload []byte
}

// wireHarness returns a harness with two agents, from and to.
func wireHarness(t testing.TB, journals int, change ...func(*harnessOptions)) *wired {
	ln := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	h := &wired{harness: newHarness(t, journals, ln, nil, change...), conns: ln.conns, payload: bytes.Repeat([]byte("Q"), 1024)}
	h.bearer, h.from, h.to = h.token(h.client), h.agent("from"), h.agent("to")
	return h
}

// stream opens a stream of the recipient on w, which the server uses as conn, and waits
// until it is open.
func (h *wired) stream(w *wire, conn net.Conn) {
	h.t.Helper()
	open := h.service.OpenStreams()
	h.conns <- conn
	w.asked <- h.request("GET", "/agents/"+h.to.String()+"/stream", nil)
	for until := time.Now().Add(30 * time.Second); h.service.OpenStreams() == open; time.Sleep(50 * time.Microsecond) {
		if time.Now().After(until) {
			h.t.Fatal("after ten seconds the stream is not open")
		}
	}
}

// held opens streams of the recipient whose writes are delayed until the returned
// function is called.
func (h *wired) held(e *receiver, streams int) (open func()) {
	var all []func()
	for range streams {
		w := newWire(e)
		h.stream(w, w)
		all = append(all, w.hold())
	}
	return func() {
		for _, open := range all {
			open()
		}
	}
}

func (h *wired) request(method, path string, body []byte) []byte {
	head := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: home\r\nAuthorization: Bearer %s\r\n", method, path, h.bearer)
	if body != nil {
		head = fmt.Appendf(head, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	return append(append(head, "\r\n"...), body...)
}

// said returns the members that a message and a reply of 1 KiB share.
func (h *wired) said() []byte {
	return fmt.Appendf(nil, `"type":"svc.v1.dm","encrypted_payload":"%s","encryption_version":"hpke-v1",`+
		`"metadata":{"trace":"0af7651916cd43dd8448eb211c80319c","priority":5,"tags":["a","b","c"]},"content_type":"application/json"}`, h.payload)
}

func (h *wired) sendRequest() []byte {
	return h.request("POST", "/messages", append([]byte(`{"to_handle":"to@home.home.example","from_handle":"from@home.home.example",`), h.said()...))
}

// replyRequest sends a message and returns the request that replies to it.
func (h *wired) replyRequest(w *wire) []byte {
	h.t.Helper()
	body := w.ask(h.t, h.sendRequest(), 201)
	id, _, ok := bytes.Cut(body[len(`{"id":"`):], []byte{'"'})
	if !ok {
		h.t.Fatalf("no id in %s", body)
	}
	return h.request("POST", "/messages/"+string(id)+"/reply", append([]byte{'{'}, h.said()...))
}

// inboxRequest returns the request for a full page of 20 messages that have been
// delivered already.
func (h *wired) inboxRequest(w *wire) []byte {
	h.t.Helper()
	send := h.sendRequest()
	for range 40 {
		w.ask(h.t, send, 201)
	}
	page := h.request("GET", "/agents/"+h.to.String()+"/messages?limit=20", nil)
	if n := bytes.Count(w.ask(h.t, page, 200), []byte(`"status":"delivered"`)); n != 20 {
		h.t.Fatalf("a page of %d messages", n)
	}
	return page
}

// body is the content of a message, as the journal stores it, whose event takes about
// 1.5 KiB.
func (h *wired) body() []byte {
	return content.Encode(nil, &content.Envelope{Payload: strings.Repeat("Q", 700), Version: "hpke-v1", ContentType: "application/json"})
}
