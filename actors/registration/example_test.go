package registration_test

import (
	"fmt"
	"strconv"
	"time"

	"parley/actors/registration"
)

// A nonce solves a challenge if its hash begins with enough zero bits.
func Example() {
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	challenge := registration.Challenge{
		Text: "00112233445566778899aabbccddeeff", Slug: "acme", Difficulty: 8, ExpiresMs: now.Add(time.Minute).UnixMilli(),
	}

	nonce := 0
	for !registration.Solves(challenge.GetText(), strconv.Itoa(nonce), int(challenge.GetDifficulty())) {
		nonce++
	}
	solve := registration.Solve{Nonce: strconv.Itoa(nonce)}
	fmt.Println(challenge.Judge(solve, now))
	fmt.Println(challenge.Judge(registration.Solve{Nonce: "wrong"}, now))
	fmt.Println(challenge.Judge(solve, now.Add(time.Minute)))

	// Output:
	// <nil>
	// pow_invalid: The nonce does not solve the challenge.
	// challenge_expired: The challenge has expired. Ask for a new one.
}
