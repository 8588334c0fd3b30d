package view

import (
	"time"

	"parley/actors/query"
	"parley/actors/webhook"
	"parley/client/api"
	"parley/client/parley"
)

// Webhook returns a webhook as its owner sees it. // spec: Webhook (WebhookRead)
func Webhook(w *webhook.State) api.Webhook {
	read := api.Webhook{
		ID: parley.AnyID(w.WebhookID()), AgentID: w.Watched(), URL: w.SentURL(), Active: w.GetActive(),
		CreatedAt: api.At(w.CreatedAt()), Events: []string{}, Description: OrNull(w.GetDescription()),
	}
	for _, x := range w.GetEvents() {
		read.Events = append(read.Events, x.Word())
	}
	if at, reason, disabled := w.DisabledAt(); disabled {
		read.DisabledAt, read.DisabledReason = new(api.At(at)), new(reason.String())
	}
	return read
}

// WebhookWarning returns the warning to an agent's owner about a webhook that was switched
// off.
func WebhookWarning(w *webhook.State) string {
	why := map[webhook.Reason]string{
		webhook.TargetGone:   "its target answered 410 Gone",
		webhook.OnlyFailures: "nothing could be delivered for days",
	}
	_, reason, _ := w.DisabledAt()
	return "The webhook " + w.WebhookID().String() + " was switched off: " + why[reason] + "."
}

// Delivery returns a job as the webhook's owner sees it.
func Delivery(j query.WebhookJob, now time.Time) api.Delivery {
	d := api.Delivery{
		ID: parley.AnyID(j.ID), WebhookID: parley.AnyID(j.Webhook.WebhookID()), AgentID: j.Webhook.Watched(),
		Event: j.GetEvent().Word(), Status: j.GetStatus().String(), Attempts: int(j.GetAttempts()),
		MaxAttempts: webhook.AttemptsMax, CreatedAt: Millis(j.GetCreatedMs()), DeliveredAt: MaybeMillis(j.GetDeliveredMs()),
		LastAttemptAt: MaybeMillis(j.GetLastMs()), LastError: OrNull(j.GetLastError()),
	}
	if at, planned := j.Webhook.NextAttempt(j.Job, now); planned {
		d.NextAttemptAt = new(api.At(at))
		if d.LastError == nil {
			d.LastError = new(HeldReason)
		}
	}
	if OfMessage(j.GetEvent()) {
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

// OfMessage reports whether an event carries a message's id.
func OfMessage(x webhook.What) bool {
	return x == webhook.MessageReceived || x == webhook.MessageDelivered || x == webhook.MessageRead
}

// HeldReason is why a webhook makes no attempts at present.
const HeldReason = "the webhook is held: its target failed repeatedly or asked to be left alone"
