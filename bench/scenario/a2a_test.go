package scenario

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario/a2a"
	"parley/bench/scenario/host"
)

// a2aIn is a request over A2A.
type a2aIn struct {
	Method string `json:"method"`
	Params struct {
		ID      string `json:"id"`
		Message struct {
			ID    string          `json:"messageId"`
			Parts json.RawMessage `json:"parts"`
		} `json:"message"`
		Configuration struct {
			Now bool `json:"returnImmediately"`
		} `json:"configuration"`
	} `json:"params"`
}

// a2a serves the bridge of a fake.
func (s *fake) a2a(w http.ResponseWriter, r *http.Request) {
	var in a2aIn
	_ = json.NewDecoder(r.Body).Decode(&in)
	if s.fault == refusesTasks {
		tell(w, 200, map[string]any{"error": map[string]any{"code": -32000, "data": []any{map[string]any{"reason": "QUOTA_EXCEEDED"}}}})
		return
	}
	if in.Method == "SubscribeToTask" {
		s.subscribed(w, r, in.Params.ID)
		return
	}
	s.mu.Lock()
	body := map[string]any{"encrypted_payload": base64.RawURLEncoding.EncodeToString(in.Params.Message.Parts)}
	m := s.keep(body, s.byID[r.Header.Get("X-Svc-Agent")], s.names[r.PathValue("handle")], "")
	s.mu.Unlock()
	id := in.Params.Message.ID
	if s.fault == sameID {
		id = "m-1"
	}
	task := taskOf(m, a2a.TaskSubmitted)
	task["history"] = []any{map[string]any{"messageId": id, "parts": in.Params.Message.Parts}}
	if !in.Params.Configuration.Now {
		select {
		case reply := <-m.replied:
			task["status"] = map[string]any{"state": a2a.TaskCompleted}
			task["artifacts"] = []any{s.artifact(reply)}
			if s.fault == noReply {
				task["status"] = map[string]any{"state": a2a.TaskWorking}
			}
		case <-r.Context().Done():
			return
		}
	}
	tell(w, 200, map[string]any{"jsonrpc": "2.0", "id": 1, "result": map[string]any{"task": task}})
}

func taskOf(m *row, state string) map[string]any {
	return map[string]any{"id": m.Conversation, "contextId": m.Conversation, "status": map[string]any{"state": state}}
}

// artifact shows a reply as a result. With the fault it is the message that was replied to.
func (s *fake) artifact(m *row) map[string]any {
	parts, _ := base64.RawURLEncoding.DecodeString(m.Payload)
	if s.fault == otherReply {
		parts = []byte(`[{"text":"another"}]`)
	}
	return map[string]any{"artifactId": m.ID, "parts": json.RawMessage(parts)}
}

func (s *fake) subscribed(w http.ResponseWriter, r *http.Request, id string) {
	s.mu.Lock()
	var m *row
	for _, one := range s.sent {
		if one.Conversation == id && one.receiver.handle == r.PathValue("handle") {
			m = one
		}
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(result any) {
		text, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "result": result})
		_, _ = fmt.Fprintf(w, ": a comment\n\nid: 1\ndata: %s\n\n", text)
		_ = http.NewResponseController(w).Flush()
	}
	update := func(state string) map[string]any {
		return map[string]any{"statusUpdate": map[string]any{"taskId": id, "status": map[string]any{"state": state}}}
	}
	begin := taskOf(m, a2a.TaskSubmitted)
	if s.fault == otherTask {
		begin["id"] = m.ID
	}
	say(map[string]any{"task": begin})
	select {
	case reply := <-m.replied:
		say(update(a2a.TaskWorking))
		say(map[string]any{"artifactUpdate": map[string]any{"taskId": id, "artifact": s.artifact(reply)}})
	case <-r.Context().Done():
		return
	}
	if s.fault != forgetsEnd {
		say(update(a2a.TaskCompleted))
	}
	if s.fault == goesOn {
		say(update(a2a.TaskWorking))
	}
}

// call runs A2A for a moment and then subscribes to tasks.
func call(t *testing.T, f fault) (run result.Run, w window, err error) {
	t.Helper()
	s, endpoint := newFake(t, f)
	h, err := NewSet(t.Context(), "fake", endpoint, host.Params{Seed: 7, Payload: 64, Agents: 2, Senders: 1, Subscriptions: 3*a2a.TasksPerAgent - 1})
	if err != nil {
		t.Fatal(err)
	}
	run, err = runOnce(t, h, A2A, load.Plan{Clients: 2, Duration: 20 * time.Millisecond * a2a.Turns}, around{meter: blindMeter{s}, window: &w})
	return run, w, err
}

func TestA2A(t *testing.T) {
	run, w, err := call(t, sound)
	if err != nil || run.Failures != 0 || run.Operations == 0 || w != (window{1, 1}) {
		t.Fatalf("%v, %d operations, failures %v, %v", err, run.Operations, run.Reasons, w)
	}
	for _, figure := range []string{a2a.FigureSync, a2a.FigureA2A, a2a.FigureA2AOfSync, a2a.FigureLastEnd} {
		if run.Figures[figure] <= 0 {
			t.Errorf("%s is %v", figure, run.Figures[figure])
		}
	}
	subscribed := int64(run.Figures[a2a.FigureSubscriptions])
	if run.Parts[a2a.PartA2A].Count != run.Operations || run.Parts[a2a.PartSync].Count == 0 || subscribed != 3*a2a.TasksPerAgent-1 || run.Parts[a2a.PartEnd].Count != subscribed {
		t.Errorf("parts of %d operations and %d subscriptions: %v", run.Operations, subscribed, run.Parts)
	}
}

// TestA2AIsJudged plants one fault at a time. The scenario must fail and give the reason.
func TestA2AIsJudged(t *testing.T) {
	for fault, reason := range map[fault]string{
		refusesTasks: "A2A error -32000 QUOTA_EXCEEDED",
		sameID:       "another message than the one sent",
		noReply:      "the wait ended in TASK_STATE_WORKING",
		otherReply:   "another result than the one given",
		otherTask:    "a subscription begins with another task",
		forgetsEnd:   "a subscription ends before its task",
		goesOn:       "a subscription goes on after the end of its task",
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			run, _, err := call(t, fault)
			said := []string{fmt.Sprint(err)}
			for reason, n := range run.Reasons {
				if n > 0 {
					said = append(said, reason)
				}
			}
			if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, reason) }) {
				t.Errorf("nothing says %q, only %q", reason, said)
			}
		})
	}
}
