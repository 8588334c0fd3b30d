package e2ee_test

import (
	"errors"
	"fmt"

	"parley/client/api"
	"parley/client/e2ee"
	"parley/client/parley"
)

// Ann seals a payload to Bob's published key. Bob opens it and verifies that Ann signed it
// for him. Sessions of agents do both with every message.
func ExampleSealTo() {
	ann, err := e2ee.GenerateKeyRing()
	if err != nil {
		fmt.Println(err)
		return
	}
	bob, err := e2ee.GenerateHybridKeyRing() // Bob also has a post-quantum key
	if err != nil {
		fmt.Println(err)
		return
	}
	annID, bobID := parley.AgentID{15: 1}, parley.AgentID{15: 2}
	if err := errors.Join(ann.Bind(annID, "ann@acme.example"), bob.Bind(bobID, "bob@acme.example")); err != nil {
		fmt.Println(err)
		return
	}

	encryption := bob.EncryptionKey()
	text, err := e2ee.SealTo(ann, &api.AgentKeys{AgentID: bobID, EncryptionPublicKey: &encryption, PQPublicKey: bob.PQKey()}, []byte("hello"))
	if err != nil {
		fmt.Println(err)
		return
	}
	published := func(string) (api.JWK, error) { return ann.SigningKey(), nil }
	opened, err := e2ee.Open(bob, annID, text, published)
	fmt.Println(string(opened.Payload), opened.PostQuantum, err)

	_, err = e2ee.Open(bob, bobID, text, published)
	fmt.Println(errors.Is(err, e2ee.ErrForged))
	// Output:
	// hello true <nil>
	// true
}
