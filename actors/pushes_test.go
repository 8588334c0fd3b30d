package actors

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"parley/actors/conversation"
	"parley/actors/delivery"
	"parley/actors/webhook"
	"parley/journal"
)

// pushTo creates a configuration of push notifications for the conversation of a message
// from the first agent to the second.
func (h *webhookFixture) pushTo(id string) (delivery.PushConfig, *webhook.State) {
	h.t.Helper()
	c := delivery.PushConfig{
		Task: h.say(1)[0].Conversation(), Initiator: h.ids[0], Org: h.owner, ConfigID: id, URL: "https://sink.example/push",
		Seal: func(webhook.ID) []byte { return []byte("sealed") },
	}
	return c, must(h.node.Webhooks.SetPushConfig(context.Background(), c))(h.t)
}

func (h *webhookFixture) move(c delivery.PushConfig, to conversation.Status) {
	h.t.Helper()
	must(h.node.Messages.ChangeStatus(context.Background(), ChangeStatus{Conversation: c.Task, By: h.ids[1:2], Status: to.String()}))(h.t)
}

// pushed returns the numbers of the events that were handed to the courier.
func (h *webhookFixture) pushed() (numbers []uint64) {
	for _, d := range h.courier.delivered() {
		if d.Event == webhook.TaskUpdated {
			numbers = append(numbers, d.Number)
		}
	}
	return numbers
}

// TestPushesSurviveRestarts: each event of a task is attempted at least once and in order,
// also if the process ends in between. The configuration goes an hour after the task.
func TestPushesSurviveRestarts(t *testing.T) {
	at := newManualClock(noon)
	h := newWebhookFixtureAt(t, at)
	h.courier.answerWith(neverAnswer)
	c, made := h.pushTo("a")
	h.move(c, conversation.Open)
	h.move(c, conversation.InputRequired)
	h.until("the first event is attempted", func() bool { return slices.Equal(h.pushed(), []uint64{1}) })
	time.Sleep(20 * time.Millisecond)
	if got := h.pushed(); len(got) != 1 {
		t.Fatalf("attempted %d while the first is under way", got)
	}
	h.courier.answerWith(nil)
	at.advance(time.Second)
	h.restart()
	h.until("both are attempted", func() bool { return slices.Equal(h.pushed(), []uint64{1, 1, 2}) })
	// An attempt whose outcome is not stored when the process ends is made again.
	h.restart()
	h.move(c, conversation.Open)
	h.move(c, conversation.Completed)
	// An attempt that the end of the process broke off is planned again, after a pause.
	h.until("all are attempted", func() bool {
		at.advance(time.Second)
		return slices.Equal(slices.Compact(h.pushed()), []uint64{1, 2, 3, 4})
	})
	configs := func() []*webhook.State {
		return must(h.node.Webhooks.PushConfigs(context.Background(), c.Initiator, c.Task))(t)
	}
	if all := configs(); len(all) != 1 || all[0].WebhookID() != made.WebhookID() {
		t.Errorf("after the end there are %v", all)
	}
	at.advance(webhook.KeptAfterEnd + time.Minute)
	h.until("the configuration is gone", func() bool { return len(configs()) == 0 })
	v := h.contents.View()
	defer v.Close()
	for _, table := range []journal.Table{journal.WebhookTable, journal.DeliveryTable, journal.RetryTable} {
		if err := v.Table(table, func(key, _ []byte) bool {
			if id := made.WebhookID(); slices.Equal(key[:16], id[:]) || slices.Equal(key[16:min(32, len(key))], id[:]) {
				t.Errorf("a row of table %d is left", table)
			}
			return true
		}); err != nil {
			t.Error(err)
		}
	}
}

// TestPushConfigsOfATask: there are at most ten, and they are no webhooks.
func TestPushConfigsOfATask(t *testing.T) {
	h := newWebhookFixture(t, 2)
	c, first := h.pushTo("0")
	for i := 1; i < delivery.PushConfigsMax; i++ {
		c.ConfigID = fmt.Sprint(i)
		must(h.node.Webhooks.SetPushConfig(context.Background(), c))(t)
	}
	c.ConfigID = "more"
	if _, err := h.node.Webhooks.SetPushConfig(context.Background(), c); err != delivery.ErrPushConfigs {
		t.Errorf("the eleventh: %v", err)
	}
	c.ConfigID, c.URL = "0", "https://sink.example/other"
	if again := must(h.node.Webhooks.SetPushConfig(context.Background(), c))(t); again.WebhookID() != first.WebhookID() || again.GetUrl() != c.URL {
		t.Errorf("replaced by %v", again)
	}
	if all := must(h.node.Webhooks.Of(context.Background(), c.Initiator))(t); len(all) != 0 {
		t.Errorf("webhooks %v", all)
	}
	if _, err := h.node.Webhooks.Get(context.Background(), first.WebhookID(), h.owner); err != webhook.ErrUnknown {
		t.Errorf("as a webhook: %v", err)
	}
}
