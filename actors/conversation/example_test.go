package conversation_test

import (
	"fmt"
	"time"

	"parley/actors/conversation"
	"parley/client/parley"
)

// The first reply of the responder opens a conversation. Agents outside cannot reply.
func Example() {
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	agent := func(n byte) parley.AgentID { return parley.NewID[parley.AgentID](7, now, [10]byte{n}) }
	message := func(n byte) parley.MessageID { return parley.NewID[parley.MessageID](7, now, [10]byte{n}) }
	ann, bob, eve := agent(1), agent(2), agent(3)

	var state conversation.State
	decide := func(c conversation.Command) {
		events, err := conversation.Decide(&state, c, now)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, e := range events {
			conversation.Evolve(&state, e)
		}
		fmt.Println(state.GetStatus())
	}
	decide(conversation.Start{ID: parley.NewID[parley.ConversationID](7, now, [10]byte{}), Initiator: ann, Responder: bob, MessageID: message(1)})
	decide(conversation.Reply{MessageID: message(2), From: bob, To: ann, InReplyTo: message(1)})
	decide(conversation.Reply{MessageID: message(3), From: eve, To: ann, InReplyTo: message(1)})

	// Output:
	// submitted
	// open
	// not_owner: The agent takes no part in this conversation.
}
