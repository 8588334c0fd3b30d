package judges

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	// stepWait bounds a request, streams included.
	stepWait = 15 * time.Second
	// repeatPause replaces the pauses of scenarios that poll, which are up to 2 s: the agent
	// is quicker. As long in all is polled.
	repeatPause = 200 * time.Millisecond
)

// actsRunner runs scenarios against the endpoint of an agent.
type actsRunner struct {
	base     string // without a slash at its end
	token    string
	card     map[string]any
	hooks    *hooks
	more     map[string]string // variables that the runner knows
	specials map[string]special
}

// actsRun is one run of a scenario.
type actsRun struct {
	*actsRunner
	ctx       context.Context
	test      *actsTest
	variables map[string]string
	answers   map[string]*actsAnswer
}

// actsAnswer is an answer to a step.
type actsAnswer struct {
	status int
	header http.Header
	root   any            // what assertions are about
	err    map[string]any // the error of JSON-RPC, if it is one
	events []map[string]any
}

// methods are the names of operations in JSON-RPC.
var methods = map[string]string{
	"send_message":                    "SendMessage",
	"send_streaming_message":          "SendStreamingMessage",
	"get_task":                        "GetTask",
	"list_tasks":                      "ListTasks",
	"cancel_task":                     "CancelTask",
	"subscribe_to_task":               "SubscribeToTask",
	"set_push_notification_config":    "CreateTaskPushNotificationConfig",
	"get_push_notification_config":    "GetTaskPushNotificationConfig",
	"list_push_notification_configs":  "ListTaskPushNotificationConfigs",
	"delete_push_notification_config": "DeleteTaskPushNotificationConfig",
}

// a2aCodes are A2A's errors as JSON-RPC has them.
// // source: A2A 1.0 section 5.4
var a2aCodes = map[string]float64{
	"TaskNotFoundError": -32001, "TaskNotCancelableError": -32002, "PushNotificationNotSupportedError": -32003,
	"UnsupportedOperationError": -32004, "ContentTypeNotSupportedError": -32005, "VersionNotSupportedError": -32009,
}

// run runs a scenario and returns the first thing that was not as expected.
func (r *actsRunner) run(ctx context.Context, test *actsTest) error {
	ctx, cancel := context.WithTimeout(ctx, 2*stepWait)
	defer cancel()
	run := &actsRun{actsRunner: r, ctx: ctx, test: test, variables: maps.Clone(test.variables), answers: map[string]*actsAnswer{}}
	if run.variables == nil {
		run.variables = map[string]string{}
	}
	special := r.specials[test.ID]
	maps.Copy(run.variables, r.more)
	if special.hook {
		run.variables["webhookUrl"] = r.hooks.url(test.ID)
	} else if url := test.variables["webhookUrl"]; url != "" {
		run.variables["webhookUrl"] = url
	}
	for _, step := range test.Steps {
		if err := run.step(step); err != nil {
			return fmt.Errorf("%s: %w", step.ID, err)
		}
	}
	if special.then != nil {
		return special.then(run)
	}
	return nil
}

func (r *actsRun) step(step *actsStep) error {
	if step.ClientResponse != nil {
		return readByClient(r.ctx, step)
	}
	attempts := 1
	if step.Repeat != nil {
		attempts = step.Repeat.MaxAttempts * step.Repeat.DelayMS / int(repeatPause/time.Millisecond)
	}
	for ; ; attempts-- {
		answer, err := r.do(step)
		if err != nil {
			return err
		}
		r.answers[step.ID] = answer
		if err := r.check(step, answer); err != nil {
			if step.Raw != nil && answer.err != nil {
				return fmt.Errorf("%w; the answer is the error %v: %v", err, answer.err["code"], answer.err["message"])
			}
			return err
		}
		if step.Repeat != nil {
			done, err := reached(step.Repeat.Until, answer.root)
			if err != nil {
				return err
			}
			if !done && attempts > 1 {
				time.Sleep(repeatPause)
				continue
			}
			if !done {
				return fmt.Errorf("never: %s", step.Repeat.Until)
			}
		}
		return r.keep(step, answer)
	}
}

// do sends the request of a step.
func (r *actsRun) do(step *actsStep) (*actsAnswer, error) {
	if step.Raw != nil {
		return r.raw(step.Raw)
	}
	params, err := fillMap(step.Params, r.variables)
	if err != nil {
		return nil, err
	}
	if step.Operation == "get_agent_card" && params["extended"] != true {
		answer, err := r.request(http.MethodGet, "/.well-known/agent-card.json", nil, nil)
		if err != nil {
			return nil, err
		}
		return answer, nil
	}
	return r.call(step.Operation, params, nil)
}

// call calls a method and returns its result.
func (r *actsRun) call(operation string, params map[string]any, header map[string]string) (*actsAnswer, error) {
	method := methods[operation]
	switch {
	case operation == "get_agent_card":
		method, params = "GetExtendedAgentCard", map[string]any{}
	case method == "":
		return nil, fmt.Errorf("the runner knows no operation %s", operation)
	case params["message"] != nil: // the scenarios name the task beside the message
		message := maps.Clone(params["message"].(map[string]any))
		for _, name := range []string{"taskId", "contextId"} {
			if value, ok := params[name]; ok {
				message[name] = value
				delete(params, name)
			}
		}
		if message["messageId"] == nil {
			message["messageId"] = uuid.NewString()
		}
		params["message"] = message
	case params["pushNotificationConfig"] != nil: // A2A 1.0 has its members beside the task's id
		maps.Copy(params, params["pushNotificationConfig"].(map[string]any))
		delete(params, "pushNotificationConfig")
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": uuid.NewString(), "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	head := map[string]string{"Content-Type": "application/json", "A2A-Version": "1.0", "Authorization": "Bearer " + r.token}
	maps.Copy(head, header)
	answer, err := r.request(http.MethodPost, "", head, body)
	if err != nil {
		return nil, err
	}
	if envelope, ok := answer.root.(map[string]any); ok && answer.events == nil {
		answer.root = envelope["result"]
		if answer.err != nil {
			answer.root = envelope
		}
	}
	return answer, nil
}

// raw sends a request as it stands, with a token unless the scenario is about its absence.
func (r *actsRun) raw(raw *actsRaw) (*actsAnswer, error) {
	head := map[string]string{}
	for name, value := range raw.Headers {
		filled, err := fill(value, r.variables)
		if err != nil {
			return nil, err
		}
		head[name] = filled.(string)
	}
	if head["Authorization"] == "" && !r.specials[r.test.ID].anonymous {
		head["Authorization"] = "Bearer " + r.token
	}
	body := []byte(raw.BodyRaw)
	if raw.Body != nil {
		filled, err := fillMap(raw.Body, r.variables)
		if err != nil {
			return nil, err
		}
		if body, err = json.Marshal(filled); err != nil {
			return nil, err
		}
	}
	return r.request(raw.Method, raw.Path, head, body)
}

func (r *actsRun) request(method, path string, head map[string]string, body []byte) (*actsAnswer, error) {
	ctx, cancel := context.WithTimeout(r.ctx, stepWait)
	defer cancel()
	resp, err := r.open(ctx, method, path, head, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer := &actsAnswer{status: resp.StatusCode, header: resp.Header}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		for event := range eventsOf(resp.Body) {
			answer.events = append(answer.events, event)
		}
		if ctx.Err() != nil {
			return nil, errors.New("the stream did not end")
		}
		return answer, nil
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &answer.root); err != nil {
		return nil, fmt.Errorf("HTTP %d, no JSON: %.200s", resp.StatusCode, text)
	}
	if envelope, ok := answer.root.(map[string]any); ok {
		answer.err, _ = envelope["error"].(map[string]any)
	}
	return answer, nil
}

func (r *actsRun) open(ctx context.Context, method, path string, head map[string]string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range head {
		req.Header.Set(name, value)
	}
	return http.DefaultClient.Do(req)
}

// eventsOf yields the data of a stream, each with the members of what it carries beside its
// own, because scenarios name either.
func eventsOf(stream io.Reader) func(func(map[string]any) bool) {
	return func(yield func(map[string]any) bool) {
		lines := bufio.NewScanner(stream)
		lines.Buffer(nil, 4<<20)
		id := ""
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				id = text
			}
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var envelope map[string]any
			if json.Unmarshal([]byte(data), &envelope) != nil {
				envelope = map[string]any{"not JSON": data}
			}
			event := maps.Clone(envelope)
			event["event id"] = id
			result, _ := envelope["result"].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(result)) {
				payload, _ := result[name].(map[string]any)
				maps.Copy(event, payload)
				event[name] = payload
				if snake := map[string]string{"statusUpdate": "status_update", "artifactUpdate": "artifact_update"}[name]; snake != "" {
					event[snake] = payload
				}
			}
			if !yield(event) {
				return
			}
		}
	}
}

// check holds an answer to what the step expects.
func (r *actsRun) check(step *actsStep, answer *actsAnswer) error {
	expect, err := fillMap(step.Expect, r.variables)
	if err != nil {
		return err
	}
	if step.ExpectError != nil {
		return checkError(step.ExpectError, answer)
	}
	_, wantsError := expect["error"]
	if step.Operation != "" && answer.err != nil && !wantsError {
		return fmt.Errorf("the answer is the error %v: %v", answer.err["code"], answer.err["message"])
	}
	for name, want := range expect {
		switch {
		case name == "status" && want == "error": // held below
		case name == "status":
			err = holds("the HTTP status", want, float64(answer.status), true)
		case name == "body":
			err = holds("", want, answer.root, true)
		default: // some scenarios leave out body
			err = holds("", map[string]any{name: want}, answer.root, true)
		}
		if err != nil {
			return err
		}
	}
	if step.ExpectStream != nil {
		if err := checkStream(step.ExpectStream, answer); err != nil {
			return err
		}
	}
	return r.checkElements(step.Assertions)
}

func (r *actsRun) checkElements(assertions []actsAssertion) error {
	for _, a := range assertions {
		source := strings.TrimSuffix(strings.Trim(a.Source, "{}"), ".response")
		answer := r.answers[source]
		if answer == nil || a.Any.Path == "" {
			return fmt.Errorf("the runner cannot read the assertion about %s", a.Source)
		}
		match, err := fillMap(a.Any.Match, r.variables)
		if err != nil {
			return err
		}
		found := at(answer.root, a.Any.Path)
		if !slices.ContainsFunc(found, func(element any) bool { return holds("", match, element, true) == nil }) {
			return fmt.Errorf("none of %d elements of %s matches %s", len(found), a.Any.Path, shown(a.Any.Match, true))
		}
	}
	return nil
}

func checkError(expect map[string]any, answer *actsAnswer) error {
	if answer.err == nil {
		return errors.New("the answer is no error")
	}
	for name, want := range expect {
		if name == "error_type" {
			name = "code"
		}
		got, present := answer.err[name]
		if err := holds("error."+name, coded(want), got, present); err != nil {
			return err
		}
	}
	return nil
}

// coded replaces the names of errors by their codes.
func coded(want any) any {
	switch w := want.(type) {
	case string:
		if code, ok := a2aCodes[w]; ok {
			return code
		}
	case map[string]any:
		out := map[string]any{}
		for name, value := range w {
			out[name] = coded(value)
		}
		return out
	case []any:
		out := make([]any, len(w))
		for i, value := range w {
			out[i] = coded(value)
		}
		return out
	}
	return want
}

func checkStream(want *actsStream, answer *actsAnswer) error {
	if answer.events == nil {
		return errors.New("the answer is no stream")
	}
	if len(answer.events) < max(want.MinCount, 1) {
		return fmt.Errorf("the stream has %d events, want %d", len(answer.events), want.MinCount)
	}
	if want.Ordering == "monotonic_state" {
		if err := checkOrder(answer.events); err != nil {
			return err
		}
	}
	for i, event := range answer.events {
		if err := holds(fmt.Sprintf("event %d: ", i), want.EachEvent, event, true); err != nil {
			return err
		}
	}
	if err := holds("the last event: ", want.FinalEvent, answer.events[len(answer.events)-1], true); err != nil {
		return err
	}
	for _, each := range want.Events {
		if err := checkEvent(maps.Clone(each), answer.events); err != nil {
			return err
		}
	}
	return nil
}

// checkEvent holds one event, or any of them, to what is expected.
func checkEvent(want map[string]any, events []map[string]any) error {
	anywhere, description, index := want["match"] == "any_position", want["description"], 0
	if i, ok := want["index"].(float64); ok {
		index = int(i)
	}
	for _, name := range []string{"match", "description", "index"} {
		delete(want, name)
	}
	for i, event := range events {
		if (anywhere || i == index) && holds("", want, event, true) == nil {
			return nil
		}
	}
	return fmt.Errorf("not so: %v", description)
}

// checkOrder holds the states of a stream to the order of A2A: a task is submitted first,
// and nothing follows its end.
func checkOrder(events []map[string]any) error {
	former := ""
	for _, event := range events {
		for _, found := range at(event, "status.state") {
			state, _ := found.(string)
			if former != "" && former != state && (state == "TASK_STATE_SUBMITTED" || ended(former)) {
				return fmt.Errorf("%s follows %s", state, former)
			}
			former = state
		}
	}
	return nil
}

func ended(state string) bool {
	return slices.Contains([]string{"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"}, state)
}

// keep stores what later steps name.
func (r *actsRun) keep(step *actsStep, answer *actsAnswer) error {
	for name, path := range step.Capture {
		found := at(answer.root, path)
		if len(found) != 1 {
			return fmt.Errorf("%s is absent", path)
		}
		text, ok := found[0].(string)
		if !ok {
			return fmt.Errorf("%s is %s, want a string", path, shown(found[0], true))
		}
		r.variables[step.ID+"."+name] = text
	}
	return nil
}
