package verify

import (
	"encoding/binary"
	"errors"
	"fmt"

	"parley"
	"parley/actors/conversation"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/journal"
	"parley/journal/report"
)

// webhookMultisets compare webhooks with their rows and those of their jobs.
type webhookMultisets struct {
	hooks, jobs, statuses, retries *report.Multiset
}

func openWebhooks(open opener) webhookMultisets {
	return webhookMultisets{
		hooks:    open("webhook-rows", "each webhook is noted with its agent, as it is", "the webhook is not noted so: nobody wakes it", "a note of a webhook that is not so", idsAt("agent", "webhook")),
		jobs:     open("delivery-rows", "each delivery job that a webhook has made can be read", "the job is not there: it is never attempted", "a job that its webhook did not make", jobMember),
		statuses: open("delivery-counts", "a webhook counts its jobs as they are", "the webhook counts a job that is not so", "a job that its webhook does not count so", countMember),
		retries:  open("retry-rows", "each job that waits for another attempt is found when it is due, and no other", "nobody finds the job when it is due", "a job is found that does not wait", jobMember),
	}
}

func jobMember(m []byte) string {
	return fmt.Sprintf("webhook %s, job %d", idText(m), binary.BigEndian.Uint64(m[16:]))
}

func countMember(m []byte) string {
	return fmt.Sprintf("webhook %s, status %s", idText(m), webhook.Status(m[16]))
}

// newsAt encodes the event of a job, for multisets.
func newsAt(x webhook.What, position uint64, ref []byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{byte(x)}, position), ref...)
}

// replayWebhook replays a webhook. A deleted webhook has no rows.
func (x *verifier) replayWebhook(s journal.Stream) streamReplay {
	t := &aggregateReplay[*webhook.State, webhook.Command, webhook.Event]{
		rules: rules.Webhook, state: &webhook.State{}, blank: func() *webhook.State { return &webhook.State{} }, lags: true,
	}
	id := webhook.ID(s.ID)
	lives := false
	owe := func(number uint64, news []byte) {
		if lives {
			x.jobs.Expect(s.Slot(), 1, record.JobKey(id, number), news)
		}
	}
	t.judge = func(seq uint64, e webhook.Event) (err error) {
		switch e := e.(type) {
		case *webhook.Created:
			x.begins(s, seq, e.GetId())
			_, lives, err = x.Row(s.Slot(), journal.WebhookTable, append(append([]byte{}, e.GetAgent()...), s.ID[:]...))
			return err
		case *webhook.Collected:
			if err := x.collected(t.state, e); err != nil {
				return err
			}
			for i, n := range e.GetNews() {
				owe(e.GetFirst()+uint64(i), newsAt(n.GetEvent(), n.GetPosition(), n.GetRef()))
			}
		case *webhook.Tested:
			owe(e.GetJob(), newsAt(webhook.TestEvent, e.GetPosition(), nil))
		case *webhook.Activated, *webhook.Deactivated, *webhook.Deleted, *webhook.Released, *webhook.Disabled, *webhook.Expired, *webhook.Leased, *webhook.Redirected, *webhook.Reported, *webhook.Retried, *webhook.Rotated: // they create no job
		}
		return nil
	}
	t.end = func() error {
		if t.state.Deleted() {
			return nil
		}
		x.hooks.Expect(s.Slot(), 1, record.WebhookKey(t.state), record.WebhookRow(t.state))
		for _, status := range []webhook.Status{webhook.Pending, webhook.Processing, webhook.Failed, webhook.Delivered, webhook.Dead} {
			if n := record.JobCount(t.state, status); n > 0 {
				x.webhookMultisets.statuses.Expect(s.Slot(), uint64(n), s.ID[:], []byte{byte(status)})
			}
		}
		return nil
	}
	return t
}

// collected checks that the subscribed events of the collected feed entries became jobs.
func (x *verifier) collected(s *webhook.State, e *webhook.Collected) error {
	if s.Deleted() {
		return nil
	}
	var want []*webhook.News
	if task, is := s.Task(); is {
		return x.collectedTask(s, task, e)
	}
	err := x.Feed(s.Watched(), s.GetCursor(), e.GetUpto(), func(line journal.FeedEntry) bool {
		for _, n := range record.WebhookNews(line) {
			if s.Wants(n.GetEvent()) {
				want = append(want, n)
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	x.compareNews(s, e, want)
	return nil
}

// collectedTask checks that the collected events of a task became jobs.
func (x *verifier) collectedTask(s *webhook.State, task parley.ConversationID, e *webhook.Collected) error {
	now := &conversation.State{}
	_, _, err := rules.Conversation.Load(x, rules.ConversationStream(task), now)
	if errors.Is(err, journal.ErrErased) || err == nil && !now.Exists() {
		return nil
	}
	if err != nil {
		return err
	}
	var want []*webhook.News
	var bad error
	err = x.Events(rules.ConversationStream(task), s.GetCursor()+1, false, func(n uint64, at int64, f journal.StoredEvent) bool {
		var of conversation.Event
		if of, bad = rules.Conversation.Decode(f); bad != nil || n > e.GetUpto() {
			return false
		}
		if news, _ := record.TaskNews(task, now.Initiator(), n, at, of); news != nil {
			want = append(want, news)
		}
		return n < e.GetUpto()
	})
	if err = errors.Join(err, bad); err == nil {
		x.compareNews(s, e, want)
	}
	return err
}

// compareNews compares what was collected with what was there.
func (x *verifier) compareNews(s *webhook.State, e *webhook.Collected, want []*webhook.News) {
	x.collectedAll.Checked++
	where := fmt.Sprintf("webhook %s, positions %d to %d", s.WebhookID(), s.GetCursor(), e.GetUpto())
	if len(want) != len(e.GetNews()) {
		x.collectedAll.Fault(where, "the feed has %d entries that it subscribes to, %d became jobs", len(want), len(e.GetNews()))
		return
	}
	for i, n := range e.GetNews() {
		if n.GetPosition() != want[i].GetPosition() || n.GetEvent() != want[i].GetEvent() || string(n.GetRef()) != string(want[i].GetRef()) {
			x.collectedAll.Fault(where, "job %d is about %s %x, the feed of %s %x", e.GetFirst()+uint64(i), n.GetEvent().Word(), n.GetRef(), want[i].GetEvent().Word(), want[i].GetRef())
		}
	}
}

// deliveryRow checks the row of a job.
func (x *verifier) deliveryRow(slot parley.Slot, key, value []byte) error {
	j := &webhook.Job{}
	if err := j.UnmarshalVT(value); err != nil || j.GetNumber() != binary.BigEndian.Uint64(key[16:]) {
		x.tables.Fault("delivery "+jobMember(key), "it cannot be read, or is another's (%v)", err)
		return nil
	}
	x.jobs.Find(slot, 1, key, newsAt(j.GetEvent(), j.GetPosition(), j.GetRef()))
	x.webhookMultisets.statuses.Find(slot, 1, key[:16], []byte{byte(j.GetStatus())})
	if at, waits := j.Retry(); waits {
		x.retries.Expect(slot, 1, key, big(uint64(at.UnixMilli())))
	}
	return nil
}
