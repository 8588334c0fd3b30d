package webhooks

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// hangs never answers and returns when the sender gives up.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// answersByteByByte sends the head of its answer one byte at a time and never completes it.
func answersByteByByte(w http.ResponseWriter, r *http.Request) {
	conn := stolen(w)
	defer func() { _ = conn.Close() }()
	for _, c := range "HTTP/1.1 200 OK\r\nX-Slow: " + strings.Repeat("s", 200) {
		if _, err := conn.Write([]byte(string(c))); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// answersEndlessly accepts the delivery and sends an endless body.
func answersEndlessly(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusOK)
	block := bytes.Repeat([]byte("flood "), 10_000)
	for range 10_000 { // 600 MB, if the client reads it
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

// closesConnection closes the connection instead of answering.
func closesConnection(w http.ResponseWriter, _ *http.Request) { _ = stolen(w).Close() }

// answersGarbage answers with bytes that are not HTTP.
func answersGarbage(w http.ResponseWriter, _ *http.Request) {
	conn := stolen(w)
	_, _ = io.WriteString(conn, "hello, this is not the protocol you are looking for\r\n\r\n")
	_ = conn.Close()
}

// answersHugeHead answers with headers larger than any client should accept.
func answersHugeHead(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Large", strings.Repeat("l", 1<<20))
	w.WriteHeader(http.StatusOK)
}

func stolen(w http.ResponseWriter) net.Conn {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	return conn
}
