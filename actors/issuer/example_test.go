package issuer_test

import (
	"fmt"
	"time"

	"parley/actors/issuer"
	"parley/client/parley"
)

// A new key is minted when the current one has reached its lifetime. An earlier offer
// yields no event.
func Example() {
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

	var state issuer.State
	offer := func(kid string, now time.Time) {
		events, err := issuer.Decide(&state, issuer.Mint{Kid: kid, Public: make([]byte, 32)}, now)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, e := range events {
			issuer.Evolve(&state, e)
		}
		fmt.Println(len(events), "event, current key:", state.Current().GetKid())
	}
	offer("first", now)
	offer("second", now.Add(time.Hour))
	offer("third", now.Add(parley.SigningKeyLifetime))

	// Output:
	// 1 event, current key: first
	// 0 event, current key: first
	// 1 event, current key: third
}
