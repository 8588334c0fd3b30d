package webhook_test

import (
	"fmt"
	"time"

	"parley/actors/webhook"
	"parley/client/parley"
)

// An inactive webhook attempts no delivery.
func Example() {
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	acme := parley.NewID[parley.OrgID](7, now, [10]byte{1})

	var state webhook.State
	decide := func(c webhook.Command) {
		events, err := webhook.Decide(&state, c, now)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, e := range events {
			fmt.Printf("%T\n", e)
			webhook.Evolve(&state, e)
		}
	}
	decide(webhook.Create{
		ID: parley.NewID[webhook.ID](7, now, [10]byte{2}), Agent: parley.NewID[parley.AgentID](7, now, [10]byte{3}), Org: acme,
		URL: "https://hooks.example/parley", SealedSecret: []byte("sealed"),
	})
	decide(webhook.Toggle{By: acme, Active: false})
	decide(webhook.Test{By: acme})

	// Output:
	// *webhook.Created
	// *webhook.Deactivated
	// invalid_transition: The webhook is inactive: nothing is attempted until it is activated.
}
