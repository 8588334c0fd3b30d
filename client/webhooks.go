package client

import (
	"context"
	"net/http"
	"net/url"

	"parley/client/api"
	"parley/client/parley"
)

// CreateWebhook creates a webhook that delivers an agent's events to a URL. The Secret is
// returned only here; OpenDelivery needs it.
func (c *Client) CreateWebhook(ctx context.Context, in api.CreateWebhook) (*api.WebhookSecret, error) {
	return fetch[api.WebhookSecret](ctx, c, call{method: http.MethodPost, path: "/webhooks", in: in})
}

// Webhooks returns the webhooks of the organization's agents, or of one agent, oldest
// first.
func (c *Client) Webhooks(ctx context.Context, in api.ListWebhooks) ([]api.Webhook, error) {
	k := get("/webhooks")
	k.query = url.Values{}
	if in.AgentID != nil {
		k.query.Set("agent_id", in.AgentID.String())
	}
	if in.IncludeInactive {
		k.query.Set("include_inactive", "true")
	}
	out, err := fetch[[]api.Webhook](ctx, c, k)
	if err != nil {
		return nil, err
	}
	return *out, nil
}

// SwitchWebhook switches the webhook in.ID on or off. Events that occur while it is off
// are not delivered later.
func (c *Client) SwitchWebhook(ctx context.Context, in api.WebhookPatch) (*api.Webhook, error) {
	return fetch[api.Webhook](ctx, c, call{method: http.MethodPatch, path: webhookPath(in.ID), in: in, repeatable: true})
}

// DeleteWebhook deletes a webhook and its jobs.
func (c *Client) DeleteWebhook(ctx context.Context, id parley.AnyID) error {
	return c.erase(ctx, webhookPath(id))
}

// TestWebhook delivers a test event to the webhook.
func (c *Client) TestWebhook(ctx context.Context, id parley.AnyID) (*api.Delivery, error) {
	return fetch[api.Delivery](ctx, c, call{method: http.MethodPost, path: webhookPath(id) + "/test"})
}

// RotateWebhookSecret replaces a webhook's secret. The former one also signs for a day.
func (c *Client) RotateWebhookSecret(ctx context.Context, id parley.AnyID) (*api.WebhookSecret, error) {
	return fetch[api.WebhookSecret](ctx, c, call{method: http.MethodPost, path: webhookPath(id) + "/rotate-secret"})
}

// Deliveries returns a page of the jobs of the webhook in.ID, newest first.
func (c *Client) Deliveries(ctx context.Context, in api.ListDeliveries) (*api.DeliveryPage, error) {
	k := get(webhookPath(in.ID) + "/deliveries")
	k.query = url.Values{}
	setInt(k.query, "limit", in.Limit)
	setInt(k.query, "offset", in.Offset)
	setText(k.query, "status", in.Status)
	return fetch[api.DeliveryPage](ctx, c, k)
}

// DeliverySummary returns the numbers of a webhook's jobs.
func (c *Client) DeliverySummary(ctx context.Context, id parley.AnyID) (*api.DeliverySummary, error) {
	return fetch[api.DeliverySummary](ctx, c, get(webhookPath(id)+"/deliveries/summary"))
}

// RetryDelivery attempts a job now. A dead job gets all its attempts again.
func (c *Client) RetryDelivery(ctx context.Context, id, job parley.AnyID) (*api.Delivery, error) {
	return fetch[api.Delivery](ctx, c, call{method: http.MethodPost, path: webhookPath(id) + "/deliveries/" + job.String() + "/retry"})
}

func webhookPath(id parley.AnyID) string { return "/webhooks/" + id.String() }
