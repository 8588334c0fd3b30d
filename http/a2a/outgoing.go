package a2a

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"parley/actors"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/rest"
	"parley/http/submission"
)

// outgoing is a message of a client on its way to the agent.
type outgoing struct {
	text   *Message
	parts  jsontext.Value
	sealed *sealedPart
	// unsupported is the refusal of the content, unless the message is a repeat; nil if the agent
	// takes it.
	unsupported *rpcError
}

// errUnsupported stands for the refusal of a content where nothing is known of errors of A2A.
var errUnsupported = parley.Refuse(parley.Forbidden, "content_type_not_supported", "The agent does not accept the content.")

// task returns what is stored with the message, which belongs to a context.
func (m *outgoing) task(in string) *submission.Task {
	t := &submission.Task{Members: m.members(in)}
	if m.unsupported != nil {
		t.Refusal = errUnsupported
	}
	return t
}

// failed returns why the message was not stored, or was stored before with other parts.
func (m *outgoing) failed(b *Bridge, p actors.Posted, err error) error {
	switch {
	case errors.Is(err, errUnsupported):
		return m.unsupported
	case err != nil, !p.Repeated || m.sealed != nil:
		return err
	case !bytes.Equal(b.decode(p.Message.GetContent()).parts, m.parts):
		return errReused
	}
	return nil
}

// payload returns the payload of a message and its encryption version.
func (m *outgoing) payload() (payload, version string, kid *string) {
	if m.sealed != nil {
		return m.sealed.Payload, m.sealed.Version, m.sealed.SigningKid
	}
	return base64.RawURLEncoding.EncodeToString(m.parts), api.HPKEv1, nil
}

// members returns the members of metadata.a2a, without task_id. in is the context, "" if it
// is the conversation that the message begins.
func (m *outgoing) members(in string) []byte {
	var b []byte
	if in != "" {
		b = append(quote(append(b, `"context_id":`...), in), ',')
	}
	b = quote(append(b, `"message_id":`...), m.text.MessageID)
	if m.sealed != nil {
		return b
	}
	if len(m.parts) <= inlineBytesMax {
		b = append(append(b, `,"parts":`...), m.parts...)
	}
	return append(b, `,"cleartext":true`...)
}

func quote(b []byte, text string) []byte {
	b, _ = jsontext.AppendQuote(b, text) // it was a JSON string
	return b
}

// key is the idempotency key of a client's message to the addressed agent.
func (m *outgoing) key(to parley.AgentID) string {
	sum := sha256.Sum256(append(to.Bytes(), m.text.MessageID...))
	return "a2a:" + hex.EncodeToString(sum[:16])
}

// metadata returns the metadata that the message has besides what the server writes.
func (m *outgoing) metadata() (api.Object, error) {
	given := m.text.Metadata
	if len(given) == 0 || given.Kind() == 'n' {
		return nil, nil
	}
	given = given.Clone()
	err := given.Format() // which resolves escapes in names
	if given = rest.WithoutMembers(given, "provenance", "group_invite", "a2a"); err != nil || len(given) > parley.MetadataBytesMax {
		return nil, invalid("message.metadata", fmt.Sprintf("takes more than %d bytes of JSON", parley.MetadataBytesMax))
	}
	return api.Object(given), nil
}
