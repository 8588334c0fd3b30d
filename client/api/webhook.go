package api

import "parley/client/parley"

// Events that a webhook may deliver. // docs: webhooks.md
const (
	HookMessageReceived      = "message.received"
	HookMessageDelivered     = "message.delivered"
	HookMessageRead          = "message.read"
	HookConversationUpdated  = "conversation.updated"
	HookGroupInvited         = "group.invited"
	HookGroupRequestCreated  = "group.request.created"
	HookGroupRequestResolved = "group.request.resolved"
	HookGroupMemberJoined    = "group.member.joined"
	HookGroupMemberLeft      = "group.member.left"
	HookGroupMLS             = "group.mls"
	HookWebhookDisabled      = "webhook.disabled"
	HookCredentialExpiring   = "credential.expiring"
	// HookTest is delivered by POST /webhooks/{id}/test, whatever the webhook's events
	// are.
	HookTest = "webhook.test"
)

// Statuses of a delivery job. // spec: Webhook delivery job statuses
const (
	DeliveryPending    = "pending"
	DeliveryProcessing = "processing"
	DeliveryFailed     = "failed"
	DeliveryDelivered  = "delivered"
	DeliveryDead       = "dead"
)

// Webhook is WebhookRead of the specification, with additional fields.
type Webhook struct {
	ID      parley.AnyID   `json:"id"`
	AgentID parley.AgentID `json:"agent_id"`
	// URL is the URL as it was sent.
	URL       string `json:"url" format:"uri"`
	Active    bool   `json:"active"`
	CreatedAt Time   `json:"created_at"`

	Events      []string `json:"events" enum:"message.received,message.delivered,message.read,conversation.updated,group.invited,group.request.created,group.request.resolved,group.member.joined,group.member.left,group.mls,webhook.disabled,credential.expiring,webhook.test"`
	Description *string  `json:"description"`
	// DisabledAt is set if the webhook was switched off by the service and not by its
	// owner.
	DisabledAt     *Time   `json:"disabled_at"`
	DisabledReason *string `json:"disabled_reason" enum:"target_gone,only_failures,agent_revoked"`
}

// WebhookSecret is the answer of POST /webhooks and of a rotation: the webhook, and its
// secret, which is shown only here.
type WebhookSecret struct {
	Webhook
	// Secret is whsec_ and 32 bytes in base64. The whole text keys
	// X-Svc-Signature, the bytes key webhook-signature.
	Secret string `json:"secret"`
}

// CreateWebhook names an agent, the URL of the target and the events to deliver: POST
// /webhooks.
type CreateWebhook struct {
	AgentID parley.AgentID `json:"agent_id" required:"true"`
	// URL must be https, and its host public.
	URL string `json:"url" required:"true" minLength:"1" maxLength:"2048" example:"https://agent.example/hook"`
	// Events are the events to deliver; by default message.received.
	Events      []string `json:"events,omitzero" maxItems:"32" enum:"message.received,message.delivered,message.read,conversation.updated,group.invited,group.request.created,group.request.resolved,group.member.joined,group.member.left,group.mls,webhook.disabled,credential.expiring,webhook.test"`
	Description *string  `json:"description,omitzero" maxLength:"500"`
}

// ListWebhooks lists the webhooks of the organization's agents, oldest first: GET
// /webhooks. The answer is a plain array of Webhook.
type ListWebhooks struct {
	// AgentID selects the webhooks of one agent.
	AgentID *parley.AgentID `json:"-" query:"agent_id"`
	// IncludeInactive includes webhooks that are switched off.
	IncludeInactive bool `json:"-" query:"include_inactive" default:"false"`
	Paging
}

// WebhookPatch switches deliveries off and on again: PATCH /webhooks/{id}.
type WebhookPatch struct {
	ID     parley.AnyID `json:"-" path:"id" required:"true"`
	Active bool         `json:"active" required:"true"`
}

// DeleteWebhook deletes a webhook and its jobs: DELETE /webhooks/{id}.
type DeleteWebhook struct {
	ID parley.AnyID `json:"-" path:"id" required:"true"`
}

// TestWebhook delivers a test event, which has no subject: POST /webhooks/{id}/test.
type TestWebhook struct {
	ID parley.AnyID `json:"-" path:"id" required:"true"`
}

// RotateWebhookSecret replaces a webhook's secret: POST /webhooks/{id}/rotate-secret.
// The former secret also signs for one day.
type RotateWebhookSecret struct {
	ID parley.AnyID `json:"-" path:"id" required:"true"`
}

// RetryDelivery attempts a delivery job now: POST
// /webhooks/{id}/deliveries/{job}/retry. A dead job gets all its attempts again.
type RetryDelivery struct {
	ID  parley.AnyID `json:"-" path:"id" required:"true"`
	Job parley.AnyID `json:"-" path:"job" required:"true"`
}

// ListDeliveries lists a webhook's delivery jobs, newest first: GET
// /webhooks/{id}/deliveries. The answer is a DeliveryPage.
type ListDeliveries struct {
	ID     parley.AnyID `json:"-" path:"id" required:"true"`
	Status *string      `json:"-" query:"status" enum:"pending,processing,failed,delivered,dead"`
	Limit  int          `json:"-" query:"limit" default:"20" minimum:"1" maximum:"100"`
	Offset int          `json:"-" query:"offset" default:"0" minimum:"0"`
}

// DeliveryPage lists delivery jobs, with the number of all of them.
type DeliveryPage struct {
	Items []Delivery `json:"items"`
	// Total counts the jobs with the requested status.
	Total  int `json:"total"`
	Limit  int `json:"limit"`
	Offset int `json:"offset"`
}

// Delivery is a delivery job: one event for one webhook.
type Delivery struct {
	// ID is the webhook-id header of every attempt.
	ID        parley.AnyID   `json:"id"`
	WebhookID parley.AnyID   `json:"webhook_id"`
	AgentID   parley.AgentID `json:"agent_id"`
	// MessageID is null for events that do not concern a message.
	MessageID *parley.MessageID `json:"message_id"`
	Event     string            `json:"event" enum:"message.received,message.delivered,message.read,conversation.updated,group.invited,group.request.created,group.request.resolved,group.member.joined,group.member.left,group.mls,webhook.disabled,credential.expiring,webhook.test"`
	Status    string            `json:"status" enum:"pending,processing,failed,delivered,dead"`
	// Attempts counts the attempts that were begun. After a dead job is retried, it
	// counts again from 0.
	Attempts    int `json:"attempts"`
	MaxAttempts int `json:"max_attempts"`
	// NextAttemptAt is when a failed job is tried again, or when a pending job that is
	// held with its webhook is tried first.
	NextAttemptAt *Time `json:"next_attempt_at"`
	LastAttemptAt *Time `json:"last_attempt_at"`
	// LastStatusCode is null if the last attempt got no answer.
	LastStatusCode *int    `json:"last_status_code"`
	LastError      *string `json:"last_error"`
	LastDurationMs *int    `json:"last_duration_ms"`
	CreatedAt      Time    `json:"created_at"`
	DeliveredAt    *Time   `json:"delivered_at"`
}

// GetDeliverySummary counts a webhook's jobs: GET /webhooks/{id}/deliveries/summary.
type GetDeliverySummary struct {
	ID parley.AnyID `json:"-" path:"id" required:"true"`
}

// DeliverySummary counts delivery jobs by status. Those under way count as pending.
type DeliverySummary struct {
	Total     int `json:"total"`
	Delivered int `json:"delivered"`
	Failed    int `json:"failed"`
	Dead      int `json:"dead"`
	Pending   int `json:"pending"`
}

// HookPayload is the body of a delivery, which a webhook's receiver reads. Ids that do
// not apply to an event are left out, except message_id, which is
// null then. // spec: Webhook delivery payload
type HookPayload struct {
	MessageID *parley.MessageID `json:"message_id"`
	AgentID   parley.AgentID    `json:"agent_id"`
	Event     string            `json:"event" enum:"message.received,message.delivered,message.read,conversation.updated,group.invited,group.request.created,group.request.resolved,group.member.joined,group.member.left,group.mls,webhook.disabled,credential.expiring,webhook.test"`
	// Timestamp is when the event happened.
	Timestamp      Time                   `json:"timestamp"`
	ConversationID *parley.ConversationID `json:"conversation_id,omitzero"`
	GroupID        *parley.GroupID        `json:"group_id,omitzero"`
	RequestID      *parley.JoinRequestID  `json:"request_id,omitzero"`
	// MemberAgentID and MemberHandle are of the agent that joined a group or left it. The
	// handle is empty if its organization was erased.
	MemberAgentID *parley.AgentID `json:"member_agent_id,omitzero"`
	MemberHandle  string          `json:"member_handle,omitzero"`
	// WebhookID is another webhook of the agent that the server disabled, DisabledReason why.
	WebhookID      *parley.AnyID `json:"webhook_id,omitzero"`
	DisabledReason string        `json:"disabled_reason,omitzero" enum:"target_gone,only_failures"`
	// ClientID is a credential of the organization that ends at ExpiresAt.
	ClientID  *parley.ClientID `json:"client_id,omitzero"`
	ExpiresAt *Time            `json:"expires_at,omitzero"`
	// Kind and Epoch are what happened to a group's MLS group, and its epoch then.
	Kind  string  `json:"kind,omitzero" enum:"mls_commit,mls_welcome,mls_admission,mls_removal"`
	Epoch *uint64 `json:"epoch,omitzero"`
}
