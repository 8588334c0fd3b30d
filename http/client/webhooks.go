package client

import (
	"context"
	"net/http"
	"net/url"

	"parley"
	"parley/http/api"
)

// CreateWebhook has an agent's events delivered to a URL. The answer's Secret is
// given this once; see OpenDelivery for what it is for.
func (c *Client) CreateWebhook(ctx context.Context, in api.CreateWebhook) (*api.WebhookSecret, error) {
	return fetch[api.WebhookSecret](ctx, c, call{method: http.MethodPost, path: "/webhooks", in: in})
}

// Webhooks are those of the organization's agents, or of one, oldest first.
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

// SwitchWebhook switches the webhook in.ID on or off. What happened while it was
// off is not delivered afterwards.
func (c *Client) SwitchWebhook(ctx context.Context, in api.WebhookPatch) (*api.Webhook, error) {
	return fetch[api.Webhook](ctx, c, call{method: http.MethodPatch, path: webhookPath(in.ID), in: in, repeatable: true})
}

// DeleteWebhook ends a webhook and forgets its jobs.
func (c *Client) DeleteWebhook(ctx context.Context, id parley.AnyID) error {
	return c.erase(ctx, webhookPath(id))
}

// TestWebhook delivers a test event to the webhook.
func (c *Client) TestWebhook(ctx context.Context, id parley.AnyID) (*api.Delivery, error) {
	return fetch[api.Delivery](ctx, c, call{method: http.MethodPost, path: webhookPath(id) + "/test"})
}

// RotateWebhookSecret makes a webhook's secret anew; the former one signs beside
// it for a day.
func (c *Client) RotateWebhookSecret(ctx context.Context, id parley.AnyID) (*api.WebhookSecret, error) {
	return fetch[api.WebhookSecret](ctx, c, call{method: http.MethodPost, path: webhookPath(id) + "/rotate-secret"})
}

// Deliveries is a page of the jobs of the webhook in.ID, newest first.
func (c *Client) Deliveries(ctx context.Context, in api.ListDeliveries) (*api.DeliveryPage, error) {
	k := get(webhookPath(in.ID) + "/deliveries")
	k.query = url.Values{}
	setInt(k.query, "limit", in.Limit)
	setInt(k.query, "offset", in.Offset)
	setText(k.query, "status", in.Status)
	return fetch[api.DeliveryPage](ctx, c, k)
}

// DeliverySummary counts a webhook's jobs.
func (c *Client) DeliverySummary(ctx context.Context, id parley.AnyID) (*api.DeliverySummary, error) {
	return fetch[api.DeliverySummary](ctx, c, get(webhookPath(id)+"/deliveries/summary"))
}

// RetryDelivery has a job attempted now, a dead one with all its attempts again.
func (c *Client) RetryDelivery(ctx context.Context, id, job parley.AnyID) (*api.Delivery, error) {
	return fetch[api.Delivery](ctx, c, call{method: http.MethodPost, path: webhookPath(id) + "/deliveries/" + job.String() + "/retry"})
}

func webhookPath(id parley.AnyID) string { return "/webhooks/" + id.String() }
