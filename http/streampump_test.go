package http

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"parley/actors"
	"parley/client/parley"
	"parley/http/internal/planted"
	"parley/http/streams"
)

// harnessOnSockets returns a harness with real sockets: only these have limited buffers
// in the kernel.
func harnessOnSockets(t testing.TB) *harness {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newHarness(t, 1, ln, func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) })
}

// say sends a message of about size bytes.
func (h *harness) say(from, to parley.AgentID, n, size int) {
	h.t.Helper()
	content := storedWith(fmt.Appendf(nil, `{"n":%d,"x":"%s"}`, n, bytes.Repeat([]byte("x"), size)))
	_, err := h.node.Messages.Send(context.Background(), actors.DirectSend{
		Content: actors.Content{Type: "svc.v1.dm", Body: content, FromOrg: h.owner, ToOrg: h.owner},
		From:    from, To: to, ToKnown: true,
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// bytesOfAnEvent returns how many bytes the process allocates per stream for an event
// of 8 KiB that goes to many streams, including the send and the clients.
func bytesOfAnEvent(t *testing.T, defects planted.Streams) float64 {
	const readers, events = 64, 20
	h := harnessOnSockets(t)
	defer h.close()
	h.service.streams.Plant(defects)
	alice, bob, token := h.agent("alice"), h.agent("bob"), h.token(h.client)
	var heard atomic.Int64
	for range readers {
		l := h.listen(alice, token, "")
		defer l.conn.Close()
		go func() {
			buffer := make([]byte, 16<<10)
			for {
				n, err := l.lines.Read(buffer)
				if err != nil {
					return
				}
				heard.Add(int64(bytes.Count(buffer[:n], []byte("event: message"))))
			}
		}()
	}
	var before, after runtime.MemStats
	for n := range events + 1 {
		h.say(bob, alice, n, 8<<10)
		for until := time.Now().Add(10 * time.Second); heard.Load() < int64(n+1)*readers; time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("event %d reached %d streams", n, heard.Load()-int64(n)*readers)
			}
		}
		if n == 0 {
			runtime.ReadMemStats(&before)
		}
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / readers / events
}

// eventBound was set when an event took 1.6 KiB, nearly all of it for the send.
const eventBound = 4 << 10

func TestStreamsShareTheMemoryOfAnEvent(t *testing.T) {
	skipUnderRace(t)
	got := bytesOfAnEvent(t, planted.Streams{})
	if t.Logf("%.0f bytes", got); got > eventBound {
		t.Errorf("an event of 8 KiB takes %.0f bytes on each stream", got)
	}
}

// TestStreamsShareTheMemoryOfAnEventControl: every stream behaves as if it were its
// agent's only one.
func TestStreamsShareTheMemoryOfAnEventControl(t *testing.T) {
	skipUnderRace(t)
	if got := bytesOfAnEvent(t, planted.Streams{Alone: true}); got <= eventBound {
		t.Errorf("a server that renders for each stream takes %.0f bytes, and %d are allowed", got, eventBound)
	}
}

// delay returns how long a stream waits for an event, at most, while other streams of
// the agent read nothing and their sockets are full.
func delay(t *testing.T, deaf int, defects planted.Streams) (longest time.Duration) {
	const events, size = 40, 256 << 10
	h := harnessOnSockets(t)
	defer h.close()
	h.service.streams.Plant(defects)
	alice, bob, token := h.agent("alice"), h.agent("bob"), h.token(h.client)
	for range deaf {
		defer h.listen(alice, token, "").conn.Close()
	}
	quick := h.listen(alice, token, "").eager()
	defer quick.conn.Close()
	for n := range events {
		sent := time.Now()
		h.say(bob, alice, n, size)
		if e, ok := quick.next(); !ok || e.number(t) != n {
			t.Fatalf("instead of event %d: %v %+v", n, ok, e.name)
		}
		if longest = max(longest, time.Since(sent)); longest > streams.WriteWait/2 {
			break
		}
	}
	return longest
}

func TestStreamsDoNotWaitForOneAnother(t *testing.T) {
	if took := delay(t, 8, planted.Streams{}); took > streams.WriteWait/2 {
		t.Errorf("a stream waits %v for an event while others read nothing", took)
	}
}

// TestStreamsDoNotWaitForOneAnotherControl: the pumps wait for readers.
func TestStreamsDoNotWaitForOneAnotherControl(t *testing.T) {
	took := delay(t, 8, planted.Streams{PumpsWait: true})
	if took <= streams.WriteWait/2 {
		t.Errorf("pumps that wait delay a stream by only %v", took)
	}
}

// TestStreamOnSocketMissesNothing: a reader that pauses until the socket is full, and
// then continues, gets everything once and in order.
func TestStreamOnSocketMissesNothing(t *testing.T) {
	events, size := 200, 64<<10
	if raceDetector {
		events = 100
	}
	h := harnessOnSockets(t)
	defer h.close()
	alice, bob := h.agent("alice"), h.agent("bob")
	l, twin := h.listen(alice, h.token(h.client), ""), h.listen(alice, h.token(h.client), "").eager()
	defer l.conn.Close()
	defer twin.conn.Close()
	go func() {
		for n := range events {
			h.say(bob, alice, n, size)
		}
	}()
	time.Sleep(time.Second)
	for n := range events {
		for name, l := range map[string]*streamReader{"first": l, "second": twin} {
			if e, ok := l.next(); !ok || e.name != "message" || e.number(t) != n {
				t.Fatalf("the %s stream has instead of event %d: %v %s", name, n, ok, e.name)
			}
		}
	}
}

// bytesOfAnOpening returns how many bytes server and client allocate to open a stream.
func bytesOfAnOpening(t *testing.T, dress func(*harness)) float64 {
	const streams = 200
	h := harnessOnSockets(t)
	defer h.close()
	if dress != nil {
		dress(h)
	}
	request := []byte("GET /agents/" + h.agent("alice").String() + "/stream HTTP/1.1\r\nHost: home\r\nAuthorization: Bearer " + h.token(h.client) + "\r\n\r\n")
	answer := make([]byte, 4<<10)
	var before, after runtime.MemStats
	for n := range streams + 20 {
		if n == 20 {
			runtime.ReadMemStats(&before)
		}
		conn, err := h.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write(request); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAtLeast(conn, answer, 200); err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 200")) {
			t.Fatalf("%s: %v", answer, err)
		}
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / streams
}

// openingBound is less than the buffer into which the engine reads a request.
const openingBound = 12 << 10

func TestStreamReleasesEngineBuffers(t *testing.T) {
	skipUnderRace(t)
	got := bytesOfAnOpening(t, nil)
	if t.Logf("%.0f bytes", got); got > openingBound {
		t.Errorf("opening a stream takes %.0f bytes", got)
	}
}

func TestStreamReleasesEngineBuffersControl(t *testing.T) {
	skipUnderRace(t)
	kept := func(h *harness) { inside[fasthttp.Server](h.server, "engine").KeepHijackedConns = true }
	if got := bytesOfAnOpening(t, kept); got <= openingBound {
		t.Errorf("with buffers that are never reused, opening a stream takes %.0f bytes, and %d are allowed", got, openingBound)
	}
}
