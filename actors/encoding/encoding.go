// Package encoding encodes what is stored: states, events and rows, which are protobuf messages.
package encoding

import "google.golang.org/protobuf/proto"

// encoder has an encoding of its own: the state of a group, and what each message of a conversation
// encodes several of, for which there is generated code.
type encoder interface {
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

// Marshal encodes a state, an event or a row for storage. It panics on what is none.
func Marshal(v any) ([]byte, error) {
	if v, ok := v.(encoder); ok {
		return v.MarshalVT()
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(v.(proto.Message))
}

// Unmarshal decodes what Marshal encoded into an empty value.
func Unmarshal(stored []byte, into any) error {
	if v, ok := into.(encoder); ok {
		return v.UnmarshalVT(stored)
	}
	return proto.Unmarshal(stored, into.(proto.Message))
}
