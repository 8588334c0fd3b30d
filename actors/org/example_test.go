package org_test

import (
	"fmt"
	"time"

	"parley/actors/org"
	"parley/client/parley"
)

// A command is decided against a state. It yields events, which Evolve applies, or a
// refusal.
func Example() {
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	id := parley.NewID[parley.OrgID](7, now, [10]byte{})

	var state org.State
	events, err := org.Decide(&state, org.Register{ID: id, Name: "Acme", Slug: "acme", Tier: 1}, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range events {
		fmt.Printf("%T\n", e)
		org.Evolve(&state, e)
	}
	fmt.Println(state.GetName(), "has trust tier", state.GetTrustTier())

	slug := "acme2"
	_, err = org.Decide(&state, org.Change{Slug: &slug}, now)
	fmt.Println(err)

	// Output:
	// *org.Registered
	// Acme has trust tier 1
	// slug_immutable: An organization's slug cannot change.
}
