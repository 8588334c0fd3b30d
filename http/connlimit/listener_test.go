package connlimit

import (
	"bufio"
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
)

// moody is a listener that returns the given errors, one per call, and then accepts.
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

func atMost(n int) Bounds { return Bounds{Total: n, Served: n, PerAddress: n} }

// serving marks a connection as serving a request.
func serving(conn net.Conn) net.Conn {
	conn.(*Conn).serve()
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

// TestTemporaryErrorsDoNotStopTheListener: a lack of resources that others may free
// does not stop the server; every other error does.
func TestTemporaryErrorsDoNotStopTheListener(t *testing.T) {
	ln, dial := lineIn(t)
	wrapped := func(e syscall.Errno) error {
		return &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", e)}
	}
	l := Limit(&moody{ln, []error{wrapped(syscall.EMFILE), wrapped(syscall.ENFILE), wrapped(syscall.ENOMEM)}}, atMost(1), time.Now, nil)
	dial()
	if conn, err := l.Accept(); err != nil || conn == nil {
		t.Errorf("after a temporary lack of descriptors: %v", err)
	}
	for _, fatal := range []error{net.ErrClosed, io.ErrUnexpectedEOF, wrapped(syscall.EINVAL)} {
		if _, err := Limit(&moody{ln, []error{fatal}}, atMost(1), time.Now, nil).Accept(); !errors.Is(err, fatal) {
			t.Errorf("%v became %v", fatal, err)
		}
	}
}

// TestConnectionsAreBounded: a connection beyond the limit is refused. A closed
// connection frees one place, even if it is closed twice.
func TestConnectionsAreBounded(t *testing.T) {
	ln, dial := lineIn(t)
	l := Limit(ln, atMost(2), time.Now, func() []byte { return []byte("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n") })
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
			t.Errorf("the connection beyond the limit: %v %v", answer, err)
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
	// A stream keeps the place of its connection after the engine has released it.
	below, line := Hijack(second)
	if _ = second.Close(); line == nil {
		t.Fatal("the hijacked connection has no connection below it")
	}
	refused()
	_ = below.Close()
	line.Leave()
	line.Leave()
	dial()
	_ = (<-accepted).Close()
	_ = third.Close()
	if n, addresses, _ := l.Stats(); n != 0 || addresses != 0 || l.served != 0 {
		t.Errorf("%d connections are counted, but none is open", n)
	}
}

// among admits connections from given addresses. from returns nil for a connection that
// was refused.
type among struct {
	t *testing.T
	l *Listener
	n int64
}

func newAmong(t *testing.T, bounds Bounds) *among {
	a := &among{t: t}
	began := time.Now()
	a.l = Limit(nil, bounds, func() time.Time { a.n++; return began.Add(time.Duration(a.n)) }, nil)
	return a
}

func (a *among) from(address string) *Conn {
	client, server := net.Pipe()
	a.t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return a.l.admit(addressed{server, &net.TCPAddr{IP: net.ParseIP(address), Port: 1}})
}

type addressed struct {
	net.Conn
	address net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.address }

func gone(l *Conn) bool { return l.state.Load() == stateEvicted }

// TestAddressAtItsBoundLeavesRoom: an address that serves as many requests as it may
// leaves room for others. The control allows it all connections.
func TestAddressAtItsBoundLeavesRoom(t *testing.T) {
	for each, want := range map[int]bool{4: true, 8: false} {
		a := newAmong(t, Bounds{Total: 8, Served: 8, PerAddress: each})
		for range 8 {
			if l := a.from("192.0.2.1"); l != nil {
				l.serve()
			}
		}
		if admitted := a.from("192.0.2.2") != nil; admitted != want {
			t.Errorf("with %d requests of one address, a connection of another is admitted: %v", each, admitted)
		}
	}
}

func TestLongestIdleIsEvicted(t *testing.T) {
	a := newAmong(t, atMost(4))
	first, second, third, fourth := a.from("192.0.2.1"), a.from("192.0.2.2"), a.from("192.0.2.3"), a.from("192.0.2.4")
	first.serve()
	second.serve()
	_ = second.SetReadDeadline(time.Time{}) // its request is answered: it is idle again, and since a later time than the fourth
	if a.from("192.0.2.5") == nil || !gone(third) {
		t.Fatal("the connection that is idle longest stays")
	}
	if a.from("192.0.2.6") == nil || !gone(fourth) || gone(second) {
		t.Fatal("the connection that is idle next longest stays")
	}
	fourth.Leave() // as the engine's worker does when it notices
	if a.from("192.0.2.7") == nil || !gone(second) || gone(first) {
		t.Fatal("a connection that was answered long ago stays, or one that serves a request was evicted")
	}
	if open, _, count := a.l.Stats(); open != 4 || count != (Count{Evicted: 3}) {
		t.Errorf("%d open, %+v", open, count)
	}
}

func TestAddressIsBounded(t *testing.T) {
	a := newAmong(t, Bounds{Total: 100, Served: 100, PerAddress: 3, Exempt: func(a netip.Addr) bool { return a.String() == "10.0.0.1" }})
	other := a.from("192.0.2.1")
	var own []*Conn
	for i := range 5 { // from one network
		own = append(own, a.from("2001:db8::"+strconv.Itoa(i+1)))
	}
	if gone(other) || !gone(own[0]) || !gone(own[1]) || gone(own[2]) {
		t.Error("the connection evicted is not the one of this address that is idle longest")
	}
	for _, l := range own[2:] {
		l.serve()
	}
	if a.from("2001:db8::9") != nil || a.from("2001:db8:0:1::9") == nil || a.from("192.0.2.1") == nil {
		t.Error("an address with its maximum of requests gets another connection, or another address gets none")
	}
	for range 10 {
		l := a.from("10.0.0.1")
		if l == nil {
			t.Fatal("a proxy's connections are limited")
		}
		l.serve() // so it is not evicted
	}
}

// TestStreamsLeaveRoomForRequests: a connection taken by a stream counts towards the
// total limit only.
func TestStreamsLeaveRoomForRequests(t *testing.T) {
	a := newAmong(t, Bounds{Total: 4, Served: 1, PerAddress: 4})
	for range 3 {
		l := a.from("192.0.2.1")
		if _, taken := Hijack(l); taken != l {
			t.Fatal("a stream was evicted for another connection")
		}
	}
	last := a.from("192.0.2.1")
	if last.serve(); a.from("192.0.2.2") != nil {
		t.Error("one connection too many is admitted")
	}
}

// TestIdleConnectionsAreFoundCheaply: only a few newcomers cause a scan of all
// connections.
func TestIdleConnectionsAreFoundCheaply(t *testing.T) {
	const most = 4 * candidatesMost
	a := newAmong(t, atMost(most))
	var want []*Conn
	for range 3 * most {
		want = append(want, a.from("192.0.2.1"))
	}
	for i, l := range want {
		if gone(l) != (i < 2*most) {
			t.Fatalf("connection %d of %d: evicted %v", i, len(want), gone(l))
		}
	}
	if looks := a.l.all.scans; looks > 2*most/candidatesMost+1 {
		t.Errorf("%d newcomers caused %d scans of all connections", len(want), looks)
	}
}

// busy fills the limit with connections that all serve a request.
func busy(t *testing.T, most int) (a *among, lines []*Conn) {
	a = newAmong(t, atMost(most))
	for range most {
		lines = append(lines, a.from("192.0.2.1"))
		lines[len(lines)-1].serve()
	}
	return a, lines
}

// TestBusyServerScansOnce: after a scan has found no idle connection, there is no other
// scan until a connection becomes idle.
func TestBusyServerScansOnce(t *testing.T) {
	a, lines := busy(t, 10)
	own := a.l.addresses[lines[0].address]
	turnedAway := func(newcomers int) {
		t.Helper()
		for range newcomers {
			if a.from("192.0.2.1") != nil {
				t.Fatal("a connection is admitted while all serve requests")
			}
		}
	}
	turnedAway(1000)
	_ = lines[3].SetReadDeadline(time.Time{})
	if late := a.from("192.0.2.1"); late == nil || !gone(lines[3]) {
		t.Fatal("a connection that is idle again is not evicted")
	} else {
		late.serve()
	}
	turnedAway(1000)
	if own.scans > 4 || a.l.all.scans > 4 {
		t.Errorf("2,000 newcomers caused %d and %d scans of all connections", own.scans, a.l.all.scans)
	}
}

// TestBusyServerScansOnceControl: the result of the last scan is discarded before each
// newcomer.
func TestBusyServerScansOnceControl(t *testing.T) {
	a, lines := busy(t, 10)
	own := a.l.addresses[lines[0].address]
	for range 1000 {
		own.change()
		a.from("192.0.2.1")
	}
	if own.scans < 1000 {
		t.Errorf("a thousand newcomers without the saved result caused %d scans", own.scans)
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
