package webhooks

import (
	"parley/actors/webhook"
	"parley/client/api"
	"parley/http/rest"
	"parley/http/view"
)

// ListDeliveries returns a page of a webhook's jobs, newest first. // spec: Webhooks
func (s *Webhooks) ListDeliveries(c *rest.Call, in *api.ListDeliveries) (api.DeliveryPage, error) {
	var status webhook.Status
	if in.Status != nil {
		status = webhook.Status(webhook.Status_value[*in.Status])
	}
	by, err := s.owner(c, webhook.ID(in.ID))
	if err != nil {
		return api.DeliveryPage{}, err
	}
	jobs, total, err := s.Node.Webhooks.Deliveries(c.Context(), webhook.ID(in.ID), by, status, in.Offset, in.Limit)
	if err != nil {
		return api.DeliveryPage{}, hookless(err)
	}
	page := api.DeliveryPage{Items: []api.Delivery{}, Total: total, Limit: in.Limit, Offset: in.Offset}
	for _, j := range jobs {
		page.Items = append(page.Items, view.Delivery(j, c.Now()))
	}
	return page, nil
}

// Summary counts a webhook's jobs. Jobs in progress count as pending.
func (s *Webhooks) Summary(c *rest.Call, in *api.GetDeliverySummary) (api.DeliverySummary, error) {
	by, err := s.owner(c, webhook.ID(in.ID))
	if err != nil {
		return api.DeliverySummary{}, err
	}
	w, err := s.Node.Webhooks.Get(c.Context(), webhook.ID(in.ID), by)
	if err != nil {
		return api.DeliverySummary{}, hookless(err)
	}
	n := w.Summary()
	return api.DeliverySummary{
		Total: int(n.Total), Delivered: int(n.Delivered), Failed: int(n.Failed), Dead: int(n.Dead), Pending: int(n.Pending),
	}, nil
}

// Test delivers a test event, whichever events the webhook subscribes to.
func (s *Webhooks) Test(c *rest.Call, in *api.TestWebhook) (api.Delivery, error) {
	by, err := s.owner(c, webhook.ID(in.ID))
	if err != nil {
		return api.Delivery{}, err
	}
	j, err := s.Node.Webhooks.Test(c.Context(), webhook.ID(in.ID), by)
	if err != nil {
		return api.Delivery{}, hookless(err)
	}
	return view.Delivery(j, c.Now()), nil
}

// RetryDelivery attempts a job now. A dead job gets all its attempts again.
func (s *Webhooks) RetryDelivery(c *rest.Call, in *api.RetryDelivery) (api.Delivery, error) {
	by, err := s.owner(c, webhook.ID(in.ID))
	if err != nil {
		return api.Delivery{}, err
	}
	j, err := s.Node.Webhooks.RetryJob(c.Context(), webhook.ID(in.ID), by, webhook.JobID(in.Job))
	if err != nil {
		return api.Delivery{}, hookless(err)
	}
	return view.Delivery(j, c.Now()), nil
}
