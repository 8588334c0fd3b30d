package api

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// DefaultBrand is the brand of a server that is not told another. The wire structs use
// it in the names of branded members.
const DefaultBrand = "svc"

// Rebrand renames one member of a JSON object: a sender writes the member of a wire
// struct under the server's brand, a receiver does the opposite. Members inside the
// object's members keep their names. A body that has no such member, or is no object, is
// returned as it is.
func Rebrand(body []byte, from, to string) []byte {
	if from == to {
		return body
	}
	dec := jsontext.NewDecoder(bytes.NewReader(body))
	if dec.PeekKind() != '{' {
		return body
	}
	if _, err := dec.ReadToken(); err != nil {
		return body
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return body
		}
		if name.String() == from {
			end := dec.InputOffset()
			start := bytes.LastIndexByte(body[:end-1], '"')
			quoted, err := jsontext.AppendQuote(nil, to)
			if err != nil {
				return body
			}
			return bytes.Join([][]byte{body[:start], quoted, body[end:]}, nil)
		}
		if err := dec.SkipValue(); err != nil {
			return body
		}
	}
	return body
}
