package http

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	stdhttp "net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// searchStream returns the data of the events of a stream, and when each came.
func (h *cardHarness) searchStream(path string) (events []string, at []time.Duration) {
	h.t.Helper()
	began := time.Now()
	conn, err := h.dial()
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: home\r\n\r\n", path); err != nil {
		h.t.Fatal(err)
	}
	answer, err := stdhttp.ReadResponse(bufio.NewReader(conn), &stdhttp.Request{Method: "GET"})
	if err != nil {
		h.t.Fatal(err)
	}
	if head := answer.Header; answer.StatusCode != 200 || head.Get("Content-Type") != "text/event-stream" || head.Get("Access-Control-Allow-Origin") != "*" || head.Get("Cache-Control") != "no-store" || head.Get("X-Request-ID") == "" {
		h.t.Errorf("%s: %d %v", path, answer.StatusCode, head)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
			events, at = append(events, data), append(at, time.Since(began))
		} else if lines.Text() != "" {
			h.t.Errorf("a line %q", lines.Text())
		}
	}
	return events, at
}

// phases checks that a stream ends in order, and returns the phases with the agents that
// each found.
func (h *cardHarness) phases(path string) (found []string) {
	h.t.Helper()
	events, _ := h.searchStream(path)
	if len(events) == 0 || events[len(events)-1] != "[DONE]" {
		h.t.Fatalf("%s: the events are %q", path, events)
	}
	for _, data := range events[:len(events)-1] {
		var phase struct {
			Phase   string
			Results []any
			Error   string
		}
		if err := json.Unmarshal([]byte(data), &phase); err != nil || phase.Results == nil {
			h.t.Fatalf("%s: %v", data, err)
		}
		one := phase.Phase + ": " + h.names(phase.Results)
		if phase.Error != "" {
			one += "error"
		}
		found = append(found, one)
	}
	return found
}

func TestDirectoryStream(t *testing.T) {
	h := newCardHarness(t)
	check := func(query string, want ...string) {
		t.Helper()
		if got := h.phases("/directory/agents/stream?" + query); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
	check("", "fuzzy: bob art ann")
	check("q=invoice+checker", "fuzzy: ann art")
	check("query=invoice+checker&limit=1", "fuzzy: ann")
	check("q=weather&query=invoice", "fuzzy: bob")
	check("semantic=rain+forecast", "fuzzy: bob", "semantic: bob")
	check("q=invoice+checker&semantic=rain+forecast", "fuzzy: ann art", "semantic: bob")
	check("q=nothingofthesort&semantic=+", "fuzzy: ")
	h.embedder.failing.Store(true)
	check("semantic=rain", "fuzzy: bob", "semantic: error")
	check("q=weather", "fuzzy: bob")
	for i := range 25 {
		name := fmt.Sprint("extra", i)
		h.second.publish(h.second.agent(name), card{"name": "Weather " + name})
	}
	h.embedder.failing.Store(false)
	h.settle(28)
	events, _ := h.searchStream("/directory/agents/stream")
	var phase struct{ Results []any }
	if err := json.Unmarshal([]byte(events[0]), &phase); err != nil || len(phase.Results) != 20 {
		t.Errorf("%d rows by default, %v", len(phase.Results), err)
	}
}

// TestDirectoryStreamDoesNotWait: the first phase is sent while the provider is slow, and
// a provider that does not answer ends the stream within ten seconds.
func TestDirectoryStreamDoesNotWait(t *testing.T) {
	t.Parallel() // it waits for timers
	h := newCardHarness(t)
	goOn := make(chan struct{})
	slow := func(ctx context.Context) {
		select {
		case <-goOn:
		case <-ctx.Done():
		}
	}
	h.embedder.asked.Store(&slow)
	conn, err := h.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprint(conn, "GET /directory/agents/stream?semantic="+url.QueryEscape("rain forecast")+" HTTP/1.1\r\nHost: home\r\n\r\n")
	lines := bufio.NewScanner(conn)
	next := func() string {
		for lines.Scan() {
			if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
				return data
			}
		}
		return ""
	}
	if data := next(); !strings.Contains(data, `"phase":"fuzzy"`) || !strings.Contains(data, h.bob) {
		t.Fatalf("before the provider answers: %s", data)
	}
	close(goOn)
	if data := next(); !strings.Contains(data, `"phase":"semantic"`) || !strings.Contains(data, h.bob) {
		t.Errorf("after it: %s", data)
	}
	if data := next(); data != "[DONE]" || lines.Scan() && lines.Text() != "" {
		t.Errorf("at the end: %s", data)
	}
	stuck := func(ctx context.Context) { <-ctx.Done() }
	h.embedder.asked.Store(&stuck)
	began := time.Now()
	if got := h.phases("/directory/agents/stream?semantic=snow+and+rain"); len(got) != 2 || got[1] != "semantic: error" {
		t.Errorf("without an answer: %q", got)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the stream took %v", took)
	}
}

// TestDirectoryStreamEndsWithTheServer: a stream that waits for its provider does not keep
// the server from stopping.
func TestDirectoryStreamEndsWithTheServer(t *testing.T) {
	h := newCardHarness(t)
	asked := make(chan struct{}, 8)
	stuck := func(ctx context.Context) {
		asked <- struct{}{}
		<-ctx.Done()
	}
	h.embedder.asked.Store(&stuck)
	events := make(chan []string, 1)
	go func() {
		data, _ := h.searchStream("/directory/agents/stream?semantic=rain")
		events <- data
	}()
	<-asked
	began := time.Now()
	h.shut()
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("the server stopped after %v", took)
	}
	if data := <-events; len(data) != 3 || !strings.Contains(data[1], `"error"`) || data[2] != "[DONE]" {
		t.Errorf("the stream ended with %q", data)
	}
}
