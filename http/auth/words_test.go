package auth

import (
	"hash/crc32"
	"testing"
)

// TestWordListIsBIP39: with another word in the list, people would compare other words
// than with other implementations.
func TestWordListIsBIP39(t *testing.T) {
	const published = 0xc1dbd296 // of bip-0039/english.txt
	if sum := crc32.ChecksumIEEE([]byte(wordText)); sum != published || len(wordList) != 1<<11 {
		t.Errorf("%d words with the checksum %x, want %d with %x", len(wordList), sum, 1<<11, published)
	}
}
