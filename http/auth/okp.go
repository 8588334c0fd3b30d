package auth

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"strings"

	"filippo.io/edwards25519"

	"parley/client/parley"
)

// KeyError states which member of an uploaded JWK is wrong, for a 422 at that member.
// Type is spelled as in validation errors: missing or value_error.
type KeyError struct {
	Member string
	Type   string
	Text   string
}

func (e *KeyError) Error() string { return e.Member + ": " + e.Text }

func badKey(member, text string) error {
	return &KeyError{Member: member, Type: "value_error", Text: text}
}

// ParseOKP parses the members of a public OKP key on Ed25519 or X25519 and returns the
// raw 32 bytes. It rejects private keys, non-canonical spellings of x, and points that
// would make signatures or shared secrets worthless. Errors are *KeyError.
// // docs: encryption.md
func ParseOKP(kty, crv, x string, hasD bool) ([]byte, error) {
	if hasD {
		return nil, badKey("d", "a private key must never be uploaded")
	}
	members := [3][2]string{{"kty", kty}, {"crv", crv}, {"x", x}}
	for _, m := range members {
		if m[1] == "" {
			return nil, &KeyError{Member: m[0], Type: "missing", Text: "Field required"}
		}
	}
	if kty != "OKP" {
		return nil, badKey("kty", "kty must be OKP")
	}
	if crv != parley.Ed25519 && crv != parley.X25519 {
		return nil, badKey("crv", "crv must be Ed25519 or X25519")
	}
	raw, ok := decodeFixed(x, 32)
	if !ok {
		return nil, badKey("x", "x must be 32 bytes in base64url without padding")
	}
	if crv == parley.Ed25519 && !soundEd25519(raw) {
		return nil, badKey("x", "x is not a canonical Ed25519 public key of full order")
	}
	if crv == parley.X25519 && lowOrderX25519(raw) {
		return nil, badKey("x", "x is a low-order X25519 point")
	}
	return raw, nil
}

// ParseKey is ParseOKP for a key that must be on the given curve.
func ParseKey(curve, kty, crv, x string, hasD bool) ([]byte, error) {
	if crv != "" && crv != curve && !hasD {
		return nil, badKey("crv", "crv must be "+curve)
	}
	return ParseOKP(kty, crv, x, hasD)
}

// soundEd25519 reports whether raw is the canonical encoding of a curve point outside the
// group of order eight.
func soundEd25519(raw []byte) bool {
	p, err := new(edwards25519.Point).SetBytes(raw)
	if err != nil || !bytes.Equal(p.Bytes(), raw) {
		return false
	}
	return new(edwards25519.Point).MultByCofactor(p).Equal(edwards25519.NewIdentityPoint()) == 0
}

// lowOrderPoints are the u coordinates below 2^255, little-endian, with which
// every X25519 agreement ends in zero: those of order 1, 2, 4 and 8 on the
// curve and its twist, and their spellings at or above the prime.
var lowOrderPoints = [...][32]byte{
	{},
	{1},
	{
		0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a,
		0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00,
	},
	{
		0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef, 0x5b,
		0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57,
	},
	nearPrime(0xec),
	nearPrime(0xed),
	nearPrime(0xee),
}

// nearPrime returns 2^255 - 256 + low, little-endian; the prime ends in 0xed.
func nearPrime(low byte) (u [32]byte) {
	for i := range u {
		u[i] = 0xff
	}
	u[0], u[31] = low, 0x7f
	return u
}

// lowOrderX25519 reports whether raw is a low-order point. It ignores the top bit, as
// X25519 itself does.
func lowOrderX25519(raw []byte) bool {
	u := [32]byte(raw)
	u[31] &= 0x7f
	for i := range lowOrderPoints {
		if u == lowOrderPoints[i] {
			return true
		}
	}
	return false
}

//go:embed bip39_english.txt
var wordText string

// wordList is the English list of BIP 39: 2,048 words, sorted.
var wordList = strings.Fields(wordText)

// VerificationWords returns five words that two people can compare aloud: the first 55
// bits of SHA-256 of a raw Ed25519 key, eleven at a time, as indices into the English
// BIP39 list. // docs: encryption.md
func VerificationWords(raw []byte) string {
	sum := sha256.Sum256(raw)
	number := binary.BigEndian.Uint64(sum[:8])
	words := make([]string, 5)
	for i := range words {
		words[i] = wordList[number>>(53-11*i)&0x7ff]
	}
	return strings.Join(words, " ")
}
