package limits

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/networktest"
)

var (
	boundsConnections = flag.Int("bounds.connections", 100, "how many connections leave their answers unread")
	boundsSilent      = flag.Int("bounds.silent", 4200, "how many connections send nothing")
	boundsFor         = flag.Duration("bounds.for", 6*time.Second, "how long connections leave their answers unread")
)

// kernelBytesMax is what the kernel may hold for 1,000 connections.
const kernelBytesMax = 160e6

// threeListeners is a server whose three listeners another network namespace reaches.
type threeListeners struct {
	*kit.Server
	space   *networktest.Space
	targets []attackTarget
}

// attackTarget is one listener, with four pipelined requests for its largest document.
type attackTarget struct{ address, requests string }

func newThreeListeners(t *testing.T) threeListeners {
	kit.OneServerOnly(t, "the test is about the sockets of one process")
	if _, err := exec.LookPath("ss"); err != nil {
		const left = "!! NOT CHECKED: what the kernel holds of connections: there is no ss, of the package iproute2"
		if os.Getenv("CI") == "true" {
			t.Fatal(left)
		}
		t.Skip(left)
	}
	w := networktest.New(t, 1)
	at := w.Spaces[0].Address.String()
	s, err := (&kit.Server{
		Dir: t.TempDir(), Enter: w.Spaces[0].Enter, Through: []string{"sh", "-c", `ulimit -n 4096 && exec "$0" "$@"`},
		Flags: []string{"--admin-listen", at + ":8100", "--metrics-listen", at + ":8200"},
	}).Launched(at + ":8000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.End(t) })
	get := func(port, path string) attackTarget {
		return attackTarget{at + port, strings.Repeat("GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n", 4)}
	}
	return threeListeners{s, w.Spaces[0], []attackTarget{
		get(":8000", "/docs/swagger-ui-bundle.js"), get(":8000", "/docs/swagger-ui-bundle.js"), get(":8100", "/metrics"), get(":8200", "/metrics"),
	}}
}

// neverRead keeps so many connections open, on which it sends what say returns. It reads the first
// bytes of the answers, and then nothing. It opens those anew that the server closes, a moment later.
func (s *threeListeners) neverRead(count int, reads int64, say func(attackTarget) string) (end func()) {
	stop := make(chan struct{})
	var running sync.WaitGroup
	dialer := net.Dialer{Timeout: 2 * time.Second}
	if reads == 0 {
		dialer.Control = func(_, _ string, c syscall.RawConn) (err error) {
			return errors.Join(c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 2304) }), err)
		}
	}
	for i := range count {
		target := s.targets[i%len(s.targets)]
		running.Go(func() {
			for {
				conn, err := dialer.Dial("tcp", target.address)
				if err == nil {
					_, err = io.WriteString(conn, say(target))
				}
				if err == nil {
					_, err = io.CopyN(io.Discard, conn, reads)
				}
				for err == nil {
					select {
					case <-stop:
						_ = conn.Close()
						return
					case <-time.After(time.Second):
						err = failureOf(conn)
					}
				}
				if conn != nil {
					_ = conn.Close()
				}
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	return func() { close(stop); running.Wait() }
}

// failureOf returns the error of a connection that its other end has reset, without reading it.
func failureOf(conn net.Conn) (err error) {
	raw, failed := conn.(*net.TCPConn).SyscallConn()
	if failed != nil {
		return failed
	}
	code := 0
	failed = raw.Control(func(fd uintptr) { code, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR) })
	if err = errors.Join(failed, err); err == nil && code != 0 {
		err = syscall.Errno(code)
	}
	return err
}

var skmem = regexp.MustCompile(`skmem:\(([^)]*)\)`)

// kernelBytes is what the kernel holds of all connections in the server's namespace: what was received,
// what is to be sent, and what is reserved for either.
func (s *threeListeners) kernelBytes(t *testing.T) (sum int) {
	t.Helper()
	var out []byte
	err := s.space.Enter(func() (err error) {
		out, err = exec.Command("ss", "-tmnHa").Output()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, socket := range skmem.FindAllSubmatch(out, -1) {
		for field := range strings.SplitSeq(string(socket[1]), ",") {
			name := strings.TrimRight(field, "0123456789")
			if slices.Contains([]string{"r", "t", "f", "w", "o", "bl"}, name) {
				n, _ := strconv.Atoi(field[len(name):])
				sum += n
			}
		}
	}
	return sum
}

// attacked runs honest clients while connections stay open, and returns the most that the kernel held.
func (s *threeListeners) attacked(t *testing.T, count int, reads int64, lasts time.Duration, say func(attackTarget) string) (peak int) {
	other := newReferenceServer(t)
	one, two := kit.Pair(t, s.Server)
	pairs := [][2]*kit.Agent{{one, two}}
	before, during := honestClients{pace: 10 * time.Millisecond, reference: &honestClients{}}, honestClients{pace: 10 * time.Millisecond, reference: &honestClients{}}
	before.work(t, s.Server, pairs, other, time.Second)
	end := s.neverRead(count, reads, say)
	defer end()
	measured := make(chan int)
	stop := make(chan struct{})
	go func() {
		most := 0
		for {
			most = max(most, s.kernelBytes(t))
			select {
			case <-stop:
				measured <- most
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	}()
	during.work(t, s.Server, pairs, other, lasts)
	close(stop)
	peak = <-measured
	t.Logf("%d connections: the kernel held %.1f MB; p99 %v before, %v during, %v on a server that is not attacked, of %d calls; %d open files",
		count, float64(peak)/1e6, before.p99(), during.p99(), during.reference.p99(), len(during.took), s.openFiles(t))
	if len(during.refused)*100 > len(during.took) { // an idle connection of theirs may be the one that is closed
		t.Errorf("%d of %d honest calls failed, the first: %s", len(during.refused), len(during.took), during.refused[0])
	}
	if p99 := during.p99(); p99 > max(time.Second, 4*before.p99(), 4*during.reference.p99()) {
		t.Errorf("p99 of honest calls is %v", p99)
	}
	if open := s.openFiles(t); open > 4096-1000 {
		t.Errorf("%d files are open: the store has too few left", open)
	}
	return peak
}

func (s *threeListeners) openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestUnreadAnswersAreBoundedInTheKernel: clients on all listeners request large documents, and read
// nothing, or so much first that the kernel expects a fast reader.
func TestUnreadAnswersAreBoundedInTheKernel(t *testing.T) {
	for name, reads := range map[string]int64{"nothing is read": 0, "a little is read": 20 << 10} {
		t.Run(name, func(t *testing.T) {
			s := newThreeListeners(t)
			peak := s.attacked(t, *boundsConnections, reads, *boundsFor, func(a attackTarget) string { return a.requests })
			if bound := kernelBytesMax * *boundsConnections / 1000; peak > bound {
				t.Errorf("the kernel held %d bytes, want at most %d", peak, bound)
			}
		})
	}
}

// TestSilentConnectionsOnAllListeners: more silent connections than descriptors.
func TestSilentConnectionsOnAllListeners(t *testing.T) {
	requireOpenFiles(t)
	s := newThreeListeners(t)
	s.attacked(t, *boundsSilent, 0, *boundsFor, func(attackTarget) string { return "" })
	for _, port := range []string{":8100", ":8200"} {
		answer, err := kit.Client.Get("http://" + s.space.Address.String() + port + "/livez")
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
	}
}
