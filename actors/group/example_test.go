package group_test

import (
	"fmt"
	"time"

	"parley/actors/group"
	"parley/client/parley"
)

// A closed group admits agents by invitation only.
func Example() {
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	acme := parley.NewID[parley.OrgID](7, now, [10]byte{1})
	ann := parley.NewID[parley.AgentID](7, now, [10]byte{2})

	var state group.State
	decide := func(c group.Command) {
		events, err := group.Decide(&state, c, now)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, e := range events {
			fmt.Printf("%T\n", e)
			group.Evolve(&state, e)
		}
	}
	decide(group.Found{
		ID: parley.NewID[parley.GroupID](7, now, [10]byte{3}), Org: acme, Founder: ann, Name: "board", Policy: group.Closed,
	})
	decide(group.Answer{Offer: 1}) // the founder's agent accepts the seat
	eve := parley.NewID[parley.AgentID](7, now, [10]byte{4})
	decide(group.Join{RequestID: parley.NewID[parley.JoinRequestID](7, now, [10]byte{5}), Agent: eve, Org: acme})

	// Output:
	// *group.Founded
	// *group.Offered
	// *group.Seated
	// invitation_required: The group is closed: an invitation is needed.
}
