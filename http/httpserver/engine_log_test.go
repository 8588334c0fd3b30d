package httpserver

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// lockedLog is a log that is safe to read while it is written.
type lockedLog struct {
	mu   sync.Mutex
	said bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.Write(b)
}

func (l *lockedLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.String()
}

// TestEngineLogQuotesNothing: the engine's log about requests that it could not parse
// contains none of their bytes, at any level.
func TestEngineLogQuotesNothing(t *testing.T) {
	log := &lockedLog{}
	s := newToy(t, func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	for _, request := range []string{
		"GET /poll/canary\x01 HTTP/1.1\r\nHost: toy\r\n\r\n", "GET /canary\r\nHost: toy\r\n\r\n", "GET / HTTP/canary\r\nHost: toy\r\n\r\n", "canary / HTTP/1.1\r\nHost: toy canary\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: toy\r\nAuthorization: Bearer canary\x01\r\n\r\n", "GET / HTTP/1.1\r\nHost: toy\r\nAuthorization : Bearer canary\r\n\r\n", "POST / HTTP/1.1\r\nHost: toy\r\nContent-Length: canary\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: toy\r\nTransfer-Encoding: canary\r\n\r\n", "POST / HTTP/1.1\r\nHost: toy\r\nTransfer-Encoding: chunked\r\n\r\ncanary\r\n", "GET canary HTTP/1.1\r\nHost: toy\r\n\r\n", "GET / HTTP/1.1\r\ncanary\r\n\r\n",
	} {
		if said := s.say(t, request); !strings.HasPrefix(said, "HTTP/1.1 4") {
			t.Errorf("%q: %q", request, said)
		}
	}
	for wait := time.Now().Add(2 * time.Second); strings.Count(log.text(), "connection") < 5 && time.Now().Before(wait); {
		time.Sleep(time.Millisecond)
	}
	if said := log.text(); strings.Contains(said, "canary") || strings.Count(said, "connection") < 5 {
		t.Errorf("the log contains:\n%s", said)
	}
}
