package limits

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// verdict is the outcome of one request of a burst.
type verdict struct {
	status int
	again  string // Retry-After
	body   obj
	err    error
	took   time.Duration
}

// ready opens a connection and prepares a send.
type ready struct {
	conn    net.Conn
	request string
}

func getReady(a, b *kit.Agent, n int, payload string) ([]ready, error) {
	body, err := json.Marshal(kit.Message(b, obj{"encrypted_payload": payload}))
	if err != nil {
		return nil, err
	}
	request := "POST /messages HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + a.Token + "\r\nX-Svc-Agent: " + a.ID +
		"\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + string(body)
	var all []ready
	for range n {
		conn, err := net.DialTimeout("tcp", a.S.Addr, 10*time.Second)
		if err != nil {
			return nil, err
		}
		all = append(all, ready{conn, request})
	}
	return all, nil
}

// answered reads the answer.
func (r ready) answered(since time.Time, patience time.Duration) (v verdict) {
	_ = r.conn.SetReadDeadline(time.Now().Add(patience))
	resp, err := http.ReadResponse(bufio.NewReader(r.conn), nil)
	if err != nil {
		return verdict{err: err, took: time.Since(since)}
	}
	defer func() { _ = resp.Body.Close() }()
	v = verdict{status: resp.StatusCode, again: resp.Header.Get("Retry-After")}
	raw, err := io.ReadAll(resp.Body)
	_ = json.Unmarshal(raw, &v.body)
	v.err, v.took = err, time.Since(since)
	return v
}

// TestBurst makes thousands of requests arrive at the same instant: the server process is
// stopped (SIGSTOP) while they are sent and then continued. Each is answered 201 or
// rejected with a proper error, and none hangs. Exactly the messages answered 201 are
// stored, and afterwards the server works as before.
func TestBurst(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the process can be observed on Linux only")
	}
	t.Parallel()
	const each, patience = 3000, 40 * time.Second
	s, in := watched(t)
	a, b := kit.Pair(t, s)
	kit.Concurrently(64, func(int) *kit.Answer { return a.TrySend(b, nil) })
	b.Everything()
	base, before := in.observe(t), paced(a, b, time.Second)
	want := len(b.Everything())
	accepted, refused := 0, 0
	for round := 1; round <= 3 && (refused == 0 || round == 1); round++ {
		all, err := getReady(a, b, each, strings.Repeat("x", round*8000))
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Cmd.Process.Signal(syscall.SIGSTOP)
		for _, r := range all {
			if _, err := io.WriteString(r.conn, r.request); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		_ = s.Cmd.Process.Signal(syscall.SIGCONT)
		slowest := time.Duration(0)
		for _, v := range kit.Concurrently(each, func(i int) verdict { return all[i].answered(began, patience) }) {
			slowest = max(slowest, v.took)
			switch seconds, err := strconv.Atoi(v.again); {
			case v.err != nil:
				t.Fatalf("a request was not answered after %v: %v", v.took, v.err)
			case v.status == 201:
				accepted++
			case v.status != 503 && v.status != 429, err != nil || seconds < 1, v.body["code"] != "overloaded", kit.Text(v.body, "request_id") == "":
				t.Fatalf("answered %d, Retry-After %q: %v", v.status, v.again, v.body)
			default:
				refused++
			}
		}
		for _, r := range all {
			_ = r.conn.Close()
		}
		t.Logf("round %d: %d accepted and %d refused so far, the slowest answer after %v: %v", round, accepted, refused, slowest, in.observe(t))
	}
	if refused == 0 {
		t.Errorf("none of %d concurrent requests was rejected: the test checked nothing", 3*each)
	}
	if accepted == 0 {
		t.Error("no request was accepted")
	}
	if got := len(b.Everything()) - want; got != accepted {
		t.Errorf("%d were acknowledged and %d are stored", accepted, got)
	}
	now, is := in.returnsTo(t, base, 30*time.Second)
	after := paced(a, b, time.Second)
	t.Logf("%v before, %v afterwards; p99 %v and %v", base, now, before, after)
	if !is || after > 10*before+time.Second {
		t.Errorf("the server has not recovered")
	}
}

// anyServed reports whether one of the connections is served. The server may close the
// longest idle ones at any time, so the newest are asked first.
func anyServed(conns []net.Conn) bool {
	slices.Reverse(conns)
	return slices.ContainsFunc(conns, func(conn net.Conn) bool {
		if _, err := io.WriteString(conn, "GET /version HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			return false
		}
		return ready{conn: conn}.answered(time.Now(), 10*time.Second).status == 200
	})
}

// TestMoreConnectionsThanDescriptors opens more connections than the server may have
// files. The server closes or rejects the excess, keeps descriptors for its journal,
// serves the open connections, and accepts new ones as soon as there is room.
func TestMoreConnectionsThanDescriptors(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the limit cannot be set")
	}
	t.Parallel()
	const files, most = 400, 100 // others than connections have 200 and half of the rest
	s := kit.StartThrough(t, []string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, files), "sh"})
	a, b := kit.Pair(t, s)
	kit.Client.CloseIdleConnections()
	refusals, cut := 0, 0
	var open []net.Conn
	for range files + 100 {
		conn, err := net.DialTimeout("tcp", s.Addr, 5*time.Second)
		switch {
		case errors.Is(err, syscall.ECONNRESET):
			cut++
		case err != nil:
			t.Fatal(err)
		default:
			open = append(open, conn)
		}
	}
	held := slices.Clone(open)
	kit.Eventually(t, "those that are too many are told so, or are cut", func() bool {
		held = slices.DeleteFunc(held, func(conn net.Conn) bool {
			v := ready{conn: conn}.answered(time.Now(), 10*time.Millisecond)
			switch {
			case v.status == 503:
				if seconds, err := strconv.Atoi(v.again); err != nil || seconds < 1 || v.body["code"] != "overloaded" || kit.Text(v.body, "request_id") == "" {
					t.Errorf("rejected with Retry-After %q: %v", v.again, v.body)
				}
				refusals++
			case errors.Is(v.err, os.ErrDeadlineExceeded):
				return false
			default:
				cut++
			}
			return true
		})
		return len(held) <= most
	})
	t.Logf("of %d connections %d are open, %d were rejected with an answer, %d closed", files+100, len(held), refusals, cut)
	// A new connection replaces the longest idle one, or is rejected.
	if len(held) == 0 || refusals+cut < files+100-most {
		t.Fatalf("%d are open, %d rejected, %d closed", len(held), refusals, cut)
	}
	if !anyServed(held) {
		t.Error("none of the open connections is served")
	}
	for _, conn := range open {
		_ = conn.Close()
	}
	kit.Eventually(t, "there is room again", func() bool { return a.TrySend(b, nil).Status == 201 })
	if n := len(b.Everything()); n != 1 {
		t.Errorf("%d messages in the inbox, want 1", n)
	}
	for n := range most + 20 { // a stream takes a place too, and frees it
		e, err := openStreamReader(b, reads)
		if err != nil {
			t.Fatalf("stream %d, after all others have ended: %v", n+1, err)
		}
		e.reset()
	}
	if said := s.Log.Text(); strings.Contains(said, "too many open files") {
		t.Errorf("the server ran out of descriptors: %s", s.Log.Tail())
	}
}
