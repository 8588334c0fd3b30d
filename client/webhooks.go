package client

import (
	"context"

	"parley/client/api"
	"parley/client/parley"
)

// Webhooks makes the calls about webhooks and their deliveries. A receiver verifies
// deliveries with OpenDelivery.
type Webhooks struct{ s *Session }

// Create creates a webhook that delivers an agent's events to a URL. The Secret is
// returned only here; OpenDelivery needs it.
func (w Webhooks) Create(ctx context.Context, in api.CreateWebhook) (*api.WebhookSecret, error) {
	return fetch[api.WebhookSecret](ctx, w.s, post("/webhooks"), in)
}

// List returns the webhooks of the organization's agents, or of one agent, oldest first.
func (w Webhooks) List(ctx context.Context, in api.ListWebhooks) ([]api.Webhook, error) {
	return array[api.Webhook](ctx, w.s, get("/webhooks"), in)
}

// Switch switches the webhook in.ID on or off. Events that occur while it is off are not
// delivered later.
func (w Webhooks) Switch(ctx context.Context, in api.WebhookPatch) (*api.Webhook, error) {
	return fetch[api.Webhook](ctx, w.s, patch("/webhooks/{id}").idempotent(), in)
}

// Delete deletes a webhook and its jobs.
func (w Webhooks) Delete(ctx context.Context, id parley.AnyID) error {
	return w.s.exec(ctx, remove("/webhooks/{id}"), api.DeleteWebhook{ID: id})
}

// Test delivers a test event to the webhook.
func (w Webhooks) Test(ctx context.Context, id parley.AnyID) (*api.Delivery, error) {
	return fetch[api.Delivery](ctx, w.s, post("/webhooks/{id}/test"), api.TestWebhook{ID: id})
}

// RotateSecret replaces a webhook's secret. The former one also signs for a day.
func (w Webhooks) RotateSecret(ctx context.Context, id parley.AnyID) (*api.WebhookSecret, error) {
	return fetch[api.WebhookSecret](ctx, w.s, post("/webhooks/{id}/rotate-secret"), api.RotateWebhookSecret{ID: id})
}

// Deliveries returns a page of the jobs of the webhook in.ID, newest first.
func (w Webhooks) Deliveries(ctx context.Context, in api.ListDeliveries) (*api.DeliveryPage, error) {
	return fetch[api.DeliveryPage](ctx, w.s, get("/webhooks/{id}/deliveries"), in)
}

// DeliverySummary returns the numbers of a webhook's jobs.
func (w Webhooks) DeliverySummary(ctx context.Context, id parley.AnyID) (*api.DeliverySummary, error) {
	return fetch[api.DeliverySummary](ctx, w.s, get("/webhooks/{id}/deliveries/summary"), api.GetDeliverySummary{ID: id})
}

// RetryDelivery attempts a job now. A dead job gets all its attempts again.
func (w Webhooks) RetryDelivery(ctx context.Context, id, job parley.AnyID) (*api.Delivery, error) {
	return fetch[api.Delivery](ctx, w.s, post("/webhooks/{id}/deliveries/{job}/retry"), api.RetryDelivery{ID: id, Job: job})
}
