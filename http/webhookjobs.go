package http

import (
	"time"

	"parley"
	"parley/actors/query"
	"parley/actors/webhook"
	"parley/http/api"
	"parley/http/rest"
)

// listDeliveries returns a page of a webhook's jobs, newest first. // spec: Webhooks
func (s webhooks) listDeliveries(c *rest.Call, in *api.ListDeliveries) (api.DeliveryPage, error) {
	var status webhook.Status
	if in.Status != nil {
		status = webhook.Status(webhook.Status_value[*in.Status])
	}
	jobs, total, err := s.Node.Webhooks.Deliveries(c.Context(), webhook.ID(in.ID), c.Caller.Org, status, in.Offset, in.Limit)
	if err != nil {
		return api.DeliveryPage{}, hookless(err)
	}
	page := api.DeliveryPage{Items: []api.Delivery{}, Total: total, Limit: in.Limit, Offset: in.Offset}
	for _, j := range jobs {
		page.Items = append(page.Items, deliveryOf(j, c.Now()))
	}
	return page, nil
}

// summary counts a webhook's jobs. Jobs in progress count as pending.
func (s webhooks) summary(c *rest.Call, in *api.GetDeliverySummary) (api.DeliverySummary, error) {
	w, err := s.Node.Webhooks.Get(c.Context(), webhook.ID(in.ID), c.Caller.Org)
	if err != nil {
		return api.DeliverySummary{}, hookless(err)
	}
	n := w.Summary()
	return api.DeliverySummary{
		Total: int(n.Total), Delivered: int(n.Delivered), Failed: int(n.Failed), Dead: int(n.Dead), Pending: int(n.Pending),
	}, nil
}

// testWebhook delivers a test event, whichever events the webhook subscribes to.
func (s webhooks) testWebhook(c *rest.Call, in *api.TestWebhook) (api.Delivery, error) {
	j, err := s.Node.Webhooks.Test(c.Context(), webhook.ID(in.ID), c.Caller.Org)
	if err != nil {
		return api.Delivery{}, hookless(err)
	}
	return deliveryOf(j, c.Now()), nil
}

// retryDelivery attempts a job now. A dead job gets all its attempts again.
func (s webhooks) retryDelivery(c *rest.Call, in *api.RetryDelivery) (api.Delivery, error) {
	j, err := s.Node.Webhooks.RetryJob(c.Context(), webhook.ID(in.ID), c.Caller.Org, webhook.JobID(in.Job))
	if err != nil {
		return api.Delivery{}, hookless(err)
	}
	return deliveryOf(j, c.Now()), nil
}

// heldReason is why a webhook makes no attempts at present.
const heldReason = "the webhook is held: its target failed repeatedly or asked to be left alone"

// deliveryOf returns a job as the webhook's owner sees it.
func deliveryOf(j query.WebhookJob, now time.Time) api.Delivery {
	d := api.Delivery{
		ID: parley.AnyID(j.ID), WebhookID: parley.AnyID(j.Webhook.WebhookID()), AgentID: j.Webhook.Watched(),
		Event: j.GetEvent().Word(), Status: j.GetStatus().String(), Attempts: int(j.GetAttempts()),
		MaxAttempts: webhook.AttemptsMax, CreatedAt: api.At(unixMilli(j.GetCreatedMs())), DeliveredAt: instant(j.GetDeliveredMs()),
		LastAttemptAt: instant(j.GetLastMs()), LastError: orNull(j.GetLastError()),
	}
	if at, planned := j.Webhook.NextAttempt(j.Job, now); planned {
		d.NextAttemptAt = new(api.At(at))
		if d.LastError == nil {
			d.LastError = new(heldReason)
		}
	}
	if ofMessage(j.GetEvent()) {
		d.MessageID = new(parley.IDFromBytes[parley.MessageID](j.GetRef()))
	}
	if code := j.GetLastCode(); code != 0 {
		d.LastStatusCode = new(int(code))
	}
	if j.GetLastMs() != 0 {
		d.LastDurationMs = new(int(j.GetLastDurationMs()))
	}
	return d
}

// ofMessage reports whether an event carries a message's id.
func ofMessage(x webhook.What) bool {
	return x == webhook.MessageReceived || x == webhook.MessageDelivered || x == webhook.MessageRead
}

func unixMilli(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// instant converts Unix milliseconds to a time, and zero to nil.
func instant(ms int64) *api.Time {
	if ms == 0 {
		return nil
	}
	return new(api.At(unixMilli(ms)))
}
