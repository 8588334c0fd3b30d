package verify

import (
	"encoding/binary"
	"errors"
	"fmt"

	"parley/actors/conversation"
	"parley/actors/encoding"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// webhookReplay is a webhook that is being replayed. A deleted webhook has no rows: it lives
// if its row is there.
type webhookReplay struct {
	*replay
	id    webhook.ID
	state *webhook.State
	lives bool
}

func replayWebhook(r *replay) {
	w := &webhookReplay{replay: r, id: webhook.ID(r.stream.ID), state: &webhook.State{}}
	follow(r, rules.Webhook, w.state, &webhook.State{}, w.judge)
	r.lags, r.end = true, w.finished
}

func (w *webhookReplay) judge(seq uint64, e webhook.Event) {
	switch e := e.(type) {
	case *webhook.Created:
		w.begins(seq, e.GetId())
		_, w.lives = w.row(w.stream.Slot(), journal.WebhookTable, append(append([]byte{}, e.GetAgent()...), w.id[:]...))
	case *webhook.Collected:
		w.collected(e)
		for i, n := range e.GetNews() {
			w.owe(e.GetFirst()+uint64(i), newsAt(n.GetEvent(), n.GetPosition(), n.GetRef()))
		}
	case *webhook.Tested:
		w.owe(e.GetJob(), newsAt(webhook.TestEvent, e.GetPosition(), nil))
	case *webhook.Activated, *webhook.Deactivated, *webhook.Deleted, *webhook.Released, *webhook.Disabled, *webhook.Expired,
		*webhook.Leased, *webhook.Redirected, *webhook.Reported, *webhook.Retried, *webhook.Rotated: // they create no job
	}
}

// owe expects a job.
func (w *webhookReplay) owe(number uint64, news []byte) {
	if w.lives {
		w.expect(deliveryRows, record.JobKey(w.id, number), news)
	}
}

// newsAt encodes the event of a job, for multisets.
func newsAt(x webhook.What, position uint64, ref []byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{byte(x)}, position), ref...)
}

func (w *webhookReplay) finished() {
	if w.state.Deleted() {
		return
	}
	w.expect(webhookRows, record.WebhookKey(w.state), record.WebhookRow(w.state))
	for _, status := range []webhook.Status{webhook.Pending, webhook.Processing, webhook.Failed, webhook.Delivered, webhook.Dead} {
		w.multisets[deliveryCounts].Expect(w.stream.Slot(), uint64(max(record.JobCount(w.state, status), 0)), w.id[:], []byte{byte(status)})
	}
}

// collected checks that the subscribed events of the collected feed entries, or of a task,
// became jobs.
func (w *webhookReplay) collected(e *webhook.Collected) {
	var want []*webhook.News
	if w.state.Deleted() {
		return
	}
	if task, is := w.state.Task(); is {
		now := &conversation.State{}
		_, _, err := rules.Conversation.Load(rules.Stored{Streams: w, Messages: w}, rules.ConversationStream(task), now)
		if errors.Is(err, journal.ErrErased) || err == nil && !now.Exists() {
			return
		}
		w.failed(err)
		want = w.newsOfTask(task, now.Initiator(), e)
	} else {
		w.failed(w.Feed(w.state.Watched(), w.state.GetCursor(), e.GetUpto(), func(entry journal.FeedEntry) bool {
			for _, n := range record.WebhookNews(entry) {
				if w.state.Wants(n.GetEvent()) {
					want = append(want, n)
				}
			}
			return true
		}))
	}
	where := fmt.Sprintf("webhook %s, positions %d to %d", w.id, w.state.GetCursor(), e.GetUpto())
	if w.fails(deliveries, len(want) != len(e.GetNews())) {
		w.fault(deliveries, where, "the feed has %d entries that it subscribes to, %d became jobs", len(want), len(e.GetNews()))
		return
	}
	for i, n := range e.GetNews() {
		same := n.GetPosition() == want[i].GetPosition() && n.GetEvent() == want[i].GetEvent() && string(n.GetRef()) == string(want[i].GetRef())
		w.holds(deliveries, same, where, "job %d is about %s %x, the feed of %s %x", e.GetFirst()+uint64(i), n.GetEvent().Word(), n.GetRef(), want[i].GetEvent().Word(), want[i].GetRef())
	}
}

// newsOfTask returns the events of a task that were collected.
func (w *webhookReplay) newsOfTask(task parley.ConversationID, initiator parley.AgentID, e *webhook.Collected) (all []*webhook.News) {
	w.failed(w.Events(rules.ConversationStream(task), w.state.GetCursor()+1, false, func(n uint64, at int64, f journal.StoredEvent) bool {
		of, err := rules.Conversation.Decode(f)
		if n > e.GetUpto() || w.failed(err) {
			return false
		}
		if news, _ := record.TaskNews(task, initiator, n, at, of); news != nil {
			all = append(all, news)
		}
		return n < e.GetUpto()
	}))
	return all
}

// delivery checks the row of a job.
func (r row) delivery() {
	j := &webhook.Job{}
	if err := encoding.Unmarshal(r.value, j); err != nil || j.GetNumber() != binary.BigEndian.Uint64(r.key[16:]) {
		r.fault(knownTables, describe(statements[deliveryRows].member, r.key), "it cannot be read, or is another's (%v)", err)
		return
	}
	r.find(deliveryRows, r.key, newsAt(j.GetEvent(), j.GetPosition(), j.GetRef()))
	r.find(deliveryCounts, r.key[:16], []byte{byte(j.GetStatus())})
	if at, waits := j.Retry(); waits {
		r.expect(retryRows, r.key, big(uint64(at.UnixMilli())))
	}
}
