package http

import (
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"parley"
	"parley/actors/record"
	"parley/http/api"
)

// The content of a message is what its sender sent, and what the server vouched for when
// it accepted the message. It never changes and is the same for every recipient. It is
// stored without the names of its members and without the ids and the type, which the
// record has:
//
//	form     1 byte, see contentForm
//	instant  8 bytes, Unix microseconds of the provenance
//	fields   in the order of contentField, each with its length before it (uvarint)
//
// All fields but the payload are JSON values, so that reading a message copies them and
// escapes nothing. A payload in canonical base64url is stored decoded.

// contentForm is the first byte of a stored content: a version in the upper half, and in
// the lower half how the payload is stored.
type contentForm byte

const (
	contentVersion contentForm = 1 << 4

	payloadAsText   contentForm = 0
	payloadDecoded  contentForm = 1
	payloadUnpadded contentForm = 2 // decoded, from a text without padding
	payloadMask     contentForm = 0xF
)

// contentField is the number of a field.
type contentField int

const (
	payloadField contentField = iota
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
	contentFields
)

// contentHead is the size of a stored content before its fields.
const contentHead = 1 + 8

var (
	payloadEncodings = map[contentForm]*base64.Encoding{
		payloadDecoded: base64.URLEncoding.Strict(), payloadUnpadded: base64.RawURLEncoding.Strict(),
	}
	payloadForms = []contentForm{payloadUnpadded, payloadDecoded}
)

// encodeContent appends the stored form of an envelope's content.
func encodeContent(b []byte, e *envelope) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint64(append(b, 0), uint64(e.at.UnixMicro()))
	b, form := appendPayload(b, e.Payload)
	b[start] = byte(contentVersion | form)
	field := func(value []byte) { b = append(binary.AppendUvarint(b, uint64(len(value))), value...) }
	var room [256]byte // most values fit
	text := func(s string) { field(appendText(room[:0], s)) }
	optional := func(s *string) { field(appendOptional(room[:0], s)) }
	text(e.Version)
	optional(e.SigningKid)
	field(appendMembers(room[:0], e.Metadata, "provenance"))
	text(e.ContentType)
	optional(e.Schema)
	if len(e.Attestations) == 0 {
		field([]byte(`null`))
	} else {
		field(e.Attestations)
	}
	text(e.senderHandle)
	if e.group.Zero() {
		text(e.recipientHandle)
	} else {
		text(e.groupHandle)
	}
	text(e.server)
	text(e.slug)
	field(strconv.AppendInt(room[:0], int64(e.tier), 10))
	field(appendBool(room[:0], e.oversight))
	text(e.via)
	return b
}

// appendPayload appends the payload as a field: decoded if encoding it again gives the
// same text.
func appendPayload(b []byte, text string) ([]byte, contentForm) {
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

// encodedBound estimates the bytes that the stored form takes, without escapes.
func (e *envelope) encodedBound() int {
	const frame = 2 << 10 // names, handles, provenance
	return frame + len(e.Payload) + len(e.Metadata) + len(e.Attestations)
}

// storedContent is a decoded content. It refers to the stored bytes.
type storedContent struct {
	payload contentForm
	at      time.Time
	fields  [contentFields][]byte
}

// decodeContent reads what encodeContent wrote; false for anything else.
func decodeContent(b []byte) (c storedContent, ok bool) {
	if len(b) < contentHead {
		return c, false
	}
	c.payload = contentForm(b[0]) & payloadMask
	if contentForm(b[0])&^payloadMask != contentVersion || c.payload > payloadUnpadded {
		return storedContent{}, false
	}
	c.at = time.UnixMicro(int64(binary.BigEndian.Uint64(b[1:])))
	b = b[contentHead:]
	for i := range c.fields {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return storedContent{}, false
		}
		c.fields[i], b = b[size:size+int(n)], b[size+int(n):]
	}
	if len(b) != 0 {
		return storedContent{}, false
	}
	return c, true
}

// contentFrame is what the names of the members, the ids and the instant take in a
// message to one agent. In a broadcast they take less.
const contentFrame = 496

// size returns an upper bound of the bytes that the content takes in a message of a
// type.
func (c *storedContent) size(messageType string) int {
	n := contentFrame + len(messageType)
	for i, value := range c.fields {
		if contentField(i) != payloadField {
			n += len(value)
		}
	}
	if encoding, ok := payloadEncodings[c.payload]; ok {
		return n + encoding.EncodedLen(len(c.fields[payloadField]))
	}
	return n + len(c.fields[payloadField])
}

// contentSize returns an upper bound of the bytes that appendContent appends.
func contentSize(r *record.Message) int {
	if isRendered(r.GetContent()) {
		return len(r.GetContent())
	}
	c, _ := decodeContent(r.GetContent())
	return c.size(r.GetType())
}

// RenderContent returns the members of a message that are the same for every recipient.
// A record that has them in place of its content is rendered faster.
func RenderContent(r *record.Message) []byte {
	b, _ := appendContent(make([]byte, 0, contentSize(r)), r)
	return b
}

// isRendered reports whether a content is what RenderContent returned: no stored content
// begins with that byte.
func isRendered(content []byte) bool { return len(content) > 0 && content[0] == '"' }

// appendContent appends what RenderContent returns. ok is false if the content cannot be
// decoded: then its members are empty.
func appendContent(b []byte, r *record.Message) (out []byte, ok bool) {
	if isRendered(r.GetContent()) {
		return append(b, r.GetContent()...), true
	}
	c, ok := decodeContent(r.GetContent())
	group := r.GroupID()
	b = appendID(append(b, `"from_agent_id":`...), parley.AnyID(r.Sender()))
	if group.Zero() {
		b = appendID(append(b, `,"to_agent_id":`...), parley.AnyID(r.Recipient()))
	}
	b = appendText(append(b, `,"type":`...), r.GetType())
	b = append(b, `,"encrypted_payload":"`...)
	if encoding, ok := payloadEncodings[c.payload]; ok {
		b = encoding.AppendEncode(b, c.fields[payloadField])
	} else {
		b = append(b, c.fields[payloadField]...) // its alphabet needs no escapes
	}
	member := func(name string, field contentField) {
		if b = append(b, name...); ok {
			b = append(b, c.fields[field]...)
			return
		}
		b = append(b, `null`...)
	}
	member(`","encryption_version":`, versionField)
	member(`,"sender_signing_kid":`, signingKidField)
	b = append(append(b, `,"metadata":{`...), c.fields[metadataField]...)
	member(`"provenance":{"server":`, serverField)
	b = appendTime(append(b, `,"received_at":`...), c.at)
	b = appendID(append(b, `,"org_id":`...), parley.AnyID(r.SenderOrg()))
	member(`,"org_slug":`, slugField)
	member(`,"trust_tier":`, tierField)
	member(`,"human_oversight":`, oversightField)
	member(`,"via":`, viaField)
	member(`}},"content_type":`, contentTypeField)
	member(`,"payload_schema":`, schemaField)
	member(`,"sender_attestations":`, attestationsField)
	member(`,"sender_handle":`, senderHandleField)
	if group.Zero() {
		member(`,"recipient_handle":`, toHandleField)
		return append(b, `,"group_id":null,"group_handle":null`...), ok
	}
	b = appendID(append(b, `,"group_id":`...), parley.AnyID(group))
	member(`,"group_handle":`, toHandleField)
	return b, ok
}

// appendMembers appends an object's members, each followed by a comma, except the one
// named without. The object is valid and compact, as the binder leaves it.
func appendMembers(b []byte, object api.Object, without string) []byte {
	if len(object) <= 2 {
		return b
	}
	for rest := object[1 : len(object)-1]; len(rest) > 0; {
		name := valueEnd(rest)
		value := name + 1 + valueEnd(rest[name+1:])
		if plain, err := jsontext.AppendUnquote(nil, rest[:name]); err != nil || string(plain) != without {
			b = append(append(b, rest[:value]...), ',')
		}
		if value == len(rest) {
			break
		}
		rest = rest[value+1:]
	}
	return b
}

// valueEnd returns the end of the compact JSON value at the beginning of b.
func valueEnd(b []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch x := b[i]; {
		case quoted && x == '\\':
			i++
		case x == '"':
			quoted = !quoted
			if !quoted && depth == 0 {
				return i + 1
			}
		case quoted:
		case x == '{' || x == '[':
			depth++
		case x == '}' || x == ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case depth == 0 && (x == ',' || x == ':'):
			return i
		}
	}
	return len(b)
}
