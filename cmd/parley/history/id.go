package history

import (
	"bytes"
	"encoding/hex"
	"fmt"
)

// ID is a UUID. Its sixteen bytes sort as its text does.
type ID [16]byte

// ParseID reads the 36 characters of a UUID.
func ParseID(text string) (ID, error) {
	var id ID
	return id, id.UnmarshalText([]byte(text))
}

// UnmarshalText reads the 36 characters of a UUID.
func (id *ID) UnmarshalText(text []byte) error {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return fmt.Errorf("history: %.40q is no UUID", text)
	}
	digits := make([]byte, 0, 32)
	for group := range bytes.SplitSeq(text, []byte("-")) {
		digits = append(digits, group...)
	}
	if len(digits) != 32 {
		return fmt.Errorf("history: %.40q is no UUID", text)
	}
	_, err := hex.Decode(id[:], digits)
	return err
}

// String is the UUID as the wire spells it.
func (id ID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// Zero tells whether this is the nil UUID, which names nothing.
func (id ID) Zero() bool { return id == ID{} }

func (id ID) before(other ID) bool { return bytes.Compare(id[:], other[:]) < 0 }
