package importing

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley/http/api"
)

// lineMax bounds the bytes of a line. The longest lines are conversations whose status
// changed often.
const lineMax = 1 << 30

// lineError is a fault of the export at a line, counted from 1.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// line is one line of an export: its number, where its data begins, and the data.
type line struct {
	number int
	offset int64
	kind   string
	data   []byte
}

// scanned is what a whole export is compared with.
type scanned struct {
	records int
	sha256  string
}

// scan calls fn with each line. The data of a line is valid during the call only.
func scan(r io.Reader, fn func(line) error) (scanned, error) {
	sum, buffered := sha256.New(), bufio.NewReaderSize(r, 1<<20)
	var long []byte
	offset, number := int64(0), 0
	for {
		text, err := buffered.ReadSlice('\n')
		_, _ = sum.Write(text) // never fails
		if errors.Is(err, bufio.ErrBufferFull) {
			if long = append(long, text...); len(long) > lineMax {
				return scanned{}, &lineError{number + 1, fmt.Errorf("it is longer than %d bytes", lineMax)}
			}
			continue
		}
		if errors.Is(err, io.EOF) && len(text)+len(long) == 0 {
			return scanned{records: number, sha256: hex.EncodeToString(sum.Sum(nil))}, nil
		}
		number++
		if errors.Is(err, io.EOF) {
			return scanned{}, &lineError{number, errors.New("it has no end: the export was cut off")}
		}
		if err != nil {
			return scanned{}, err
		}
		if len(long) > 0 {
			text = append(long, text...)
		}
		l, err := parseLine(text[:len(text)-1])
		if err == nil {
			l.number, l.offset = number, offset+l.offset
			err = fn(l)
		}
		if err != nil {
			return scanned{}, &lineError{number, err}
		}
		offset += int64(len(text))
		long = long[:0]
	}
}

// parseLine splits a line. It has exactly the form in which exports are written.
func parseLine(text []byte) (l line, err error) {
	rest, ok := bytes.CutPrefix(text, []byte(`{"type":"`))
	kind, data, found := bytes.Cut(rest, []byte(`","data":`))
	if !ok || !found || len(data) < 2 || data[len(data)-1] != '}' {
		return l, errors.New(`it is not {"type":"…","data":{…}}`)
	}
	l.kind, l.data, l.offset = string(kind), data[:len(data)-1], int64(len(text)-len(data))
	if !slices.Contains(api.ExportTypes(), l.kind) {
		return l, fmt.Errorf("%q is no type of an export", l.kind)
	}
	if value := jsontext.Value(l.data); value.Kind() != '{' || !value.IsValid() {
		return l, errors.New("its data is not a JSON object")
	}
	return l, nil
}

// decode reads the data of a line. Members that T does not have are refused, because what
// they say would be lost.
func decode[T any](data []byte) (into T, err error) {
	err = json.Unmarshal(data, &into, json.RejectUnknownMembers(true))
	return into, err
}
