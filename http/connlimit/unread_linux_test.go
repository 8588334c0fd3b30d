package connlimit

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"parley/http/limit"
)

// narrowPair returns both ends of a connection whose client accepts about 2 KiB that it does not
// read.
func narrowPair(t *testing.T, budget *limit.Budget, clock func() time.Time) (server *Conn, client *net.TCPConn) {
	t.Helper()
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bounds := atMost(8)
	bounds.Budget = budget
	l := Limit(ln, bounds, clock, nil)
	t.Cleanup(func() { _ = l.Close() })
	narrow := net.Dialer{Control: func(_, _ string, socket syscall.RawConn) (err error) {
		return errors.Join(socket.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 2304) }), err)
	}}
	dialed, err := narrow.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialed.Close() })
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = accepted.SetReadDeadline(time.Time{}) // as the server does
	return serving(accepted).(*Conn), dialed.(*net.TCPConn)
}

func awaitHeld(t *testing.T, budget *limit.Budget, want int64) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); budget.Stats().Held != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes are held, want %d", budget.Stats().Held, want)
		}
	}
}

func write(t *testing.T, conn net.Conn, size int) {
	t.Helper()
	if _, err := conn.Write(bytes.Repeat([]byte("x"), size)); err != nil {
		t.Fatal(err)
	}
}

// TestUnreadAnswersCount until the client has read them, the small ones too when they add up, also
// while an answer is being written.
func TestUnreadAnswersCount(t *testing.T) {
	budget := limit.NewBudget(64 << 20)
	server, client := narrowPair(t, budget, time.Now)
	write(t, server, limit.Small)
	awaitHeld(t, budget, 0)
	write(t, server, limit.Small)
	if held := budget.Stats().Held; held <= overhead*limit.Small || held > overhead*2*limit.Small {
		t.Errorf("%d bytes are held of two small answers that nobody reads", held) // the client's kernel has a part
	}
	done := make(chan struct{})
	go func() { write(t, server, 1<<20); close(done) }()
	awaitHeld(t, budget, overhead*sendBuffer)
	if _, err := io.CopyN(io.Discard, client, 2*limit.Small+1<<20); err != nil {
		t.Fatal(err)
	}
	<-done
	awaitHeld(t, budget, 0)
	write(t, server, limit.Small)
	awaitHeld(t, budget, 0)
}

// TestKnownCallersGetALargerBuffer for a large answer, and pay for it.
func TestKnownCallersGetALargerBuffer(t *testing.T) {
	budget := limit.NewBudget(64 << 20)
	server, client := narrowPair(t, budget, time.Now)
	Charge(server, limit.Account{Name: "an organization"})
	write(t, server, 200<<10)
	awaitHeld(t, budget, overhead*200<<10)
	if _, err := io.CopyN(io.Discard, client, 200<<10); err != nil {
		t.Fatal(err)
	}
	awaitHeld(t, budget, 0)
}

// TestUnreadAnswersAreRefused: if its caller may hold no more, the connection is reset.
func TestUnreadAnswersAreRefused(t *testing.T) {
	budget := limit.NewBudget(overhead * sendBuffer)
	server, client := narrowPair(t, budget, time.Now)
	if _, err := server.Write(make([]byte, sendBuffer)); !errors.Is(err, errUnread) {
		t.Fatal(err)
	}
	_ = server.Close()
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client gets %v", err)
	}
	awaitHeld(t, budget, 0)
}

// TestCloseWaitsForUnreadAnswers: a closed connection keeps its place, and counts, until its client
// has read everything.
func TestCloseWaitsForUnreadAnswers(t *testing.T) {
	budget := limit.NewBudget(64 << 20)
	server, client := narrowPair(t, budget, time.Now)
	write(t, server, 2*limit.Small)
	_ = server.Close()
	if open, _, _ := server.listener.Stats(); open != 1 || budget.Stats().Held == 0 {
		t.Errorf("%d connections and %d bytes after the close", open, budget.Stats().Held)
	}
	if all, err := io.ReadAll(client); err != nil || len(all) != 2*limit.Small {
		t.Errorf("the client gets %d bytes (%v)", len(all), err)
	}
	awaitHeld(t, budget, 0)
	awaitClosed(t, server)
}

func awaitClosed(t *testing.T, server *Conn) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if open, _, _ := server.listener.Stats(); open == 0 {
			return
		} else if time.Now().After(end) {
			t.Fatalf("%d connections are open", open)
		}
	}
}

// TestCloseDoesNotWaitForEver: after a while, or if another needs the place or the memory, the kernel
// drops what the client has not read.
func TestCloseDoesNotWaitForEver(t *testing.T) {
	for name, end := range map[string]func(server *Conn, late *atomic.Bool){
		"late":    func(_ *Conn, late *atomic.Bool) { late.Store(true) },
		"evicted": func(server *Conn, _ *atomic.Bool) { server.evict()() },
		"reset":   nil, // by the client
	} {
		t.Run(name, func(t *testing.T) {
			var late atomic.Bool
			budget := limit.NewBudget(64 << 20)
			server, client := narrowPair(t, budget, func() time.Time {
				if late.Load() {
					return time.Now().Add(vanishAfter)
				}
				return time.Now()
			})
			write(t, server, 2*limit.Small)
			_ = server.Close()
			if end == nil {
				_ = client.SetLinger(0)
				_ = client.Close()
			} else {
				end(server, &late)
			}
			awaitClosed(t, server)
			awaitHeld(t, budget, 0)
			if end == nil {
				return
			}
			if _, err := io.ReadAll(client); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the client gets %v", err)
			}
		})
	}
}

// TestSocketsAreBounded: the kernel holds no more of an accepted connection than the options say.
func TestSocketsAreBounded(t *testing.T) {
	server, _ := narrowPair(t, nil, time.Now)
	_ = server.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := server.Write(make([]byte, 4<<20)); err == nil || n > overhead*sendBuffer {
		t.Errorf("the kernel took %d bytes (%v)", n, err)
	}
}
