package judges

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/client"
)

// special is what a scenario asks of its runner in words, beside its steps.
type special struct {
	anonymous bool // no token is added
	hook      bool // webhookUrl is the runner's own
	then      func(*actsRun) error
}

const webhookWait = 15 * time.Second

// specials are the scenarios that are marked "runner-special", and those whose description
// asks for more than their steps.
var specials = map[string]special{
	"CARD-CACHE-001":   {then: cachingHeaders},
	"CARD-SCHEMA-001":  {then: func(r *actsRun) error { return conforms("AgentCard", r.answers["step-1"].root) }},
	"DM-SERIAL-002":    {then: func(r *actsRun) error { return conforms("SendMessageResponse", r.answers["send"].root) }},
	"JSONRPC-CT-001":   {then: jsonContentType},
	"SEC-AUTH-001":     {anonymous: true},
	"SEC-AUTH-004":     {anonymous: true},
	"SEC-AUTH-003":     {then: func(r *actsRun) error { return r.hidesOthers(r.answers["get-missing-task"]) }},
	"CORE-ERR-009":     {then: func(r *actsRun) error { return r.hidesOthers(r.answers["get-missing"]) }},
	"SEC-PUSH-001":     {hook: true, then: func(r *actsRun) error { return r.pushed("Bearer test-token") }},
	"PUSH-DELIV-001":   {hook: true, then: func(r *actsRun) error { return r.pushed("Bearer test-token") }},
	"SEC-PUSH-002":     {hook: true, then: func(r *actsRun) error { return r.pushed("Bearer expected-token") }},
	"PUSH-DELIV-002":   {hook: true, then: func(r *actsRun) error { return r.pushed("") }},
	"PUSH-DELIV-003":   {hook: true, then: func(r *actsRun) error { return r.pushed("") }},
	"STREAM-MULTI-001": {then: func(r *actsRun) error { return r.twoStreams(false) }},
	"STREAM-MULTI-002": {then: func(r *actsRun) error { return r.twoStreams(true) }},
	"STREAM-RESUB-001": {then: (*actsRun).resubscribes},
}

func cachingHeaders(r *actsRun) error {
	for _, name := range []string{"Cache-Control", "ETag"} {
		if r.answers["step-1"].header.Get(name) == "" {
			return fmt.Errorf("the card has no header %s", name)
		}
	}
	return nil
}

func jsonContentType(r *actsRun) error {
	if kind := r.answers["send-raw"].header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		return fmt.Errorf("Content-Type is %q", kind)
	}
	return nil
}

// hidesOthers compares the answer about a task that does not exist with the one about
// another organization's.
func (r *actsRun) hidesOthers(missing *actsAnswer) error {
	others, err := r.call("get_task", map[string]any{"id": r.more["otherUserTaskId"]}, nil)
	if err != nil {
		return err
	}
	if a, b := shown(missing.err, true), shown(others.err, true); a != b || others.err == nil {
		return fmt.Errorf("a missing task: %s, another's: %s", a, b)
	}
	return nil
}

// twoStreams follows one task with two streams. If the first one is closed after an event,
// the other one must go on to the end; otherwise both must have the same events.
func (r *actsRun) twoStreams(closing bool) error {
	ctx, cancel := context.WithTimeout(r.ctx, stepWait)
	defer cancel()
	first, err := r.stream(ctx, "SendStreamingMessage", map[string]any{"message": map[string]any{
		"messageId": "two-streams-" + r.test.ID, "role": "ROLE_USER", "parts": []any{map[string]any{"text": "tck-long-running two streams"}},
	}})
	if err != nil {
		return err
	}
	defer func() { _ = first.Close() }()
	var ids [2][]string
	var last map[string]any
	for event := range eventsOf(first) {
		if last == nil { // the first event is the task
			if len(at(event, "task.id")) != 1 {
				return fmt.Errorf("the first event is %s", shown(event, true))
			}
			second, err := r.stream(ctx, "SubscribeToTask", map[string]any{"id": at(event, "task.id")[0]})
			if err != nil {
				return err
			}
			defer func() { _ = second.Close() }()
			if closing {
				_ = first.Close()
			}
			for event := range eventsOf(second) {
				ids[1] = append(ids[1], fmt.Sprint(event["event id"]))
				last = event
			}
			if closing {
				break
			}
		}
		ids[0] = append(ids[0], fmt.Sprint(event["event id"]))
	}
	if found := at(last, "status.state"); len(found) == 0 || !ended(fmt.Sprint(found[0])) {
		return fmt.Errorf("the second stream ended with %s", shown(last, true))
	}
	// The first event of each is the task as it was; all that follow are the same.
	if !closing && (len(ids[1]) < 2 || !slices.Equal(ids[0][len(ids[0])-len(ids[1])+1:], ids[1][1:])) {
		return fmt.Errorf("the streams differ: %v and %v", ids[0], ids[1])
	}
	return nil
}

// resubscribes loses a stream after its first event and follows the task with another one.
func (r *actsRun) resubscribes() error {
	ctx, cancel := context.WithTimeout(r.ctx, stepWait)
	defer cancel()
	sent, err := r.call("send_message", map[string]any{
		"message":       map[string]any{"role": "ROLE_USER", "parts": []any{map[string]any{"text": "tck-long-running again"}}},
		"configuration": map[string]any{"returnImmediately": true},
	}, nil)
	if err != nil {
		return err
	}
	id := at(sent.root, "task.id")
	if len(id) != 1 {
		return fmt.Errorf("no task: %s", shown(sent.root, true))
	}
	var last map[string]any
	for _, cut := range []bool{true, false} {
		stream, err := r.stream(ctx, "SubscribeToTask", map[string]any{"id": id[0]})
		if err != nil {
			return err
		}
		for last = range eventsOf(stream) {
			if cut {
				break
			}
		}
		_ = stream.Close()
	}
	if found := at(last, "status.state"); len(found) == 0 || found[0] != "TASK_STATE_COMPLETED" {
		return fmt.Errorf("the second stream ended with %s", shown(last, true))
	}
	return nil
}

// stream begins a stream.
func (r *actsRun) stream(ctx context.Context, method string, params map[string]any) (io.ReadCloser, error) {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	resp, err := r.open(ctx, http.MethodPost, "", map[string]string{"Content-Type": "application/json", "A2A-Version": "1.0", "Authorization": "Bearer " + r.token}, body)
	if err != nil {
		return nil, err
	}
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s is answered with no stream: %s", method, text)
	}
	return resp.Body, nil
}

// hooks receives push notifications.
type hooks struct {
	server *httptest.Server
	mu     sync.Mutex
	got    map[string][]delivery
	came   chan struct{}
}

type delivery struct {
	header http.Header
	body   []byte
}

func receiveHooks(t *testing.T) *hooks {
	h := &hooks{got: map[string][]delivery{}, came: make(chan struct{})}
	h.server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is cut off is no JSON
		h.mu.Lock()
		defer h.mu.Unlock()
		h.got[r.URL.Path] = append(h.got[r.URL.Path], delivery{r.Header, body})
		close(h.came)
		h.came = make(chan struct{})
	}))
	t.Cleanup(h.server.Close)
	return h
}

func (h *hooks) url(test string) string { return h.server.URL + "/" + test }

func (h *hooks) of(test string) ([]delivery, chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.got["/"+test]), h.came
}

// pushed waits for the end of the task among the notifications, and checks each of them.
func (r *actsRun) pushed(authorization string) error {
	late := time.After(webhookWait)
	for checked := 0; ; {
		got, came := r.hooks.of(r.test.ID)
		for ; checked < len(got); checked++ {
			d := got[checked]
			if authorization != "" && d.header.Get("Authorization") != authorization {
				return fmt.Errorf("a notification has the Authorization %q", d.header.Get("Authorization"))
			}
			if kind := d.header.Get("Content-Type"); kind != "application/a2a+json" {
				return fmt.Errorf("a notification has the Content-Type %q", kind)
			}
			var event any
			if err := json.Unmarshal(d.body, &event); err != nil {
				return err
			}
			if err := conforms("StreamResponse", event); err != nil {
				return err
			}
			if found := at(event, "statusUpdate.status.state"); len(found) == 1 && found[0] == "TASK_STATE_COMPLETED" {
				return nil
			}
		}
		select {
		case <-came:
		case <-late:
			return fmt.Errorf("%d notifications, and not the one of the end", len(got))
		}
	}
}

// readByClient has Parley's own client read an answer.
func readByClient(ctx context.Context, step *actsStep) error {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/oauth/token" {
			_, _ = io.WriteString(w, `{"access_token":"t","token_type":"Bearer","expires_in":900}`)
			return
		}
		_ = json.NewEncoder(w).Encode(step.ClientResponse.WirePayload)
	}))
	defer server.Close()
	c, err := client.New(server.URL, client.WithCredentials(client.Credentials{ClientSecret: "s"}))
	if err != nil {
		return err
	}
	defer c.Close()
	var parsed any
	switch step.ClientResponse.Operation {
	case "send_message":
		parsed = &struct {
			Task    *client.A2ATask    `json:"task,omitempty"`
			Message *client.A2AMessage `json:"message,omitempty"`
		}{}
	case "get_task":
		parsed = &client.A2ATask{}
	default:
		return fmt.Errorf("the client does not read the answer to %s", step.ClientResponse.Operation)
	}
	err = c.A2A.Call(ctx, "bob@acme.example", methods[step.ClientResponse.Operation], map[string]string{"id": "x"}, parsed)
	if refused := (*client.A2AError)(nil); errors.As(err, &refused) {
		parsed = map[string]any{"error": map[string]any{"code": refused.Code, "message": refused.Message}}
	} else if err != nil {
		return err
	}
	text, err := json.Marshal(parsed)
	if err != nil {
		return err
	}
	var read any
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	return holds("", step.ExpectParsed, read, true)
}
