package seal

import (
	"bytes"
	"crypto/sha3"
	"encoding/hex"
	"flag"
	"testing"
)

// The single vectors of https://c2sp.org/XAES-256-GCM: with and without the carry in
// the CMAC subkey.
func TestXAESVectors(t *testing.T) {
	for _, v := range []struct {
		key                         byte
		k1, message, data, sealedAs string
	}{
		{
			key:     0x01,
			k1:      "e531954aca063d5b8d9c47a47d4cc6f0",
			message: "c8612c9ed53fe43e8e005b828a1631a0bbcb6ab2f46514ec4f439fcfd0fa969b", data: "",
			sealedAs: "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271",
		},
		{
			key:     0x03,
			k1:      "23810ec50edb99f374409466ed1f4b7b",
			message: "e9c621d4cdd9b11b00a6427ad7e559aeedd66b3857646677748f8ca796cb3fd8", data: "c2sp.org/XAES-256-GCM",
			sealedAs: "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d",
		},
	} {
		x, err := newXAES(bytes.Repeat([]byte{v.key}, keyBytes))
		if err != nil {
			t.Fatal(err)
		}
		nonce := []byte("ABCDEFGHIJKLMNOPQRSTUVWX")
		var key [keyBytes]byte
		x.messageKey(&key, nonce)
		if got := hex.EncodeToString(x.k1[:]); got != v.k1 {
			t.Errorf("key %02x…: K1 is %s, want %s", v.key, got, v.k1)
		}
		if got := hex.EncodeToString(key[:]); got != v.message {
			t.Errorf("key %02x…: the message's key is %s, want %s", v.key, got, v.message)
		}
		gcm, err := messageCipher(&key)
		if err != nil {
			t.Fatal(err)
		}
		sealed := gcm.Seal(nil, nonce[12:], []byte("XAES-256-GCM"), []byte(v.data))
		if got := hex.EncodeToString(sealed); got != v.sealedAs {
			t.Errorf("key %02x…: sealed as %s, want %s", v.key, got, v.sealedAs)
		}
		if opened, err := gcm.Open(nil, nonce[12:], sealed, []byte(v.data)); err != nil || string(opened) != "XAES-256-GCM" {
			t.Errorf("key %02x…: opens as %q, %v", v.key, opened, err)
		}
	}
}

var exhaustive = flag.Bool("exhaustive", false, "try all 1,000,000 rounds of the accumulated vectors, not 10,000")

// The accumulated vectors of the specification: keys, nonces, plaintexts and data come
// from one SHAKE-128, and another hashes the ciphertexts.
func TestXAESAccumulatedVectors(t *testing.T) {
	const ten, million = 10_000, 1_000_000
	want := map[int]string{
		ten:     "e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939",
		million: "2163ae1445985a30b60585ee67daa55674df06901b890593e824b8a7c885ab15",
	}
	rounds := ten
	if *exhaustive {
		rounds = million
	}
	source, sum := sha3.NewSHAKE128(), sha3.NewSHAKE128()
	read := func(n int) []byte {
		b := make([]byte, n)
		_, _ = source.Read(b)
		return b
	}
	for i := range rounds {
		x, err := newXAES(read(keyBytes))
		if err != nil {
			t.Fatal(err)
		}
		nonce := read(nonceBytes)
		plaintext := read(int(read(1)[0]))
		data := read(int(read(1)[0]))
		var key [keyBytes]byte
		x.messageKey(&key, nonce)
		gcm, err := messageCipher(&key)
		if err != nil {
			t.Fatal(err)
		}
		sealed := gcm.Seal(nil, nonce[12:], plaintext, data)
		opened, err := gcm.Open(nil, nonce[12:], sealed, data)
		if err != nil || !bytes.Equal(opened, plaintext) {
			t.Fatalf("round %d: %x opens as %x, %v", i, plaintext, opened, err)
		}
		_, _ = sum.Write(sealed)
		if i+1 == ten || i+1 == million {
			at := *sum
			got := make([]byte, 32)
			_, _ = at.Read(got)
			if hex.EncodeToString(got) != want[i+1] {
				t.Errorf("after %d rounds the hash is %x, want %s", i+1, got, want[i+1])
			}
		}
	}
}

// A wiped cipher contains nothing of its key.
func TestXAESWipe(t *testing.T) {
	x, err := newXAES(bytes.Repeat([]byte{7}, keyBytes))
	if err != nil {
		t.Fatal(err)
	}
	if wiped(x) {
		t.Fatal("a cipher in use counts as wiped")
	}
	x.wipe()
	if !wiped(x) {
		t.Error("something of the key is left")
	}
}
