package http

import (
	"bufio"
	"encoding/json"
	stdhttp "net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// taskEvents is a stream of a task.
type taskEvents struct {
	t     testing.TB
	lines *bufio.Reader
	head  stdhttp.Header
}

// follow opens a stream.
func (h *bridgeHarness) follow(method string, params any, head ...string) *taskEvents {
	h.t.Helper()
	conn, err := h.dial()
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	body, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "s", "method": method, "params": params})
	r, _ := stdhttp.NewRequest("POST", "http://home"+h.address, strings.NewReader(string(body)))
	r.Header.Set("Authorization", "Bearer "+h.second.token)
	for _, line := range head {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	go func() { _ = r.Write(conn) }()
	lines := bufio.NewReader(conn)
	answer, err := stdhttp.ReadResponse(lines, r)
	if err != nil {
		h.t.Fatal(err)
	}
	if kind := answer.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		h.t.Fatalf("%s is answered with %s", method, kind)
	}
	return &taskEvents{h.t, lines, answer.Header}
}

// next returns the next event and its id, or "end" when the stream has ended.
func (e *taskEvents) next() (*response, string) {
	e.t.Helper()
	id := ""
	for {
		line, err := e.lines.ReadString('\n')
		if err != nil {
			return nil, "end"
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			id = value
		case "event":
			e.t.Fatalf("there is an event named %s", value)
		case "data":
			a := &response{t: e.t, what: "stream", status: 200, raw: []byte(value)}
			if err := json.Unmarshal(a.raw, &a.body); err != nil {
				e.t.Fatal(err)
			}
			return a.is(object{"jsonrpc": "2.0", "id": "s"}), id
		}
	}
}

// want checks the next event.
func (e *taskEvents) want(members object) string {
	e.t.Helper()
	a, id := e.next()
	if a == nil {
		e.t.Fatal("the stream has ended")
	}
	a.is(members)
	return id
}

func TestTaskStream(t *testing.T) {
	h := newBridgeHarness(t)
	first := h.follow("SendStreamingMessage", h.say("m1", textParts("hello"), nil))
	a, begin := first.next()
	task := a.text("result.task.id")
	second := h.follow("tasks/resubscribe", object{"id": task})
	second.want(object{"result.task.id": task, "result.task.status.state": "TASK_STATE_SUBMITTED"})
	h.reply(task, "status_update", textParts("soon"))
	h.reply(task, "task_response", textParts("done"))
	want := []object{
		{"result.statusUpdate.status.state": "TASK_STATE_WORKING", "result.statusUpdate.taskId": task},
		{"result.statusUpdate.status.state": "TASK_STATE_WORKING", "result.statusUpdate.status.message.parts": textParts("soon")},
		{"result.artifactUpdate.artifact.parts": textParts("done"), "result.artifactUpdate.lastChunk": true},
		{"result.statusUpdate.status.state": "TASK_STATE_COMPLETED"},
	}
	var ids []string
	for _, members := range want {
		ids = append(ids, first.want(members))
		if id := second.want(members); id != ids[len(ids)-1] {
			t.Errorf("an event has the ids %s and %s", ids[len(ids)-1], id)
		}
	}
	for _, s := range []*taskEvents{first, second} {
		if a, end := s.next(); end != "end" {
			t.Errorf("after the end comes %s", a.raw)
		}
	}
	// Wherever a connection was lost, nothing is missed, also when the task has ended.
	for i, id := range append([]string{begin}, ids...) {
		resumed := h.follow("SubscribeToTask", object{"id": task}, "Last-Event-ID: "+id)
		resumed.want(object{"result.task.id": task})
		for _, members := range want[i:] {
			resumed.want(members)
		}
		if a, end := resumed.next(); end != "end" {
			t.Errorf("after the end comes %s", a.raw)
		}
	}
	h.second.ask("GET", "/agents/"+h.bob+"/messages", "").is(object{"items.0.status": "delivered"})
}

// TestSendingStreamBeginsAtItsMessage: a stream that begins late, here because its message
// is sent again, misses nothing of what came after the message.
func TestSendingStreamBeginsAtItsMessage(t *testing.T) {
	h := newBridgeHarness(t)
	task := h.begin("m1")
	h.reply(task, "dm", textParts("what?"))
	h.first.ask("PATCH", "/conversations/"+task+"/status", `{"status":"input_required"}`).want(200)
	again := h.say("m2", textParts("that"), object{"taskId": task})
	h.call(h.second, "SendMessage", again).want(200)
	h.reply(task, "status_update", textParts("soon"))
	h.reply(task, "task_response", textParts("done"))
	rest := []object{
		{"result.statusUpdate.status.message.parts": textParts("soon")},
		{"result.artifactUpdate.artifact.parts": textParts("done")},
		{"result.statusUpdate.status.state": "TASK_STATE_COMPLETED"},
	}
	second := h.follow("SendStreamingMessage", again)
	second.want(object{"result.task.id": task, "result.task.status.state": "TASK_STATE_WORKING", "result.task.history.2.messageId": "m2"})
	first := h.follow("SendStreamingMessage", h.say("m1", textParts("hello"), nil))
	first.want(object{"result.task.id": task, "result.task.status.state": "TASK_STATE_SUBMITTED", "result.task.history.0.messageId": "m1"})
	for range 2 {
		first.want(object{"result.statusUpdate.status.state": "TASK_STATE_WORKING"})
	}
	first.want(object{"result.statusUpdate.status.state": "TASK_STATE_INPUT_REQUIRED"})
	for _, members := range rest {
		second.want(members)
	}
	for _, s := range []*taskEvents{first, second} {
		if a, end := s.next(); end != "end" {
			t.Errorf("after the end comes %s", a.raw)
		}
	}
}

// TestSendingStreamEndsWhenInputIsRequired: the stream of a send ends there, a subscription
// does not.
func TestSendingStreamEndsWhenInputIsRequired(t *testing.T) {
	h := newBridgeHarness(t)
	sending := h.follow("SendStreamingMessage", h.say("m1", textParts("hello"), nil))
	a, _ := sending.next()
	task := a.text("result.task.id")
	following := h.follow("SubscribeToTask", object{"id": task})
	following.want(object{"result.task.id": task})
	h.reply(task, "dm", textParts("what?"))
	h.first.ask("PATCH", "/conversations/"+task+"/status", `{"status":"input_required","reason":"say what"}`).want(200)
	for range 2 {
		sending.want(object{"result.statusUpdate.status.state": "TASK_STATE_WORKING"})
		following.want(object{"result.statusUpdate.status.state": "TASK_STATE_WORKING"})
	}
	sending.want(object{"result.statusUpdate.status.state": "TASK_STATE_INPUT_REQUIRED", "result.statusUpdate.metadata.reason": "say what"})
	if a, end := sending.next(); end != "end" {
		t.Errorf("after the interruption comes %s", a.raw)
	}
	following.want(object{"result.statusUpdate.status.state": "TASK_STATE_INPUT_REQUIRED"})
	h.call(h.second, "SendMessage", h.say("m2", textParts("that"), object{"taskId": task}))
	following.want(object{"result.statusUpdate.status.state": "TASK_STATE_WORKING"})
	h.call(h.second, "CancelTask", object{"id": task})
	following.want(object{"result.statusUpdate.status.state": "TASK_STATE_CANCELED"})
}

// TestTaskStreamOutlivesReadTimeout: the time to receive a request does not bound a stream.
func TestTaskStreamOutlivesReadTimeout(t *testing.T) {
	h := newBridgeHarness(t, func(o *harnessOptions) {
		o.Server.ReadTimeout, o.Server.IdleTimeout = 100*time.Millisecond, 100*time.Millisecond
	})
	task := h.begin("m1")
	following := h.follow("SubscribeToTask", object{"id": task})
	following.want(object{"result.task.id": task})
	time.Sleep(300 * time.Millisecond)
	h.call(h.second, "CancelTask", object{"id": task})
	following.want(object{"result.statusUpdate.status.state": "TASK_STATE_CANCELED"})
}

// TestTaskStreamEndsWithItsPermission: when an organization is suspended, its streams end and
// show nothing more.
func TestTaskStreamEndsWithItsPermission(t *testing.T) {
	h := newBridgeHarness(t)
	task := h.begin("m1")
	following := h.follow("SubscribeToTask", object{"id": task})
	following.want(object{"result.task.id": task})
	if n := h.service.OpenStreams(); n != 1 {
		t.Errorf("%d streams are open, want 1", n)
	}
	h.service.EndStreams(h.second.owner)
	if a, end := following.next(); end != "end" {
		t.Errorf("after the end comes %s", a.raw)
	}
}

// TestIdleTaskStreamsAreSmall: while nothing happens, a stream holds neither the buffers of
// its request nor the messages of its task.
func TestIdleTaskStreamsAreSmall(t *testing.T) {
	skipUnderRace(t)
	const streams, most = 100, 16 << 10 // it was 5 KiB, the client's end included
	h := newBridgeHarness(t)
	task := h.call(h.second, "SendMessage", h.say("m1", textParts(strings.Repeat("long ", 6<<10)), nil)).want(200).text("result.task.id")
	live := func() int {
		runtime.GC()
		runtime.GC() // empties pools
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := live()
	for range streams {
		h.follow("SubscribeToTask", object{"id": task}).want(object{"result.task.id": task})
	}
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		each := (live() - before) / streams
		if each <= most {
			t.Logf("%d bytes", each)
			return
		}
		if time.Now().After(until) {
			t.Fatalf("an idle stream takes %d bytes", each)
		}
	}
}
