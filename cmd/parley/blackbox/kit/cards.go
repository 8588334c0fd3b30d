package kit

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"
)

// The fields of the extension of a card, and of a skill.
const (
	ExtensionShape = "agent_id:uuid org_id:uuid address:str handle:str categories:arr languages:arr jurisdiction:str? pricing_model:str? sla:obj? verified:bool trust_tier:int a2a_enabled:bool a2a_accept_cleartext:bool a2a_endpoint:str? human_oversight:bool message_types_accepted:arr payload_schemas:obj verification_words:str signing_key:jwk encryption_key:jwk"
	SkillShape     = "id:str name:str description:str tags:arr examples:arr inputModes:arr outputModes:arr"
)

// FullCard returns a request that uses every member.
func FullCard() Obj {
	return Obj{
		"name": "Invoice checker", "description": "Checks invoices.\nFast.", "version": "1.2.0",
		"provider":          Obj{"organization": "Acme Ltd.", "url": "https://acme.example/agents"},
		"capabilities":      Obj{"streaming": true, "pushNotifications": false},
		"defaultInputModes": []any{"text/plain", "application/json"}, "defaultOutputModes": []any{"application/vnd.acme+json; v=1"},
		"skills": []any{
			Obj{
				"id": "check", "name": "Check", "description": "Compares with the order.", "tags": []any{" Invoices ", "FINANCE", "finance", " "},
				"examples": []any{"Is 17 right?"}, "inputModes": []any{"text/plain"}, "outputModes": []any{"text/*"},
			},
			Obj{"id": "explain", "name": "Explain", "description": ""},
		},
		"svc": Obj{
			"categories": []any{" Finance", "Back Office", "FINANCE"}, "languages": []any{"EN", " de-AT ", "en"}, "jurisdiction": " de ",
			"pricing_model": "per_request", "sla": Obj{"response_time_p95_ms": 250, "availability_percent": 99.95},
			"a2a_enabled": true, "a2a_accept_cleartext": false, "message_types_accepted": []any{"svc.v1.task_request", "acme.v1.invoice", "svc.v1.task_request"},
			"payload_schemas": Obj{"acme.v1.invoice": "https://acme.example/invoice.json", "svc.v1.task_request": "urn:acme:task"},
		},
		"is_public": true,
	}
}

// PlainCard has only what every card must have.
func PlainCard() Obj { return Obj{"name": "Plain", "description": "Nothing more."} }

// Extended returns a request whose extension has one more member.
func Extended(member string, value any) Obj {
	return Merged(PlainCard(), Obj{"svc": Obj{member: value}})
}

// Reaches calls a method of A2A at an agent's endpoint, as this agent, and checks nothing.
func (g *Agent) Reaches(to *Agent, method string, params Obj, headers ...string) *Answer {
	return g.Post("/a2a/"+to.Handle, Obj{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, append([]string{"X-Svc-Agent", g.ID}, headers...)...).As("%s", method)
}

// Cleartext is the message of a client of A2A.
func Cleartext(id, said string, more ...Obj) Obj {
	return Obj{"message": Merged(Obj{"messageId": id, "role": "ROLE_USER", "parts": []any{Obj{"text": said}}}, more...), "configuration": Obj{"returnImmediately": true}}
}

// Bridged makes the agent reachable over A2A.
func (g *Agent) Bridged() *Agent {
	g.Put(g.Path("/card"), BridgedCard()).Want(200)
	return g
}

// Begins begins a task and returns its id.
func (g *Agent) Begins(to *Agent, id string) string {
	g.T.Helper()
	return g.Reaches(to, "SendMessage", Cleartext(id, "hello")).Want(200).Str("result.task.id")
}

// RPCFails checks an error of JSON-RPC that has the status 200.
func (a *Answer) RPCFails(code int, reason string) *Answer {
	a.T.Helper()
	a.Want(200)
	details, _ := a.At("error.data").([]any)
	rows := Objects(details)
	if !Same(a.At("error.code"), code) || len(rows) == 0 || rows[0]["reason"] != reason {
		a.Errorf("want the error %d, %s", code, reason)
	}
	return a
}

// Streamed returns the events of an ended task after its first message, as a stream has
// them.
func (g *Agent) Streamed(to *Agent, task string) (events []string) {
	g.T.Helper()
	a := g.Reaches(to, "SubscribeToTask", Obj{"id": task}, "Last-Event-ID", "0").Want(200)
	for line := range strings.Lines(string(a.Raw)) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var event struct{ Result json.RawMessage }
			if err := json.Unmarshal([]byte(data), &event); err != nil {
				a.Fatalf("%v in %q", err, line)
			}
			events = append(events, string(event.Result))
		}
	}
	if len(events) < 2 || !strings.HasPrefix(events[0], `{"task":`) {
		a.Fatalf("not the stream of a task")
	}
	return events[1:]
}

// BridgeCard is the path of an agent's A2A card.
func BridgeCard(g *Agent) string { return "/a2a/" + g.Handle + "/agent.json" }

// BridgedCard is a card of an agent that the A2A bridge serves.
func BridgedCard() Obj { return Extended("a2a_enabled", true) }

// ASecondPasses waits until the date of a document that has just changed is final: dates
// have no fractions, and it is the end of the second of the change.
func ASecondPasses() { time.Sleep(1100 * time.Millisecond) }

// WebFinger is the path that finds an agent by its handle.
func WebFinger(g *Agent) string {
	return "/.well-known/webfinger?resource=" + url.QueryEscape("acct:"+g.Handle)
}

// WellKnownCard is the path of an agent's card.
func WellKnownCard(g *Agent) string { return "/.well-known/agent-cards/" + g.ID + ".json" }
