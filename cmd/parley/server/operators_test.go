package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/http/connlimit"
)

// TestOperatorsFindAPlace: neither silent connections nor bodies that never end keep others out, and
// a call at work keeps its connection.
func TestOperatorsFindAPlace(t *testing.T) {
	ln, err := connlimit.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	begun, end := make(chan struct{}), make(chan struct{})
	calls := http.NewServeMux()
	calls.HandleFunc("GET /livez", func(http.ResponseWriter, *http.Request) {})
	calls.HandleFunc("POST /backup", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		close(begun)
		select {
		case <-end:
			_, _ = io.WriteString(w, "done")
		case <-r.Context().Done():
		}
	})
	s := &http.Server{Handler: calls, ReadHeaderTimeout: time.Minute}
	go func() { _ = serveOperators(s, ln) }()
	t.Cleanup(func() { _ = s.Close() })
	base := "http://" + ln.Addr().String()
	answer := make(chan string)
	go func() {
		said := "no answer"
		if a, err := http.Post(base+"/backup", "application/json", strings.NewReader(`{"into":"d"}`)); err == nil {
			b, err := io.ReadAll(a.Body)
			said = fmt.Sprint(string(b), err)
			_ = a.Body.Close()
		}
		answer <- said
	}()
	<-begun
	for _, say := range []string{"", "POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n"} {
		for range operatorsMax + 8 {
			conn, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			_, _ = io.WriteString(conn, say)
		}
		time.Sleep(100 * time.Millisecond) // the server reads them
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
		a, err := client.Get(base + "/livez")
		if err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("after connections that say %q: %v %v", say, a, err)
		}
		_ = a.Body.Close()
	}
	close(end)
	if said := <-answer; said != "done<nil>" {
		t.Errorf("the call at work got %q", said)
	}
}
