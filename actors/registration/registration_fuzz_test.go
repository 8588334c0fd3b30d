package registration_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/actors/registration"
)

// FuzzSolution: a nonce solves a challenge if and only if the hash, written as bits,
// begins with the required number of zeros. A correct one registers.
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
		c := &registration.Challenge{Text: challenge, Difficulty: uint32(difficulty), ExpiresMs: now.Add(time.Minute).UnixMilli()}
		if err := c.Judge(registration.Solve{Nonce: nonce}, now); right != (err == nil) || !right && !errors.Is(err, registration.ErrPowWrong) {
			t.Fatalf("correct nonce: %v, error: %v", right, err)
		}
	})
}
