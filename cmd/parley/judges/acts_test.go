package judges

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// actsParallel is how many scenarios run at a time. Most of them wait.
const actsParallel = 16

// contradiction is a scenario that asks for what A2A's own text rules out.
type contradiction struct {
	// sentence is A2A's, with where it stands.
	sentence string
	// mend changes the scenario so that it no longer contradicts, and it must pass then; nil
	// if nothing would be left of it.
	mend func(*actsTest)
	// mended says what mend does.
	mended string
}

const (
	requiredMember   = "A2A 1.0 section 5.7: “Fields marked with `[(google.api.field_behavior) = REQUIRED]` indicate that the field **MUST** be present and set in valid messages.” `message_id` of `Message` is marked so"
	partContent      = "A2A 1.0 appendix A.2.1, on file parts: “**Current:** `{ \"raw\": \"...\", \"filename\": \"...\", \"mediaType\": \"...\" }` (or `url` instead of `raw`)”; `Part` has neither `file` nor `fileUrl`"
	contextOfMessage = "A2A 1.0 section 3.4.1: “If an agent generates a new `contextId`, it **MUST** be included in the response (either `Task` or `Message`)”"
	arrayOfDetails   = "A2A 1.0 section 9.5: “Error Details: Mapped to `error.data` (array of objects, each containing a `@type` key, using ProtoJSON `Any` representation)”"
)

// withoutID is a contradiction of raw steps that send no messageId.
var withoutID = contradiction{requiredMember, withMessageID, "With a `messageId` it passes."}

// contradictions are the scenarios that contradict A2A. One that passes as it stands is an
// error: it has to leave this list.
var contradictions = map[string]contradiction{
	"VER-NEG-002":     withoutID,
	"DM-FMT-001":      withoutID,
	"DM-EXTRA-001":    withoutID,
	"JSONRPC-ENV-001": withoutID,
	"JSONRPC-CT-001":  withoutID,
	"JSONRPC-SSE-001": withoutID,
	"DM-ART-003":      {partContent, partMember("file", "raw"), "With `raw` it passes."},
	"DM-ART-004":      {partContent, partMember("fileUrl", "url"), "With `url` it passes."},
	"DM-FMT-003":      {contextOfMessage, withContextID, "With the `contextId` it passes."},
	"CORE-ERR-007":    {arrayOfDetails, dataArray, "With an array it passes."},
}

// withMessageID gives the message of each raw request an id.
func withMessageID(test *actsTest) {
	for _, step := range test.Steps {
		if step.Raw == nil {
			continue
		}
		for _, found := range at(step.Raw.Body, "params.message") {
			found.(map[string]any)["messageId"] = "added-to-" + test.ID
		}
	}
}

// partMember has a scenario look for another member of parts.
func partMember(from, to string) func(*actsTest) {
	return func(test *actsTest) {
		for _, step := range test.Steps {
			for i := range step.Assertions {
				if match := step.Assertions[i].Any.Match; match[from] != nil {
					step.Assertions[i].Any.Match = map[string]any{
						to: map[string]any{"type": "string"}, "filename": map[string]any{"type": "string"}, "mediaType": map[string]any{"type": "string"},
					}
				}
			}
		}
	}
}

// withContextID has a message be in a context, which is not the empty one.
func withContextID(test *actsTest) {
	for _, found := range at(test.Steps[0].Expect, "body.message") {
		found.(map[string]any)["contextId"] = map[string]any{"matches": "."}
	}
}

func dataArray(test *actsTest) {
	test.Steps[0].ExpectError["data"] = map[string]any{"type": "array", "count_gte": 1.0}
}

// knownGaps say why the server does not do what a SHOULD or a MAY asks for.
var knownGaps = map[string]string{
	"STREAM-MSG-001": "A stream begins with the task, which is there before the agent has answered; the message is that of its last status. A2A 1.0 section 3.1.2: “The agent MAY return a `Task` for complex processing with status/artifact updates or MAY return a `Message` for direct streaming responses without task overhead.”",
}

// TestACTS runs the conformance scenarios of the A2A project against the binary.
func TestACTS(t *testing.T) {
	tests := readACTS(t)
	if len(tests) != 111 {
		t.Errorf("%d scenarios, want 111: have they all been read?", len(tests))
	}
	base := serve(t)
	runner := newACTSRunner(t, base)
	results := make([]finding, len(tests))
	slots := make(chan struct{}, actsParallel)
	var all sync.WaitGroup
	for i, test := range tests {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			results[i] = runner.judge(t, test)
		})
	}
	all.Wait()
	for _, f := range results {
		t.Logf("%-9s %-6s %s %s", f.verdict, f.level, f.id, f.why)
		if f.verdict == failed && f.level == "MUST" {
			t.Errorf("%s (%s): %s", f.id, f.name, f.why)
		}
	}
	writePage(t, "ACTS", actsIntroduction, results)
}

// newACTSRunner makes the organizations and agents that the scenarios need.
func newACTSRunner(t *testing.T, base string) *actsRunner {
	t.Helper()
	handle := respond(t, base)
	callers, others, agentless := member(t, base, "callers"), member(t, base, "others"), member(t, base, "agentless")
	newAgent(t, callers, "caller")
	newAgent(t, others, "other")
	r := &actsRunner{base: base + "/a2a/" + handle, token: tokenOf(t, callers), hooks: receiveHooks(t), specials: specials}
	other := &actsRun{actsRunner: &actsRunner{base: r.base, token: tokenOf(t, others)}, ctx: t.Context()}
	sent, err := other.call("send_message", map[string]any{"message": map[string]any{"role": "ROLE_USER", "parts": []any{map[string]any{"text": "tck-complete-task of another"}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ids := at(sent.root, "task.id")
	if len(ids) != 1 {
		t.Fatalf("no task of another organization: %s", shown(sent.root, true))
	}
	// Who has no agent may read, and not send.
	r.more = map[string]string{"otherUserTaskId": ids[0].(string), "insufficientAuthToken": tokenOf(t, agentless)}
	card, err := (&actsRun{actsRunner: r, ctx: t.Context()}).do(&actsStep{Operation: "get_agent_card"})
	if err != nil {
		t.Fatal(err)
	}
	r.card, _ = card.root.(map[string]any)
	if r.card["supportedInterfaces"] == nil {
		t.Fatalf("no card: %s", shown(card.root, true))
	}
	return r
}

// judge runs a scenario if it applies.
func (r *actsRunner) judge(t *testing.T, test *actsTest) finding {
	f := finding{id: test.ID, level: strings.ToUpper(test.Level), name: test.Name}
	if f.why = r.inapplicable(test); f.why != "" {
		f.verdict = inapplicable
		return f
	}
	err := r.run(t.Context(), test)
	against, contradicts := contradictions[test.ID]
	switch {
	case err == nil && contradicts:
		f.verdict, f.why = failed, "it passes as it stands, and is listed as a contradiction"
		t.Errorf("%s: %s", test.ID, f.why)
	case err == nil:
		f.verdict = passed
	case contradicts:
		f.verdict, f.why = contradictory, fmt.Sprintf("ACTS: %v. %s. %s", err, against.sentence, against.mended)
		changed := cloneOf(t, test)
		against.mend(changed)
		if err := r.run(t.Context(), changed); err != nil {
			f.verdict, f.why = failed, fmt.Sprintf("%v, also without what contradicts A2A", err)
			t.Errorf("%s: %s", test.ID, f.why)
		}
	default:
		f.verdict, f.why = failed, err.Error()
		if gap := knownGaps[test.ID]; gap != "" {
			f.why += ". " + gap
		}
	}
	return f
}

// cloneOf returns a copy of a scenario that may be changed.
func cloneOf(t *testing.T, test *actsTest) *actsTest {
	text, err := json.Marshal(test)
	if err != nil {
		t.Error(err)
	}
	changed := &actsTest{}
	if err := json.Unmarshal(text, changed); err != nil {
		t.Error(err)
	}
	changed.variables = test.variables
	return changed
}

// bindings are the names of the card for the transports of scenarios.
var bindings = map[string]string{"jsonrpc": "JSONRPC", "grpc": "GRPC", "rest": "HTTP+JSON"}

// inapplicable returns why a scenario does not apply, or "".
func (r *actsRunner) inapplicable(test *actsTest) string {
	var declared []string
	for _, binding := range at(r.card, "supportedInterfaces[*].protocolBinding") {
		declared = append(declared, binding.(string))
	}
	if len(test.Transport) > 0 && !slices.ContainsFunc(test.Transport, func(name string) bool { return slices.Contains(declared, bindings[name]) }) {
		return fmt.Sprintf("it is of the binding %s; the card declares %s only", bindings[test.Transport[0]], strings.Join(declared, ", "))
	}
	capabilities, _ := r.card["capabilities"].(map[string]any)
	for name, want := range test.Preconditions.Capabilities {
		has := capabilities[name] == true
		if name == "authentication" { // which is no capability of a card
			has = r.card["securityRequirements"] != nil
		}
		if has != want {
			return fmt.Sprintf("it is for agents whose capability %s is %v", name, want)
		}
	}
	for _, step := range test.Steps {
		if step.ClientResponse != nil && strings.HasSuffix(step.ClientResponse.Operation, "agent_card") {
			return "it is for clients that read A2A cards, which Parley's client does not"
		}
	}
	return ""
}
