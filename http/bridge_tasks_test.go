package http

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/actors/org"
)

// bridgeHarness is two organizations: first owns art, who is served over A2A, and second
// calls.
type bridgeHarness struct {
	*cardHarness
	address string
	calls   int
}

func newBridgeHarness(t *testing.T, change ...func(*harnessOptions)) *bridgeHarness {
	h := &bridgeHarness{cardHarness: newCardHarness(t, change...)}
	h.address = "/a2a/" + h.first.handle("art")
	return h
}

// call sends a JSON-RPC request and returns the answer, whose id is checked.
func (h *bridgeHarness) call(by *tenant, method string, params any, head ...string) *response {
	h.t.Helper()
	h.calls++
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": h.calls, "method": method, "params": params})
	if err != nil {
		h.t.Fatal(err)
	}
	a := by.ask("POST", h.address, string(body), append(head, "Content-Type: application/a2a+json")...)
	if a.status == 200 && a.at("id") != float64(h.calls) {
		h.t.Fatalf("%s has the id %v", a.raw, a.at("id"))
	}
	return a
}

// fails checks the code and the reason of an error.
func (a *response) fails(code int, reason string) *response {
	a.t.Helper()
	return a.want(200).is(map[string]any{"error.code": code, "error.data.0.reason": reason})
}

type object = map[string]any

func textParts(s string) []any { return []any{object{"text": s}} }

// say is the parameters of a send.
func (h *bridgeHarness) say(id string, parts []any, more object) object {
	message := object{"messageId": id, "role": "ROLE_USER", "parts": parts}
	for name, value := range more {
		message[name] = value
	}
	return object{"message": message, "configuration": object{"returnImmediately": true}}
}

// begin starts a task and returns its id.
func (h *bridgeHarness) begin(id string) string {
	h.t.Helper()
	return h.call(h.second, "SendMessage", h.say(id, textParts("hello"), nil)).want(200).text("result.task.id")
}

// reply has art answer the last message of a task.
func (h *bridgeHarness) reply(task, word string, parts []any) {
	h.t.Helper()
	h.replyWith(task, word, parts, object{"parts": parts})
}

// replyWith is reply with metadata.a2a.
func (h *bridgeHarness) replyWith(task, word string, parts []any, a2a object) {
	h.t.Helper()
	page := h.first.ask("GET", "/conversations/"+task+"/messages?order=desc", "", as(h.art)).want(200)
	payload, _ := json.Marshal(parts)
	body, _ := json.Marshal(object{
		"type": "svc.v1." + word, "encrypted_payload": base64.RawURLEncoding.EncodeToString(payload), "metadata": object{"a2a": a2a},
	})
	for i := range page.len("items") {
		if m := page.at("items").([]any)[i].(map[string]any); m["from_agent_id"] != h.art {
			h.first.ask("POST", "/messages/"+m["id"].(string)+"/reply", string(body), as(h.art)).want(201)
			return
		}
	}
	h.t.Fatal("there is nothing to answer")
}

func TestTaskIsAConversation(t *testing.T) {
	h := newBridgeHarness(t)
	began := h.call(h.second, "SendMessage", h.say("m1", textParts("Translate this."), object{"metadata": object{"a": 1}})).want(200)
	task := began.text("result.task.id")
	began.is(object{
		"result.task.contextId": task, "result.task.status.state": "TASK_STATE_SUBMITTED",
		"result.task.history": []any{object{"messageId": "m1", "taskId": task, "contextId": task, "role": "ROLE_USER", "parts": textParts("Translate this."), "metadata": object{"a": 1}}},
	})
	inbox := h.first.ask("GET", "/agents/"+h.art+"/messages", "").want(200)
	inbox.is(object{
		"items.0.conversation_id": task, "items.0.type": "svc.v1.task_request", "items.0.metadata.provenance.via": "a2a", "items.0.metadata.a": 1,
		"items.0.metadata.a2a":  object{"task_id": task, "context_id": task, "message_id": "m1", "parts": textParts("Translate this."), "cleartext": true},
		"items.0.from_agent_id": h.bob,
	})
	plain, _ := base64.RawURLEncoding.DecodeString(inbox.text("items.0.encrypted_payload"))
	if string(plain) != `[{"text":"Translate this."}]` {
		t.Errorf("the payload is %s", plain)
	}
	h.reply(task, "status_update", textParts("one moment"))
	h.call(h.second, "GetTask", object{"id": task}).is(object{"result.status.state": "TASK_STATE_WORKING", "result.status.message.parts": textParts("one moment")})
	h.reply(task, "dm", textParts("which language?"))
	h.call(h.second, "tasks/get", object{"id": task, "historyLength": 1}).is(object{
		"result.status.message.parts": textParts("which language?"), "result.status.message.role": "ROLE_AGENT", "result.history.0.parts": textParts("which language?"),
	})
	h.first.ask("PATCH", "/conversations/"+task+"/status", `{"status":"input_required","reason":"say which"}`).want(200)
	h.call(h.second, "GetTask", object{"id": task}).is(object{"result.status.state": "TASK_STATE_INPUT_REQUIRED"})
	h.call(h.second, "SendMessage", h.say("m2", textParts("French."), object{"taskId": task})).is(object{"result.task.status.state": "TASK_STATE_WORKING", "result.task.id": task})
	h.reply(task, "task_response", textParts("Traduisez ceci."))
	h.call(h.second, "GetTask", object{"id": task}).is(object{
		"result.status.state": "TASK_STATE_COMPLETED", "result.artifacts.0.parts": textParts("Traduisez ceci."),
	})
	h.call(h.second, "SendMessage", h.say("m3", textParts("more"), object{"taskId": task})).fails(-32004, "UNSUPPORTED_OPERATION")
	h.call(h.second, "CancelTask", object{"id": task}).fails(-32002, "TASK_NOT_CANCELABLE")
	h.call(h.second, "SubscribeToTask", object{"id": task}).fails(-32004, "UNSUPPORTED_OPERATION")
	h.second.ask("GET", "/conversations/"+task, "").want(200).is(object{"status": "completed"})
	canceled := h.begin("m4")
	for range 2 { // source: A2A 1.0 section 3.1.5
		h.call(h.second, "CancelTask", object{"id": canceled}).is(object{"result.status.state": "TASK_STATE_CANCELED", "result.id": canceled})
	}
}

// TestSendMessageWaits: a blocking request returns at the first reply, at the end of the
// task, when input is required, or after its patience.
func TestSendMessageWaits(t *testing.T) {
	t.Parallel() // it waits for timers
	h := newBridgeHarness(t)
	for word, state := range map[string]string{
		"task_response": "TASK_STATE_COMPLETED", "error": "TASK_STATE_FAILED", "dm": "TASK_STATE_WORKING", "input_required": "TASK_STATE_INPUT_REQUIRED", "": "TASK_STATE_WORKING",
	} {
		params := h.say("wait "+word, textParts("hello"), nil)
		params["configuration"] = object{}
		id := make(chan string, 1)
		go func() {
			for range 500 {
				if page := h.first.ask("GET", "/agents/"+h.art+"/messages", ""); page.len("items") > 0 && page.at("items.0.metadata.a2a.message_id") == "wait "+word {
					id <- page.text("items.0.conversation_id")
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			close(id)
		}()
		done := make(chan *response, 1)
		began, limit := time.Now(), 60*time.Second
		if word == "" {
			limit = 3 * time.Second
		}
		go func() {
			done <- h.call(h.second, "SendMessage", params, fmt.Sprintf("X-A2A-Timeout: %.0f", limit.Seconds()))
		}()
		task := <-id
		h.reply(task, "status_update", textParts("soon"))
		select {
		case a := <-done:
			t.Fatalf("a status update ends the wait: %s", a.raw)
		case <-time.After(100 * time.Millisecond):
		}
		switch word {
		case "":
		case "input_required":
			h.first.ask("PATCH", "/conversations/"+task+"/status", `{"status":"input_required"}`, as(h.art)).want(200)
		default:
			h.reply(task, word, textParts("answer"))
		}
		a := <-done
		a.want(200).is(object{"result.task.status.state": state})
		if took := time.Since(began); (took < limit) == (word == "") {
			t.Errorf("%q was answered after %v", word, took)
		}
	}
}

func TestTasksAreSeenByTheirInitiator(t *testing.T) {
	h := newBridgeHarness(t)
	task := h.begin("m1")
	for _, method := range []string{"GetTask", "CancelTask", "SubscribeToTask"} {
		h.call(h.first, method, object{"id": task}).fails(-32001, "TASK_NOT_FOUND")
		h.call(h.second, method, object{"id": "tck-unknown"}).fails(-32001, "TASK_NOT_FOUND")
	}
	h.call(h.first, "SendMessage", h.say("m2", textParts("x"), object{"taskId": task})).fails(-32001, "TASK_NOT_FOUND")
	h.first.publish(h.ann, card{"name": "Ann", "svc": card{"a2a_enabled": true}})
	h.address = "/a2a/" + h.first.handle("ann")
	h.call(h.second, "GetTask", object{"id": task}).fails(-32001, "TASK_NOT_FOUND")
	h.address = "/a2a/" + h.first.handle("art")
	sent := h.second.ask("POST", "/messages", `{"to_agent_id":"`+h.art+`","type":"svc.v1.dm","encrypted_payload":"AQ"}`).want(201)
	h.call(h.second, "GetTask", object{"id": sent.at("conversation_id")}).is(object{"result.status.state": "TASK_STATE_SUBMITTED"})
	h.call(h.second, "ListTasks", object{}).is(object{"result.totalSize": 2, "result.tasks.0.id": sent.at("conversation_id"), "result.tasks.1.id": task, "result.nextPageToken": ""})
	h.call(h.first, "ListTasks", object{}).is(object{"result.totalSize": 0})
	h.call(h.second, "CancelTask", object{"id": task}).is(object{"result.status.state": "TASK_STATE_CANCELED", "result.id": task})
}

func TestListTasks(t *testing.T) {
	h := newBridgeHarness(t)
	ids := []string{}
	for i := range 5 {
		ids = append(ids, h.begin(fmt.Sprint("m", i)))
	}
	time.Sleep(2 * time.Millisecond) // the last change is later, by the clock of statuses
	h.call(h.second, "CancelTask", object{"id": ids[1]})
	seen, token := []string{}, ""
	for page := 0; page == 0 || token != ""; page++ {
		a := h.call(h.second, "ListTasks", object{"pageSize": 2, "pageToken": token}).want(200).is(object{"result.totalSize": 5, "result.pageSize": 2})
		for i := range a.len("result.tasks") {
			seen = append(seen, a.text(fmt.Sprintf("result.tasks.%d.id", i)))
		}
		token = a.text("result.nextPageToken")
	}
	want := []string{ids[1], ids[4], ids[3], ids[2], ids[0]}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("listed %v, want %v", seen, want)
	}
	h.call(h.second, "ListTasks", object{"status": "TASK_STATE_CANCELED"}).is(object{"result.totalSize": 1, "result.tasks.0.id": ids[1]})
	h.call(h.second, "ListTasks", object{"contextId": ids[2]}).is(object{"result.totalSize": 1, "result.tasks.0.id": ids[2]})
	for _, wrong := range []object{{"pageSize": 0}, {"pageSize": 101}, {"pageToken": "x"}, {"status": "working"}, {"statusTimestampAfter": "yesterday"}, {"pageSize": "2"}} {
		h.call(h.second, "ListTasks", wrong).fails(-32602, "INVALID_PARAMS")
	}
}

func TestSameMessageIsSameTask(t *testing.T) {
	h := newBridgeHarness(t)
	task := h.begin("m1")
	if again := h.begin("m1"); again != task {
		t.Errorf("the same message began %s and %s", task, again)
	}
	within := h.call(h.second, "SendMessage", h.say("m2", textParts("x"), object{"contextId": task})).want(200)
	within.is(object{"result.task.contextId": task})
	if within.text("result.task.id") == task {
		t.Error("a message in a context continues another task")
	}
	h.first.ask("GET", "/agents/"+h.art+"/messages", "").is(object{"items.0.metadata.a2a.context_id": task, "items.0.metadata.a2a.task_id": within.at("result.task.id")})
	for _, more := range []object{{"contextId": "mine"}, {"contextId": within.at("result.task.id")}, {"taskId": task, "contextId": within.at("result.task.id")}} {
		h.call(h.second, "SendMessage", h.say("m3", textParts("x"), more)).fails(-32602, "INVALID_PARAMS")
	}
}

func TestSealedParts(t *testing.T) {
	h := newBridgeHarness(t)
	sealed := []any{object{"data": object{"encrypted_payload": "AQIDBA", "encryption_version": "sender-key-v1", "sender_signing_kid": "k"}, "mediaType": "application/vnd.svc.encrypted+json"}}
	h.first.publish(h.art, card{"name": "Translator", "svc": card{"a2a_enabled": true, "a2a_accept_cleartext": false}})
	h.call(h.second, "SendMessage", h.say("m1", textParts("hello"), nil)).fails(-32005, "CONTENT_TYPE_NOT_SUPPORTED")
	a := h.call(h.second, "SendMessage", h.say("m2", sealed, nil)).want(200).is(object{"result.task.history.0.parts": sealed})
	page := h.first.ask("GET", "/agents/"+h.art+"/messages", "").is(object{
		"items.0.encrypted_payload": "AQIDBA", "items.0.encryption_version": "sender-key-v1", "items.0.sender_signing_kid": "k",
		"items.0.metadata.a2a": object{"task_id": a.at("result.task.id"), "context_id": a.at("result.task.id"), "message_id": "m2"},
	})
	h.first.ask("POST", "/messages/"+page.text("items.0.id")+"/reply", `{"type":"svc.v1.task_response","encrypted_payload":"BQY"}`).want(201)
	h.call(h.second, "GetTask", object{"id": a.at("result.task.id")}).is(object{
		"result.artifacts.0.parts": []any{object{"data": object{"encrypted_payload": "BQY", "encryption_version": "hpke-v1"}, "mediaType": "application/vnd.svc.encrypted+json"}},
	})
	h.call(h.second, "SendMessage", h.say("m3", append(textParts("x"), sealed...), nil)).fails(-32602, "INVALID_PARAMS")
}

// TestCleartextIsAsTheLatestCardSays: a card applies from the next message on, in both
// directions.
func TestCleartextIsAsTheLatestCardSays(t *testing.T) {
	h := newBridgeHarness(t)
	for n := range 4 {
		accepts := n%2 == 0
		h.first.publish(h.art, card{"name": "Translator", "svc": card{"a2a_enabled": true, "a2a_accept_cleartext": accepts}})
		for k := range 2 {
			a := h.call(h.second, "SendMessage", h.say(fmt.Sprintf("m%d-%d", n, k), textParts("hello"), nil))
			if accepts {
				a.want(200).is(object{"result.task.status.state": "TASK_STATE_SUBMITTED"})
			} else {
				a.fails(-32005, "CONTENT_TYPE_NOT_SUPPORTED")
			}
		}
	}
}

// TestBridgeRefusals: every answer is JSON-RPC.
func TestBridgeRefusals(t *testing.T) {
	h := newBridgeHarness(t)
	for _, c := range []struct {
		body, head string
		code       int
		id         any
	}{
		{`{`, "", -32700, nil},
		{``, "", -32700, nil},
		{`[]`, "", -32600, nil},
		{`[{"jsonrpc":"2.0","id":1,"method":"GetTask"}]`, "", -32600, nil},
		{`1`, "", -32600, nil},
		{`{"jsonrpc":"2.0","id":1,"method":"GetTask"} {}`, "", -32700, nil},
		{`1 2`, "", -32700, nil},
		{`{"jsonrpc":"1.0","id":7,"method":"GetTask"}`, "", -32600, 7},
		{`{"jsonrpc":"2.0","id":1.5,"method":"GetTask"}`, "", -32600, nil},
		{`{"jsonrpc":"2.0","id":{},"method":"GetTask"}`, "", -32600, nil},
		{`{"jsonrpc":"2.0","method":"GetTask"}`, "", -32600, nil},
		{`{"jsonrpc":"2.0","id":"a","method":3}`, "", -32600, "a"},
		{`{"jsonrpc":"2.0","id":"a","method":"tasks/nothing"}`, "", -32601, "a"},
		{`{"jsonrpc":"2.0","id":"a","method":"GetTask","params":[]}`, "", -32602, "a"},
		{`{"jsonrpc":"2.0","id":"a","method":"GetTask"}`, "", -32602, "a"},
		{`{"jsonrpc":"2.0","id":"a","method":"GetTask","params":{"id":7}}`, "", -32602, "a"},
		{`{"jsonrpc":"2.0","id":"a","method":"GetTask","params":{"id":"x","historyLength":-1}}`, "", -32602, "a"},
		{`{"jsonrpc":"2.0","id":"a","method":"GetTask","params":{"id":"x"}}`, "A2A-Version: 0.3", -32009, "a"},
		{`{"jsonrpc":"2.0","id":"a","method":"GetTask","params":{"id":"x"}}`, "A2A-Version: 1.0.1", -32001, "a"},
		{`{"jsonrpc":"2.0","id":"a","method":"SendMessage","params":{}}`, "", -32602, "a"},
		{`{"jsonrpc":"2.0","id":"a","method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[]}}}`, "", -32602, "a"},
		{`{"jsonrpc":"2.0","id":"a","method":"SendMessage","params":{"message":{"messageId":"m","role":"user","parts":[{"text":"x"}]}}}`, "", -32602, "a"},
		{`{"jsonrpc":"2.0","id":"a","method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"kind":"text","text":"x"}]}}}`, "", -32602, "a"},
		{`{"jsonrpc":"2.0","id":"a","method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x","url":"y"}]}}}`, "", -32602, "a"},
		{`{"jsonrpc":"2.0","id":"a","method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}}`, "X-A2A-Timeout: 301", -32602, "a"},
	} {
		head := []string{"Content-Type: application/json"}
		if c.head != "" {
			head = append(head, c.head)
		}
		h.second.ask("POST", h.address, c.body, head...).want(200).is(object{"jsonrpc": "2.0", "id": c.id, "error.code": c.code, "error.data.0.@type": "type.googleapis.com/google.rpc.ErrorInfo"})
	}
	one := `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}`
	for _, c := range []struct {
		by         *tenant
		path, head string
		status     int
		code       string
	}{
		{h.public(), h.address, "", 401, "not_authenticated"},
		{h.second, "/a2a/" + h.first.handle("ann"), "", 404, "not_found"},
		{h.second, "/a2a/nobody@nowhere.home.example", "", 404, "not_found"},
		{h.second, h.address, "Content-Type: text/plain", 415, "unsupported_media_type"},
		{h.second, h.address + "/", "Content-Encoding: gzip", 415, "unsupported_media_type"},
	} {
		head := []string{}
		if c.head != "" {
			head = append(head, c.head)
		}
		c.by.ask("POST", c.path, one, head...).want(c.status).is(object{"jsonrpc": "2.0", "id": nil, "error.code": -32000, "error.data.0.reason": strings.ToUpper(c.code), "code": c.code})
	}
	large := strings.Repeat("x", 1<<20+1)
	answer := say(t, h.dial, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: home\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", h.address, h.second.token, len(large), large))
	if !strings.HasPrefix(answer, "HTTP/1.1 413 ") || !strings.Contains(answer, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,`) {
		t.Errorf("a body that is too large is answered with %.1000s", answer)
	}
	h.call(h.first, "SendMessage", h.say("m", textParts("x"), nil), as(h.art)).fails(-32602, "INVALID_PARAMS")
}

// TestPartsAreBounded: what takes much more memory than its text, or nests deep, is refused,
// and a reply like that is shown as a sealed part.
func TestPartsAreBounded(t *testing.T) {
	h := newBridgeHarness(t)
	deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
	send := func(parts string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":` + parts + `}}}`
	}
	for _, parts := range []string{`[{"data":` + deep + `}]`, `[` + strings.Repeat(`{"a":1},`, 50_000) + `{"text":"x"}]`} {
		h.second.ask("POST", h.address, send(parts)).want(200).is(object{"error.code": -32600})
	}
	h.second.ask("POST", h.address, send(`[{"text":"`+strings.Repeat("x", 98304)+`"}]`)).want(200).is(object{"error.code": -32602, "error.data.1.fieldViolations.0.field": "message.parts"})
	task := h.begin("m1")
	first := h.first.ask("GET", "/agents/"+h.art+"/messages", "").want(200).text("items.0.id")
	payload := base64.RawURLEncoding.EncodeToString([]byte(`[{"data":` + deep + `}]`))
	h.first.ask("POST", "/messages/"+first+"/reply", `{"type":"svc.v1.dm","encrypted_payload":"`+payload+`","metadata":{"a2a":{"cleartext":true}}}`).want(201)
	h.call(h.second, "GetTask", object{"id": task}).is(object{"result.status.message.parts.0.data.encrypted_payload": payload})
}

// TestListTasksIsBounded: a page takes at most 1 MiB, and the pages have everything.
func TestListTasksIsBounded(t *testing.T) {
	h := newBridgeHarness(t)
	const tasks = 30
	for i := range tasks {
		h.call(h.second, "SendMessage", h.say(fmt.Sprint("m", i), textParts(strings.Repeat("x", 60_000)), nil)).want(200)
	}
	seen, token := 0, ""
	for page := 0; page == 0 || token != ""; page++ {
		a := h.call(h.second, "ListTasks", object{"historyLength": 5, "pageToken": token}).want(200)
		if len(a.raw) > 1<<20+1<<10 {
			t.Errorf("a page takes %d bytes", len(a.raw))
		}
		seen += a.len("result.tasks")
		token = a.text("result.nextPageToken")
	}
	if seen != tasks {
		t.Errorf("%d tasks are listed, want %d", seen, tasks)
	}
}

// TestGetTaskTransfers: what a task shows of the agent counts as transferred.
func TestGetTaskTransfers(t *testing.T) {
	h := newBridgeHarness(t)
	task := h.begin("m1")
	h.reply(task, "dm", textParts("x"))
	h.call(h.second, "GetTask", object{"id": task}).want(200)
	h.second.ask("GET", "/agents/"+h.bob+"/messages", "").is(object{"items.0.status": "delivered"})
}

// TestBridgeNeedsTier: an organization of tier 0 sends nothing.
func TestBridgeNeedsTier(t *testing.T) {
	h := newBridgeHarness(t)
	task := h.begin("m1")
	if _, err := h.node.Orgs.SetTerms(t.Context(), h.second.owner, org.GrantTier{Tier: 0}); err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"SendMessage", "SendStreamingMessage"} {
		h.call(h.second, method, h.say("m2", textParts("x"), nil)).fails(-32000, "TRUST_TIER_REQUIRED")
		h.call(h.second, method, h.say("m2", textParts("x"), object{"taskId": task})).fails(-32000, "TRUST_TIER_REQUIRED")
	}
	h.call(h.second, "GetTask", object{"id": task}).want(200).is(object{"result.id": task})
}
