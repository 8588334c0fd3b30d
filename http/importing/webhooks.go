package importing

import (
	"fmt"

	"parley/actors/record"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/http/api"
	"parley/http/egress"
	"parley/journal"
)

// writeWebhooks writes the webhooks with new secrets, which nobody knows, and switched off:
// their owner rotates the secret and switches them on again.
func (w *writer) writeWebhooks() error {
	for i := range w.webhooks {
		if err := w.writeWebhook(&w.webhooks[i]); err != nil {
			return fmt.Errorf("webhook %s: %w", w.webhooks[i].ID, err)
		}
	}
	return nil
}

func (w *writer) writeWebhook(h *api.ExportedWebhook) error {
	id := webhook.ID(h.ID)
	if id.Slot() != h.AgentID.Slot() {
		return fmt.Errorf("it cannot belong to agent %s", h.AgentID)
	}
	created := &webhook.Created{
		Id: id.Bytes(), Agent: h.AgentID.Bytes(), Org: w.org.ID.Bytes(), Url: h.Target, Description: orEmpty(h.Description),
		SealedSecret: w.SealHook(id, egress.NewSecret(w.Entropy)), AtMs: h.CreatedAt.UnixMilli(),
	}
	if h.URL != h.Target {
		created.SentUrl = h.URL
	}
	for _, name := range h.Events {
		x, known := webhook.ParseEvent(name)
		if !known {
			return fmt.Errorf("%q is no event", name)
		}
		created.Events = append(created.Events, x)
	}
	events := []webhook.Event{created}
	switch {
	case h.DisabledAt != nil && h.DisabledReason != nil:
		reason, known := webhook.Reason_value[*h.DisabledReason]
		if !known {
			return fmt.Errorf("%q is no reason", *h.DisabledReason)
		}
		events = append(events, &webhook.Disabled{Reason: webhook.Reason(reason), AtMs: h.DisabledAt.UnixMilli()})
	default:
		events = append(events, &webhook.Deactivated{AtMs: w.Now.UnixMilli()})
	}
	state := &webhook.State{}
	create, err := stream(rules.Webhook, rules.WebhookStream(id), state, events)
	if err != nil {
		return err
	}
	return w.add(&journal.Entry{Slot: id.Slot(), At: w.began(), Effects: []journal.Effect{create}, Rows: []journal.Row{{
		Slot: id.Slot(), Table: journal.WebhookTable, Key: record.WebhookKey(state), Value: record.WebhookRow(state), Owners: journal.OwnedBy(w.org.ID),
	}}})
}
