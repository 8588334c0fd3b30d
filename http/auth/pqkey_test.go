package auth_test

import (
	"bytes"
	"crypto/mlkem"
	"strings"
	"testing"

	"parley/client/parley"
	"parley/http/auth"
)

// pqKeys returns a raw ML-KEM-768 key and a raw X-Wing key made of it.
func pqKeys(t *testing.T) (kem, hybrid []byte) {
	t.Helper()
	k, err := mlkem.NewDecapsulationKey768(bytes.Repeat([]byte{7}, mlkem.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	kem = k.EncapsulationKey().Bytes()
	return kem, append(bytes.Clone(kem), append([]byte{9}, make([]byte, 31)...)...)
}

// changed returns a copy of b with bytes replaced from an index on.
func changed(b []byte, at int, with ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[at:], with)
	return b
}

func TestParsePQKey(t *testing.T) {
	kem, hybrid := pqKeys(t)
	modulus := []byte{0x01, 0x0d} // 3329 in the first 12 bits
	for _, c := range []struct {
		name, kty, alg, pub string
		private             bool
		want                string
	}{
		{"ML-KEM-768", "AKP", "ML-KEM-768", b64(kem), false, ""},
		{"X-Wing", "AKP", "X-Wing", b64(hybrid), false, ""},
		{"private", "AKP", "X-Wing", b64(hybrid), true, "priv value_error"},
		{"no kty", "", "X-Wing", b64(hybrid), false, "kty missing"},
		{"no alg", "AKP", "", b64(hybrid), false, "alg missing"},
		{"no pub", "AKP", "X-Wing", "", false, "pub missing"},
		{"OKP", "OKP", "X-Wing", b64(hybrid), false, "kty value_error"},
		{"ML-KEM-1024", "AKP", "ML-KEM-1024", b64(kem), false, "alg value_error"},
		{"x-wing", "AKP", "x-wing", b64(hybrid), false, "alg value_error"},
		{"X-Wing of ML-KEM alone", "AKP", "X-Wing", b64(kem), false, "pub value_error"},
		{"ML-KEM with more", "AKP", "ML-KEM-768", b64(hybrid), false, "pub value_error"},
		{"one byte less", "AKP", "X-Wing", b64(hybrid[1:]), false, "pub value_error"},
		{"padded", "AKP", "X-Wing", b64(hybrid) + "==", false, "pub value_error"},
		{"standard alphabet", "AKP", "X-Wing", strings.NewReplacer("_", "/", "-", "+").Replace(b64(hybrid)), false, "pub value_error"},
		{"trailing bits", "AKP", "ML-KEM-768", b64(kem)[:1578] + "_", false, "pub value_error"},
		{"line break", "AKP", "ML-KEM-768", b64(kem)[:1578] + "\n", false, "pub value_error"},
		{"coefficient of the modulus", "AKP", "ML-KEM-768", b64(changed(kem, 0, modulus...)), false, "pub value_error"},
		{"coefficient of the modulus in X-Wing", "AKP", "X-Wing", b64(changed(hybrid, 0, modulus...)), false, "pub value_error"},
		{"largest coefficient", "AKP", "ML-KEM-768", b64(changed(kem, 0, 0x00, 0x0d)), false, ""},
		{"low order", "AKP", "X-Wing", b64(changed(hybrid, parley.MLKEM768Size, make([]byte, 32)...)), false, "pub value_error"},
	} {
		raw, err := auth.ParsePQKey(c.kty, c.alg, c.pub, c.private)
		if got := wrongMember(t, err); got != c.want || (c.want == "") != (len(raw) > 0 && b64(raw) == c.pub) {
			t.Errorf("%s: %q (%v), want %q", c.name, got, err, c.want)
		}
	}
}
