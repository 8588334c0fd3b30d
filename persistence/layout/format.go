package layout

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// FormatVersion is the format of the directory that this code reads and writes.
const FormatVersion = 4

// Format is the row that describes a directory.
type Format struct {
	// Journals is how many journals the directory was made with.
	Journals int
	// Openings is how often a store has opened it.
	Openings uint64
}

// Encode is the value of the row.
func (f Format) Encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, FormatVersion)
	b = binary.BigEndian.AppendUint16(b, uint16(f.Journals))
	return binary.BigEndian.AppendUint64(b, f.Openings)
}

// ReadFormat reads the row; a new directory has none. Another version is an error.
func ReadFormat(r pebble.Reader) (f Format, found bool, err error) {
	value, found, err := Get(r, DirectoryKey(FormatFamily))
	if err != nil || !found {
		return Format{}, false, err
	}
	if len(value) != 18 {
		return Format{}, false, errors.New("the data directory was not made by this program")
	}
	if v := binary.BigEndian.Uint64(value); v != FormatVersion {
		return Format{}, false, fmt.Errorf("the data directory has format %d; this program reads format %d", v, FormatVersion)
	}
	return Format{Journals: int(binary.BigEndian.Uint16(value[8:])), Openings: binary.BigEndian.Uint64(value[10:])}, true, nil
}
