package client

import (
	"parley/client/api"
	"parley/client/parley"
)

// Webhooks makes the calls about webhooks and their deliveries. A receiver verifies
// deliveries with deliveries.Open.
type Webhooks struct {
	// Create creates a webhook that delivers an agent's events to a URL. The Secret is
	// returned only here; deliveries.Open needs it.
	Create Call[api.CreateWebhook, api.WebhookSecret] `call:"POST /webhooks"`
	// List returns the webhooks of the organization's agents, or of one agent, oldest first.
	List List[api.ListWebhooks, api.Webhook] `call:"GET /webhooks"`
	// Switch switches the webhook in.ID on or off. Events that occur while it is off are not
	// delivered later.
	Switch Call[api.WebhookPatch, api.Webhook] `call:"PATCH /webhooks/{id} repeatable"`
	// Delete deletes a webhook and its jobs.
	Delete Command[parley.AnyID] `call:"DELETE /webhooks/{id}"`
	// Test delivers a test event to the webhook.
	Test Call[parley.AnyID, api.Delivery] `call:"POST /webhooks/{id}/test"`
	// RotateSecret replaces a webhook's secret. The former one also signs for a day.
	RotateSecret Call[parley.AnyID, api.WebhookSecret] `call:"POST /webhooks/{id}/rotate-secret"`
	// Deliveries returns a page of the jobs of the webhook in.ID, newest first.
	Deliveries Call[api.ListDeliveries, api.DeliveryPage] `call:"GET /webhooks/{id}/deliveries"`
	// DeliverySummary returns the numbers of a webhook's jobs.
	DeliverySummary Call[parley.AnyID, api.DeliverySummary] `call:"GET /webhooks/{id}/deliveries/summary"`
	// RetryDelivery attempts a job now. A dead job gets all its attempts again.
	RetryDelivery Call[api.RetryDelivery, api.Delivery] `call:"POST /webhooks/{id}/deliveries/{job}/retry"`
}
