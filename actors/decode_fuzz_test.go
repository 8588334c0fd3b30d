package actors

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/encoding"
	"parley/actors/group"
	"parley/actors/issuer"
	"parley/actors/keylog"
	"parley/actors/operator"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/journal"
)

// checkDecoder compares the decoder, which may be generated, with the protobuf library, and decodes
// again what it encodes. It returns false if the decoder rejects the bytes. The
// generated decoder is stricter about fields of the wrong type, and accepts strings
// that are not UTF-8.
func checkDecoder(t *testing.T, b []byte, into, again, library proto.Message) bool {
	t.Helper()
	if encoding.Unmarshal(b, into) != nil {
		return false
	}
	written, err := encoding.Marshal(into)
	if err != nil || len(written) != proto.Size(into) {
		t.Fatalf("%v is encoded in %d bytes, %v", into, len(written), err)
	}
	if proto.Unmarshal(b, library) == nil {
		// Unknown fields are kept. The library keeps them under the shortest form of
		// the key.
		same := library.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(written, same); err != nil || !proto.Equal(same, library) {
			t.Fatalf("%x is decoded as %v and by the library as %v, %v", b, into, library, err)
		}
	}
	if err := encoding.Unmarshal(written, again); err != nil || !proto.Equal(into, again) {
		t.Fatalf("%x is decoded as %v, and after encoding as %v, %v", b, into, again, err)
	}
	return true
}

// decoderRules is an aggregate's rules without its types.
type decoderRules struct {
	name   string
	events byte // tags are 1 to this one
	event  func(t *testing.T, tag byte, b []byte)
	state  func(t *testing.T, b []byte)
}

// decoderRulesOf wraps the rules. zero returns an empty state, form an empty message of
// the type in which states are stored.
func decoderRulesOf[S rules.State, C any, E rules.Event](name string, events byte, r rules.Aggregate[S, C, E], zero func() S, form func() proto.Message) decoderRules {
	blank := func(tag byte) (E, proto.Message) {
		e, _ := r.New(tag)
		return e, any(e).(proto.Message)
	}
	return decoderRules{
		name: name, events: events,
		event: func(t *testing.T, tag byte, b []byte) {
			e, err := r.Decode(journal.StoredEvent{Tag: tag, Data: b})
			if known := 1 <= tag && tag <= events; !known {
				if err == nil {
					t.Fatalf("%s: an event of kind %d is decoded as %v", name, tag, e)
				}
				return
			}
			_, first := blank(tag)
			_, second := blank(tag)
			_, third := blank(tag)
			if sound := checkDecoder(t, b, first, second, third); sound != (err == nil) {
				t.Fatalf("%s: event %d %x: %v", name, tag, b, err)
			} else if !sound {
				return
			}
			// Applying an event cannot fail, whatever it contains, and the resulting
			// state can be stored and read again.
			s := zero()
			r.Evolve(s, e)
			r.Evolve(s, e)
			facts, err := r.Encode([]E{e})
			if err != nil || facts[0].Tag != tag {
				t.Fatalf("%s: %v is encoded as %v, %v", name, e, facts, err)
			}
			stored, err := encoding.Marshal(s)
			if err != nil || !checkDecoder(t, stored, form(), form(), form()) {
				t.Fatalf("%s: the state after %v does not survive its snapshot: %x, %v", name, e, stored, err)
			}
		},
		state: func(t *testing.T, b []byte) {
			sound := checkDecoder(t, b, form(), form(), form())
			if err := encoding.Unmarshal(b, zero()); sound != (err == nil) {
				t.Fatalf("%s: the state %x: %v", name, b, err)
			}
		},
	}
}

var laws = []decoderRules{
	decoderRulesOf("org", 19, rules.Org, blankOf[org.State], formOf[org.State]),
	decoderRulesOf("agent", 19, rules.Agent, blankOf[agent.State], formOf[agent.State]),
	decoderRulesOf("conversation", 4, rules.Conversation, blankOf[conversation.State], formOf[conversation.State]),
	decoderRulesOf("issuer", 1, rules.Issuer, blankOf[issuer.State], formOf[issuer.State]),
	decoderRulesOf("keylog", 1, rules.KeyLog, blankOf[keylog.State], formOf[keylog.State]),
	decoderRulesOf("operator", 6, rules.Operator, blankOf[operator.State], formOf[operator.State]),
	decoderRulesOf("group", 15, rules.Group, blankOf[group.State], formOf[group.Snapshot]),
	decoderRulesOf("webhook", 14, rules.Webhook, blankOf[webhook.State], formOf[webhook.State]),
}

func blankOf[T any]() *T { return new(T) }

func formOf[T any, P interface {
	*T
	proto.Message
}]() proto.Message {
	return P(new(T))
}

// nasty lists hostile encodings: empty, unknown fields, fields of the wrong type,
// lengths beyond the end, endless numbers, groups, field zero.
var nasty = []string{
	"", "\x00", "\x08", "\x08\x01", "\x0a\x10iiiiiiiiiiiiiiii", "\x0a\x10short", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "\x0a\xff\xff\xff\xff\x0f",
	"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x0b\x0c", "\x0b", "\x0c", "\x0d\x01\x02\x03\x04", "\x09\x01\x02\x03\x04\x05\x06\x07\x08",
	"\xfa\xff\xff\xff\x0f\x00", "\x12\x02\xff\xfe", "\x1a\x04\x0a\x02\x08\x01", "\x1a\x03\x0a\x01", "\x20\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
}

// FuzzEvent: any bytes stored under a stream's kind and an event's tag are decoded as
// by the protobuf library, or rejected with an error.
func FuzzEvent(f *testing.F) {
	for kind, l := range laws {
		for tag := range l.events + 2 {
			for _, b := range nasty {
				f.Add(byte(kind), tag, []byte(b))
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind, tag byte, b []byte) { laws[int(kind)%len(laws)].event(t, tag, b) })
}

// FuzzState is FuzzEvent for stored states.
func FuzzState(f *testing.F) {
	for kind := range laws {
		for _, b := range nasty {
			f.Add(byte(kind), []byte(b))
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, b []byte) { laws[int(kind)%len(laws)].state(t, b) })
}

// FuzzRecord is FuzzEvent for stored messages. Their ids have the right length or are
// absent.
func FuzzRecord(f *testing.F) {
	whole := &record.Message{
		Id: make([]byte, 16), ConversationId: make([]byte, 16), From: make([]byte, 16), To: make([]byte, 16), FromOrg: make([]byte, 16), ToOrg: make([]byte, 16),
		Type: "a.b.c", InReplyTo: make([]byte, 16), Content: []byte(`"type":"a.b.c"`), SelfPayload: "QQ",
	}
	b, err := whole.MarshalVT()
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range append([]string{string(b), string(b[:len(b)-1]), string(b) + "\x0a\x00"}, nasty...) {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &record.Message{}
		if !checkDecoder(t, b, r, &record.Message{}, &record.Message{}) {
			return
		}
		if len(r.Id) != 16 && !r.MessageID().Zero() || len(r.To) != 16 && !r.Recipient().Zero() || len(r.FromOrg) != 16 && !r.SenderOrg().Zero() {
			t.Fatalf("%x: ids %s %s %s", b, r.MessageID(), r.Recipient(), r.SenderOrg())
		}
		_ = r.CreatedAt()
	})
}

// FuzzCard is FuzzEvent for stored cards.
func FuzzCard(f *testing.F) {
	b, err := fullCard("card").MarshalVT()
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range append([]string{string(b), string(b[:len(b)-1]), string(b) + "\xca\x06\x00"}, nasty...) {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkDecoder(t, b, &record.Card{}, &record.Card{}, &record.Card{}) })
}
