package actors

import (
	"testing"

	"parley/actors/conversation"
	"parley/actors/encoding"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/journal"
)

// rowOf matches rows of a table.
func rowOf(table journal.Table) func(k, _ []byte) bool {
	return func(k, _ []byte) bool { return k[3] == byte(table) }
}

// changeJob changes the first job that has a status.
func changeJob(x *tamperer, status webhook.Status, change func(*webhook.Job)) {
	read := func(v []byte) *webhook.Job {
		j := &webhook.Job{}
		if err := encoding.Unmarshal(v, j); err != nil {
			panic(err)
		}
		return j
	}
	x.alter('R', func(k, v []byte) bool {
		return k[3] == byte(journal.DeliveryTable) && read(v).GetStatus() == status
	}, func(v []byte) []byte {
		j := read(v)
		change(j)
		row, err := encoding.Marshal(j)
		if err != nil {
			panic(err)
		}
		return row
	})
}

// webhookControls plant faults in the data of webhooks.
var webhookControls = map[string]tamperCase{
	"a job is gone": {func(x *tamperer) { x.dropFirst('R', rowOf(journal.DeliveryTable)) }, []string{"delivery-counts", "delivery-rows"}, true},
	"a job waits that was delivered": {func(x *tamperer) {
		changeJob(x, webhook.Delivered, func(j *webhook.Job) { j.Status, j.NextMs = webhook.Failed, 9 })
	}, []string{"delivery-counts", "retry-rows"}, true},
	"a job is about another message": {func(x *tamperer) {
		changeJob(x, webhook.Delivered, func(j *webhook.Job) { j.Ref = nobody[:] })
	}, []string{"delivery-rows"}, true},
	"a job is another": {func(x *tamperer) {
		changeJob(x, webhook.Delivered, func(j *webhook.Job) { j.Number = 99 })
	}, []string{"delivery-counts", "delivery-rows", "tables"}, true},
	"nobody finds a job that waits": {func(x *tamperer) { x.dropFirst('R', rowOf(journal.RetryTable)) }, []string{"retry-rows"}, true},
	"nobody wakes a webhook": {func(x *tamperer) {
		x.alter('R', rowOf(journal.WebhookTable), func(v []byte) []byte { v[0] ^= 1; return v })
	}, []string{"webhook-rows"}, true},
	"a webhook is forgotten": {func(x *tamperer) { x.dropFirst('R', rowOf(journal.WebhookTable)) }, []string{"delivery-rows", "webhook-rows"}, false},
	"a line of the feed was passed over": {func(x *tamperer) {
		rewriteEvent(x, journal.WebhookStream, rules.Webhook, func(e webhook.Event) bool {
			c, ok := e.(*webhook.Collected)
			return ok && len(c.GetNews()) > 0
		}, func(e webhook.Event) { c := e.(*webhook.Collected); c.News = c.News[1:] })
	}, []string{"deliveries", "delivery-rows"}, false},
	"a line became another job": {func(x *tamperer) {
		rewriteEvent(x, journal.WebhookStream, rules.Webhook, func(e webhook.Event) bool {
			c, ok := e.(*webhook.Collected)
			return ok && len(c.GetNews()) > 0
		}, func(e webhook.Event) { e.(*webhook.Collected).News[0].Ref = nobody[:] })
	}, []string{"deliveries", "delivery-rows"}, true},
}

// webhookNamesOfChecks are the checks that examine only data of webhooks.
var webhookNamesOfChecks = map[string]bool{
	"webhook-rows": true, "delivery-rows": true, "delivery-counts": true, "retry-rows": true, "deliveries": true,
}

func TestVerifyWebhookControls(t *testing.T) {
	skipUnderRace(t)
	at := newManualClock(noon)
	h := newWebhookFixtureAt(t, at, inTheClear)
	h.say(3)
	h.until("deliveries", func() bool { return len(h.jobs(webhook.Delivered)) == 3 })
	h.courier.answerWith(answerCode(500))
	h.say(2)
	h.until("failures", func() bool { return len(h.jobs(webhook.Failed)) == 2 })
	w := &fullStore{testNode: h.testNode, manual: at, owner: h.owner, agents: h.ids}
	w.close()
	heard := map[string]bool{}
	whole := plantAll(t, w, webhookControls, heard) == len(webhookControls)
	for _, c := range w.tampered(t, func(*tamperer) {}).Checks() {
		if whole && webhookNamesOfChecks[c.Name] && !heard[c.Name] {
			t.Errorf("no control makes check %q report", c.Name)
		}
	}
}

// pushControls plant faults in the data of configurations of push notifications.
var pushControls = map[string]tamperCase{
	"an event of a task was passed over": {func(x *tamperer) {
		rewriteEvent(x, journal.WebhookStream, rules.Webhook, func(e webhook.Event) bool {
			c, ok := e.(*webhook.Collected)
			return ok && len(c.GetNews()) > 0
		}, func(e webhook.Event) { c := e.(*webhook.Collected); c.News = c.News[1:] })
	}, []string{"deliveries", "delivery-rows"}, false},
	"a row names another task": {func(x *tamperer) {
		x.alter('R', func(k, v []byte) bool { return k[3] == byte(journal.WebhookTable) && v[0]&4 != 0 }, func(v []byte) []byte { v[len(v)-1] ^= 1; return v })
	}, []string{"webhook-rows"}, true},
}

func TestVerifyPushControls(t *testing.T) {
	skipUnderRace(t)
	at := newManualClock(noon)
	h := newWebhookFixtureAt(t, at, inTheClear)
	must(h.node.Webhooks.Change(t.Context(), h.hook.WebhookID(), webhook.Delete{By: h.owner}))(t)
	c, _ := h.pushTo("a")
	h.move(c, conversation.Open)
	h.move(c, conversation.Completed)
	h.until("deliveries", func() bool { return len(h.pushed()) == 2 })
	h.until("reports", func() bool {
		all := must(h.node.Webhooks.PushConfigs(t.Context(), c.Initiator, c.Task))(t)
		return len(all) == 1 && all[0].GetDelivered() == 2
	})
	w := &fullStore{testNode: h.testNode, manual: at, owner: h.owner, agents: h.ids}
	w.close()
	plantAll(t, w, pushControls, map[string]bool{})
}
