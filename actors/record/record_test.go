package record_test

import (
	"bytes"
	"testing"
	"time"

	"parley/actors/conversation"
	"parley/actors/encoding"
	"parley/actors/record"
	"parley/client/parley"
)

func firstMessage() *record.Message {
	id := parley.NewID[parley.ConversationID](7, time.UnixMilli(1_760_000_000_123), [10]byte{1, 2, 3, 4, 5, 6, 7, 8, 9})
	return &record.Message{
		Id: conversation.FirstMessageID(id).Bytes(), ConversationId: id.Bytes(), From: bytes.Repeat([]byte{1}, 16), To: bytes.Repeat([]byte{2}, 16),
		FromOrg: bytes.Repeat([]byte{3}, 16), ToOrg: bytes.Repeat([]byte{4}, 16), Type: "svc.v1.dm",
		Content: bytes.Repeat([]byte("c"), 4000), SelfPayload: "own", Parent: bytes.Repeat([]byte{5}, 16), Metadata: []byte(`{"a":1}`),
	}
}

// TestStartedIsWhatTheRulesDecide: the event for which a first message stands is the one
// that the rules decide for such a start.
func TestStartedIsWhatTheRulesDecide(t *testing.T) {
	m := firstMessage()
	if !m.Starts() {
		t.Fatal("a first message starts nothing")
	}
	events, err := conversation.Decide(&conversation.State{}, conversation.Start{
		ID: m.Conversation(), Initiator: m.Sender(), Responder: m.Recipient(), Parent: parley.IDFromBytes[parley.ConversationID](m.Parent),
		Metadata: m.Metadata, MessageID: m.MessageID(), Owner: m.SenderOrg(), OtherOwner: m.RecipientOrg(),
	}, m.CreatedAt())
	if err != nil || len(events) != 1 {
		t.Fatal(events, err)
	}
	want, _ := encoding.Marshal(events[0])
	got, _ := encoding.Marshal(m.Started())
	if !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
	for what, change := range map[string]func(*record.Message){
		"a reply":                func(m *record.Message) { m.InReplyTo = m.Id },
		"another message":        func(m *record.Message) { m.Id[15] ^= 1 },
		"a message in a group's": func(m *record.Message) { m.Host = m.Id },
	} {
		m := firstMessage()
		if change(m); m.Starts() {
			t.Errorf("%s starts a conversation", what)
		}
	}
}

// TestUnmarshalAgain: a record that is used again is as one that is new, whatever it had.
func TestUnmarshalAgain(t *testing.T) {
	full := firstMessage()
	full.InReplyTo, full.Group, full.Host, full.Recipients, full.FirstSeat, full.Task = full.Id, full.To, full.From, 3, 4, true
	again := &record.Message{}
	for _, m := range []*record.Message{full, firstMessage(), {Id: full.Id, Type: "x"}, full} {
		stored, err := m.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		if err := again.UnmarshalAgain(append(stored, 0xF8, 0x3F, 1)); err != nil { // an unknown field
			t.Fatal(err)
		}
		if got, _ := again.MarshalVT(); !bytes.Equal(got, append(stored, 0xF8, 0x3F, 1)) {
			t.Errorf("got  %x\nwant %x", got, stored)
		}
	}
}

// TestHeaderIsTheMessageWithoutItsContent: decoding a header gives all fields but the
// content and the sender's own copy, and no other error than decoding the message.
func TestHeaderIsTheMessageWithoutItsContent(t *testing.T) {
	m := firstMessage()
	stored, err := m.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	var got record.Message
	if err := got.UnmarshalHeader(stored); err != nil {
		t.Fatal(err)
	}
	m.Content, m.SelfPayload = nil, ""
	want, _ := m.MarshalVT()
	have, _ := got.MarshalVT()
	if !bytes.Equal(have, want) {
		t.Errorf("got  %x\nwant %x", have, want)
	}
	for n := range stored {
		if part := stored[:n]; (new(record.Message).UnmarshalHeader(part) == nil) != (new(record.Message).UnmarshalVT(part) == nil) {
			t.Errorf("a record cut to %d bytes: header and message disagree", n)
		}
	}
}
