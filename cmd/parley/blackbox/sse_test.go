package blackbox

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

var streaming = &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}

// event is one dispatched event of a stream.
type event struct {
	name string
	id   string // the id in this block, "" if it has none
	data obj
	raw  string
}

// stream is an open event stream with a goroutine that reads it.
type stream struct {
	t      testing.TB
	resp   *http.Response
	cancel context.CancelFunc
	events chan event // closed when the stream ends

	mu       sync.Mutex
	lastID   string
	preamble []string // lines before the first event
	sawEvent bool
}

// stream opens the agent's stream; after is the Last-Event-ID, "" for none.
func (g *agent) stream(after string) *stream {
	g.t.Helper()
	st, a := g.listen(after)
	if st == nil {
		a.fatalf("no stream")
	}
	g.t.Cleanup(st.close)
	return st
}

// listen opens a stream, or returns the error answer.
func (g *agent) listen(after string) (*stream, *answer) {
	a := &answer{t: g.t, asked: "GET " + g.path("/stream")}
	ctx, cancel := context.WithCancel(context.Background())
	req, err := g.s.request(g.token, "GET", g.path("/stream"), nil, "Accept", "text/event-stream", "Last-Event-ID", after)
	if err != nil {
		cancel()
		a.err = err
		return nil, a
	}
	resp, err := streaming.Do(req.WithContext(ctx))
	if err != nil {
		cancel()
		a.err = err
		return nil, a
	}
	a.status, a.header = resp.StatusCode, resp.Header
	if resp.StatusCode != http.StatusOK {
		cancel()
		_ = resp.Body.Close()
		return nil, a
	}
	st := &stream{t: g.t, resp: resp, cancel: cancel, events: make(chan event, 10000)}
	go st.read()
	return st, a
}

func (st *stream) close() {
	st.cancel()
	_ = st.resp.Body.Close()
}

func (st *stream) read() {
	defer close(st.events)
	lines := bufio.NewReader(st.resp.Body)
	var e event
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
				e.raw = strings.Join(data, "\n")
				_ = json.Unmarshal([]byte(e.raw), &e.data)
				st.dispatch(e)
			} else if e.id != "" {
				st.resumeAt(e.id)
			}
			e, data = event{}, nil
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			data = append(data, value)
		}
	}
}

func (st *stream) note(line string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if strings.HasPrefix(line, "event:") || strings.HasPrefix(line, "data:") {
		st.sawEvent = true
	}
	if !st.sawEvent && line != "" {
		st.preamble = append(st.preamble, line)
	}
}

func (st *stream) dispatch(e event) {
	if e.id != "" {
		st.resumeAt(e.id)
	}
	st.events <- e
}

func (st *stream) resumeAt(id string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.lastID = id
}

// last returns the id to resume from.
func (st *stream) last() string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.lastID
}

// opening returns the lines before the first event, once the id line has arrived.
func (st *stream) opening() []string {
	st.t.Helper()
	eventually(st.t, "the first lines of the stream", func() bool { return st.last() != "" })
	st.mu.Lock()
	defer st.mu.Unlock()
	return append([]string(nil), st.preamble...)
}

// next waits for an event other than a heartbeat.
func (st *stream) next() event {
	st.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case e, ok := <-st.events:
			if !ok {
				st.t.Fatal("the stream ended")
			}
			if e.name != "heartbeat" {
				return e
			}
		case <-deadline:
			st.t.Fatal("no event within 30 s")
		}
	}
}

// message waits for a message event and checks its form.
func (st *stream) message() obj {
	st.t.Helper()
	e := st.next()
	if e.name != "message" || e.id == "" || e.id != text(e.data, "id") {
		st.t.Fatalf("want a message event with its id, got %q id %q: %s", e.name, e.id, e.raw)
	}
	shaped(st.t, "message event", e.data, messageShape)
	if e.data["direction"] != "received" {
		st.t.Errorf("direction on the stream: %v", e.data["direction"])
	}
	return e.data
}

// messages waits for exactly these messages in this order.
func (st *stream) messages(want ...string) {
	st.t.Helper()
	for i, id := range want {
		if got := text(st.message(), "id"); got != id {
			st.t.Fatalf("message %d of the stream is %s, want %s of %v", i, got, id, want)
		}
	}
}

// status waits for a status event.
func (st *stream) status(conversation, status string) {
	st.t.Helper()
	e := st.next()
	if e.name != "status" || e.id != "" {
		st.t.Fatalf("want a status event without id, got %q id %q: %s", e.name, e.id, e.raw)
	}
	exactly(st.t, "status event", e.data, "conversation_id status")
	if e.data["conversation_id"] != conversation || e.data["status"] != status {
		st.t.Fatalf("want %s %s, got %s", conversation, status, e.raw)
	}
}

// quiet checks that no further event arrives for a moment.
func (st *stream) quiet() {
	st.t.Helper()
	select {
	case e, ok := <-st.events:
		if !ok {
			st.t.Fatal("the stream ended")
		}
		if e.name != "heartbeat" {
			st.t.Fatalf("unexpected %s %s: %s", e.name, e.id, e.raw)
		}
	case <-time.After(150 * time.Millisecond):
	}
}

// ends waits until the server closes the stream.
func (st *stream) ends(within time.Duration) {
	st.t.Helper()
	deadline := time.After(within)
	for {
		select {
		case _, ok := <-st.events:
			if !ok {
				return
			}
		case <-deadline:
			st.t.Fatalf("the stream is still open after %v", within)
		}
	}
}
