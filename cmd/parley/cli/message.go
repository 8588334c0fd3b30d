package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"parley/client"
	"parley/client/api"
	"parley/client/e2ee"
	"parley/client/parley"
	"parley/cmd/parley/program"
)

// openedMessage is a message as commands print it: the record from the server, and the
// result of opening it with the agent's keys.
type openedMessage struct {
	api.Message
	// Verified reports whether the payload opened and the sender's signature is valid.
	Verified bool `json:"verified"`
	// Payload is the opened payload if it is text, PayloadBase64 if it is not.
	Payload       *string `json:"payload"`
	PayloadBase64 *string `json:"payload_base64,omitzero"`
	// CleartextOverA2A is set for a message of an A2A client that is not sealed, and for an answer
	// to one. Payload is then its text.
	CleartextOverA2A bool `json:"cleartext_over_a2a,omitzero"`
	// OpenError says why there is no payload.
	OpenError *string `json:"open_error"`
	// FormerKey reports whether the sender has since replaced the key that signed.
	FormerKey bool `json:"former_key"`
	// PostQuantum reports whether the message is encrypted to a post-quantum key of its
	// recipient.
	PostQuantum bool `json:"post_quantum"`
	// RecipientUnbound is set in the output of a send if the recipient's keys have no
	// binding.
	RecipientUnbound bool `json:"recipient_unbound,omitzero"`
	// Replayed is set in the output of a send. It reports whether the message is the
	// stored one of an earlier send with the same key.
	Replayed *bool `json:"replayed,omitzero"`
	// KeyExchange is set for a message to the client itself. Its payload is a key and is
	// not printed.
	KeyExchange *string `json:"key_exchange,omitzero"`
	// notice is the service's own text in a message that is not sealed.
	notice string
}

// show opens the message with the agent's keys and verifies its sender. If the message
// cannot be opened, the result says so. If the sender's keys cannot be fetched, show
// returns an error, because that says nothing about the message.
func show(ctx context.Context, agent *e2ee.Agent, m api.Message) (*openedMessage, error) {
	var opened *e2ee.Opened
	var news *e2ee.KeyExchange
	var err error
	if agent.IsKeyExchange(m) {
		news, err = agent.HandleKeyExchange(ctx, m)
	} else {
		opened, err = agent.OpenMessage(ctx, m)
	}
	if code := program.ExitCode(err); err != nil && (code == program.ExitNetwork || code == program.ExitUnavailable || ctx.Err() != nil) {
		return nil, err
	}
	return showOpened(m, opened, news, err), nil
}

func showOpened(m api.Message, opened *e2ee.Opened, news *e2ee.KeyExchange, err error) *openedMessage {
	s := &openedMessage{Message: m, PostQuantum: e2ee.SealedHybrid(m)}
	if err != nil {
		if text, ok := cleartextOf(m); ok {
			s.CleartextOverA2A, s.Payload = true, &text
			return s
		}
		reason := err.Error()
		s.OpenError, s.notice = &reason, invitationNotice(m)
		return s
	}
	s.Verified = true
	if news != nil {
		s.FormerKey = news.FormerKey
		word := "a sender's key"
		if news.Kind != "sender_key_distribution" {
			word = "a request for a sender's key"
		}
		if !news.GroupID.Zero() {
			word += fmt.Sprintf(" of group %s, generation %d", news.GroupID, news.Generation)
		}
		s.KeyExchange = &word
		return s
	}
	s.FormerKey = opened.FormerKey
	if body := string(opened.Payload); utf8.ValidString(body) {
		s.Payload = &body
	} else {
		coded := base64.StdEncoding.EncodeToString(opened.Payload)
		s.PayloadBase64 = &coded
	}
	return s
}

// text formats the message as text: sender, recipient, time, whether the sender is
// verified, the payload, and the ids that other commands take. Of a payload, the lines
// after the first are indented more than any line of this program.
func (s *openedMessage) text() program.Printable {
	lines := program.Format("%s  %s -> %s  %s  %s  %s", program.Clock(s.CreatedAt), sender(s.Message), recipient(s.Message), s.Type, s.Status, s.verdict())
	switch {
	case s.notice != "":
		lines.Add("  %s", s.notice)
	case s.KeyExchange != nil:
		lines.Add("  (%s)", *s.KeyExchange)
	case s.Payload != nil:
		lines.Add("  %s", program.Paragraph(*s.Payload, "    "))
	case s.PayloadBase64 != nil:
		lines.Add("  (%s, %d characters of base64)", s.ContentType, len(*s.PayloadBase64))
	default:
		lines.Add("  (%s)", *s.OpenError)
	}
	lines.Add("  message %s  conversation %s", s.ID, s.ConversationID)
	return lines
}

// verdict says what the signature proves.
func (s *openedMessage) verdict() string {
	switch {
	case s.notice != "":
		return "by the service"
	case s.CleartextOverA2A:
		return "cleartext over A2A"
	case !s.Verified:
		return "NOT verified"
	}
	verdict := "verified"
	if s.FormerKey {
		verdict += ", former key"
	}
	if s.PostQuantum {
		verdict += ", post-quantum"
	}
	return verdict
}

// cleartextOf returns the text of a message that came over A2A without being sealed, or that
// answers one. Parts that are no text are shown as JSON.
func cleartextOf(m api.Message) (text string, ok bool) {
	parts, ok := client.A2ACleartext(m)
	lines := make([]string, len(parts))
	for i, part := range parts {
		if part.Text != nil {
			lines[i] = *part.Text
		} else if text, err := json.Marshal(part); err == nil {
			lines[i] = string(text)
		}
	}
	return strings.Join(lines, "\n"), ok
}

// invitationNotice returns the text of an invitation to a group. The service writes
// invitations itself, unsealed and in the name of the inviting agent. For a message of
// that type that anyone else sent, the text is empty.
func invitationNotice(m api.Message) string {
	var metadata struct {
		Provenance api.Provenance `json:"provenance"`
		Invite     *struct {
			GroupID     parley.GroupID `json:"group_id"`
			GroupHandle string         `json:"group_handle"`
			Status      string         `json:"status"`
			Message     *string        `json:"message"`
		} `json:"group_invite"`
	}
	if json.Unmarshal(m.Metadata, &metadata) != nil || metadata.Invite == nil || metadata.Provenance.Via != "system" {
		return ""
	}
	in := metadata.Invite
	word := "invited to"
	if in.Status == api.InvitePending {
		word = "nominated for"
	}
	said := ""
	if in.Message != nil {
		said = " “" + oneLine(in.Message) + "”"
	}
	return fmt.Sprintf("%s %s%s: %s", word, in.GroupHandle, said, program.Typed("group join "+in.GroupID.String()))
}

func sender(m api.Message) string {
	if m.SenderHandle != nil {
		return *m.SenderHandle
	}
	return m.FromAgentID.String()
}

func recipient(m api.Message) string {
	switch {
	case m.GroupHandle != nil:
		return *m.GroupHandle
	case m.RecipientHandle != nil:
		return *m.RecipientHandle
	}
	return m.ToAgentID.String()
}
