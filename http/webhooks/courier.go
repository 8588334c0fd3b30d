package webhooks

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"parley/actors/delivery"
	"parley/actors/webhook"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/a2a"
	"parley/http/auth"
	"parley/http/egress"
	"parley/http/view"
)

// CourierOptions configure a Courier. All fields but Watch are required.
type CourierOptions struct {
	// Guard checks targets again before each attempt. The Sender uses the same one.
	Guard  *egress.Guard
	Sender *egress.Sender
	// Vault opens the secrets that deliveries are signed with.
	Vault *auth.MasterKey
	// Entropy adds jitter to retries, so that they do not all come at once.
	Entropy parley.Entropy
	// Logger logs that a secret cannot be unsealed, never the secret.
	Logger *slog.Logger
	// Watch, if set, is called with each attempt before it is handed to the sender. It
	// returns the traceparent header of the request, and a function that receives the
	// result unless the sender is full. Neither function may block.
	Watch func(delivery.Delivery, egress.Target) (traceparent string, ended func(egress.Result))
}

// Courier hands deliveries to the sender: it writes their payloads, unseals the secrets
// that sign them, and translates the results. It never blocks and keeps no state.
type Courier struct {
	CourierOptions
	// service is set once there is one.
	service atomic.Pointer[Service]
}

// Service is what the courier needs of the service.
type Service struct {
	// Bridge writes push notifications.
	Bridge *a2a.Bridge
	// HandleOf returns the handle of an agent.
	HandleOf func(context.Context, parley.AgentID) (*string, error)
}

// SetService sets the service.
func (r *Courier) SetService(s *Service) { r.service.Store(s) }

// NewCourier returns a Courier.
func NewCourier(o CourierOptions) *Courier { return &Courier{CourierOptions: o} }

var _ delivery.Courier = (*Courier)(nil)

// unsealable is the error that an owner sees when the webhook's secret cannot be
// unsealed.
const unsealable = "the secret of this webhook cannot be read any more: rotate it"

// Deliver hands an attempt to the sender. An attempt that can never be sent counts as
// failed. // spec: Webhook delivery payload
func (r *Courier) Deliver(d delivery.Delivery, done func(webhook.Outcome)) (held time.Duration, taken bool) {
	fail := func(text string) (time.Duration, bool) {
		go done(webhook.Outcome{Error: text, Jitter: r.jitter()}) // the caller may hold a lock
		return 0, true
	}
	target, err := r.Guard.Parse(d.URL)
	if err != nil {
		return fail(saying(err))
	}
	if d.Event == webhook.TaskUpdated {
		return r.push(d, target, done)
	}
	secrets := make([]string, 0, len(d.Sealed))
	for _, sealed := range d.Sealed {
		secret, err := openHook(r.Vault, d.Webhook, sealed)
		if err != nil {
			r.Logger.Error("the secret of a webhook does not open: is this the master key it was sealed under?", "webhook", d.Webhook.String())
			continue
		}
		secrets = append(secrets, secret)
	}
	if len(secrets) == 0 {
		return fail(unsealable)
	}
	var member *string
	if !d.Member.Zero() {
		service := r.service.Load()
		if service == nil {
			return serviceWait, false
		}
		ctx, stop := context.WithTimeout(context.Background(), handlePatience)
		defer stop()
		if member, err = service.HandleOf(ctx, d.Member); err != nil {
			if !parley.IsRefusal(err) || errors.Is(err, parley.ErrOverloaded) {
				return serviceWait, false
			}
			member = nil
		}
	}
	return r.submit(d, egress.Post{
		Target: target, Body: payloadOf(d, member), Secrets: secrets, Done: func(result egress.Result) { done(r.outcome(result)) },
	})
}

const (
	// serviceWait is when a delivery is tried again that came before the service, or while the
	// handle of a member cannot be read.
	serviceWait = time.Second
	// handlePatience is how long a delivery, and those after it, wait for such a handle.
	handlePatience = 100 * time.Millisecond
)

// push hands a push notification to the sender. It is rendered when it is sent.
func (r *Courier) push(d delivery.Delivery, target egress.Target, done func(webhook.Outcome)) (held time.Duration, taken bool) {
	service := r.service.Load()
	if service == nil {
		return serviceWait, false
	}
	n, err := service.Bridge.Notify(d)
	if err != nil {
		r.Logger.Error("what goes with a push notification does not open: is this the master key it was sealed under?", "webhook", d.Webhook.String())
		go done(webhook.Outcome{Error: unsealable, Jitter: r.jitter()})
		return 0, true
	}
	return r.submit(d, egress.Post{
		Target: target, Header: n.Header, Render: n.Render,
		Done: func(result egress.Result) {
			if result.Delivered() {
				n.Delivered()
			}
			done(r.outcome(result))
		},
	})
}

// submit hands a post to the sender.
func (r *Courier) submit(d delivery.Delivery, post egress.Post) (held time.Duration, taken bool) {
	post.Key, post.ID, post.MayBegin = d.Webhook.String(), d.Job.String(), d.MayBegin
	if r.Watch != nil {
		traceparent, ended := r.Watch(d, post.Target)
		tell := post.Done
		post.Traceparent = traceparent
		post.Done = func(result egress.Result) { ended(result); tell(result) }
	}
	err := r.Sender.Submit(post)
	var full *egress.HeldError
	if errors.As(err, &full) {
		return full.Wait, false
	}
	return 0, true
}

// Reset allows the next attempt, however often the target has failed.
func (r *Courier) Reset(id webhook.ID) { r.Sender.Reset(id.String()) }

// Drop hands back the waiting attempts of a webhook.
func (r *Courier) Drop(id webhook.ID) { r.Sender.Drop(id.String()) }

// DropAll hands back all waiting attempts, and forgets the failures of all targets.
func (r *Courier) DropAll() { r.Sender.DropAll() }

func (r *Courier) outcome(result egress.Result) webhook.Outcome {
	return webhook.Outcome{
		Unsent: result.Held, Code: result.Status, RetryAfter: result.RetryAfter, Error: result.Error,
		Took: result.Duration, Jitter: r.jitter(),
	}
}

// jitter draws a value between both limits of a retry's jitter.
func (r *Courier) jitter() int {
	drawn := r.Entropy()
	return (int(drawn[8])<<8|int(drawn[9]))%(2*webhook.JitterMax+1) - webhook.JitterMax
}

// saying returns the sentence of a refusal.
func saying(err error) string {
	var refusal *parley.Refusal
	if errors.As(err, &refusal) {
		return refusal.Text
	}
	return parley.ErrInternal.Text
}

// payloadOf returns the body of a delivery. For an event about a message it has exactly
// the four members of the specification. For other events message_id is null and the id
// concerned follows, and the handle of a member that joined or left, null if its organization was
// erased. // spec: Webhook delivery payload
func payloadOf(d delivery.Delivery, member *string) []byte {
	b := make([]byte, 0, 256)
	b = append(b, `{"message_id":`...)
	if d.Message.Zero() || !view.OfMessage(d.Event) {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendQuote(b, d.Message.String())
	}
	b = append(b, `,"agent_id":"`...)
	b = append(b, d.Agent.String()...)
	b = append(b, `","event":"`...)
	b = append(b, d.Event.Word()...)
	b = append(b, `","timestamp":"`...)
	b, _ = api.At(d.Happened).AppendText(b) // cannot fail: the year has four digits
	b = append(b, '"')
	if !view.OfMessage(d.Event) {
		b = appendConcerned(b, "conversation_id", parley.AnyID(d.Conversation))
		b = appendConcerned(b, "group_id", parley.AnyID(d.Group))
		b = appendConcerned(b, "request_id", parley.AnyID(d.Request))
		b = appendConcerned(b, "member_agent_id", parley.AnyID(d.Member))
	}
	if !d.Disabled.Zero() {
		b = appendConcerned(b, "webhook_id", parley.AnyID(d.Disabled))
		b = append(append(append(b, `,"disabled_reason":"`...), d.Reason.String()...), '"')
	}
	if !d.Credential.Zero() {
		b = appendConcerned(b, "client_id", parley.AnyID(d.Credential))
		b = append(b, `,"expires_at":"`...)
		b, _ = api.At(d.Expires).AppendText(b) // a year of more than four digits is refused when it is set
		b = append(b, '"')
	}
	switch {
	case d.Member.Zero():
	case member == nil:
		b = append(b, `,"member_handle":null`...)
	default:
		b = strconv.AppendQuote(append(b, `,"member_handle":`...), *member)
	}
	if d.Event == webhook.GroupMLS {
		b = append(append(append(b, `,"kind":"`...), d.Kind...), `","epoch":`...)
		b = strconv.AppendUint(b, d.Epoch, 10)
	}
	return append(b, '}')
}

func appendConcerned(b []byte, name string, id parley.AnyID) []byte {
	if id.Zero() {
		return b
	}
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":"`...)
	b = append(b, id.String()...)
	return append(b, '"')
}
