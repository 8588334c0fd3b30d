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

// OtherFormatError is the error of a directory of another format. The directory is not
// damaged: the program that wrote it reads it.
type OtherFormatError struct {
	// Version is the format of the directory.
	Version uint64
}

func (e OtherFormatError) Error() string {
	return fmt.Sprintf("the data directory has format %d; this program reads format %d: use the program that wrote it, or begin with an empty directory", e.Version, FormatVersion)
}

// ReadFormat reads the row; a new directory has none. Another version is an
// OtherFormatError.
func ReadFormat(r pebble.Reader) (f Format, found bool, err error) {
	value, found, err := Get(r, StoreKey(FormatFamily))
	if err != nil || !found {
		return Format{}, false, err
	}
	if len(value) != 18 {
		return Format{}, false, errors.New("the data directory was not made by this program")
	}
	if v := binary.BigEndian.Uint64(value); v != FormatVersion {
		return Format{}, false, OtherFormatError{Version: v}
	}
	return Format{Journals: int(binary.BigEndian.Uint16(value[8:])), Openings: binary.BigEndian.Uint64(value[10:])}, true, nil
}
