// Package content holds the stored form of what a message carries, and its rendering.
//
// The content of a message is what its sender sent, and what the server vouched for when
// it accepted the message. It never changes and is the same for every recipient. It is
// stored without the names of its members and without the ids and the type, which the
// record has:
//
//	form     1 byte, see payloadForm
//	instant  8 bytes, Unix microseconds of the provenance
//	fields   in the order of fieldNumber, each with its length before it (uvarint)
//
// A message of an A2A task has one more field, see Envelope.Task.
//
// All fields but the payload are JSON values, so that reading a message copies them and
// escapes nothing. A payload in canonical base64url is stored decoded.
package content

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"parley/actors/record"
	"parley/client/api"
	"parley/client/parley"
)

// payloadForm is the first byte of a stored content: a version in the upper half, and in
// the lower half how the payload is stored.
type payloadForm byte

const (
	formVersion payloadForm = 1 << 4

	payloadAsText   payloadForm = 0
	payloadDecoded  payloadForm = 1
	payloadUnpadded payloadForm = 2 // decoded, from a text without padding
	payloadMask     payloadForm = 0xF
)

// fieldNumber is the number of a field.
type fieldNumber int

const (
	payloadField fieldNumber = iota
	versionField
	signingKidField
	// metadataField has the members of the sender's metadata, each followed by a comma.
	metadataField
	contentTypeField
	schemaField
	attestationsField
	senderHandleField
	// toHandleField is the handle of the recipient, or of the group.
	toHandleField
	serverField
	slugField
	tierField
	oversightField
	viaField
	fieldCount
)

// headBytes is the size of a stored content before its fields.
const headBytes = 1 + 8

var (
	payloadEncodings = map[payloadForm]*base64.Encoding{
		payloadDecoded: base64.URLEncoding.Strict(), payloadUnpadded: base64.RawURLEncoding.Strict(),
	}
	payloadForms = []payloadForm{payloadUnpadded, payloadDecoded}
)

// Encode appends the stored form of an envelope's content.
func Encode(b []byte, e *Envelope) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint64(append(b, 0), uint64(e.At.UnixMicro()))
	b, form := appendPayload(b, e.Payload)
	b[start] = byte(formVersion | form)
	field := func(value []byte) { b = append(binary.AppendUvarint(b, uint64(len(value))), value...) }
	var room [256]byte // most values fit
	text := func(s string) { field(AppendText(room[:0], s)) }
	optional := func(s *string) { field(AppendOptional(room[:0], s)) }
	text(e.Version)
	optional(e.SigningKid)
	field(appendMembers(room[:0], e.Metadata))
	text(e.ContentType)
	optional(e.Schema)
	if len(e.Attestations) == 0 {
		field([]byte(`null`))
	} else {
		field(e.Attestations)
	}
	text(e.SenderHandle)
	text(e.RecipientHandle)
	text(e.Server)
	text(e.Slug)
	field(strconv.AppendInt(room[:0], int64(e.Tier), 10))
	field(AppendBool(room[:0], e.Oversight))
	text(e.Via)
	if len(e.Task) > 0 {
		field(e.Task)
	}
	return b
}

// appendPayload appends the payload as a field: decoded if encoding it again gives the
// same text.
func appendPayload(b []byte, text string) ([]byte, payloadForm) {
	for _, form := range payloadForms {
		encoding := payloadEncodings[form]
		size := encoding.DecodedLen(len(text))
		if form == payloadDecoded {
			for i := len(text) - 1; i >= 0 && text[i] == '='; i-- {
				size--
			}
		}
		if size < 0 || encoding.EncodedLen(size) != len(text) {
			continue
		}
		start := len(b)
		out, err := encoding.AppendDecode(binary.AppendUvarint(b, uint64(size)), []byte(text))
		if err == nil && len(out)-start == uvarintLen(uint64(size))+size {
			return out, form
		}
		b = b[:start]
	}
	b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	return b, payloadAsText
}

func uvarintLen(n uint64) int { return (max(bits.Len64(n), 1) + 6) / 7 }

// EncodedBound estimates the bytes that the stored form takes, without escapes.
func (e *Envelope) EncodedBound() int {
	const frame = 2 << 10 // names, handles, provenance
	return frame + len(e.Payload) + len(e.Metadata) + len(e.Attestations) + len(e.Task)
}

// Stored is a decoded content. It refers to the stored bytes.
type Stored struct {
	payload payloadForm
	at      time.Time
	fields  [fieldCount][]byte
	task    []byte
}

// Decode reads what Encode wrote; false for anything else.
func Decode(b []byte) (c Stored, ok bool) {
	if len(b) < headBytes {
		return c, false
	}
	c.payload = payloadForm(b[0]) & payloadMask
	if payloadForm(b[0])&^payloadMask != formVersion || c.payload > payloadUnpadded {
		return Stored{}, false
	}
	c.at = time.UnixMicro(int64(binary.BigEndian.Uint64(b[1:])))
	b = b[headBytes:]
	for i := range c.fields {
		if c.fields[i], b, ok = cutField(b); !ok {
			return Stored{}, false
		}
	}
	if len(b) > 0 {
		if c.task, b, ok = cutField(b); !ok || len(b) > 0 || len(c.task) == 0 {
			return Stored{}, false
		}
	}
	return c, true
}

// Payload returns the payload as it was sent.
func (c *Stored) Payload() string {
	if encoding, ok := payloadEncodings[c.payload]; ok {
		return encoding.EncodeToString(c.fields[payloadField])
	}
	return string(c.fields[payloadField])
}

// Version returns the encryption version of the payload.
func (c *Stored) Version() string { return unquoted(c.fields[versionField]) }

// SigningKid returns the key id that the sender claims, nil for none.
func (c *Stored) SigningKid() *string {
	if string(c.fields[signingKidField]) == "null" {
		return nil
	}
	return new(unquoted(c.fields[signingKidField]))
}

// Task reports whether the message came over A2A.
func (c *Stored) Task() bool { return len(c.task) > 0 }

// Metadata returns the sender's metadata, and a2a if the message came over A2A, as an object.
// Its a2a has no ids of task and context.
func (c *Stored) Metadata() []byte {
	b := append([]byte{'{'}, c.fields[metadataField]...)
	if c.Task() {
		b = append(append(append(b, `"a2a":{`...), c.task...), "},"...)
	}
	return append(bytes.TrimSuffix(b, []byte{','}), '}')
}

func unquoted(text []byte) string {
	plain, _ := jsontext.AppendUnquote(nil, text) // it was quoted when it was stored
	return string(plain)
}

// cutField returns the first field of b and what follows it.
func cutField(b []byte) (value, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	return b[size : size+int(n)], b[size+int(n):], true
}

// frameBytes is what the names of the members, the ids and the instant take in a
// message to one agent. In a broadcast they take less.
const frameBytes = 514

// size returns an upper bound of the bytes that the content takes in a message of a
// type.
func (c *Stored) size(messageType string) int {
	n := frameBytes + len(messageType)
	if len(c.task) > 0 {
		n += taskFrameBytes + len(c.task)
	}
	for i, value := range c.fields {
		if fieldNumber(i) != payloadField {
			n += len(value)
		}
	}
	if encoding, ok := payloadEncodings[c.payload]; ok {
		return n + encoding.EncodedLen(len(c.fields[payloadField]))
	}
	return n + len(c.fields[payloadField])
}

// Size returns an upper bound of the bytes that Append appends.
func Size(r *record.Message) int {
	if isRendered(r.GetContent()) {
		return len(r.GetContent())
	}
	c, _ := Decode(r.GetContent())
	return c.size(r.GetType())
}

// Render returns the members of a message that are the same for every recipient.
// A record that has them in place of its content is rendered faster.
func Render(r *record.Message) []byte {
	b, _ := Append(make([]byte, 0, Size(r)), r)
	return b
}

// isRendered reports whether a content is what Render returned: no stored content
// begins with that byte.
func isRendered(content []byte) bool { return len(content) > 0 && content[0] == '"' }

// Append appends what Render returns. ok is false if the content cannot be
// decoded: then its members are empty.
func Append(b []byte, r *record.Message) (out []byte, ok bool) {
	if isRendered(r.GetContent()) {
		return append(b, r.GetContent()...), true
	}
	c, ok := Decode(r.GetContent())
	group := r.GroupID()
	b = AppendID(append(b, `"from_agent_id":`...), parley.AnyID(r.Sender()))
	if group.Zero() {
		b = AppendID(append(b, `,"to_agent_id":`...), parley.AnyID(r.Recipient()))
	}
	b = AppendText(append(b, `,"type":`...), r.GetType())
	b = append(b, `,"encrypted_payload":"`...)
	if encoding, ok := payloadEncodings[c.payload]; ok {
		b = encoding.AppendEncode(b, c.fields[payloadField])
	} else {
		b = append(b, c.fields[payloadField]...) // its alphabet needs no escapes
	}
	member := func(name string, number fieldNumber) {
		if b = append(b, name...); ok {
			b = append(b, c.fields[number]...)
			return
		}
		b = append(b, `null`...)
	}
	member(`","encryption_version":`, versionField)
	member(`,"sender_signing_kid":`, signingKidField)
	b = append(append(b, `,"metadata":{`...), c.fields[metadataField]...)
	b = c.appendTask(b, r.Conversation())
	member(`"provenance":{"server":`, serverField)
	b = AppendTime(append(b, `,"received_at":`...), c.at)
	b = AppendID(append(b, `,"org_id":`...), parley.AnyID(r.SenderOrg()))
	member(`,"org_slug":`, slugField)
	member(`,"trust_tier":`, tierField)
	member(`,"human_oversight":`, oversightField)
	member(`,"via":`, viaField)
	if turn := r.Ordinal(); turn > 0 {
		b = AppendInt(append(b, `,"turn":`...), turn)
	}
	member(`}},"content_type":`, contentTypeField)
	member(`,"payload_schema":`, schemaField)
	member(`,"sender_attestations":`, attestationsField)
	member(`,"sender_handle":`, senderHandleField)
	if group.Zero() {
		member(`,"recipient_handle":`, toHandleField)
		return append(b, `,"group_id":null,"group_handle":null`...), ok
	}
	b = AppendID(append(b, `,"group_id":`...), parley.AnyID(group))
	member(`,"group_handle":`, toHandleField)
	return b, ok
}

// taskFrameBytes is what appendTask adds to the stored members.
const taskFrameBytes = 112

// appendTask appends the member a2a of a message's metadata, if it came over A2A.
func (c *Stored) appendTask(b []byte, in parley.ConversationID) []byte {
	if len(c.task) == 0 {
		return b
	}
	b = AppendID(append(b, `"a2a":{"task_id":`...), parley.AnyID(in))
	if b = append(b, ','); !bytes.HasPrefix(c.task, []byte(`"context_id":`)) {
		b = append(AppendID(append(b, `"context_id":`...), parley.AnyID(in)), ',')
	}
	return append(append(b, c.task...), "},"...)
}

// appendMembers appends an object's members and a comma. The object is valid and compact, and has
// none of those that the server writes, as the binder leaves it.
func appendMembers(b []byte, object api.Object) []byte {
	if len(object) <= 2 {
		return b
	}
	return append(append(b, object[1:len(object)-1]...), ',')
}

// Envelope is what a message carries when it is sent, from which its content is encoded.
type Envelope struct {
	Type         string
	Payload      string
	Version      string
	SigningKid   *string
	Metadata     api.Object
	ContentType  string
	Schema       *string
	Attestations api.Array
	SenderHandle string
	// RecipientHandle is the handle of the recipient, or of the group.
	RecipientHandle string
	// Task is set for a message that came over A2A. It has the members of metadata.a2a that
	// are known before the message is stored, without braces. context_id comes first, or is
	// absent if it is the conversation that the message starts.
	Task []byte
	Origin
}

// Origin is the sender of a message, as the server vouches for it.
type Origin struct {
	// Server is the server's domain.
	Server string
	At     time.Time
	// Slug and Tier are those of the sender's organization.
	Slug      string
	Tier      int
	Oversight bool
	// Via is how the message was sent.
	Via string
}
