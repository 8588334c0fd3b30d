package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/delivery"
	"parley/actors/query"
	"parley/actors/record"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
	"parley/persistence"
)

// fakeCourier is a courier whose targets answer as a test says.
type fakeCourier struct {
	mu         sync.Mutex
	deliveries []delivery.Delivery
	at         []time.Time
	answer     func(delivery.Delivery) (o webhook.Outcome, hangs bool)
	resets     int
	drops      atomic.Int32
	dropsAll   atomic.Int32
}

func (p *fakeCourier) Deliver(d delivery.Delivery, done func(webhook.Outcome)) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deliveries, p.at = append(p.deliveries, d), append(p.at, time.Now())
	o, hangs := webhook.Outcome{Code: 200}, false
	if p.answer != nil {
		o, hangs = p.answer(d)
	}
	if !hangs {
		go done(o)
	}
	return 0, true
}

func (p *fakeCourier) Reset(webhook.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resets++
}

func (p *fakeCourier) Drop(webhook.ID) { p.drops.Add(1) }

func (p *fakeCourier) DropAll() { p.dropsAll.Add(1) }

func (p *fakeCourier) answerWith(answer func(delivery.Delivery) (webhook.Outcome, bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// delivered returns the deliveries so far.
func (p *fakeCourier) delivered() []delivery.Delivery {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.deliveries)
}

func answerCode(code int) func(delivery.Delivery) (webhook.Outcome, bool) {
	return func(delivery.Delivery) (webhook.Outcome, bool) {
		return webhook.Outcome{Code: code, Error: "no"}, false
	}
}

func neverAnswer(delivery.Delivery) (webhook.Outcome, bool) { return webhook.Outcome{}, true }

// webhookFixture is a test node with a courier, two agents and a webhook of the second.
type webhookFixture struct {
	*testNode
	manual  *manualClock
	courier *fakeCourier
	owner   parley.OrgID
	ids     []parley.AgentID
	hook    *webhook.State
}

func newWebhookFixture(t testing.TB, journals int, events ...webhook.What) *webhookFixture {
	return openWebhookFixture(t, &webhookFixture{}, events, withJournals(journals))
}

// newWebhookFixtureAt uses a manual clock.
func newWebhookFixtureAt(t testing.TB, at *manualClock, options ...option) *webhookFixture {
	return openWebhookFixture(t, &webhookFixture{manual: at}, nil, append(options, withClock(at.now), func(r *testNode) {
		r.tuneStore = func(o *persistence.Options) { o.TimerEvery = 2 * time.Millisecond }
	})...)
}

func openWebhookFixture(t testing.TB, h *webhookFixture, events []webhook.What, options ...option) *webhookFixture {
	h.courier = &fakeCourier{}
	h.testNode = newTestNode(t, append(options, withTuning(func(n *Node) { n.Webhooks.Courier = h.courier }))...)
	h.owner, h.ids = h.agents("acme", 3)
	h.hook = h.watch(h.ids[1], "https://sink.example/a", events...)
	return h
}

func (h *webhookFixture) watch(of parley.AgentID, url string, events ...webhook.What) *webhook.State {
	h.t.Helper()
	return must(h.node.Webhooks.Create(context.Background(), delivery.CreateWebhook{
		ID: h.node.Webhooks.NewID(of), Agent: of, Org: h.owner, URL: url, Events: events, SealedSecret: []byte("sealed"),
	}))(h.t)
}

func (h *webhookFixture) say(n int) []*record.Message {
	h.t.Helper()
	var all []*record.Message
	for i := range n {
		all = append(all, must(h.send(direct(h.owner, h.ids[0], h.ids[1], fmt.Sprint("m", i), "")))(h.t).Message)
	}
	return all
}

// until waits for a condition, in virtual or real time.
func (h *webhookFixture) until(what string, done func() bool) {
	h.t.Helper()
	for range 2000 {
		if done() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	h.t.Fatalf("never: %s", what)
}

func (h *webhookFixture) jobs(status webhook.Status) []query.WebhookJob {
	h.t.Helper()
	page, total, err := h.node.Webhooks.Deliveries(context.Background(), h.hook.WebhookID(), h.owner, status, 0, 100)
	if err != nil {
		h.t.Fatal(err)
	}
	if total > 100 && len(page) == 100 {
		return page
	}
	if total != len(page) {
		h.t.Fatalf("%d jobs of %d", len(page), total)
	}
	return page
}

func (h *webhookFixture) change(c webhook.Command) (*webhook.State, error) {
	return h.node.Webhooks.Change(context.Background(), h.hook.WebhookID(), c)
}

func TestWebhookReceivesMessages(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprint(journals), func(t *testing.T) {
			h := newWebhookFixture(t, journals)
			said := h.say(5)
			h.until("five deliveries", func() bool { return len(h.jobs(webhook.Delivered)) == 5 })
			for i, d := range h.courier.delivered() {
				if d.Message != said[i].MessageID() || d.Event != webhook.MessageReceived || d.Agent != h.ids[1] || d.URL != h.hook.GetUrl() || string(d.Sealed[0]) != "sealed" {
					t.Errorf("delivery %d is %+v", i, d)
				}
			}
			for i, m := range h.inbox(h.ids[1]) {
				if m.Receipts.AnnouncedAt == 0 || m.Receipts.Transferred() {
					t.Errorf("message %d has receipts %+v", i, m.Receipts)
				}
				found := must(h.node.Webhooks.AnnouncementsOf(context.Background(), h.ids[1], m))(t)
				if len(found) != 1 || found[0].GetStatus() != webhook.Delivered || len(found[0].GetTries()) != 1 {
					t.Errorf("message %d was announced by %v", i, found)
				}
			}
			// The sender sees it too, and a stream still sends the message.
			h.until("the mark at the sender's", func() bool {
				m := must(h.node.Messages.Get(context.Background(), said[0].MessageID()))(t)
				return m.Receipts.DeliveredAt() != 0
			})
			start := must(h.node.Feeds.Resume(context.Background(), h.ids[1], parley.MessageID{}, false))(t)
			if !start.OnlyUntransferred || start.After >= h.inbox(h.ids[1])[4].Position {
				t.Errorf("a stream begins after %d", start.After)
			}
		})
	}
}

func TestWebhookReceivesOtherEvents(t *testing.T) {
	h := newWebhookFixture(t, 4, webhook.MessageDelivered, webhook.MessageRead, webhook.ConversationUpdated)
	sender := h.watch(h.ids[0], "https://sink.example/b", webhook.MessageDelivered, webhook.MessageRead, webhook.ConversationUpdated)
	m := h.say(1)[0]
	must(h.reply(answerTo(h.owner, m, "yes", "")))(t)
	must(h.node.Messages.ChangeStatus(context.Background(), ChangeStatus{Conversation: m.Conversation(), By: []parley.AgentID{h.ids[0]}, Status: conversation.Completed.String()}))(t)
	want := map[webhook.ID][]webhook.What{
		sender.WebhookID(): {webhook.ConversationUpdated},
		h.hook.WebhookID(): {webhook.ConversationUpdated},
	}
	got := map[webhook.ID][]webhook.What{}
	h.until("two deliveries", func() bool { return len(h.courier.delivered()) >= 2 })
	time.Sleep(50 * time.Millisecond)
	for _, d := range h.courier.delivered() {
		got[d.Webhook] = append(got[d.Webhook], d.Event)
		if d.Conversation != m.Conversation() || !d.Message.Zero() {
			t.Errorf("%+v", d)
		}
	}
	if !slices.Equal(got[sender.WebhookID()], want[sender.WebhookID()]) || !slices.Equal(got[h.hook.WebhookID()], want[h.hook.WebhookID()]) {
		t.Errorf("got events %v, want %v", got, want)
	}
}

// TestRetriesFollowTheSchedule: a target rejects everything for two days, and then
// accepts everything.
func TestRetriesFollowTheSchedule(t *testing.T) {
	h := newWebhookFixtureAt(t, newManualClock(noon))
	h.courier.answerWith(answerCode(500))
	h.say(1)
	h.until("the first attempt", func() bool { return len(h.jobs(webhook.Failed)) == 1 })
	waits := []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 10 * time.Hour}
	for i, planned := range waits {
		h.manual.advance(planned - time.Second)
		time.Sleep(20 * time.Millisecond)
		if n := len(h.courier.delivered()); n != i+1 {
			t.Fatalf("attempt %d came too early", n)
		}
		h.manual.advance(time.Second)
		h.until(fmt.Sprintf("attempt %d", i+2), func() bool {
			all := h.jobs(0)
			return len(all[0].GetTries()) == i+2
		})
	}
	dead := h.jobs(webhook.Dead)
	if len(dead) != 1 || dead[0].GetAttempts() != 8 || dead[0].GetLastCode() != 500 {
		t.Fatalf("dead: %v", dead)
	}
	h.courier.answerWith(nil)
	must(h.node.Webhooks.RetryJob(context.Background(), h.hook.WebhookID(), h.owner, dead[0].ID))(t)
	h.until("it is delivered", func() bool { return len(h.jobs(webhook.Delivered)) == 1 })
	if h.courier.resets != 1 {
		t.Errorf("the target's recovery was reported %d times", h.courier.resets)
	}
}

// TestWebhookEndsAfterFailuresOnly lets a target fail for five days.
func TestWebhookEndsAfterFailuresOnly(t *testing.T) {
	h := newWebhookFixtureAt(t, newManualClock(noon))
	h.courier.answerWith(answerCode(503))
	now := func() *webhook.State {
		return must(h.node.Webhooks.Get(context.Background(), h.hook.WebhookID(), h.owner))(t)
	}
	for day := range 11 {
		tried := len(h.courier.delivered())
		h.say(1)
		h.until("attempts", func() bool { return len(h.courier.delivered()) > tried && len(now().GetUnderWay()) == 0 })
		if !now().GetActive() != (day == 10) {
			t.Fatalf("after %d half days active is %v", day, now().GetActive())
		}
		h.manual.advance(12 * time.Hour)
	}
	if _, why, off := now().DisabledAt(); !off || why != webhook.OnlyFailures {
		t.Errorf("disabled %v: %v", off, why)
	}
	a := must(h.node.Agents.Get(context.Background(), h.ids[1]))(t)
	if told := must(h.node.Webhooks.Disabled(context.Background(), a))(t); len(told) != 1 {
		t.Errorf("the owner received %v", told)
	}
	tried := len(h.courier.delivered())
	h.say(1)
	h.manual.advance(48 * time.Hour)
	time.Sleep(50 * time.Millisecond)
	if len(h.courier.delivered()) != tried {
		t.Error("a disabled webhook attempts deliveries")
	}
	h.courier.answerWith(nil)
	must(h.change(webhook.Toggle{By: h.owner, Active: true}))(t)
	h.until("what waited is delivered", func() bool { return now().GetFailed() == 0 && now().GetDelivered() > 1 })
	if told := must(h.node.Webhooks.Disabled(context.Background(), a))(t); len(told) != 0 {
		t.Errorf("the owner received %v", told)
	}
}

// TestAttemptsAreRepeatedAfterARestart restarts the node before the targets answer.
func TestAttemptsAreRepeatedAfterARestart(t *testing.T) {
	h := newWebhookFixture(t, 4)
	h.courier.answerWith(neverAnswer)
	said := h.say(100)
	h.until("some under way", func() bool { return len(h.courier.delivered()) == delivery.AttemptsAtOnce })
	h.restart()
	h.courier.answerWith(nil)
	h.until("all delivered", func() bool {
		_, n, _ := h.node.Webhooks.Deliveries(context.Background(), h.hook.WebhookID(), h.owner, webhook.Delivered, 0, 1)
		return n == 100
	})
	times := map[parley.MessageID]int{}
	for _, d := range h.courier.delivered() {
		times[d.Message]++
	}
	for _, m := range said {
		if n := times[m.MessageID()]; n < 1 || n > 2 {
			t.Errorf("message %s was delivered %d times", m.MessageID(), n)
		}
	}
}

// TestDeliveriesAfterClockSetBack sets the clock back after the node began to deliver, and
// again before it restarts: each message is delivered once, and what was under way once more.
func TestDeliveriesAfterClockSetBack(t *testing.T) {
	h := newWebhookFixtureAt(t, newManualClock(noon))
	h.manual.advance(-time.Hour)
	h.say(5)
	h.until("all delivered", func() bool { return len(h.jobs(webhook.Delivered)) == 5 })
	if n := len(h.courier.delivered()); n != 5 {
		t.Errorf("5 messages were delivered %d times", n)
	}
	h.courier.answerWith(neverAnswer)
	h.say(5)
	h.until("all under way", func() bool { return len(h.courier.delivered()) >= 10 })
	h.manual.advance(-time.Hour)
	h.restart()
	h.courier.answerWith(nil)
	h.until("all delivered after a restart", func() bool { return len(h.jobs(webhook.Delivered)) == 10 })
	if n := len(h.courier.delivered()); n != 15 {
		t.Errorf("10 messages, of which 5 were under way at the restart, were delivered %d times", n)
	}
}

func TestWebhookCommandsRefused(t *testing.T) {
	h := newWebhookFixture(t, 1)
	ctx, id := context.Background(), h.hook.WebhookID()
	limit := 1
	again := delivery.CreateWebhook{ID: h.node.Webhooks.NewID(h.ids[1]), Agent: h.ids[1], Org: h.owner, URL: h.hook.GetUrl(), SealedSecret: []byte("s"), Limit: &limit}
	if _, err := h.node.Webhooks.Create(ctx, again); !errors.Is(err, webhook.ErrDuplicate) {
		t.Errorf("twice: %v", err)
	}
	again.URL += "b"
	if _, err := h.node.Webhooks.Create(ctx, again); !errors.Is(err, parley.ErrQuotaExceeded) {
		t.Errorf("one webhook too many: %v", err)
	}
	other := h.org("globex").Org.OrgID()
	if _, err := h.node.Webhooks.Get(ctx, id, other); !errors.Is(err, webhook.ErrUnknown) {
		t.Errorf("a stranger: %v", err)
	}
	if _, err := h.change(webhook.Delete{By: other}); !errors.Is(err, webhook.ErrUnknown) {
		t.Errorf("a stranger deletes: %v", err)
	}
	tested := must(h.node.Webhooks.Test(ctx, id, h.owner))(t)
	h.until("the test", func() bool { return len(h.jobs(webhook.Delivered)) == 1 })
	if _, err := h.node.Webhooks.RetryJob(ctx, id, h.owner, tested.ID); !errors.Is(err, webhook.ErrDelivered) {
		t.Errorf("a retry of a delivered job: %v", err)
	}
	must(h.change(webhook.Toggle{By: h.owner}))(t)
	h.say(3)
	if _, err := h.node.Webhooks.Test(ctx, id, h.owner); !errors.Is(err, webhook.ErrInactive) {
		t.Errorf("a test while inactive: %v", err)
	}
	must(h.change(webhook.Toggle{By: h.owner, Active: true}))(t)
	h.say(1)
	h.until("the last", func() bool { return len(h.jobs(webhook.Delivered)) == 2 })
	if all := h.jobs(0); len(all) != 2 {
		t.Errorf("events while it was inactive became jobs: %v", all)
	}
	must(h.change(webhook.Delete{By: h.owner}))(t)
	if _, err := h.node.Webhooks.Get(ctx, id, h.owner); !errors.Is(err, webhook.ErrUnknown) {
		t.Errorf("after its deletion: %v", err)
	}
	again.Limit, again.URL = nil, h.hook.GetUrl()
	h.hook = must(h.node.Webhooks.Create(ctx, again))(t)
	must(h.node.Agents.Change(ctx, h.ids[1], agent.Revoke{}))(t)
	h.until("switched off", func() bool {
		s := must(h.node.Webhooks.Get(ctx, again.ID, h.owner))(t)
		return s.GetDisabledReason() == webhook.AgentRevoked
	})
}

// TestWebhooksCatchUp has many retries that are due at the same time.
func TestWebhooksCatchUp(t *testing.T) {
	h := newWebhookFixtureAt(t, newManualClock(noon))
	h.courier.answerWith(answerCode(500))
	h.say(300)
	h.until("first attempts", func() bool { return len(h.jobs(webhook.Failed)) == 100 })
	h.courier.answerWith(nil)
	h.manual.advance(6 * time.Second)
	h.until("all of them", func() bool { return len(h.jobs(webhook.Delivered)) == 100 })
}

// feedScans counts the scans of feeds by a node.
type feedScans struct {
	journal.Journal
	n atomic.Int64
}

type countedScans struct {
	journal.View
	n *atomic.Int64
}

func (c *feedScans) View() journal.View { return journal.ViewOf(countedScans{c.Journal.View(), &c.n}) }

func (c *feedScans) Latest() journal.View {
	return journal.ViewOf(countedScans{c.Journal.Latest(), &c.n})
}

func (v countedScans) Feed(agent parley.AgentID, from, upTo uint64, fn func(journal.FeedEntry) bool) error {
	v.n.Add(1)
	return v.View.Feed(agent, from, upTo, fn)
}

// TestOutcomesScanNoFeed: a webhook reads its agent's feed when that has a new entry. It
// does not read it to store the outcome of an attempt, although other feeds of the journal
// have grown.
func TestOutcomesScanNoFeed(t *testing.T) {
	c := &feedScans{}
	h := openWebhookFixture(t, &webhookFixture{}, nil, withWrap(func(j journal.Journal) journal.Journal { c.Journal = j; return journal.Of(c) }))
	const messages = 10
	one := func(n int) {
		h.say(1)
		must(h.send(direct(h.owner, h.ids[1], h.ids[2], "elsewhere", "")))(h.t)
		h.until("the delivery", func() bool { return len(h.jobs(webhook.Delivered)) == n })
	}
	one(1)
	before := c.n.Load()
	for i := range messages {
		one(i + 2)
	}
	if scans := c.n.Load() - before; scans > messages {
		t.Errorf("%d scans for %d messages", scans, messages)
	}
}
