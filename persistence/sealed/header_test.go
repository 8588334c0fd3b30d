package sealed

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/seal"
	"parley/persistence/seal/sealtest"
)

// message returns a protobuf message with a header and, unless it is empty, a content.
func message(header, content string) []byte {
	m := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), header)
	if content != "" {
		m = protowire.AppendString(protowire.AppendTag(m, journal.HeaderFields, protowire.BytesType), content)
	}
	return m
}

// A header is readable in the clear and outlives its content; both are bound to each other.
func TestHeaderOutlivesItsContent(t *testing.T) {
	keys := &sealtest.Keys{}
	c := cipher{seal.New(keys, [32]byte{1})}
	s, owner := journal.Stream{Kind: journal.ConversationStream, ID: parley.AnyID{3}}, parley.OrgID{7}
	whole, header := message("head", canary), message("head", "")
	stored := func(data []byte) journal.StoredEvent {
		events := []journal.StoredEvent{{Tag: 3, Data: data}}
		if _, err := c.sealStream(s, 4, events, nil, journal.OwnedBy(owner)); err != nil {
			t.Fatal(err)
		}
		return events[0]
	}
	opened := func(f journal.StoredEvent) ([]byte, error) {
		err := c.openEvent(s, 5, &f)
		return f.Data, err
	}
	f := stored(whole)
	if bytes.Contains(f.Data, []byte(canary)) || !bytes.Contains(f.Data, header) {
		t.Errorf("the event is stored as %q", f.Data)
	}
	if got, err := opened(f); err != nil || !bytes.Equal(got, whole) {
		t.Errorf("the event opens as %q, %v", got, err)
	}
	for i := range f.Data {
		changed := journal.StoredEvent{Tag: f.Tag, Data: bytes.Clone(f.Data)}
		changed.Data[i] ^= 1
		if got, err := opened(changed); err == nil && !bytes.Equal(got, header) {
			t.Errorf("with byte %d changed it opens as %q", i, got)
		} else if err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("with byte %d changed: %v", i, err)
		}
	}
	bare, err := c.sealStream(s, 4, nil, header, journal.OwnedBy(owner))
	if err != nil || len(bare) != 1+len(header) {
		t.Errorf("a state without content is stored as %q, %v", bare, err)
	}
	keys.Erase(owner)
	c.sealer.Forget(owner)
	if got, err := opened(f); err != nil || !bytes.Equal(got, header) {
		t.Errorf("after the erasure the event opens as %q, %v, want its header", got, err)
	}
	if _, err := c.sealStream(s, 5, []journal.StoredEvent{{Tag: 3, Data: whole}}, nil, journal.OwnedBy(owner)); !errors.Is(err, journal.ErrErased) {
		t.Errorf("a text of an erased organization is sealed: %v", err)
	}
	if again, err := c.sealStream(s, 5, nil, header, journal.OwnedBy(owner)); err != nil || !bytes.Equal(again, bare) {
		t.Errorf("a state without texts cannot be stored after the erasure: %q, %v", again, err)
	}
}
