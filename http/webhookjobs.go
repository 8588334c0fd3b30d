package http

import (
	"parley/actors/webhook"
	"parley/http/api"
	"parley/http/rest"
	"parley/http/view"
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
		page.Items = append(page.Items, view.Delivery(j, c.Now()))
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
	return view.Delivery(j, c.Now()), nil
}

// retryDelivery attempts a job now. A dead job gets all its attempts again.
func (s webhooks) retryDelivery(c *rest.Call, in *api.RetryDelivery) (api.Delivery, error) {
	j, err := s.Node.Webhooks.RetryJob(c.Context(), webhook.ID(in.ID), c.Caller.Org, webhook.JobID(in.Job))
	if err != nil {
		return api.Delivery{}, hookless(err)
	}
	return view.Delivery(j, c.Now()), nil
}
