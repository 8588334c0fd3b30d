package api

import "parley"

// ReadMessage marks a message as read by its recipient:
// POST /messages/{id}/read. The answer is the Message.
type ReadMessage struct {
	ID parley.MessageID `json:"-" path:"id" required:"true"`
	// ActingAgent, where one is named, must be the recipient.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`
}

// Ack marks messages that an agent received as read:
// POST /agents/{id}/messages/ack. Exactly one of UpTo and IDs is given.
type Ack struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
	// UpTo means this message and all that came to the inbox before it.
	UpTo *parley.MessageID `json:"up_to,omitzero" example:"01a1fe35-4f4e-7bb1-9bd4-c4f86a6539b1"`
	// IDs are messages of the agent's inbox.
	IDs []parley.MessageID `json:"ids,omitzero" maxItems:"100"`
}

// Check judges the fields of an acknowledgement together.
func (in *Ack) Check() []FieldError {
	if (in.UpTo == nil) == (in.IDs == nil) {
		return []FieldError{{Loc: []any{"body", "up_to"}, Msg: "Value error, exactly one of up_to and ids is required", Type: valueError}}
	}
	return nil
}

// Acked is the answer of an Ack.
type Acked struct {
	// Acked is how many messages were not read before.
	Acked int `json:"acked"`
	// UpTo is what the request said.
	UpTo *parley.MessageID `json:"up_to"`
}

// Wait asks for messages to an agent, and waits for some if there are none:
// GET /agents/{id}/wait.
type Wait struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
	// After is a message of the agent's inbox: what came after it is wanted, read or
	// not; the nil UUID stands before the first. Without it, everything that was not
	// carried yet.
	After *parley.MessageID `json:"-" query:"after"`
	// TimeoutMS is how long to wait, in milliseconds.
	TimeoutMS int `json:"-" query:"timeout_ms" default:"30000" minimum:"1000" maximum:"60000"`
}

// Waited is the answer of a Wait.
type Waited struct {
	// Items are at most 20 messages, oldest first; none when the time was up.
	Items []Message `json:"items"`
	// After is the last message of Items, or else what the request said.
	After *parley.MessageID `json:"after"`
	// Unread is how many more messages follow that have no read mark, counted up to
	// 1,000 and no further than 4,096 entries of the agent's feed.
	Unread int `json:"unread"`
}

// Trace asks what became of a message: GET /messages/{id}/trace.
type Trace struct {
	ID parley.MessageID `json:"-" path:"id" required:"true"`
}

// Channels through which a message comes to its recipient, in an Attempt.
const (
	ChannelInbox   = "inbox"
	ChannelStream  = "stream"
	ChannelWebhook = "webhook"
	ChannelSync    = "sync"
	ChannelWait    = "wait"
	ChannelA2A     = "a2a"
)

// Outcomes of an Attempt. Carried: the recipient has the message's body.
// Announced: the target of a webhook took the news of it.
const (
	OutcomeCarried   = "carried"
	OutcomeAnnounced = "announced"
	OutcomeFailed    = "failed"
)

// Traced is the answer of a Trace.
type Traced struct {
	MessageID  parley.MessageID `json:"message_id"`
	AcceptedAt Time             `json:"accepted_at"`
	// Position in the recipient's inbox; only the recipient's organization gets it,
	// once the message is there.
	Position *int `json:"position"`
	// Attempts to bring it to the recipient, in the order of time.
	Attempts    []Attempt `json:"attempts"`
	DeliveredAt *Time     `json:"delivered_at"`
	ReadAt      *Time     `json:"read_at"`
	// PendingReason says why the message is not delivered yet; null when it is.
	PendingReason *string `json:"pending_reason"`
}

// Attempt is one attempt to bring a message to its recipient. Those of webhooks
// are the recipient's organization's to see, and so are details.
type Attempt struct {
	Channel string `json:"channel" enum:"inbox,stream,webhook,sync,wait,a2a"`
	At      Time   `json:"at"`
	// Outcome is carried when the recipient got the message's body, announced when a
	// webhook's target accepted the news of it.
	Outcome string  `json:"outcome" enum:"carried,announced,failed"`
	Detail  *string `json:"detail"`
}
