package limits

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

const (
	// readTimeout is how long a request may take to arrive.
	readTimeout = 30 * time.Second
	// vanishWait is how long a stream's client may leave data unacknowledged.
	vanishWait = 30 * time.Second
)

// slowConnection is a connection that uses server resources and never completes a request.
type slowConnection struct {
	name string
	// begins is sent at once, then drips byte by byte, repeatedly.
	begins, drips string
	// told is the status that it receives in the end.
	status string
}

func slowConnections(token string) []slowConnection {
	post := "POST /messages HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + token + "\r\nContent-Type: application/json\r\n"
	return []slowConnection{
		{"says nothing", "", "", "408"},
		{"a head that never ends", "GET /org HTTP/1.1\r\nHost: h\r\n", "X-Word: abc\r\n", "408"},
		{"half of a head", "GET /org HTTP/1.1\r\nHo", "", "408"},
		{"a body byte by byte", post + "Content-Length: 1000\r\n\r\n{\"a\":\"", "x", "408"},
		{"a large body that does not come", post + "Content-Length: 1048576\r\n\r\n{", "", "408"},
		{"the largest body of a stranger", "POST /messages HTTP/1.1\r\nHost: h\r\nContent-Length: 16384\r\n\r\n{", "x", "408"},
		{"chunks byte by byte", post + "Transfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n", "40"}, // the engine does not always report why a chunk is invalid
		{"a chunk that does not come", post + "Transfer-Encoding: chunked\r\n\r\n80000\r\n{", "", "408"},
		{"a second request that never ends", "GET /version HTTP/1.1\r\nHost: h\r\n\r\nGET /org HTTP/1.1\r\nHost: h\r\n", "X-Word: abc\r\n", "200"}, // the status of the first request; the second is dropped without an answer
	}
}

// send sends until the server closes the connection. It returns how long that took and
// the last status received.
func (d slowConnection) send(conn net.Conn, until time.Time) (took time.Duration, status string, err error) {
	began := time.Now()
	if _, err := io.WriteString(conn, d.begins); err != nil {
		return 0, "", err
	}
	answers := ""
	for n, buffer := 0, make([]byte, 8<<10); time.Now().Before(until); n++ {
		if d.drips != "" {
			_, _ = io.WriteString(conn, d.drips[n%len(d.drips):][:1]) // only a read shows that the connection is closed
		}
		_ = conn.SetReadDeadline(time.Now().Add(250 * time.Millisecond))
		got, err := conn.Read(buffer)
		answers += string(buffer[:got])
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			if at := strings.LastIndex(answers, "HTTP/1.1 "); at >= 0 {
				status = answers[at+9:][:3]
			}
			return time.Since(began), status, nil
		}
	}
	return time.Since(began), "", errors.New("it was never cut off")
}

// TestSlowConnectionsAreClosed opens hundreds of connections that never complete a
// request, in every way. The server answers 408, except to an incomplete second request,
// and closes each connection when the request timeout ends, not before. Other clients are
// unaffected, and memory does not grow with lengths that were only announced.
func TestSlowConnectionsAreClosed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the process can be observed on Linux only")
	}
	t.Parallel()
	const each = 16
	s, in := watched(t)
	a, b := kit.Pair(t, s)
	before := paced(a, b, 2*time.Second)
	base := in.observe(t)
	kinds := slowConnections(a.Token)
	type outcome struct {
		kind   string
		told   string
		took   time.Duration
		status string
		err    error
	}
	outcomes := make(chan outcome, each*len(kinds))
	var sending sync.WaitGroup
	for _, kind := range kinds {
		for range each {
			conn, err := net.DialTimeout("tcp", s.Addr, 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			sending.Go(func() {
				defer func() { _ = conn.Close() }()
				took, status, err := kind.send(conn, time.Now().Add(readTimeout+30*time.Second))
				outcomes <- outcome{kind.name, kind.status, took, status, err}
			})
		}
	}
	time.Sleep(time.Second)
	amidst := in.observe(t)
	t.Logf("%v before; with %d slow connections: %v", base, each*len(kinds), amidst)
	if grown := amidst.resident - base.resident; grown > 64<<20 {
		t.Errorf("%d slow connections use %d MiB", each*len(kinds), grown>>20)
	}
	during := paced(a, b, 20*time.Second)
	sending.Wait()
	close(outcomes)
	longest := time.Duration(0)
	for o := range outcomes {
		longest = max(longest, o.took)
		if o.err != nil || o.status == "" || o.status != "408" && !strings.HasPrefix(o.status, o.told) || o.took < readTimeout-time.Second || o.took > readTimeout+15*time.Second {
			t.Errorf("%s: %v, answered %q after %v", o.kind, o.err, o.status, o.took)
		}
	}
	t.Logf("other clients took %v before and %v meanwhile (p99); the last connection was closed after %v", before, during, longest)
	// The bound is wide for busy machines: it shows that other clients do not wait for
	// the slow ones.
	if during > 20*before+2*time.Second {
		t.Errorf("other clients took %v before and %v meanwhile (p99)", before, during)
	}
	if now, is := in.returnsTo(t, base, 30*time.Second); !is {
		t.Errorf("left over: %v, the base was %v", now, base)
	}
}

// paced sends and reads in turn for a while and returns the 99th percentile of the time
// that takes.
func paced(a, b *kit.Agent, long time.Duration) time.Duration {
	a.T.Helper()
	var all []time.Duration
	for began := time.Now(); time.Since(began) < long; time.Sleep(20 * time.Millisecond) {
		sent := a.TrySend(b, nil).Want(201)
		page := b.Inbox("?limit=1")
		all = append(all, sent.Took, page.Took)
	}
	slices.Sort(all)
	return all[len(all)*99/100]
}

// TestVanishedStreamsAreNoticed: the client's machine was switched off. The server
// notices although it sends so little that the kernel buffers all of it.
func TestVanishedStreamsAreNoticed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a connection can vanish on Linux only")
	}
	t.Parallel()
	s, in := watched(t)
	a, b := kit.Pair(t, s)
	stays, err := openStreamReader(b, reads)
	if err != nil {
		t.Fatal(err)
	}
	go stays.listen()
	var gone []*streamReader
	for range 20 {
		e, err := openStreamReader(b, vanishes)
		if err != nil {
			t.Fatal(err)
		}
		gone = append(gone, e)
	}
	id := kit.Text(a.Send(b), "id")
	began := time.Now()
	if now := in.observe(t); now.streams != 21 {
		t.Fatalf("%v, want 21 streams", now)
	}
	for deadline := began.Add(2*vanishWait + 15*time.Second); ; time.Sleep(200 * time.Millisecond) {
		now := in.observe(t)
		if now.streams == 1 {
			break
		}
		if now.streams < 1 || time.Now().After(deadline) {
			t.Fatalf("after %v: %v, want one stream", time.Since(began), now)
		}
	}
	took := time.Since(began)
	t.Logf("noticed after %v", took.Round(time.Second))
	if took < vanishWait/3 {
		t.Errorf("a client that is slow to acknowledge was disconnected after %v", took)
	}
	kit.Eventually(t, "the one that stays has the message", func() bool { return stays.sameAs([]string{id}) })
	for _, e := range gone {
		e.reset()
	}
	stays.reset()
}
