package a2a

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"parley/actors/conversation"
	"parley/actors/delivery"
	"parley/actors/query"
	"parley/actors/record"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

const (
	latest = query.Latest
	// pushMedia is the media type of a notification.
	pushMedia = "application/a2a+json"
	// sealOfPushes is the purpose under which tokens and credentials are sealed. Each is
	// also bound to the id of its configuration.
	sealOfPushes = "a2a push"
	// markWait bounds the recording that a message was transferred.
	markWait = 5 * time.Second
)

// pushSecret is what goes with each notification of a configuration. It is stored sealed.
type pushSecret struct {
	Token       string `json:"token,omitzero"`
	Scheme      string `json:"scheme,omitzero"`
	Credentials string `json:"credentials,omitzero"`
}

func (b *Bridge) sealPush(id webhook.ID, secret pushSecret) []byte {
	text, _ := json.Marshal(secret) // of ASCII texts
	return b.Vault.SealSecret(sealOfPushes, id.Bytes(), text)
}

func (b *Bridge) openPush(id webhook.ID, sealed []byte) (secret pushSecret, err error) {
	text, err := b.Vault.OpenSecret(sealOfPushes, id.Bytes(), sealed)
	if err == nil {
		err = json.Unmarshal(text, &secret)
	}
	return secret, err
}

// pushConfig renders a configuration for the organization that began the task, which alone
// sees the task.
func (b *Bridge) pushConfig(s *webhook.State) *PushConfig {
	task, _ := s.Task()
	out := &PushConfig{ID: s.GetConfigId(), TaskID: task.String(), URL: s.SentURL()}
	for _, sealed := range s.Sealed(b.Clock()) {
		secret, err := b.openPush(s.WebhookID(), sealed)
		if err != nil {
			continue // sealed under another master key
		}
		if out.Token = secret.Token; secret.Scheme != "" {
			out.Authentication = &pushAuth{Scheme: secret.Scheme, Credentials: secret.Credentials}
		}
	}
	return out
}

// Notification is a push notification of one event of a task.
type Notification struct {
	Header http.Header
	// Render returns the event as a stream would send it, nil if streams do not send it.
	Render func(context.Context) ([]byte, error)
	// Delivered records that the message of the event was transferred. It is called after
	// Render.
	Delivered func()
}

// Notify returns the notification of a delivery. It fails if the token and the credentials
// cannot be unsealed. // source: A2A 1.0 section 4.3.3
func (b *Bridge) Notify(d delivery.Delivery) (n Notification, err error) {
	var secret pushSecret
	for _, sealed := range d.Sealed {
		if secret, err = b.openPush(d.Webhook, sealed); err != nil {
			return n, err
		}
	}
	n.Header = http.Header{"Content-Type": {pushMedia}}
	if secret.Scheme != "" && secret.Credentials != "" {
		n.Header.Set("Authorization", secret.Scheme+" "+secret.Credentials)
	}
	if secret.Token != "" { // two clients, two names
		n.Header.Set("X-A2A-Notification-Token", secret.Token)
		n.Header.Set("A2A-Notification-Token", secret.Token)
	}
	var brought *query.Message
	n.Render = func(ctx context.Context) (body []byte, err error) {
		body, brought, err = b.notification(ctx, d.Conversation, d.Number)
		return body, err
	}
	n.Delivered = func() {
		if brought == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), markWait)
		defer cancel()
		if err := b.Transferred(ctx, b.Clock(), []query.Message{*brought}); err != nil {
			b.Logger.Warn("messages of a task were transferred and could not be marked", "error", err)
		}
	}
	return n, nil
}

// foldKey names a task as it was after an event.
type foldKey struct {
	task  parley.ConversationID
	event uint64
}

// folded is a task as it was after an event, without texts.
type folded struct {
	state *conversation.State
	// last is the last message if the next event may show it.
	last parley.MessageID
}

// foldsMax is how many of them are remembered, so that the notification of an event need not
// fold all earlier ones again. Each takes less than 1 KiB.
const foldsMax = 4096

// notification renders an event of a task. An event that cannot be read any more, because
// an organization was erased, is none.
func (b *Bridge) notification(ctx context.Context, id parley.ConversationID, number uint64) (body []byte, brought *query.Message, err error) {
	at, last, err := b.before(ctx, id, number)
	if err != nil {
		return nil, nil, unlessErased(err)
	}
	v, err := b.viewOf(ctx, at.State)
	if err != nil {
		return nil, nil, err
	}
	events, err := b.Node.Messages.EventsAfter(ctx, &at, 1, nil)
	if err != nil || len(events) == 0 {
		return nil, nil, unlessErased(err)
	}
	e := &events[0]
	if e.Message != nil {
		last = e.Message.Record
	}
	b.remember(v, &at, last)
	what := v.update(e, last, at.State.GetTask())
	if what == nil {
		return nil, nil, nil
	}
	body, err = json.Marshal(what)
	return body, e.Message, err
}

// before returns a task as it was before an event, and its last message up to then if the
// event may show it.
func (b *Bridge) before(ctx context.Context, id parley.ConversationID, number uint64) (at query.Moment, last *record.Message, err error) {
	f, known := b.folds.GetIfPresent(foldKey{id, number - 1})
	if !known {
		if at, err = b.Node.Messages.ConversationAt(ctx, id, number-1, 1, nil); err == nil && len(at.Messages) > 0 {
			last = at.Messages[len(at.Messages)-1].Record
		}
		return at, last, err
	}
	if !f.last.Zero() {
		m, err := b.Node.Messages.GetRecord(ctx, f.last.Slot(), f.last)
		if err != nil {
			return at, nil, err
		}
		last = m.Record
	}
	return query.Moment{State: f.state, Event: number - 1}, last, nil
}

// remember keeps what the notification of the next event needs. The state must not be
// changed afterwards.
func (b *Bridge) remember(v view, at *query.Moment, last *record.Message) {
	f := folded{state: at.State}                   // a copy of its own
	f.state.Metadata, f.state.Artifacts = nil, nil // events show neither
	if last != nil && v.reported(last, f.state.GetLoneMessage()) != 0 {
		f.last = last.MessageID()
	}
	b.folds.Set(foldKey{f.state.ConversationID(), at.Event}, f)
}

// unlessErased returns nil for the errors of what was erased.
func unlessErased(err error) error {
	if errors.Is(err, journal.ErrErased) || errors.Is(err, parley.ErrNotFound) || errors.Is(err, parley.ErrGone) {
		return nil
	}
	return err
}
