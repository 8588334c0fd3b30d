package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/actors/agent"
	"parley/actors/group"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// commit returns a commit of an epoch. Its bytes say which: the actors do not read them.
func mlsCommit(by parley.AgentID, epoch uint64, added, removed []parley.AgentID) MLSCommit {
	c := MLSCommit{
		Commit:  group.Commit{By: by, Epoch: epoch, Added: added, Removed: removed, Suite: 1},
		Message: fmt.Appendf(nil, "commit %d by %v", epoch, by), GroupInfo: fmt.Appendf(nil, "info %d", epoch+1),
	}
	if len(added) > 0 {
		c.Welcome = fmt.Appendf(nil, "welcome %d", epoch)
	}
	return c
}

func (c *testGroup) commit(m MLSCommit) (MLSCommitted, error) {
	return c.node.Groups.CommitMLS(context.Background(), c.id, m)
}

// mustCommit commits in the group's present epoch.
func (c *testGroup) mustCommit(by parley.AgentID, added, removed []parley.AgentID) {
	c.t.Helper()
	epoch := c.epoch()
	if done, err := c.commit(mlsCommit(by, epoch, added, removed)); err != nil || done != (MLSCommitted{Epoch: epoch + 1}) {
		c.t.Fatalf("a commit in epoch %d: %+v, %v", epoch, done, err)
	}
}

func (c *testGroup) epoch() uint64 {
	c.t.Helper()
	return must(readGroup(context.Background(), c.node.Groups, c.id, func(s *group.State) uint64 { return s.Epoch }))(c.t)
}

// tell broadcasts an application message of an epoch.
func (c *testGroup) tell(from parley.AgentID, text string, epoch uint64) error {
	_, err := c.node.Messages.Broadcast(context.Background(), GroupSend{
		Content: Content{Type: "svc.v1.dm", Body: []byte(text), FromOrg: c.owner}, Group: c.id, From: from, MLS: &group.MLSHeader{Epoch: epoch},
	})
	return err
}

// commitsFor renders the commits that an agent sees.
func (c *testGroup) commitsFor(a parley.AgentID, since uint64, limit, size int) string {
	c.t.Helper()
	page, more, err := c.node.Groups.MLSCommitsFor(context.Background(), c.id, a, since, limit, size, nil)
	if err != nil {
		return err.Error()
	}
	return tellCommits(page, more)
}

func tellCommits(page []query.MLSCommit, more bool) string {
	words := []string{}
	for _, m := range page {
		words = append(words, fmt.Sprint(m.Epoch))
	}
	if more {
		words = append(words, "more")
	}
	return strings.Join(words, " ")
}

// mlsNews renders the events of MLS groups in an agent's feed.
func (r *testNode) mlsNews(of parley.AgentID) (all []string) {
	r.t.Helper()
	v := r.contents.View()
	defer v.Close()
	if err := v.Feed(of, 0, ^uint64(0), func(e journal.FeedEntry) bool {
		if epoch, ok := record.MLSNews(e.Note); ok && e.Kind == journal.GroupEntry {
			kind, _ := record.GroupNews(e.Note)
			all = append(all, fmt.Sprintf("%s %d", strings.TrimPrefix(kind, "mls_"), epoch))
		}
		return true
	}); err != nil {
		r.t.Fatal(err)
	}
	return all
}

// texts lists what an agent's inbox has, oldest first.
func (r *testNode) texts(of parley.AgentID) (all []string) {
	r.t.Helper()
	for _, m := range r.inbox(of) {
		all = append(all, string(m.Record.GetContent()))
	}
	slices.Sort(all)
	return all
}

func expect(t testing.TB, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: %s, want %s", what, g, w)
	}
}

func (c *testGroup) expectAwaits(claimer, target parley.AgentID, want bool) {
	c.t.Helper()
	got, err := c.node.Groups.AwaitsMLS(context.Background(), claimer, target)
	if err != nil || got != want {
		c.t.Errorf("may claim a key package: %v, %v, want %v", got, err, want)
	}
}

func (c *testGroup) expectRefusal(what string, err error, want *parley.Refusal) {
	c.t.Helper()
	if !errors.Is(err, want) {
		c.t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func TestMLSGroup(t *testing.T) {
	eachJournal(t, func(t *testing.T, r *testNode) {
		owner, a := r.agents("acme", 5)
		c := must(r.createGroup(owner, a[0], "board", group.Open, false))(t)
		for _, member := range a[1:4] {
			must(c.join(member))(t)
		}
		c.expectAwaits(a[0], a[1], false)
		must(c.say(a[3], "unsealed", ""))(t)
		c.mustCommit(a[0], a[1:2], nil)

		c.expectAwaits(a[0], a[2], true)
		c.expectAwaits(a[1], a[3], true)
		c.expectAwaits(a[2], a[3], false)
		c.expectAwaits(a[0], a[1], false)
		c.expectAwaits(a[0], a[4], false)
		must(c.join(a[4]))(t)
		c.expectAwaits(a[0], a[4], true)

		_, err := c.say(a[0], "in the clear", "")
		c.expectRefusal("in the clear", err, group.ErrMLSMessage)
		c.expectRefusal("by a pending member", c.tell(a[2], "too early", 1), group.ErrMLSPending)
		c.expectRefusal("in another epoch", c.tell(a[0], "too late", 0), group.ErrEpochConflict)
		if err := c.tell(a[0], "first", 1); err != nil {
			t.Fatal(err)
		}
		again, err := c.commit(mlsCommit(a[0], 0, nil, nil))
		expect(t, "the same commit again", fmt.Sprint(again, err), "{1 true} <nil>")
		_, err = c.commit(mlsCommit(a[1], 0, nil, nil))
		c.expectRefusal("another commit", err, group.ErrEpochConflict)

		enter := mlsCommit(a[2], 1, a[2:3], nil)
		enter.External, enter.Welcome = true, nil
		must(c.commit(enter))(t)
		if err := c.remove(a[1], a[1]); err != nil {
			t.Fatal(err)
		}
		c.expectRefusal("with a leaf left", c.tell(a[2], "not for all ears", 2), group.ErrRemovalPending)
		c.mustCommit(a[2], nil, a[1:2])
		if err := c.tell(a[2], "second", 3); err != nil {
			t.Fatal(err)
		}
		r.restart()
		again, err = c.commit(enter)
		expect(t, "an earlier commit again", fmt.Sprint(again, err), "{2 true} <nil>")
		c.expectRefusal("a kick", c.remove(a[2], a[0]), group.ErrCommitRequired)
		c.mustCommit(a[0], a[3:4], a[2:3])
		if err := c.remove(a[2], a[0]); err != nil {
			t.Errorf("a kick after the commit: %v", err)
		}
		if s := must(r.node.Agents.Get(context.Background(), a[2]))(t); s.In(c.id) {
			t.Error("the removed agent still has a membership")
		}
		c.expectSight(a)
	})
}

// expectSight checks what each agent sees at the end of TestMLSGroup.
func (c *testGroup) expectSight(a []parley.AgentID) {
	t, r := c.t, c.testNode
	for i, want := range []string{"0 1 2 3", "0 1 2", "0 1 2 3", "0 1 2 3", "0 1 2 3"} {
		expect(t, fmt.Sprintf("the commits for agent %d", i), c.commitsFor(a[i], 0, 100, 1<<20), want)
	}
	expect(t, "a page of commits", c.commitsFor(a[0], 1, 2, 1<<20), "1 2 more")
	expect(t, "a page of few bytes", c.commitsFor(a[0], 1, 100, 1), "1 more")
	expect(t, "the commits to come", c.commitsFor(a[0], 4, 100, 1<<20), "")
	for i, want := range [][]string{
		{"first", "second", "unsealed"}, {"first", "unsealed"}, {"unsealed"}, nil, nil,
	} {
		if i == 0 { // its own broadcast is not in its inbox
			want = want[1:]
		}
		eventually(t, "the broadcasts are there", func() bool { return fmt.Sprint(r.texts(a[i])) == fmt.Sprint(want) })
	}
	for i, want := range []string{
		"[commit 1 admission 1 admission 1 commit 2 removal 2 commit 3 commit 4]",
		"[commit 1 welcome 1 admission 1 admission 1 commit 2]",
		"[commit 1 commit 2 removal 2 commit 3 commit 4]",
		"[commit 1 commit 2 commit 3 commit 4 welcome 4]",
		"[commit 2 commit 3 commit 4]",
	} {
		eventually(t, "the events are there: "+want, func() bool { return fmt.Sprint(r.mlsNews(a[i])) == want })
	}
	ctx := context.Background()
	info, err := c.node.Groups.MLSInfoFor(ctx, c.id, a[4], nil)
	expect(t, "the GroupInfo", fmt.Sprintf("%d %d %s %v", info.Epoch, info.Suite, info.GroupInfo, err), "4 1 info 4 <nil>")
	_, err = c.node.Groups.MLSInfoFor(ctx, c.id, a[1], nil)
	c.expectRefusal("the GroupInfo for a former member", err, group.ErrNotMember)

	welcomes, _, err := c.node.Groups.MLSWelcomesFor(ctx, c.id, a[3], 0, 10, 1<<20, nil)
	if err != nil || len(welcomes) != 1 || welcomes[0].Epoch != 3 || string(welcomes[0].GetWelcome()) != "welcome 3" {
		t.Fatalf("the Welcome: %v, %v", welcomes, err)
	}
	id := record.WelcomeID(c.id, 3)
	c.expectRefusal("another's Welcome", c.node.Groups.AcknowledgeWelcome(ctx, c.id, a[0], id), errUnknownWelcome)
	if err := c.node.Groups.AcknowledgeWelcome(ctx, c.id, a[3], id); err != nil {
		t.Error(err)
	}
	if err := c.node.Groups.AcknowledgeWelcome(ctx, c.id, a[3], id); err != nil {
		t.Errorf("the Welcome again: %v", err)
	}
	c.expectRefusal("another's Welcome that was acknowledged", c.node.Groups.AcknowledgeWelcome(ctx, c.id, a[0], id), errUnknownWelcome)
	welcomes, _, err = c.node.Groups.MLSWelcomesFor(ctx, c.id, a[3], 0, 10, 1<<20, nil)
	expect(t, "the Welcomes at the end", fmt.Sprint(welcomes, err), "[] <nil>")
}

// TestMLSWelcomeIsKeptForAll: a Welcome is stored once, until everybody whom it is for has
// acknowledged it, left or was revoked. A deleted group leaves no row of its MLS group.
func TestMLSWelcomeIsKeptForAll(t *testing.T) {
	r := newTestNode(t)
	owner, a := r.agents("acme", 4)
	c := must(r.createGroup(owner, a[0], "board", group.Open, false))(t)
	for _, member := range a[1:] {
		must(c.join(member))(t)
	}
	c.mustCommit(a[0], a[1:], nil)
	rows := func() string {
		v := r.contents.View()
		defer v.Close()
		words := []string{}
		for i, table := range journal.MLSTables {
			n := 0
			if err := v.Rows(c.id.Slot(), table, c.id[:], nil, false, func(_, _ []byte) bool { n++; return true }); err != nil {
				t.Fatal(err)
			}
			words = append(words, fmt.Sprintf("%s %d", []string{"commits", "infos", "welcomes", "members"}[i], n))
		}
		return strings.Join(words, ", ")
	}
	expect(t, "all await it", rows(), "commits 1, infos 1, welcomes 1, members 4")
	if err := c.node.Groups.AcknowledgeWelcome(context.Background(), c.id, a[1], record.WelcomeID(c.id, 0)); err != nil {
		t.Fatal(err)
	}
	if err := c.remove(a[2], a[2]); err != nil {
		t.Fatal(err)
	}
	expect(t, "one awaits it", rows(), "commits 1, infos 1, welcomes 1, members 3")
	must(r.node.Agents.Change(context.Background(), a[3], agent.Revoke{}))(t)
	eventually(t, "nobody awaits it", func() bool { return rows() == "commits 1, infos 1, welcomes 0, members 1" })
	left := must(readGroup(context.Background(), r.node.Groups, c.id, func(s *group.State) int { return len(s.Abandoned()) }))(t)
	expect(t, "leaves that await their removal", left, 2)
	c.mustCommit(a[0], nil, a[2:4])
	if err := r.node.Groups.Delete(context.Background(), c.id, group.Delete{By: c.by}); err != nil {
		t.Fatal(err)
	}
	expect(t, "after the deletion", rows(), "commits 0, infos 0, welcomes 0, members 0")
	_, _, err := r.node.Groups.MLSCommitsFor(context.Background(), c.id, a[0], 0, 10, 1<<20, nil)
	c.expectRefusal("the commits of a deleted group", err, group.ErrDeleted)
}

// arrivals is a journal that reports the calls of Arrived. With skip they do not wait.
type arrivals struct {
	journal.Journal
	asked chan [2]parley.Slot
	skip  bool
}

func (j *arrivals) Arrived(ctx context.Context, from, to parley.Slot) error {
	j.asked <- [2]parley.Slot{from, to}
	if j.skip {
		return nil
	}
	return j.Journal.Arrived(ctx, from, to)
}

// holdHome keeps the journal of a slot from applying more than a few batches, until release
// is called.
func (r *testNode) holdHome(slot parley.Slot) (release func()) {
	held, hold := make(chan struct{}), make(chan struct{})
	r.contents.Append(&journal.Entry{Slot: slot, Release: func(error) {
		close(held)
		<-hold
	}})
	<-held
	return sync.OnceFunc(func() { close(hold) })
}

// copiesApplied counts the messages in an agent's feed, durable or not.
func (r *testNode) copiesApplied(of parley.AgentID) (n int) {
	r.t.Helper()
	v := r.contents.View()
	defer v.Close()
	if err := v.Feed(of, 0, ^uint64(0), func(e journal.FeedEntry) bool {
		if e.Kind.BringsMessage() {
			n++
		}
		return true
	}); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// groupElsewhere creates a group with another home than an agent.
func (r *testNode) groupElsewhere(owner parley.OrgID, by, than parley.AgentID) *testGroup {
	r.t.Helper()
	for i := range 100 {
		c := must(r.createGroup(owner, by, fmt.Sprint("board", i), group.Open, false))(r.t)
		if !r.homes().Same(c.id.Slot(), than.Slot()) {
			return c
		}
	}
	r.t.Fatal("all groups have the home of the agent")
	return nil
}

// TestCommitsWaitForBroadcasts: a commit is shown only when the copies of the broadcasts
// before it, which are under way to another home, have arrived there. The control does not
// wait for them, and shows the commit first.
func TestCommitsWaitForBroadcasts(t *testing.T) {
	for name, skip := range map[string]bool{"waits": false, "control": true} {
		t.Run(name, func(t *testing.T) {
			j := &arrivals{asked: make(chan [2]parley.Slot, 1), skip: skip}
			r := newTestNode(t, withJournals(4), withWrap(func(of journal.Journal) journal.Journal {
				j.Journal = of
				return journal.Of(j)
			}))
			owner, a := r.agents("acme", 2)
			member := a[1]
			c := r.groupElsewhere(owner, a[0], member)
			must(c.join(member))(t)
			c.mustCommit(a[0], a[1:], nil)

			release := r.holdHome(member.Slot())
			defer release()
			const broadcasts = 8 // more than the batches that a journal applies ahead
			for i := range broadcasts {
				if err := c.tell(a[0], fmt.Sprint(i), 1); err != nil {
					t.Fatal(err)
				}
			}
			c.mustCommit(a[0], nil, nil)
			if n := r.copiesApplied(member); n == broadcasts {
				t.Fatal("no broadcast is under way")
			}
			type sight struct {
				commits string
				copies  int
			}
			shown := make(chan sight, 1)
			go func() {
				page, more, err := c.node.Groups.MLSCommitsFor(context.Background(), c.id, member, 1, 10, 1<<20, nil)
				shown <- sight{fmt.Sprint(tellCommits(page, more), " ", err), r.copiesApplied(member)}
			}()
			if skip {
				if early := <-shown; early.commits != "1 <nil>" || early.copies == broadcasts {
					t.Errorf("the control shows %+v, want the commit before the last of %d copies", early, broadcasts)
				}
				return
			}
			select {
			case early := <-shown:
				t.Fatalf("shown before: %+v", early)
			case <-time.After(100 * time.Millisecond):
			}
			expect(t, "waits for what is under way", <-j.asked, [2]parley.Slot{c.id.Slot(), member.Slot()})
			release()
			expect(t, "shown then", <-shown, sight{"1 <nil>", broadcasts})
		})
	}
}
