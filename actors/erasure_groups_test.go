package actors

import (
	"context"
	"fmt"
	"testing"
	"time"

	"parley/actors/conversation"
	"parley/actors/delivery"
	"parley/actors/group"
	"parley/actors/query"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
	"parley/persistence"
)

// found creates a public group.
func (x *erasureScene) found(founder parley.AgentID, name string, policy group.Policy, members ...parley.AgentID) *testGroup {
	x.t.Helper()
	made := must(x.node.Groups.Create(x.ctx, NewGroup{Found: group.Found{
		Org: x.orgOf(founder), Founder: founder, Name: name, Policy: policy, VoteHours: 72, Public: true,
	}}))(x.t)
	for _, m := range members {
		must(x.node.Groups.Join(x.ctx, made.ID, group.Join{Agent: m, Org: x.orgOf(m)}))(x.t)
	}
	return &testGroup{x.testNode, x.orgOf(founder), made.ID, group.Caller{Org: x.orgOf(founder), Agent: founder}}
}

func (x *erasureScene) broadcast(c *testGroup, from parley.AgentID, text string) (*record.Message, error) {
	p, err := x.node.Messages.Broadcast(x.ctx, GroupSend{Content: x.content(from, from, text, ""), Group: c.id, From: from})
	return p.Message, err
}

// pages reads a transcript page by page.
func (x *erasureScene) pages(read func(from uint64) ([]query.Message, uint64, error)) (all []string) {
	x.t.Helper()
	for from := uint64(0); ; {
		page, next, err := read(from)
		if err != nil {
			x.t.Fatal(err)
		}
		if all = append(all, bodies(page)...); next == 0 {
			return all
		}
		from = next
	}
}

// A group's conversation goes on without the messages of an erased member, and its
// transcript leaves them out on every page.
func TestErasedGroupMember(t *testing.T) {
	for _, journals := range []int{1, 4} {
		x := newErasure(t, journals)
		c := x.found(x.k, "team", group.Open, x.g, x.l)
		awaitKeyLog(t, x.node, x.g, x.k, x.l) // it adds rows of its own
		var last *record.Message
		for i := range 12 {
			from := []parley.AgentID{x.g, x.g, x.k, x.l}[i%4]
			last = must(x.broadcast(c, from, fmt.Sprint(i)))(t)
		}
		x.awaitIdle()
		toAnswer := x.inbox(x.k)
		x.erase(x.gone)
		id := last.Conversation()
		for _, limit := range []int{1, 2, 3, 100} {
			for _, of := range []parley.AgentID{x.k, x.l, {}} {
				for _, descending := range []bool{false, true} {
					got := x.pages(func(from uint64) ([]query.Message, uint64, error) {
						page, next, err := []query.Message(nil), uint64(0), error(nil)
						if of.Zero() {
							page, next, err = x.node.Messages.Transcript(x.ctx, id, from, limit, descending, nil)
						} else {
							page, next, err = x.node.Messages.TranscriptOf(x.ctx, id, c.id, of, from, limit, descending, nil)
						}
						if len(page) > limit {
							t.Errorf("a page of %d messages, limit %d", len(page), limit)
						}
						return page, next, err
					})
					want := []string{"2", "3", "6", "7", "10", "11"}
					if descending {
						want = []string{"11", "10", "7", "6", "3", "2"}
					}
					expectTexts(t, fmt.Sprintf("transcript of %s with limit %d", of, limit), got, want...)
				}
			}
		}
		expectTexts(t, "inbox", bodies(x.inbox(x.l)), "10", "6", "2")
		for _, m := range toAnswer {
			if m.Record.SenderOrg() != x.gone {
				continue
			}
			_, err := x.node.Messages.Get(x.ctx, m.Record.MessageID())
			isGone(t, "a copy by its id", err)
			answer := answerTo(x.kept, m.Record, "answer", "")
			answer.ToOrg, answer.Host, answer.Copy, answer.Position = x.gone, c.id, true, m.Position
			stored := x.pairs()
			_, err = x.reply(answer)
			isGone(t, "a reply to an erased member", err)
			if now := x.pairs(); now != stored {
				t.Errorf("%d rows are stored, %d before", now, stored)
			}
		}
		stored := x.pairs()
		_, err := x.broadcast(c, x.g, "more")
		isGone(t, "a broadcast of an erased member", err)
		if now := x.pairs(); now != stored {
			t.Errorf("%d rows are stored, %d before", now, stored)
		}
		must(x.broadcast(c, x.k, "still here"))(t)
		x.awaitIdle()
		expectTexts(t, "inbox", bodies(x.inbox(x.l)), "still here", "10", "6", "2")
	}
}

// An erased group is gone for its members, and the directory and the list of organizations
// leave it and its owner out.
func TestErasedGroup(t *testing.T) {
	clock := newManualClock(noon)
	x := newErasure(t, 4, withClock(clock.now), func(r *testNode) {
		r.tuneStore = func(o *persistence.Options) { o.TimerEvery = 2 * time.Millisecond }
	})
	theirs := x.found(x.g, "theirs", group.Majority)
	ours := x.found(x.k, "ours", group.Open, x.l)
	hosting := x.found(x.g, "hosting", group.Open, x.k)
	hosted := must(x.broadcast(hosting, x.g, "to all"))(t).Conversation()
	must(x.node.Messages.ChangeStatus(x.ctx, ChangeStatus{Conversation: hosted, Host: hosting.id, By: []parley.AgentID{x.g}, Status: "canceled", Reason: "a text of theirs"}))(t)
	must(x.node.Groups.Join(x.ctx, theirs.id, group.Join{Agent: x.k, Org: x.kept, Message: "let me in"}))(t) // a vote with a timer
	x.awaitIdle()
	names := func() (all []string) {
		listed := must(x.node.Groups.Listed(x.ctx, []parley.GroupID{theirs.id, ours.id, hosting.id}))(t)
		for _, g := range listed {
			all = append(all, g.Slug+"/"+g.GetName())
		}
		return all
	}
	if all := names(); len(all) != 3 {
		t.Errorf("control: the directory has %q", all)
	}
	x.erase(x.gone)
	expectTexts(t, "directory", names(), "kept/ours")
	for limit := 1; limit <= 4; limit++ {
		var slugs []string
		for after := ""; ; {
			page, more, err := x.node.Orgs.List(x.ctx, after, limit)
			if err != nil || more && len(page) != limit {
				t.Fatal(len(page), more, err)
			}
			for _, o := range page {
				slugs = append(slugs, o.GetSlug())
				after = o.GetSlug()
			}
			if !more {
				break
			}
		}
		if len(slugs) != 2 {
			t.Errorf("organizations: %q", slugs)
		}
	}
	// A conversation that an erased organization's group hosted keeps what is no text.
	if c, err := x.node.Messages.Conversation(x.ctx, hosted); err != nil || c.GroupID() != hosting.id || c.GetStatus() != conversation.Canceled {
		t.Errorf("the conversation of an erased group is %v, %v", c, err)
	}
	_, err := x.broadcast(theirs, x.g, "more")
	isGone(t, "a broadcast", err)
	_, err = x.node.Groups.Join(x.ctx, theirs.id, group.Join{Agent: x.l, Org: x.third})
	isGone(t, "a request to join", err)
	page, more, err := x.node.Groups.SettledRequests(x.ctx, theirs.id, parley.JoinRequestID{}, 10)
	if len(page) > 0 || more || err != nil {
		t.Errorf("settled requests: %v, %v, %v", page, more, err)
	}
	must(x.broadcast(ours, x.k, "still here"))(t)
	x.checkTimer(rules.GroupStream(theirs.id), clock)
}

// checkTimer expects that the timer of an erased actor is due once.
func (x *erasureScene) checkTimer(due journal.Stream, clock *manualClock) {
	t := x.t
	t.Helper()
	timers := func() (n int) {
		archive := x.store.Archive()
		if err := archive.Timers(func(s journal.Stream, _ time.Time) error {
			if s == due {
				n++
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		if err := archive.Close(); err != nil {
			t.Error(err)
		}
		return n
	}
	if timers() != 1 {
		t.Errorf("control: %d timers", timers())
	}
	clock.advance(73 * time.Hour)
	eventually(t, "the timer of an erased group is cancelled", func() bool { return timers() == 0 })
	before := x.node.engine.Stats().Activations
	time.Sleep(100 * time.Millisecond)
	if now := x.node.engine.Stats().Activations; now > before+1 {
		t.Errorf("%d activations after the timer", now-before)
	}
}

// The stored position of untransferred messages stays before an erased message, so that
// a verification finds no untransferred message before it; a wait goes on behind it.
func TestErasedUntransferred(t *testing.T) {
	x := newErasure(t, 1)
	x.node.queries.Limits().TransferredStep = 1
	x.node.queries.Limits().WaitRows = 3
	for i := range 10 {
		x.say(x.g, x.k, fmt.Sprint("erased ", i))
	}
	x.say(x.l, x.k, "kept")
	x.awaitIdle()
	x.erase(x.gone)
	for range 2 {
		place := x.node.Feeds.Untransferred(x.k)
		var got []string
		for range 10 {
			w, _, err := place.Look(x.ctx, 2, nil)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, contents(w)...)
		}
		expectTexts(t, "untransferred", got, "kept")
	}
	x.say(x.k, x.l, "a later entry of the journal")
	if n := x.verifyErased(); n < 10 { // and finds no fault
		t.Errorf("%d contents were erased", n)
	}
}

// A page reads a bounded number of erased messages, and continues behind them.
func TestErasedPagesAreBounded(t *testing.T) {
	x := newErasure(t, 1)
	const most = 2000
	x.say(x.g, x.k, "erased")
	c := x.found(x.k, "team", group.Open, x.g, x.l)
	conversation := must(x.broadcast(c, x.k, "first"))(t).Conversation()
	for range most + 10 {
		must(x.broadcast(c, x.g, "erased"))(t)
	}
	must(x.broadcast(c, x.k, "last"))(t)
	x.awaitIdle()
	x.erase(x.gone)
	for _, descending := range []bool{false, true} {
		pages := 0
		got := x.pages(func(from uint64) ([]query.Message, uint64, error) {
			pages++
			return x.node.Messages.Transcript(x.ctx, conversation, from, 10, descending, nil)
		})
		want := []string{"first", "last"}
		if descending {
			want = []string{"last", "first"}
		}
		expectTexts(t, "transcript", got, want...)
		if pages != 2 {
			t.Errorf("%d pages", pages)
		}
	}
	calls, upTo := 0, x.node.Feeds.DurablePosition(x.l)
	for from := uint64(0); from < upTo; calls++ {
		next, err := x.node.Feeds.Backlog(x.ctx, x.l, from, upTo, 500, 1<<20, func(journal.FeedEntry, query.Message) error { return nil })
		if err != nil || next <= from {
			t.Fatal(next, err)
		}
		from = next
	}
	if calls < 4 {
		t.Errorf("a backlog of %d entries was read in %d calls", most, calls)
	}
}

// A delivery about an erased message is dead; it does not stay pending. The webhooks of an erased organization stop.
func TestErasedWebhooks(t *testing.T) {
	courier := &fakeCourier{}
	x := newErasure(t, 1, withTuning(func(n *Node) { n.Webhooks.Courier = courier }))
	watch := func(of parley.AgentID) *webhook.State {
		return must(x.node.Webhooks.Create(context.Background(), delivery.CreateWebhook{
			ID: x.node.Webhooks.NewID(of), Agent: of, Org: x.orgOf(of), URL: "https://sink.example/a", SealedSecret: []byte("sealed"),
		}))(t)
	}
	ours, theirs := watch(x.k), watch(x.g)
	courier.answerWith(neverAnswer) // in progress while the organization is erased
	x.say(x.g, x.k, "to the kept")
	x.say(x.k, x.g, "to the erased")
	eventually(t, "two attempts", func() bool { return len(courier.delivered()) == 2 })
	x.erase(x.gone)
	x.restart() // their leases expire
	courier.answerWith(func(delivery.Delivery) (webhook.Outcome, bool) { return webhook.Outcome{Code: 204}, false })
	x.say(x.l, x.k, "wakes it")
	eventually(t, "all deliveries end", func() bool {
		page, _, err := x.node.Webhooks.Deliveries(x.ctx, ours.WebhookID(), x.kept, 0, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(page) == 2 && page[0].GetStatus() == webhook.Delivered && page[1].GetStatus() == webhook.Dead
	})
	_, _, err := x.node.Webhooks.Deliveries(x.ctx, theirs.WebhookID(), x.gone, 0, 0, 10)
	isGone(t, "deliveries of the erased", err)
	all := must(x.node.Webhooks.Of(x.ctx, x.g))(t)
	if len(all) != 0 {
		t.Errorf("the erased agent has %d webhooks", len(all))
	}
	before := x.node.engine.Stats().Activations
	time.Sleep(50 * time.Millisecond)
	if now := x.node.engine.Stats().Activations; now > before+2 {
		t.Errorf("%d activations while nothing happens", now-before)
	}
}
