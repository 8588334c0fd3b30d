package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"parley/client"
	"parley/client/api"
	"parley/client/e2ee"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

// payloadFlags are the flags that send and reply share.
type payloadFlags struct {
	Type        string `placeholder:"TYPE" help:"Message type of three segments or more; default: the server's own type for a direct message."`
	ContentType string `default:"text/plain; charset=utf-8" help:"Media type of the text."`
	Metadata    string `placeholder:"JSON" help:"JSON object sent with the encrypted text; the server can read it."`
	Key         string `name:"idempotency-key" placeholder:"KEY" help:"A repeated send with the same key takes effect once; default: a random key."`
}

func (f *payloadFlags) messageType(c *client.Session) string {
	if f.Type != "" {
		return f.Type
	}
	return c.MessageType("dm")
}

func (f *payloadFlags) metadata() (api.Object, error) {
	var object api.Object
	if f.Metadata == "" {
		return nil, nil
	}
	if err := object.UnmarshalJSON([]byte(f.Metadata)); err != nil || !jsonValid(f.Metadata) {
		return nil, program.ExitError{Code: program.ExitUsage, Err: errors.New("--metadata is not a JSON object")}
	}
	return object, nil
}

// jsonValid reports whether text is one JSON value.
func jsonValid(text string) bool { return jsontext.Value(text).IsValid() }

type SendCmd struct {
	profile.SealingFlags
	payloadFlags
	To     string                 `arg:"" help:"Recipient: handle or id; a bare name is an agent of the organization."`
	Text   string                 `arg:"" optional:"" help:"Text to encrypt; omitted or -: standard input."`
	Wait   time.Duration          `placeholder:"DURATION" help:"Wait this long, 1s to 5m, for the reply."`
	Parent *parley.ConversationID `placeholder:"ID" help:"Start a sub-conversation of this one."`
}

func (c *SendCmd) Run(ctx context.Context, std *program.Streams) error {
	if c.Wait != 0 && (c.Wait < parley.SyncTimeoutMin || c.Wait > parley.SyncTimeoutMax) {
		return program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("--wait: %v is not between %v and %v", c.Wait, parley.SyncTimeoutMin, parley.SyncTimeoutMax)}
	}
	metadata, err := c.metadata()
	if err != nil {
		return err
	}
	body, err := std.Payload(c.Text)
	if err != nil {
		return err
	}
	agent, err := c.Session(ctx)
	if err != nil {
		return err
	}
	to, err := sendTarget(ctx, agent.Client, c.To)
	if err != nil {
		return err
	}
	change := func(in *api.Send) {
		in.ContentType, in.Metadata, in.IdempotencyKey, in.ParentConversationID = c.ContentType, metadata, c.Key, c.Parent
	}
	if c.Wait != 0 {
		result, err := agent.SyncSealed(ctx, to, body, c.messageType(agent.Client), c.Wait, change)
		if err != nil {
			return err
		}
		return c.showResult(ctx, std, agent, result)
	}
	sent, err := agent.SendSealed(ctx, to, body, c.messageType(agent.Client), change)
	if err != nil {
		return err
	}
	return showSent(ctx, std, agent, sent)
}

// sendTarget returns the recipient of a message to one agent. It returns a handle or an
// id unchanged, and resolves a bare name to the id of the organization's agent of that
// name.
func sendTarget(ctx context.Context, from *client.Session, to string) (string, error) {
	if strings.HasPrefix(to, "#") {
		return "", program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%s is a group: send to it with \"%s\"", to, program.Typed("group send '"+to+"' TEXT"))}
	}
	if _, err := parley.ParseID[parley.AgentID](to); err == nil || strings.Contains(to, "@") {
		return to, nil
	}
	own, err := profile.FindAgent(ctx, from, to)
	if err != nil {
		return "", fmt.Errorf("%w. Name an agent of another organization by its handle, such as %s@ORGANIZATION.DOMAIN", err, to)
	}
	return own.ID.String(), nil
}

// syncResult is the answer of a sync with both messages opened.
type syncResult struct {
	Message *openedMessage `json:"message"`
	Reply   *openedMessage `json:"reply"`
	Status  string         `json:"status"`
	// ConversationStatus says how the conversation ended if there was no reply.
	ConversationStatus *string `json:"conversation_status,omitzero"`
}

func (c *SendCmd) showResult(ctx context.Context, std *program.Streams, agent *e2ee.Agent, result *api.SyncResult) error {
	message, err := show(ctx, agent, result.Message)
	if err != nil {
		return err
	}
	message.RecipientUnbound = len(unbound(agent, result.Message.ToAgentID)) > 0
	if !std.JSON {
		noteUnbound(std, agent, result.Message.ToAgentID)
	}
	out := syncResult{Message: message, Status: result.Status, ConversationStatus: result.ConversationStatus}
	if result.Reply != nil {
		if out.Reply, err = show(ctx, agent, *result.Reply); err != nil {
			return err
		}
	}
	switch {
	case std.JSON:
		err = std.Value(out)
	case out.Reply != nil:
		return std.Say("%s", out.Reply.text())
	case result.ConversationStatus != nil:
		return std.Say("no reply: the conversation is %s\n  message %s  conversation %s", *result.ConversationStatus, result.Message.ID, result.ConversationID)
	default:
		err = std.Say("sent to %s\n  message %s  conversation %s", recipient(result.Message), result.Message.ID, result.ConversationID)
	}
	if err == nil && result.Reply == nil && result.ConversationStatus == nil {
		err = program.ExitError{Code: program.ExitTimeout, Err: fmt.Errorf("no reply within %v; the message was sent, and a later reply will be in the inbox", c.Wait)}
	}
	return err
}

// showOwn opens the sender's own copy of a sent message.
func showOwn(ctx context.Context, agent *e2ee.Agent, sent *client.SentMessage) (*openedMessage, error) {
	s, err := show(ctx, agent, sent.Message)
	if err == nil {
		s.Replayed = &sent.Replayed
		s.RecipientUnbound = sent.GroupID == nil && len(unbound(agent, sent.ToAgentID)) > 0
	}
	return s, err
}

func showSent(ctx context.Context, std *program.Streams, agent *e2ee.Agent, sent *client.SentMessage) error {
	if std.JSON {
		s, err := showOwn(ctx, agent, sent)
		if err != nil {
			return err
		}
		return std.Value(s)
	}
	noteUnbound(std, agent, sent.ToAgentID)
	word := "sent"
	if sent.Replayed {
		word = "sent before, under this key,"
	}
	return std.Say("%s to %s\n  message %s  conversation %s", word, recipient(sent.Message), sent.ID, sent.ConversationID)
}

type ReplyCmd struct {
	profile.SealingFlags
	payloadFlags
	Message parley.MessageID `arg:"" help:"Id of the message to reply to."`
	Text    string           `arg:"" optional:"" help:"Text to encrypt; omitted or -: standard input."`
}

// Run replies as the agent that received the message or, if the profile does not have its
// keys, as the agent that sent it.
func (c *ReplyCmd) Run(ctx context.Context, std *program.Streams) error {
	metadata, err := c.metadata()
	if err != nil {
		return err
	}
	body, err := std.Payload(c.Text)
	if err != nil {
		return err
	}
	from, err := c.ProvideSession()
	if err != nil {
		return err
	}
	original, err := from.Messages.Get(ctx, api.GetMessage{ID: c.Message, ActingAgent: ""})
	if err != nil {
		return err
	}
	agent, err := c.Session(ctx, original.ToAgentID, original.FromAgentID)
	if err != nil {
		return err
	}
	sent, err := agent.ReplySealed(ctx, *original, body, c.messageType(agent.Client), func(in *api.Reply) {
		in.ContentType, in.Metadata, in.IdempotencyKey = c.ContentType, metadata, c.Key
	})
	if err != nil {
		return err
	}
	return showSent(ctx, std, agent, sent)
}
