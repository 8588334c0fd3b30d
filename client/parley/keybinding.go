package parley

import (
	"errors"
	"time"
)

// KeyBindingText returns the text that an agent's Ed25519 key signs to bind its two keys
// to each other and to the agent. Brand, id and handle are in lower case, as the API
// returns them; the kids are RFC 7638 thumbprints; signedAt is a text that ParseSignedAt
// accepts, byte for byte.
func KeyBindingText(brand string, agent AgentID, handle, signingKid, encryptionKid, signedAt string) []byte {
	return []byte(brand + "-keys-v1\n" + agent.String() + "\n" + handle + "\n" + signingKid + "\n" + encryptionKid + "\n" + signedAt)
}

// SVIDText returns the text that the key of an X.509-SVID signs to prove a workload
// identity for an agent. The nonce is that of the challenge.
func SVIDText(brand string, agent AgentID, nonce string) []byte {
	return []byte(brand + "-svid-v1\x00" + agent.String() + "\x00" + nonce)
}

// ErrSignedAt is returned for a text that is not a valid instant of a key binding.
var ErrSignedAt = errors.New("should be an RFC 3339 instant that ends in Z, with at most six decimals")

const wholeSecond = "2006-01-02T15:04:05"

// ParseSignedAt parses the instant of a key binding: RFC 3339 in UTC, with T and Z in
// upper case and at most six decimals. It is stricter than the parser of other
// timestamps, because the text itself is signed: two spellings of one instant would be
// two bindings. The only error is ErrSignedAt.
func ParseSignedAt(text string) (time.Time, error) {
	if len(text) < len(wholeSecond)+len("Z") || len(text) > len(wholeSecond)+len(".123456Z") || text[len(text)-1] != 'Z' {
		return time.Time{}, ErrSignedAt
	}
	for i := range len(wholeSecond) {
		if isDigit(wholeSecond[i]) != isDigit(text[i]) || !isDigit(text[i]) && wholeSecond[i] != text[i] {
			return time.Time{}, ErrSignedAt
		}
	}
	if fraction := text[len(wholeSecond) : len(text)-1]; fraction != "" {
		if fraction[0] != '.' || len(fraction) == 1 {
			return time.Time{}, ErrSignedAt
		}
		for _, c := range []byte(fraction[1:]) {
			if !isDigit(c) {
				return time.Time{}, ErrSignedAt
			}
		}
	}
	at, err := time.Parse(wholeSecond+".999999Z", text) // rejects days and hours that do not exist
	if err != nil {
		return time.Time{}, ErrSignedAt
	}
	return at, nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
