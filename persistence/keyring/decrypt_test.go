package keyring

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"testing"
)

// contents are the files of a keyring, decrypted as far as they go.
type contents map[string][]byte

// contentsOf decrypts files without looking at their authentication tag and checksum, as
// somebody with the wrapping key could.
func contentsOf(t testing.TB, files map[string][]byte) contents {
	t.Helper()
	c := contents{}
	for name, b := range files {
		c[name] = b
		if h, ok := readHeader(b); ok && len(b) > fileBytesMin { // others are too short for a key
			c[name] = append(decrypted(t, h, b), b...)
		}
	}
	return c
}

// reveal returns the first file that contains a key, however incomplete it is.
func (c contents) reveal(key Key) string {
	for name, b := range c {
		if bytes.Contains(b, key[:]) {
			return name
		}
	}
	return ""
}

func revealed(t testing.TB, files map[string][]byte, key Key) string {
	t.Helper()
	return contentsOf(t, files).reveal(key)
}

// decrypted returns what the content of a file would be, whether or not its tag and
// checksum match: GCM encrypts in counter mode, from 2.
func decrypted(t testing.TB, h header, b []byte) []byte {
	t.Helper()
	info := binary.BigEndian.AppendUint64(append([]byte("parley keyring: shard "), h.shard), h.generation)
	key, err := hkdf.Key(sha256.New, testWrapping, h.keyring[:], string(info), 32)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, len(b)-headerBytes-nonceBytes)
	counter := append(append([]byte(nil), b[headerBytes:headerBytes+nonceBytes]...), 0, 0, 0, 2)
	cipher.NewCTR(block, counter).XORKeyStream(content, b[headerBytes+nonceBytes:])
	return content
}

// TestRevealed is the control of all searches for destroyed keys: before the key is
// destroyed both copies contain it, and so does a torn file.
func TestRevealed(t *testing.T) {
	k, files := filled(t, 0x20, 120)
	key, _ := k.Key(orgIn(0x20, 100))
	for name, b := range files {
		if name != "20.a" && name != "20.b" {
			continue
		}
		if revealed(t, map[string][]byte{name: b}, key) != name {
			t.Errorf("%s holds the key, and it was not found", name)
		}
		torn := append([]byte(nil), b[:len(b)-200]...)
		clear(torn[len(torn)/2 : len(torn)/2+64])
		if revealed(t, map[string][]byte{name: torn}, key) != name {
			t.Errorf("%s holds the key and is torn, and it was not found", name)
		}
	}
	if name := revealed(t, files, Key{1}); name != "" {
		t.Errorf("a key that was never made is in %s", name)
	}
}

// unraced skips a test under the race detector: it is long, and no goroutines meet in it.
func unraced(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("this is tried without the race detector")
	}
}
