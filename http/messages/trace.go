package messages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/actors/query"
	"parley/actors/webhook"
	"parley/client/api"
	"parley/http/rest"
	"parley/http/submission"
	"parley/http/view"
	"parley/journal"
)

// Trace returns the attempts to bring a message to its recipient, and why it is
// not delivered yet. // docs: delivery.md
func (s Inbox) Trace(c *rest.Call, in *api.Trace) (*api.Traced, error) {
	m, err := s.Node.Messages.Get(c.Context(), in.ID)
	if m, err = submission.Readable(c, m, err); err != nil {
		return nil, err
	}
	id, to := m.Record.MessageID(), m.Record.Recipient()
	if m, err = s.Node.Messages.GetFor(c.Context(), to.Slot(), id); err != nil {
		return nil, err
	}
	out := &api.Traced{
		MessageID: id, AcceptedAt: api.At(m.Record.CreatedAt()),
		DeliveredAt: view.MaybeMillis(m.Receipts.DeliveredAt()), ReadAt: view.MaybeMillis(m.Receipts.ReadAt),
	}
	delivered := m.Receipts.DeliveredAt() != 0 || m.Receipts.ReadAt != 0
	if !c.Caller.Owns(m.Record.RecipientOrg(), to) {
		out.Attempts = carriage(m.Receipts, false)
		if !delivered {
			out.PendingReason = reason(distantReason(m))
		}
		return out, nil
	}
	if m.Position != 0 {
		at := int(m.Position)
		out.Position = &at
	}
	jobs, err := s.Node.Webhooks.AnnouncementsOf(c.Context(), to, m)
	if err != nil {
		return nil, err
	}
	out.Attempts = append(carriage(m.Receipts, true), announcements(jobs)...)
	slices.SortStableFunc(out.Attempts, func(a, b api.Attempt) int { return a.At.Compare(b.At.Time) })
	if !delivered {
		why, err := s.nearReason(c, m, jobs)
		if err != nil {
			return nil, err
		}
		out.PendingReason = reason(why)
	}
	return out, nil
}

func reason(text string) *string { return &text }

// carriage returns the attempt that transferred the message's body, if there is one. A
// message that its recipient has marked as read may have none.
func carriage(m journal.Receipts, detailed bool) []api.Attempt {
	names, known := view.Channels[m.TransferredBy]
	if m.TransferredAt == 0 || !known {
		return []api.Attempt{}
	}
	a := api.Attempt{Channel: names[0], At: api.At(time.UnixMilli(m.TransferredAt)), Outcome: api.OutcomeCarried}
	if detailed {
		a.Detail = &names[1]
	}
	return []api.Attempt{a}
}

// announcements returns the completed attempts of webhooks.
func announcements(jobs []query.WebhookJob) (all []api.Attempt) {
	for _, j := range jobs {
		for _, try := range j.GetTries() {
			a := api.Attempt{Channel: api.ChannelWebhook, At: api.At(time.UnixMilli(try.GetBeganMs())), Outcome: api.OutcomeFailed}
			if try.GetCode() >= 200 && try.GetCode() < 300 {
				a.Outcome = api.OutcomeAnnounced
			}
			detail := fmt.Sprintf("Webhook %s: %s after %d ms.", j.Webhook.WebhookID(), endedWith(try.GetCode(), try.GetError()), try.GetDurationMs())
			a.Detail = &detail
			all = append(all, a)
		}
	}
	return all
}

// endedWith describes how an attempt ended.
func endedWith(code uint32, fault string) string {
	switch {
	case code != 0:
		return fmt.Sprintf("status %d", code)
	case fault != "":
		return strings.TrimSuffix(fault, ".")
	}
	return "no answer"
}

const onItsWay = "It is on its way to the recipient's journal."

// distantReason returns why a message is not delivered yet, as far as the sender may
// know.
func distantReason(m query.Message) string {
	if m.Position == 0 {
		return onItsWay
	}
	return "It is in the recipient's inbox, and the recipient has not fetched it yet."
}

// nearReason returns the same for the organization that owns the recipient.
func (s Inbox) nearReason(c *rest.Call, m query.Message, jobs []query.WebhookJob) (string, error) {
	if m.Position == 0 {
		return onItsWay, nil
	}
	to := m.Record.Recipient()
	hooks, err := s.Node.Webhooks.Of(c.Context(), to)
	if err != nil {
		return "", err
	}
	stream := "no stream of the agent is open"
	if s.Listening(to) {
		stream = "a stream of the agent is open and has not brought it yet"
	}
	return fmt.Sprintf("Nobody has fetched it since %s; %s; %s.", api.At(m.Record.CreatedAt()), stream, hookReason(hooks, jobs, c.Now())), nil
}

// hookReason returns the reason from the recipient's webhook that is likeliest to deliver
// the message.
func hookReason(hooks []*webhook.State, jobs []query.WebhookJob, now time.Time) string {
	hooks = slices.DeleteFunc(hooks, func(h *webhook.State) bool { return h.Deleted() })
	if len(hooks) == 0 {
		return "it has no webhook"
	}
	if len(jobs) > 0 {
		return jobReason(slices.MinFunc(jobs, func(a, b query.WebhookJob) int { return cmp.Compare(hopeOf(a, now), hopeOf(b, now)) }), now)
	}
	wanting := slices.DeleteFunc(hooks, func(h *webhook.State) bool { return !h.Wants(webhook.MessageReceived) })
	active := slices.IndexFunc(wanting, func(h *webhook.State) bool { return h.GetActive() })
	switch {
	case len(wanting) == 0:
		return "none of its webhooks asks for messages received"
	case active < 0:
		return "its webhook is switched off"
	}
	return "its webhook is not told yet"
}

// hopeOf orders jobs by when they may deliver, the soonest first.
func hopeOf(j query.WebhookJob, now time.Time) int64 {
	switch {
	case j.GetStatus() == webhook.Dead:
		return 1<<62 + 1
	case !j.Webhook.GetActive():
		return 1 << 62
	}
	if at, planned := j.Webhook.NextAttempt(j.Job, now); planned {
		return at.UnixMilli()
	}
	return j.GetNextMs()
}

func jobReason(j query.WebhookJob, now time.Time) string {
	failed := "no attempt of its webhook has ended"
	if tries := j.GetTries(); len(tries) > 0 {
		last := tries[len(tries)-1]
		failed = fmt.Sprintf("%s of its webhook failed, the last with %s", counted(len(tries), "attempt"), endedWith(last.GetCode(), last.GetError()))
	}
	due, planned := j.Webhook.NextAttempt(j.Job, now)
	until, held := j.Webhook.Held(now)
	switch {
	case j.GetStatus() == webhook.Dead:
		return failed + ", and there will be no other"
	case !j.Webhook.GetActive():
		return failed + ", and it is switched off"
	case j.GetStatus() == webhook.Processing:
		return failed + ", and one is under way"
	case planned && held && due.Equal(until):
		return failed + ", " + view.HeldReason + ", and the next is due at " + api.At(due).String()
	case planned:
		return failed + ", and the next is due at " + api.At(due).String()
	}
	return failed + ", and the first is about to begin"
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
