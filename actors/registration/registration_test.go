package registration_test

import (
	"crypto/sha256"
	"math/big"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/registration"
)

const (
	challenge  = "00112233445566778899aabbccddeeff"
	difficulty = 8
)

// nonce returns the first number that solves the challenge, or that does not.
func nonce(right bool) string {
	for n := 0; ; n++ {
		if text := strconv.Itoa(n); registration.Solves(challenge, text, difficulty) == right {
			return text
		}
	}
}

// TestJudge: checks apply in this order: expiry, use, proof of work, slug. The oracle
// implements them in another way.
func TestJudge(t *testing.T) {
	right, wrong := nonce(true), nonce(false)
	rapid.Check(t, func(t *rapid.T) {
		now := actorstest.Epoch.Add(time.Duration(rapid.Int64Range(-3, 3).Draw(t, "later")) * time.Millisecond)
		c := &registration.Challenge{Text: challenge, Difficulty: difficulty, ExpiresMs: actorstest.Epoch.UnixMilli()}
		offer := registration.Solve{Nonce: right, Used: rapid.Bool().Draw(t, "used"), SlugTaken: rapid.Bool().Draw(t, "taken")}
		if rapid.Bool().Draw(t, "wrong") {
			offer.Nonce = wrong
		}
		var wants []error
		if !now.Before(c.ExpiresAt()) {
			wants = append(wants, registration.ErrExpired)
		}
		if offer.Used {
			wants = append(wants, registration.ErrUsed)
		}
		if !solves(challenge, offer.Nonce, difficulty) {
			wants = append(wants, registration.ErrPowWrong)
		}
		if offer.SlugTaken {
			wants = append(wants, registration.ErrSlugTaken)
		}
		want := append(wants, nil)[0]
		if err := c.Judge(offer, now); err != want {
			t.Fatalf("%+v at %v: %v, want %v", offer, now, err, want)
		}
		if c.Expired(now) != (want == registration.ErrExpired) {
			t.Fatalf("at %v: expired %v", now, c.Expired(now))
		}
	})
}

// solves reads the hash as one large number. It begins with `difficulty` zero bits if
// it has few enough digits.
func solves(challenge, nonce string, difficulty int) bool {
	sum := sha256.Sum256([]byte(challenge + ":" + nonce))
	return new(big.Int).SetBytes(sum[:]).BitLen() <= 256-difficulty
}

func TestSolves(t *testing.T) {
	// From sha256sum: SHA-256("c:17") = 002e…, ten zero bits; SHA-256("c:1") = 7c9d…,
	// one.
	for _, c := range []struct {
		nonce string
		bits  int
		want  bool
	}{{"17", 10, true}, {"17", 11, false}, {"1", 1, true}, {"1", 2, false}, {"1", 0, true}} {
		if got := registration.Solves("c", c.nonce, c.bits); got != c.want {
			t.Errorf("Solves(c, %s, %d) = %v", c.nonce, c.bits, got)
		}
	}
}
