package http

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	stdhttp "net/http"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// moody is a listener that fails in turn with what it is told, and then accepts.
type moody struct {
	net.Listener
	moods []error
}

func (m *moody) Accept() (net.Conn, error) {
	if len(m.moods) == 0 {
		return m.Listener.Accept()
	}
	err := m.moods[0]
	m.moods = m.moods[1:]
	return nil, err
}

func atMost(n int) lineBounds { return lineBounds{most: n, served: n, each: n} }

// serving is a connection on which a request has come.
func serving(conn net.Conn) net.Conn {
	conn.(*line).serves()
	return conn
}

func lineIn(t *testing.T) (net.Listener, func() net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln, func() net.Conn {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
}

// TestScarcityIsWaitedFor: what others may give back does not end the server;
// everything else does.
func TestScarcityIsWaitedFor(t *testing.T) {
	ln, dial := lineIn(t)
	wrapped := func(e syscall.Errno) error {
		return &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", e)}
	}
	l := newLines(&moody{ln, []error{wrapped(syscall.EMFILE), wrapped(syscall.ENFILE), wrapped(syscall.ENOMEM)}}, atMost(1), time.Now, nil)
	dial()
	if conn, err := l.Accept(); err != nil || conn == nil {
		t.Errorf("without descriptors for a while: %v", err)
	}
	for _, fatal := range []error{net.ErrClosed, io.ErrUnexpectedEOF, wrapped(syscall.EINVAL)} {
		if _, err := newLines(&moody{ln, []error{fatal}}, atMost(1), time.Now, nil).Accept(); !errors.Is(err, fatal) {
			t.Errorf("%v became %v", fatal, err)
		}
	}
}

// TestLinesAreBounded: who is too many is refused, and whoever closes, or is
// closed twice, makes room for one.
func TestLinesAreBounded(t *testing.T) {
	ln, dial := lineIn(t)
	l := newLines(ln, atMost(2), time.Now, func() []byte { return []byte("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n") })
	accepted := make(chan net.Conn)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	refused := func() {
		t.Helper()
		conn := dial()
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\n\r\n")
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if answer, err := stdhttp.ReadResponse(bufio.NewReader(conn), nil); err != nil || answer.StatusCode != 503 {
			t.Errorf("one too many: %v %v", answer, err)
		}
	}
	dial()
	first := serving(<-accepted)
	dial()
	second := serving(<-accepted)
	refused()
	_ = first.Close()
	_ = first.Close()
	dial()
	third := serving(<-accepted)
	refused()
	// A stream keeps the place of its connection after the engine let go of it.
	below, line := takeOver(second)
	if _ = second.Close(); line == nil {
		t.Fatal("no line below")
	}
	refused()
	_ = below.Close()
	line.leave()
	line.leave()
	dial()
	_ = (<-accepted).Close()
	_ = third.Close()
	if n, addresses, _ := l.stats(); n != 0 || addresses != 0 || l.served != 0 {
		t.Errorf("%d are counted and none is open", n)
	}
}

// TestTheCrowdedAreAnsweredLikeOthers: a whole answer in the shape of errors.
func TestTheCrowdedAreAnsweredLikeOthers(t *testing.T) {
	s := &Server{newRequestID: func() string { return "r1" }}
	client, server := net.Pipe()
	go func() { _, _ = server.Write(s.crowded()) }()
	answer, err := stdhttp.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, answer.ContentLength)
	_, err = io.ReadFull(answer.Body, body)
	seconds, badly := strconv.Atoi(answer.Header.Get("Retry-After"))
	if err != nil || badly != nil || seconds < 1 || answer.StatusCode != 503 || !answer.Close || answer.Header.Get("X-Request-Id") != "r1" {
		t.Errorf("%v %v", err, answer)
	}
	want := `{"detail":"The server is at capacity; nothing was done. Try again shortly.","error":"UnavailableError","code":"overloaded","request_id":"r1","retry_after":1}`
	if string(body) != want {
		t.Errorf("%s", body)
	}
}

// among accepts connections of two addresses, and gives the lines of those that
// were admitted; refused ones are nil.
type among struct {
	t *testing.T
	l *lines
	n int64
}

func newAmong(t *testing.T, bounds lineBounds) *among {
	a := &among{t: t}
	began := time.Now()
	a.l = newLines(nil, bounds, func() time.Time { a.n++; return began.Add(time.Duration(a.n)) }, nil)
	return a
}

func (a *among) from(address string) *line {
	client, server := net.Pipe()
	a.t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return a.l.admit(addressed{server, &net.TCPAddr{IP: net.ParseIP(address), Port: 1}})
}

type addressed struct {
	net.Conn
	address net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.address }

func gone(l *line) bool { return l.state.Load() == lineGone }

// TestSilentConnectionsMakeRoom opens all connections that there may be over real
// sockets and says nothing: every request of others is served. In the control silent
// connections keep their places, and each request is turned away.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	const places = 8
	for name, want := range map[string]int{"bounded": 200, "control": 503} {
		t.Run(name, func(t *testing.T) {
			s := newToyTCP(t, func(o *Options) { o.Concurrency, o.PerAddress = places, places })
			await(t, "it serves", func() bool { return s.lines.Load() != nil })
			l := s.lines.Load()
			l.mu.Lock()
			l.bounds.settled = name == "control"
			l.mu.Unlock()
			for n := range places {
				conn, err := s.dial()
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				await(t, "a connection is not counted", func() bool { open, _, _ := l.stats(); return open == n+1 })
			}
			for range 4 {
				if a := s.ask(t, "GET", "/things/public", "", "Connection: close"); a.StatusCode != want {
					t.Errorf("a request among silent connections: %s", a.Status)
				}
			}
		})
	}
}

// TestAnAddressKeepsNoOtherOut: one that serves as many requests as it may leaves
// room for others. The control lets it have all connections.
func TestAnAddressKeepsNoOtherOut(t *testing.T) {
	for each, want := range map[int]bool{4: true, 8: false} {
		a := newAmong(t, lineBounds{most: 8, served: 8, each: each})
		for range 8 {
			if l := a.from("192.0.2.1"); l != nil {
				l.serves()
			}
		}
		if admitted := a.from("192.0.2.2") != nil; admitted != want {
			t.Errorf("beside %d requests of one address another's is admitted: %v", each, admitted)
		}
	}
}

func TestTheLongestIdleMakesRoom(t *testing.T) {
	a := newAmong(t, atMost(4))
	first, second, third, fourth := a.from("192.0.2.1"), a.from("192.0.2.2"), a.from("192.0.2.3"), a.from("192.0.2.4")
	first.serves()
	second.serves()
	_ = second.SetReadDeadline(time.Time{}) // its request was answered: it waits again, since the fourth came
	if a.from("192.0.2.5") == nil || !gone(third) {
		t.Fatal("the longest idle stays")
	}
	if a.from("192.0.2.6") == nil || !gone(fourth) || gone(second) {
		t.Fatal("the next longest idle stays")
	}
	fourth.leave() // its engine's worker notices
	if a.from("192.0.2.7") == nil || !gone(second) || gone(first) {
		t.Fatal("one that has answered long ago stays, or one goes that serves a request")
	}
	if open, _, count := a.l.stats(); open != 4 || count != (LineCount{Evicted: 3}) {
		t.Errorf("%d open, %+v", open, count)
	}
}

func TestAnAddressHasABound(t *testing.T) {
	a := newAmong(t, lineBounds{most: 100, served: 100, each: 3, exempt: func(a netip.Addr) bool { return a.String() == "10.0.0.1" }})
	other := a.from("192.0.2.1")
	var own []*line
	for i := range 5 { // of one network
		own = append(own, a.from("2001:db8::"+strconv.Itoa(i+1)))
	}
	if gone(other) || !gone(own[0]) || !gone(own[1]) || gone(own[2]) {
		t.Error("not the longest idle of the address goes")
	}
	for _, l := range own[2:] {
		l.serves()
	}
	if a.from("2001:db8::9") != nil || a.from("2001:db8:0:1::9") == nil || a.from("192.0.2.1") == nil {
		t.Error("an address that serves as many requests as it may gets one more, or another gets none")
	}
	for range 10 {
		l := a.from("10.0.0.1")
		if l == nil {
			t.Fatal("a proxy is bounded")
		}
		l.serves() // and so makes room for nobody
	}
}

// TestStreamsLeaveRoomForRequests: what a stream has taken counts among all only.
func TestStreamsLeaveRoomForRequests(t *testing.T) {
	a := newAmong(t, lineBounds{most: 4, served: 1, each: 4})
	for range 3 {
		l := a.from("192.0.2.1")
		if _, taken := takeOver(l); taken != l {
			t.Fatal("a stream was closed for another")
		}
	}
	last := a.from("192.0.2.1")
	if last.serves(); a.from("192.0.2.2") != nil {
		t.Error("one too many")
	}
}

// TestIdleLinesAreFoundCheaply: a newcomer looks at all lines once in a while only.
func TestIdleLinesAreFoundCheaply(t *testing.T) {
	const most = 4 * oldestKept
	a := newAmong(t, atMost(most))
	var want []*line
	for range 3 * most {
		want = append(want, a.from("192.0.2.1"))
	}
	for i, l := range want {
		if gone(l) != (i < 2*most) {
			t.Fatalf("line %d of %d: gone %v", i, len(want), gone(l))
		}
	}
	if looks := a.l.all.looks; looks > 2*most/oldestKept+1 {
		t.Errorf("%d newcomers cost %d looks at all lines", len(want), looks)
	}
}

// busy has as many lines as there may be, all of which serve a request.
func busy(t *testing.T, most int) (a *among, lines []*line) {
	a = newAmong(t, atMost(most))
	for range most {
		lines = append(lines, a.from("192.0.2.1"))
		lines[len(lines)-1].serves()
	}
	return a, lines
}

// TestNewcomersOfABusyServerLookOnce: where no line waits, nobody looks for one
// again before one does.
func TestNewcomersOfABusyServerLookOnce(t *testing.T) {
	a, lines := busy(t, 10)
	own := a.l.addresses[lines[0].address]
	turnedAway := func(newcomers int) {
		t.Helper()
		for range newcomers {
			if a.from("192.0.2.1") != nil {
				t.Fatal("there was room")
			}
		}
	}
	turnedAway(1000)
	_ = lines[3].SetReadDeadline(time.Time{})
	if late := a.from("192.0.2.1"); late == nil || !gone(lines[3]) {
		t.Fatal("one that waits again makes no room")
	} else {
		late.serves()
	}
	turnedAway(1000)
	if own.looks > 4 || a.l.all.looks > 4 {
		t.Errorf("2,000 newcomers cost %d and %d looks at all lines", own.looks, a.l.all.looks)
	}
}

// TestNewcomersOfABusyServerLookOnceControl forgets what the last look has shown.
func TestNewcomersOfABusyServerLookOnceControl(t *testing.T) {
	a, lines := busy(t, 10)
	own := a.l.addresses[lines[0].address]
	for range 1000 {
		own.waits()
		a.from("192.0.2.1")
	}
	if own.looks < 1000 {
		t.Errorf("a thousand newcomers that each look cost %d looks", own.looks)
	}
}

// TestARequestWhoseAnswerWouldBeLostIsNotServed: a connection that has made room for
// another after its request was read, and before it was served, ends unserved.
func TestARequestWhoseAnswerWouldBeLostIsNotServed(t *testing.T) {
	h := wireHall(t, 1)
	defer h.close()
	w := newWire(newEars(false))
	defer w.Close()
	h.conns <- w
	w.ask(t, h.sendRequest(), 201)
	name, handle, handled := h.server.newRequestID, h.server.handle, 0
	h.server.handle = func(ctx *fasthttp.RequestCtx) { handled++; handle(ctx) }
	h.server.newRequestID = func() string { // the request is read, and not served yet
		l := h.server.lines.Load()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.all.longest(mayGo{}, l.now()) == nil {
			t.Error("no line waits")
		}
		return name()
	}
	if body := w.ask(t, h.sendRequest(), 503); !bytes.Contains(body, []byte(`"overloaded"`)) {
		t.Errorf("%s", body)
	}
	if handled != 0 {
		t.Error("a request was served whose connection is gone")
	}
	await(t, "the connection is open", func() bool {
		select {
		case <-w.closed:
			return true
		default:
			return false
		}
	})
}
