package registration_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley"
	"parley/actors/registration"
)

// A nonce solves a challenge if and only if the hash begins with that many
// zeros, written out as bits. A wrong one is counted, a right one registers.
func FuzzSolution(f *testing.F) {
	for n, nonce := range []string{"", "0", "42", "nonce", strings.Repeat("9", 64), "\x00", "\xff", "a:b", ":"} {
		f.Add("00112233445566778899aabbccddeeff", nonce, uint8(n))
	}
	f.Add("", "", uint8(0))
	f.Add("c", "n", uint8(255))
	f.Fuzz(func(t *testing.T, challenge, nonce string, difficulty uint8) {
		written := ""
		for _, b := range sha256.Sum256([]byte(challenge + ":" + nonce)) {
			written += fmt.Sprintf("%08b", b)
		}
		right := strings.HasPrefix(written, strings.Repeat("0", int(difficulty)))
		if registration.Solves(challenge, nonce, int(difficulty)) != right {
			t.Fatalf("%q, %q, %d bits: %s", challenge, nonce, difficulty, written)
		}
		now := time.UnixMilli(1_700_000_000_000)
		s := &registration.State{}
		registration.Evolve(s, &registration.Issued{
			Id: make([]byte, 16), Challenge: challenge, Difficulty: uint32(difficulty), ExpiresMs: now.Add(time.Minute).UnixMilli(), AtMs: now.UnixMilli(),
		})
		events, err := registration.Decide(s, registration.Solve{Nonce: nonce, OrgID: parley.OrgID{1}}, now)
		if len(events) != 1 {
			t.Fatalf("%d events, %v", len(events), err)
		}
		_, missed := events[0].(*registration.Missed)
		_, solved := events[0].(*registration.Solved)
		if right != (err == nil) || right != solved || right == missed || !right && !errors.Is(err, registration.ErrPowWrong) {
			t.Fatalf("right %v: %v, %v", right, events, err)
		}
	})
}
