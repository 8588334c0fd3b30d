package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: close\r\n\r\n"

func opened(t testing.TB, address string) *Stream {
	t.Helper()
	s, err := DialStream(t.Context(), nil, address, "/stream", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// streaming sends the head of a stream and a text, and closes.
func streaming(t testing.TB, text string) *Stream {
	t.Helper()
	return opened(t, scripted(t, func(conn net.Conn, in *bufio.Reader) {
		if _, err := http.ReadRequest(in); err == nil {
			io.WriteString(conn, streamHead+text)
		}
	}))
}

func TestStreamReadsEvents(t *testing.T) {
	long := strings.Repeat("long ", 4000)
	s := streaming(t, "retry: 3000\n: hello\n\nid: 0\n\n"+
		"id: 1\nevent: message\ndata: {\"a\":1}\n\n"+
		": ping\n\nevent: heartbeat\ndata: {}\n\n"+
		"event: status\r\ndata:first\r\n: in between\r\ndata:  second\r\nunknown: x\r\ndata\r\n\r\n"+
		"event: nothing\n\n"+
		"id: 2\ndata: "+long+"\n\n"+
		"id: 3\ndata: cut off")
	for _, want := range []Event{
		{"message", []byte(`{"a":1}`)},
		{"status", []byte("first\n second\n")},
		{"message", []byte(long)},
	} {
		got, err := s.Next()
		if err != nil || got.Name != want.Name || string(got.Data) != string(want.Data) {
			t.Fatalf("got %q %.40q %v, want %q %.40q", got.Name, got.Data, err, want.Name, want.Data)
		}
	}
	if got, err := s.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("an event without its end: %q %v", got.Data, err)
	}
}

func TestStreamEndsBetweenTwoLines(t *testing.T) {
	if _, err := streaming(t, "retry: 3000\n: hello\nid: 17\n\n").Next(); err != io.EOF {
		t.Errorf("got %v", err)
	}
}

// TestStreamOverNetHTTP reads a chunked stream that arrives in odd pieces, and checks
// its request.
func TestStreamOverNetHTTP(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		asked := fmt.Sprint(r.URL.Path, " ", r.Header.Get("Accept"), " ", r.Header.Get("Authorization"))
		for _, piece := range strings.SplitAfter("data: "+asked+"\n\nid: 2\ndata: two\n\n", "a") {
			io.WriteString(w, piece)
			w.(http.Flusher).Flush()
		}
	}))
	defer server.Close()
	s, err := DialStream(t.Context(), nil, server.Listener.Addr().String(), "/agents/1/stream", "tok")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, want := range []string{"/agents/1/stream text/event-stream Bearer tok", "two"} {
		if event, err := s.Next(); err != nil || string(event.Data) != want {
			t.Fatalf("got %q %v, want %q", event.Data, err, want)
		}
	}
	if _, err := s.Next(); err != io.EOF {
		t.Errorf("got %v, want io.EOF", err)
	}
}

func TestDialStreamWantsAStream(t *testing.T) {
	for name, test := range map[string]struct {
		answer string
		want   StatusError
	}{
		"refused":    {"HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", StatusError{401, "application/json"}},
		"not events": {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n", StatusError{200, "text/html"}},
	} {
		address := scripted(t, func(conn net.Conn, in *bufio.Reader) {
			if _, err := http.ReadRequest(in); err == nil {
				io.WriteString(conn, test.answer)
			}
		})
		_, err := DialStream(t.Context(), nil, address, "/", "")
		var status *StatusError
		if !errors.As(err, &status) || *status != test.want {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestDialStreamEndsWithItsContext(t *testing.T) {
	address := scripted(t, func(_ net.Conn, in *bufio.Reader) { io.Copy(io.Discard, in) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if s, err := DialStream(ctx, nil, address, "/", ""); err == nil {
		s.Close()
		t.Error("a server without an answer yields a stream")
	}
}

func TestStreamIsBroken(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want error
	}{
		"cut in a chunk": {"9\r\ndata", io.ErrUnexpectedEOF},
		"cut in between": {"9\r\ndata: x\n\n\r\n", io.ErrUnexpectedEOF},
	} {
		s := opened(t, scripted(t, func(conn net.Conn, in *bufio.Reader) {
			if _, err := http.ReadRequest(in); err == nil {
				io.WriteString(conn, strings.Replace(streamHead, "Connection: close", "Transfer-Encoding: chunked", 1)+test.text)
			}
		}))
		_, err := s.Next()
		for err == nil {
			_, err = s.Next()
		}
		if !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
		if _, again := s.Next(); again != err {
			t.Errorf("%s: then it returned %v", name, again)
		}
	}
}

// TestStreamSilence: heartbeats keep a stream open for longer than it may be silent.
// Then it is silent.
func TestStreamSilence(t *testing.T) {
	const silence, beats = 200 * time.Millisecond, 8
	s := opened(t, scripted(t, func(conn net.Conn, in *bufio.Reader) {
		http.ReadRequest(in)
		io.WriteString(conn, streamHead)
		for range beats {
			time.Sleep(silence / 4)
			io.WriteString(conn, "event: heartbeat\ndata: {}\n\n")
		}
		io.Copy(io.Discard, in)
	}))
	s.silence = silence
	began := time.Now()
	if _, err := s.Next(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if lasted := time.Since(began); lasted < silence*beats/4 {
		t.Errorf("heartbeats kept it open for only %v", lasted)
	}
}

// TestNextAllocatesNothing sends events through a pipe, so that nothing else in the
// process allocates.
func TestNextAllocatesNothing(t *testing.T) {
	address := scripted(t, func(conn net.Conn, in *bufio.Reader) {
		http.ReadRequest(in)
		io.WriteString(conn, streamHead)
		events := []byte("id: 1\nevent: message\ndata: x\n\nid: 2\nevent: message\ndata: y\n\n")
		for {
			if _, err := conn.Write(events); err != nil {
				return
			}
		}
	})
	s := opened(t, address)
	if n := testing.AllocsPerRun(500, func() {
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations per event", n)
	}
}
