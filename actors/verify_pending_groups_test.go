package actors

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"parley/actors/agent"
	"parley/actors/encoding"
	"parley/actors/group"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// groupStoreWithPendingMessages has groups of one journal send all kinds of messages
// to other journals, which have stopped.
func groupStoreWithPendingMessages(t *testing.T) (v *groupStore, release func()) {
	v = newGroupStore(t, 4)
	ctx, home := context.Background(), v.homes().Of(v.board.id.Slot())
	var here, there []parley.AgentID
	for n := 0; len(here) < 2 || len(there) < 2; n++ {
		v.entropy() // so that they do not all have the same journal
		if id := v.agent(v.owner, fmt.Sprint("h", n)); v.homes().Of(id.Slot()) == home {
			here = append(here, id)
		} else {
			there = append(there, id)
		}
	}
	for _, id := range append(here[:2:2], there[1]) {
		must(v.board.join(id))(t)
	}
	c := v.groupIn(home, group.Closed)
	wants := v.board
	if err := v.node.Groups.Change(ctx, wants.id, group.Change{By: wants.by, Policy: new(group.Majority)}); err != nil {
		t.Fatal(err)
	}
	asked := must(wants.join(there[0]))(t).Request
	must(wants.vote(asked.RequestID(), v.agents[1], true))(t)
	must(v.jury.join(here[1]))(t) // a live request in another group
	open := v.groupIn(home, group.Open)
	must(c.invite(there[1]))(t)
	for _, g := range []*testGroup{c, open} {
		g.members() // reads are loaded before the journals stop
	}
	v.awaitIdle()

	var asking sync.WaitGroup
	free := v.holdJournals(home)
	release = sync.OnceFunc(func() { free(); asking.Wait() })
	t.Cleanup(release)
	must(v.board.say(here[0], "on its way", "on"))(t)
	talk := must(v.board.say(here[1], "and this", ""))(t).Message.Conversation()
	must(v.node.Messages.ChangeStatus(ctx, ChangeStatus{Conversation: talk, Host: v.board.id, By: []parley.AgentID{v.agents[0]}, Status: "open"}))(t)
	must(v.node.Groups.ChangeRole(ctx, v.board.id, group.ChangeRole{Agent: here[0], By: v.board.by, Role: group.Admin}))(t)
	// Requests that wait for messages to other journals run in the background.
	asking.Go(func() { _, _ = wants.vote(asked.RequestID(), here[0], true) })
	asking.Go(func() { _, _ = open.join(there[0]) })
	asking.Go(func() { _ = v.board.remove(there[1], v.agents[0]) })
	if err := v.node.Groups.Change(ctx, c.id, group.Change{By: c.by, Description: new("shown otherwise")}); err != nil {
		t.Fatal(err)
	}
	must(v.board.invite(v.agents[9]))(t)
	if err := v.node.Groups.Delete(ctx, c.id, group.Delete{By: c.by}); err != nil {
		t.Fatal(err)
	}
	must(v.node.Agents.Change(ctx, here[1], agent.Revoke{}))(t)
	time.Sleep(200 * time.Millisecond) // until the background requests are decided
	return v, release
}

// groupIn returns a public group in the given journal.
func (v *groupStore) groupIn(journal int, policy group.Policy) *testGroup {
	for n := 0; ; n++ {
		v.entropy()
		c := v.found(fmt.Sprint("shown ", policy, n), v.agents[0], policy, true, false)
		if v.homes().Of(c.id.Slot()) == journal {
			return c
		}
	}
}

// pendingGroupMessages returns the kinds of group messages that are in outboxes.
func pendingGroupMessages(t *testing.T, v *groupStore) (kinds []string) {
	archive := v.archive()
	defer func() { _ = archive.Close() }()
	err := archive.Underway(func(w journal.Effect) error {
		switch w := w.(type) {
		case journal.EnqueueFor:
			said := &record.SagaMessage{}
			if encoding.Unmarshal(w.Data, said) == nil {
				kinds = append(kinds, said.GetKind().String())
			}
		case journal.Fanout:
			kinds = append(kinds, map[journal.FeedKind]string{
				journal.StatusEntry: "statuses", journal.CopyEntry: "copies", journal.GroupEntry: "news",
			}[w.Kind])
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// TestVerifyPendingGroupMessages: messages that groups, agents and owners have not
// received yet explain effects that are still missing, and nothing else is excused.
func TestVerifyPendingGroupMessages(t *testing.T) {
	skipUnderRace(t)
	v, release := groupStoreWithPendingMessages(t)
	got := pendingGroupMessages(t, v)
	for _, kind := range []string{"concern", "copies", "depart", "ended", "forget", "news", "offer", "statuses"} {
		if !slices.Contains(got, kind) {
			t.Errorf("%q are pending, but not %q", got, kind)
		}
	}
	if err := verifyStore(t, v.testNode).Err(); err != nil {
		t.Errorf("with pending messages: %v", err)
	}
	frozen := v.frozen()
	if got := failedChecks(frozen.tampered(t, func(*tamperer) {})); len(got) != 0 {
		t.Errorf("after a crash with pending messages, the checks %q reported", got)
	}
	t.Run("each message is missed", func(t *testing.T) { dropEachLastMessage(t, frozen) })
	release()
	v.awaitIdle()
	if err := verifyStore(t, v.testNode).Err(); err != nil {
		t.Errorf("after all messages have arrived: %v", err)
	}
}
