package connlimit

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestShutLeavesLittle: of what the client of a connection has not read when it is shut, the kernel
// keeps nothing if that is much, and only for a while if it is little. A plain close keeps all.
func TestShutLeavesLittle(t *testing.T) {
	for name, c := range map[string]struct {
		bytes int
		shut  func(net.Conn) error
		after time.Duration
		whole bool
	}{
		"much":              {16 << 10, Shut, 0, false},
		"little, read":      {leftMost, Shut, 0, true},
		"little, read late": {leftMost, Shut, leftFor + 2*time.Second, false},
		"control":           {16 << 10, net.Conn.Close, leftFor + 2*time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = ln.Close() }()
			small := net.Dialer{Control: func(_, _ string, socket syscall.RawConn) (failure error) {
				err := socket.Control(func(fd uintptr) { failure = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1) })
				if failure == nil {
					failure = err
				}
				return failure
			}}
			client, err := small.DialContext(t.Context(), "tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = client.Close() }()
			server, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := server.Write(make([]byte, c.bytes)); err != nil {
				t.Fatal(err)
			}
			for n := -1; n != queued(server); time.Sleep(50 * time.Millisecond) { // what the client takes by itself
				n = queued(server)
			}
			if queued(server) == 0 {
				t.Skip("the client has taken everything")
			}
			if err := c.shut(server); err != nil {
				t.Fatal(err)
			}
			time.Sleep(c.after)
			if n, err := io.Copy(io.Discard, client); (int(n) == c.bytes) != c.whole {
				t.Errorf("%d of %d bytes arrived (%v)", n, c.bytes, err)
			}
		})
	}
}
