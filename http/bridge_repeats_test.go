package http

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"parley/actors"
	"parley/client/parley"
)

// sends sends a message of A2A as an agent.
func (h *bridgeHarness) sends(agent, id string) *response {
	h.t.Helper()
	return h.call(h.second, "SendMessage", h.say(id, textParts("hello"), nil), as(agent))
}

// messageCount returns how many messages art has.
func (h *bridgeHarness) messageCount() int {
	h.t.Helper()
	return h.first.ask("GET", "/agents/"+h.art+"/messages?limit=100", "").want(200).len("items")
}

// TestSameMessageOfAnotherAgent: a message is known by its id whichever agent of the
// organization repeats it.
func TestSameMessageOfAnotherAgent(t *testing.T) {
	h := newBridgeHarness(t)
	ben, bea := h.second.agent("ben"), h.second.agent("bea")
	agents := []string{h.bob, ben, bea}
	for i, first := range agents {
		id := fmt.Sprint("m", i)
		task := h.sends(first, id).want(200).text("result.task.id")
		for _, other := range agents {
			h.sends(other, id).is(object{"result.task.id": task})
		}
		h.call(h.second, "SendMessage", h.say(id, textParts("hello"), nil)).is(object{"result.task.id": task})
		h.first.ask("GET", "/conversations/"+task+"/messages", "", as(h.art)).is(object{"items.0.from_agent_id": first})
	}
	if n := h.messageCount(); n != len(agents) {
		t.Errorf("%d messages of %d ids", n, len(agents))
	}
	// Another organization's message of the same id is another one.
	h.call(h.first, "SendMessage", h.say("m0", textParts("hello"), nil), as(h.ann)).want(200)
	if n := h.messageCount(); n != len(agents)+1 {
		t.Errorf("%d messages after one of another organization", n)
	}
}

// TestRaceOfTheSameMessage: equal messages that are sent at once begin one task.
func TestRaceOfTheSameMessage(t *testing.T) {
	h := newBridgeHarness(t)
	agents := []string{h.bob, h.second.agent("ben"), h.second.agent("bea"), h.bob, ""}
	const rounds = 8
	for round := range rounds {
		body, _ := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": h.say(fmt.Sprint("race", round), textParts("hello"), nil)})
		answers := make([]*response, len(agents))
		var all sync.WaitGroup
		for i, agent := range agents {
			all.Go(func() {
				head := []string{"Content-Type: application/json"}
				if agent != "" {
					head = append(head, as(agent))
				}
				answers[i] = h.second.ask("POST", h.address, string(body), head...)
			})
		}
		all.Wait()
		task := answers[0].want(200).text("result.task.id")
		for _, a := range answers {
			a.is(object{"result.task.id": task})
		}
	}
	if n := h.messageCount(); n != rounds {
		t.Errorf("%d messages of %d ids", n, rounds)
	}
}

// TestClaimedMessage: an agent that claimed a message and sent nothing does not keep others
// from sending it, unless it still may send: then it does.
func TestClaimedMessage(t *testing.T) {
	h := newBridgeHarness(t)
	ben := h.second.agent("ben")
	claim := func(id string) {
		t.Helper()
		to, _ := parley.ParseID[parley.AgentID](h.art)
		by, _ := parley.ParseID[parley.AgentID](ben)
		oldest, _ := parley.ParseID[parley.AgentID](h.bob)
		sum := sha256.Sum256(append(to.Bytes(), id...))
		held, err := h.node.Messages.ClaimTask(t.Context(), actors.TaskClaim{Org: h.second.owner, Oldest: oldest, By: by, Key: "a2a:" + hex.EncodeToString(sum[:16])})
		if err != nil || held.Holder != by || !held.Sent.Zero() {
			t.Fatalf("%+v, %v", held, err)
		}
	}
	sender := func(task, want string) {
		t.Helper()
		h.first.ask("GET", "/conversations/"+task+"/messages", "", as(h.art)).want(200).is(object{"items.0.from_agent_id": want})
	}
	claim("m1")
	sender(h.sends(h.bob, "m1").want(200).text("result.task.id"), ben)
	h.second.ask("PATCH", "/agents/"+ben, `{"outgoing_policy":"groups_only"}`).want(200)
	claim("m2")
	sender(h.sends(h.bob, "m2").want(200).text("result.task.id"), h.bob)
	h.sends(ben, "m3").fails(-32000, "OUTGOING_POLICY")
	task := h.sends(h.bob, "m3").want(200).text("result.task.id")
	sender(task, h.bob)
	h.sends(ben, "m3").is(object{"result.task.id": task})
	claim("m4")
	h.second.ask("DELETE", "/agents/"+ben, "").want(204)
	sender(h.sends(h.bob, "m4").want(200).text("result.task.id"), h.bob)
}

// TestRepeatOfWhatIsRefusedNow: a repeat is answered with the task although the agent no
// longer accepts such messages.
func TestRepeatOfWhatIsRefusedNow(t *testing.T) {
	h := newBridgeHarness(t)
	task := h.begin("m1")
	more := h.say("m2", textParts("more"), object{"taskId": task})
	h.call(h.second, "SendMessage", more).want(200)
	h.first.publish(h.art, card{"name": "Translator", "svc": card{"a2a_enabled": true, "a2a_accept_cleartext": false}})
	if again := h.begin("m1"); again != task {
		t.Errorf("the repeat began %s instead of %s", again, task)
	}
	h.sends(h.second.agent("ben"), "m1").is(object{"result.task.id": task})
	h.call(h.second, "SendMessage", more).is(object{"result.task.id": task})
	for _, fresh := range []object{h.say("m3", textParts("more"), nil), h.say("m3", textParts("more"), object{"taskId": task})} {
		h.call(h.second, "SendMessage", fresh).fails(-32005, "CONTENT_TYPE_NOT_SUPPORTED")
	}
	if n := h.messageCount(); n != 2 {
		t.Errorf("%d messages", n)
	}
}
