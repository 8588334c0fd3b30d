package agent_test

import (
	"fmt"
	"time"

	"parley/actors/agent"
	"parley/client/parley"
)

// A revoked agent rejects every further change.
func Example() {
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	id := parley.NewID[parley.AgentID](7, now, [10]byte{})

	var state agent.State
	decide := func(c agent.Command) {
		events, err := agent.Decide(&state, c, now)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, e := range events {
			fmt.Printf("%T\n", e)
			agent.Evolve(&state, e)
		}
	}
	decide(agent.Create{ID: id, Name: "ann", SigningKey: make([]byte, 32), EncryptionKey: make([]byte, 32)})
	decide(agent.Revoke{})
	decide(agent.Revoke{}) // a repetition yields no event
	oversight := true
	decide(agent.Change{HumanOversight: &oversight})

	// Output:
	// *agent.Created
	// *agent.Revoked
	// gone: The agent has been revoked.
}
