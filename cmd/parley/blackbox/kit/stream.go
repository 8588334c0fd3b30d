package kit

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Streaming is a client without a timeout, for streams.
var Streaming = &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}

// Event is one dispatched event of a stream.
type Event struct {
	Name string
	ID   string // the id in this block, "" if it has none
	Data Obj
	Raw  string
}

// Stream is an open event stream with a goroutine that reads it.
type Stream struct {
	T      testing.TB
	Resp   *http.Response
	cancel context.CancelFunc
	Events chan Event // closed when the stream ends

	mu       sync.Mutex
	lastID   string
	preamble []string // lines before the first event
	sawEvent bool
}

// Stream opens the agent's stream; after is the Last-Event-ID, "" for none.
func (g *Agent) Stream(after string) *Stream {
	g.T.Helper()
	st, a := g.Listen(after)
	if st == nil {
		a.Fatalf("no stream")
	}
	g.T.Cleanup(st.Close)
	return st
}

// Listen opens a stream, or returns the error answer.
func (g *Agent) Listen(after string) (*Stream, *Answer) {
	a := &Answer{T: g.T, Asked: "GET " + g.Path("/stream")}
	ctx, cancel := context.WithCancel(context.Background())
	req, err := g.S.Request(g.Token, "GET", g.Path("/stream"), nil, "Accept", "text/event-stream", "Last-Event-ID", after)
	if err != nil {
		cancel()
		a.Err = err
		return nil, a
	}
	resp, err := Streaming.Do(req.WithContext(ctx))
	if err != nil {
		cancel()
		a.Err = err
		return nil, a
	}
	a.Status, a.Header = resp.StatusCode, resp.Header
	if resp.StatusCode != http.StatusOK {
		cancel()
		_ = resp.Body.Close()
		return nil, a
	}
	st := &Stream{T: g.T, Resp: resp, cancel: cancel, Events: make(chan Event, 10000)}
	go st.read()
	return st, a
}

// Close ends the connection.
func (st *Stream) Close() {
	st.cancel()
	_ = st.Resp.Body.Close()
}

func (st *Stream) read() {
	defer close(st.Events)
	lines := bufio.NewReader(st.Resp.Body)
	var e Event
	var data []string
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		st.note(line)
		if line == "" {
			if len(data) > 0 {
				e.Raw = strings.Join(data, "\n")
				_ = json.Unmarshal([]byte(e.Raw), &e.Data)
				st.dispatch(e)
			} else if e.ID != "" {
				st.resumeAt(e.ID)
			}
			e, data = Event{}, nil
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.Name = value
		case "id":
			e.ID = value
		case "data":
			data = append(data, value)
		}
	}
}

func (st *Stream) note(line string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if strings.HasPrefix(line, "event:") || strings.HasPrefix(line, "data:") {
		st.sawEvent = true
	}
	if !st.sawEvent && line != "" {
		st.preamble = append(st.preamble, line)
	}
}

func (st *Stream) dispatch(e Event) {
	if e.ID != "" {
		st.resumeAt(e.ID)
	}
	st.Events <- e
}

func (st *Stream) resumeAt(id string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.lastID = id
}

// Last returns the id to resume from.
func (st *Stream) Last() string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.lastID
}

// Opening returns the lines before the first event, once the id line has arrived.
func (st *Stream) Opening() []string {
	st.T.Helper()
	Eventually(st.T, "the first lines of the stream", func() bool { return st.Last() != "" })
	st.mu.Lock()
	defer st.mu.Unlock()
	return append([]string(nil), st.preamble...)
}

// Next waits for an event other than a heartbeat.
func (st *Stream) Next() Event {
	st.T.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case e, ok := <-st.Events:
			if !ok {
				st.T.Fatal("the stream ended")
			}
			if e.Name != "heartbeat" {
				return e
			}
		case <-deadline:
			st.T.Fatal("no event within 30 s")
		}
	}
}

// Message waits for a message event and checks its form.
func (st *Stream) Message() Obj {
	st.T.Helper()
	e := st.Next()
	if e.Name != "message" || e.ID == "" || e.ID != Text(e.Data, "id") {
		st.T.Fatalf("want a message event with its id, got %q id %q: %s", e.Name, e.ID, e.Raw)
	}
	Shaped(st.T, "message event", e.Data, MessageShape)
	if e.Data["direction"] != "received" {
		st.T.Errorf("direction on the stream: %v", e.Data["direction"])
	}
	return e.Data
}

// Messages waits for exactly these messages in this order.
func (st *Stream) Messages(want ...string) {
	st.T.Helper()
	for i, id := range want {
		if got := Text(st.Message(), "id"); got != id {
			st.T.Fatalf("message %d of the stream is %s, want %s of %v", i, got, id, want)
		}
	}
}

// Status waits for a status event.
func (st *Stream) Status(conversation, status string) {
	st.T.Helper()
	e := st.Next()
	if e.Name != "status" || e.ID != "" {
		st.T.Fatalf("want a status event without id, got %q id %q: %s", e.Name, e.ID, e.Raw)
	}
	Exactly(st.T, "status event", e.Data, "conversation_id status")
	if e.Data["conversation_id"] != conversation || e.Data["status"] != status {
		st.T.Fatalf("want %s %s, got %s", conversation, status, e.Raw)
	}
}

// Quiet checks that no further event arrives for a moment.
func (st *Stream) Quiet() {
	st.T.Helper()
	select {
	case e, ok := <-st.Events:
		if !ok {
			st.T.Fatal("the stream ended")
		}
		if e.Name != "heartbeat" {
			st.T.Fatalf("unexpected %s %s: %s", e.Name, e.ID, e.Raw)
		}
	case <-time.After(150 * time.Millisecond):
	}
}

// Ends waits until the server closes the stream.
func (st *Stream) Ends(within time.Duration) {
	st.T.Helper()
	deadline := time.After(within)
	for {
		select {
		case _, ok := <-st.Events:
			if !ok {
				return
			}
		case <-deadline:
			st.T.Fatalf("the stream is still open after %v", within)
		}
	}
}
