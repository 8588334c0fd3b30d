package actors

import (
	"context"
	"testing"
	"time"

	"parley/actors/conversation"
	"parley/actors/delivery"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// useWebhooks uses every feature of webhooks and terms that stores something. It runs
// before agents are revoked.
func (l *releaseScenario) useWebhooks(owner parley.OrgID, watched, other parley.AgentID, theirs parley.OrgID) {
	ctx := context.Background()
	sink := &fakeCourier{}
	l.node.Webhooks.Courier = sink
	create := func(of parley.AgentID, url string, events ...webhook.What) *webhook.State {
		made := must(l.node.Webhooks.Create(ctx, delivery.CreateWebhook{
			ID: l.node.Webhooks.NewID(of), Agent: of, Org: owner, URL: url, SentURL: "HTTPS" + url[5:], Events: events, Description: "tells", SealedSecret: []byte("sealed"),
		}))(l.t)
		l.awaitArrival()
		return made
	}
	change := func(s *webhook.State, c webhook.Command) {
		must(l.node.Webhooks.Change(ctx, s.WebhookID(), c))(l.t)
		l.awaitArrival()
	}
	until := func(what string, s *webhook.State, done func(*webhook.State) bool) {
		l.t.Helper()
		eventually(l.t, what, func() bool { return done(must(l.node.Webhooks.Get(ctx, s.WebhookID(), owner))(l.t)) })
	}
	say := func(text string) *record.Message {
		return l.send(directBetween(theirs, owner, other, watched, text, ""))
	}
	hook := create(watched, "https://sink.example/a", webhook.MessageReceived, webhook.MessageDelivered, webhook.MessageRead)
	say("by webhook")
	until("it is delivered", hook, func(s *webhook.State) bool { return s.GetDelivered() == 1 })
	sent := l.send(directBetween(owner, theirs, watched, other, "marked", ""))
	in := must2(l.node.Messages.Inbox(ctx, other, 0, 1, "", nil))(l.t)[0]
	if err := l.node.Receipts.Record(ctx, other, []journal.RecordReceipt{{
		Recipient: other, Message: sent.MessageID(), Position: in.Position, Sender: watched,
		Receipts: journal.Receipts{TransferredAt: l.clock.now().UnixMilli(), TransferredBy: journal.InboxChannel},
	}}); err != nil {
		l.t.Fatal(err)
	}
	until("its mark is told", hook, func(s *webhook.State) bool { return s.GetDelivered() >= 2 })
	if _, err := l.node.Receipts.ReadUpTo(ctx, other, in.Position, nil); err != nil {
		l.t.Fatal(err)
	}
	change(hook, webhook.Rotate{By: owner, SealedSecret: []byte("another")})
	sink.answerWith(answerCode(500))
	for range 3 {
		say("fails")
	}
	until("it failed", hook, func(s *webhook.State) bool { return s.GetFailed() >= 3 })
	jobs, _, err := l.node.Webhooks.Deliveries(ctx, hook.WebhookID(), owner, webhook.Failed, 0, 1)
	must(l.node.Webhooks.RetryJob(ctx, hook.WebhookID(), owner, must(jobs, err)(l.t)[0].ID))(l.t)
	until("it failed again", hook, func(s *webhook.State) bool { return s.GetFailed() >= 3 && len(s.GetUnderWay()) == 0 })
	must(l.node.Webhooks.Test(ctx, hook.WebhookID(), owner))(l.t)
	change(hook, webhook.Toggle{By: owner})
	change(hook, webhook.Toggle{By: owner, Active: true})
	sink.answerWith(neverAnswerOnce())
	say("nobody knows")
	until("it is under way", hook, func(s *webhook.State) bool { return len(s.GetUnderWay()) > 0 })
	l.clock.advance(2 * time.Minute)
	until("its lease is over", hook, func(s *webhook.State) bool { return s.GetFailed() > 3 })
	sink.answerWith(answerCode(410))
	gone := create(watched, "https://sink.example/gone")
	say("gone")
	until("it is off", gone, func(s *webhook.State) bool { return !s.GetActive() })
	sink.answerWith(nil)
	busy := create(watched, "https://sink.example/busy")
	for range 30 { // enough for its state to be stored
		must(l.node.Webhooks.Test(ctx, busy.WebhookID(), owner))(l.t)
	}
	until("all came", busy, func(s *webhook.State) bool { return s.GetDelivered() >= 30 })
	l.hold(sink, create(watched, "https://sink.example/held"), owner)
	ended := create(watched, "https://sink.example/ended")
	change(ended, webhook.Delete{By: owner})
	change(hook, webhook.Toggle{By: owner}) // so that a later node on the store attempts nothing
	change(busy, webhook.Toggle{By: owner})
	until("nothing is under way", hook, func(s *webhook.State) bool { return len(s.GetUnderWay()) == 0 })
	sink.answerWith(nil)
	l.pushes(say("a task").Conversation(), other, theirs)
	l.keepPlaces(watched)
	l.terms(theirs)
}

// pushes makes a configuration of push notifications, and another of its id.
func (l *releaseScenario) pushes(task parley.ConversationID, initiator parley.AgentID, of parley.OrgID) {
	ctx := context.Background()
	for _, url := range []string{"https://sink.example/push", "https://sink.example/other"} {
		must(l.node.Webhooks.SetPushConfig(ctx, delivery.PushConfig{
			Task: task, Initiator: initiator, Org: of, ConfigID: "config", URL: url, Seal: func(webhook.ID) []byte { return []byte("sealed") },
		}))(l.t)
		l.awaitArrival()
	}
	must(l.node.Messages.ChangeStatus(ctx, ChangeStatus{Conversation: task, By: []parley.AgentID{initiator}, Status: "canceled"}))(l.t)
	eventually(l.t, "its end is told", func() bool {
		all := must(l.node.Webhooks.PushConfigs(ctx, initiator, task))(l.t)
		return len(all) == 1 && all[0].GetEndedMs() != 0 && all[0].GetDelivered() > 0
	})
	l.awaitArrival()
}

// keepPlaces stores how far an agent's feed is transferred, how far it is listed, and which
// conversations it has begun.
func (l *releaseScenario) keepPlaces(agent parley.AgentID) {
	limits := l.node.queries.Limits()
	limits.TransferredStep, limits.ListedStep, limits.TaskedStep = 1, 1, 1
	must(l.node.Feeds.Resume(context.Background(), agent, parley.MessageID{}, false))(l.t)
	must2(l.node.Messages.Conversations(context.Background(), agent, 0, 10))(l.t)
	l.awaitArrival()
	if err := l.node.Messages.EachTask(context.Background(), agent, agent, func(*conversation.State) error { return nil }); err != nil {
		l.t.Fatal(err)
	}
	l.awaitArrival()
}

// expiry announces a credential that ends in a day, and leaves another one to be announced.
func (l *releaseScenario) expiry(owner parley.OrgID, watched parley.AgentID) {
	ctx := context.Background()
	hook := must(l.node.Webhooks.Create(ctx, delivery.CreateWebhook{
		ID: l.node.Webhooks.NewID(watched), Agent: watched, Org: owner, URL: "https://sink.example/expiring", Events: []webhook.What{webhook.CredentialExpiring}, SealedSecret: []byte("sealed"),
	}))(l.t)
	l.awaitArrival()
	for _, days := range []time.Duration{8, 1} {
		made := must(l.node.Orgs.AddCredential(ctx, owner, org.AddCredential{
			SecretHash: key(8, "ends"), Scope: parley.ScopeRead, Expires: l.clock.now().Add(days*24*time.Hour + time.Second),
		}))(l.t)
		l.awaitArrival()
		if days == 1 { // the clock of the journal, which fires timers, is behind
			l.node.engine.Fire(rules.OrgStream(owner), made.Announcements()[0])
		}
	}
	eventually(l.t, "its end is announced", func() bool {
		return must(l.node.Webhooks.Get(ctx, hook.WebhookID(), owner))(l.t).GetDelivered() == 1
	})
	must(l.node.Webhooks.Change(ctx, hook.WebhookID(), webhook.Toggle{By: owner}))(l.t)
	l.awaitArrival()
}

// neverAnswerOnce leaves one attempt without an answer and fails all others, including
// retries.
func neverAnswerOnce() func(delivery.Delivery) (webhook.Outcome, bool) {
	hung := false
	return func(d delivery.Delivery) (webhook.Outcome, bool) {
		if !hung {
			hung = true
			return neverAnswer(d)
		}
		return answerCode(500)(d)
	}
}

// hold makes the target hold a webhook, and the owner end the hold.
func (l *releaseScenario) hold(sink *fakeCourier, hook *webhook.State, owner parley.OrgID) {
	ctx := context.Background()
	sink.answerWith(func(delivery.Delivery) (webhook.Outcome, bool) {
		return webhook.Outcome{Unsent: true, RetryAfter: time.Hour}, false
	})
	must(l.node.Webhooks.Test(ctx, hook.WebhookID(), owner))(l.t)
	eventually(l.t, "it is held", func() bool {
		s := must(l.node.Webhooks.Get(ctx, hook.WebhookID(), owner))(l.t)
		return s.GetHeldUntilMs() != 0 && len(s.GetUnderWay()) == 0
	})
	sink.answerWith(nil)
	must(l.node.Webhooks.Change(ctx, hook.WebhookID(), webhook.Toggle{By: owner, Active: true}))(l.t)
	eventually(l.t, "it is let go", func() bool {
		s := must(l.node.Webhooks.Get(ctx, hook.WebhookID(), owner))(l.t)
		return s.GetHeldUntilMs() == 0 && s.GetDelivered() == 1
	})
	must(l.node.Webhooks.Change(ctx, hook.WebhookID(), webhook.Toggle{By: owner}))(l.t)
}

// terms sets all kinds of terms, as the operator does, and confirms the email address.
func (l *releaseScenario) terms(of parley.OrgID) {
	for _, c := range []org.Command{
		org.ConfirmEmail{},
		org.GrantTier{Tier: 2},
		org.SetAllowance{Quota: "agents", Limit: new(9)},
		org.SetAllowance{Quota: "groups"},
		org.LiftAllowance{Quota: "groups"},
		org.Suspend{},
		org.Resume{},
		org.Hold{},
		org.Release{},
	} {
		must(l.node.Orgs.SetTerms(context.Background(), of, c))(l.t)
		l.awaitArrival()
	}
	challenge := &org.WorkloadChallenge{
		OrgId: of.Bytes(), AgentId: parley.AgentID(of).Bytes(), Nonce: "proven", ExpiresMs: l.node.clock().Add(time.Minute).UnixMilli(),
	}
	must(l.node.Orgs.ProveWorkload(context.Background(), of, challenge, "spiffe://example.org/released"))(l.t)
	l.awaitArrival()
}

// answersFrom renders what owners of webhooks see.
func answersFrom(t testing.TB, node *Node, id parley.AgentID, owner parley.OrgID, say func(string, ...any)) {
	t.Helper()
	for _, s := range must(node.Webhooks.Of(context.Background(), id))(t) {
		say("  webhook %s", oneLine(s))
		page, total, err := node.Webhooks.Deliveries(context.Background(), s.WebhookID(), owner, 0, 0, 100)
		say("  with %d deliveries", total)
		for _, j := range must(page, err)(t) {
			say("    delivery %s: %s", j.ID, oneLine(j.Job))
		}
	}
}
