package a2a

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"parley/actors/conversation"
	"parley/actors/delivery"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/http/egress"
)

// pushParams are the parameters of CreateTaskPushNotificationConfig, and the configuration
// that a message brings. A2A 0.3 nested the configuration.
type pushParams struct {
	ID             string      `json:"id"`
	TaskID         string      `json:"taskId"`
	URL            string      `json:"url"`
	Token          string      `json:"token"`
	Authentication *pushAuth   `json:"authentication"`
	Nested         *pushParams `json:"pushNotificationConfig"`

	target string
}

// pushAuth is how the target knows the sender. A2A 0.3 had a list of schemes.
type pushAuth struct {
	Scheme      string   `json:"scheme"`
	Credentials string   `json:"credentials,omitzero"`
	Schemes     []string `json:"schemes,omitzero"`
}

// PushConfig is a push notification configuration of a task.
type PushConfig struct {
	ID             string    `json:"id"`
	TaskID         string    `json:"taskId"`
	URL            string    `json:"url"`
	Token          string    `json:"token,omitzero"`
	Authentication *pushAuth `json:"authentication,omitzero"`
}

const (
	// pushValueMax bounds tokens and credentials, in bytes.
	pushValueMax = 4096
	// schemeMax bounds the name of an authentication scheme, in bytes.
	schemeMax = 64
)

// readPush checks a configuration and its target.
func (b *Bridge) readPush(c *call, in *pushParams) (*pushParams, error) {
	if in.Nested != nil {
		inner := *in.Nested
		if inner.TaskID == "" {
			inner.TaskID = in.TaskID
		}
		if inner.ID == "" {
			inner.ID = in.ID
		}
		in = &inner
	}
	if a := in.Authentication; a != nil && a.Scheme == "" && len(a.Schemes) > 0 {
		in.Authentication = &pushAuth{Scheme: a.Schemes[0], Credentials: a.Credentials}
	}
	switch a := in.Authentication; {
	case in.URL == "":
		return nil, invalid("url", "is required")
	case len(in.ID) > idMax:
		return nil, invalid("id", fmt.Sprintf("takes more than %d bytes", idMax))
	case !headerText(in.Token):
		return nil, invalid("token", fmt.Sprintf("must be at most %d printable ASCII characters: it is sent as a header", pushValueMax))
	case a == nil:
	case a.Scheme == "" || len(a.Scheme) > schemeMax || strings.Trim(a.Scheme, schemeChars) != "":
		return nil, invalid("authentication.scheme", "must be the name of an HTTP authentication scheme")
	case !headerText(a.Credentials):
		return nil, invalid("authentication.credentials", fmt.Sprintf("must be at most %d printable ASCII characters: they are sent as a header", pushValueMax))
	}
	target, err := b.Guard.Parse(in.URL)
	if err == nil {
		err = b.Guard.Admit(c.Context(), target)
	}
	if errors.Is(err, egress.ErrBlocked) || errors.Is(err, egress.ErrTarget) {
		var refusal *parley.Refusal
		errors.As(err, &refusal)
		return nil, invalid("url", refusal.Text)
	}
	in.target = target.String()
	return in, err
}

const schemeChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~"

// headerText reports whether a text can be sent as the value of a header.
func headerText(text string) bool {
	return len(text) <= pushValueMax && strings.TrimSpace(text) == text && strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// inlinePush returns the configuration that a message brings, nil if it brings none. Without
// an id it has one that follows from the message, so that a repeated request replaces it.
func (b *Bridge) inlinePush(c *call, in *sendParams) (*pushParams, error) {
	p := in.Configuration.Push
	if p == nil {
		p = in.Configuration.FormerPush
	}
	if p == nil {
		return nil, nil
	}
	p, err := b.readPush(c, p)
	if err == nil && p.ID == "" {
		sum := sha256.Sum256([]byte(c.to.AgentID().String() + in.Message.MessageID))
		p.ID = hex.EncodeToString(sum[:16])
	}
	return p, err
}

// setPush stores a configuration, whose deliveries begin after an event of the task.
func (b *Bridge) setPush(ctx context.Context, p *pushParams, task *conversation.State, after uint64) (*PushConfig, error) {
	secret := pushSecret{Token: p.Token}
	if a := p.Authentication; a != nil {
		secret.Scheme, secret.Credentials = a.Scheme, a.Credentials
	}
	made, err := b.Node.Webhooks.SetPushConfig(ctx, delivery.PushConfig{
		Task: task.ConversationID(), Initiator: task.Initiator(), Org: task.InitiatorOrg(), ConfigID: p.ID,
		URL: p.target, SentURL: p.URL, Seal: func(id webhook.ID) []byte { return b.sealPush(id, secret) }, After: after,
	})
	if errors.Is(err, delivery.ErrPushConfigs) {
		return nil, fail(codeRefused, "QUOTA_EXCEEDED", delivery.ErrPushConfigs.Text)
	}
	if err != nil {
		return nil, err
	}
	return b.pushConfig(made), nil
}

// createPush creates a configuration, or replaces the one that has its id.
func (b *Bridge) createPush(c *call) (any, error) {
	in, err := params[pushParams](c)
	if err != nil {
		return nil, err
	}
	if in.Nested != nil && in.TaskID == "" {
		in.TaskID = in.Nested.TaskID
	}
	if in.TaskID == "" {
		return nil, invalid("taskId", "is required")
	}
	s, err := b.visible(c, in.TaskID)
	if err != nil {
		return nil, err
	}
	p, err := b.readPush(c, in)
	if err != nil {
		return nil, err
	}
	if p.ID == "" {
		p.ID = parley.NewID[parley.AnyID](0, c.Now(), b.Entropy()).String()
	}
	at, err := b.Node.Messages.ConversationAt(c.Context(), s.ConversationID(), latest, 0, nil)
	if err != nil {
		return nil, err
	}
	return b.setPush(c.Context(), p, at.State, at.Event)
}

// pushRef are the parameters of methods about configurations of a task.
type pushRef struct {
	TaskID    string `json:"taskId"`
	ID        string `json:"id"`
	PageSize  *int   `json:"pageSize"`
	PageToken string `json:"pageToken"`
}

// pushesOf returns the configurations of the task that a request names, ordered by ids.
func (b *Bridge) pushesOf(c *call) (*pushRef, []*webhook.State, error) {
	in, err := params[pushRef](c)
	if err == nil && in.TaskID == "" {
		err = invalid("taskId", "is required")
	}
	if err != nil {
		return nil, nil, err
	}
	s, err := b.visible(c, in.TaskID)
	if err != nil {
		return nil, nil, err
	}
	all, err := b.Node.Webhooks.PushConfigs(c.Context(), s.Initiator(), s.ConversationID())
	return in, all, err
}

// pushNamed returns the configuration that a request names, nil if there is none.
func (b *Bridge) pushNamed(c *call) (*webhook.State, error) {
	in, all, err := b.pushesOf(c)
	if err == nil && in.ID == "" {
		err = invalid("id", "is required")
	}
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.GetConfigId() == in.ID {
			return s, nil
		}
	}
	return nil, nil
}

// getPush returns a configuration.
func (b *Bridge) getPush(c *call) (any, error) {
	s, err := b.pushNamed(c)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return nil, errNoPush
	}
	return b.pushConfig(s), nil
}

var errNoPush = fail(codeTaskNotFound, "TASK_NOT_FOUND", "The task has no such push notification configuration.")

// pushList is the result of ListTaskPushNotificationConfigs.
type pushList struct {
	Configs       []*PushConfig `json:"configs"`
	NextPageToken string        `json:"nextPageToken,omitzero"`
}

// listPush lists the configurations of a task.
func (b *Bridge) listPush(c *call) (any, error) {
	in, all, err := b.pushesOf(c)
	if err != nil {
		return nil, err
	}
	size := listPageDefault
	if in.PageSize != nil && *in.PageSize != 0 {
		if size = *in.PageSize; size < 1 || size > listPageMax {
			return nil, invalid("pageSize", "must be a number from 1 to 100")
		}
	}
	list, after := "a2a push "+in.TaskID, ""
	if in.PageToken != "" {
		position, err := b.Cursors.Open(list, in.PageToken)
		if err != nil {
			return nil, invalid("pageToken", "is not a token of this list")
		}
		after = string(position)
	}
	out := pushList{Configs: []*PushConfig{}}
	for _, s := range all {
		switch {
		case in.PageToken != "" && s.GetConfigId() <= after:
		case len(out.Configs) == size:
			out.NextPageToken = b.Cursors.Seal(list, []byte(out.Configs[size-1].ID))
			return out, nil
		default:
			out.Configs = append(out.Configs, b.pushConfig(s))
		}
	}
	return out, nil
}

// deletePush deletes a configuration, if there is one.
func (b *Bridge) deletePush(c *call) (any, error) {
	s, err := b.pushNamed(c)
	if err == nil && s != nil {
		_, err = b.Node.Webhooks.Change(c.Context(), s.WebhookID(), webhook.Delete{By: s.Owner()})
	}
	if err != nil && !errors.Is(err, webhook.ErrUnknown) {
		return nil, err
	}
	return struct{}{}, nil
}
