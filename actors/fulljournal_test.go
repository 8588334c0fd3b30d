package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/actors/agent"
	"parley/actors/group"
	"parley/actors/issuer"
	"parley/actors/org"
	"parley/client/parley"
	"parley/journal"
)

// fullJournal has journals reject entries as overloaded, and hold releases.
type fullJournal struct {
	full atomic.Bool
	// wrote counts entries with content that arrived while the journal was full.
	wrote atomic.Int64

	mu      sync.Mutex
	holding bool
	held    []func()
}

// gatedJournal is the journal of one life of a node: requests of a former life may still end.
type gatedJournal struct {
	journal.Journal
	*fullJournal
}

func (j *fullJournal) wrap(of journal.Journal) journal.Journal {
	return journal.Of(gatedJournal{of, j})
}

func (j gatedJournal) Admit(slot parley.Slot, size int) (func(), error) {
	if j.full.Load() {
		return nil, parley.ErrOverloaded
	}
	return j.Journal.Admit(slot, size)
}

func (j gatedJournal) Append(e *journal.Entry) {
	if j.full.Load() && len(e.Events)+len(e.Records)+len(e.Rows)+len(e.Effects)+len(e.Handled)+len(e.Timers)+len(e.Hosted)+len(e.Counts) > 0 {
		j.wrote.Add(1)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if release := e.Release; j.holding && release != nil {
		e.Release = func(err error) {
			j.mu.Lock()
			held := j.holding
			if held {
				j.held = append(j.held, func() { release(err) })
			}
			j.mu.Unlock()
			if !held { // the gate was opened before the entry was durable
				release(err)
			}
		}
	}
	j.Journal.Append(e)
}

func (j *fullJournal) hold() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.holding = true
}

func (j *fullJournal) release() {
	j.mu.Lock()
	held := j.held
	j.holding, j.held = false, nil
	j.mu.Unlock()
	for _, release := range held {
		release()
	}
}

// fullJournalFixture is a test node with a group, an agent that asked to join it, and
// signing keys.
type fullJournalFixture struct {
	*testNode
	owner  parley.OrgID
	agents []parley.AgentID // the first and the last are in the group, the second has asked
	group  *testGroup
	asked  parley.JoinRequestID
}

func newFullJournalFixture(t *testing.T, options ...option) *fullJournalFixture {
	v := &fullJournalFixture{testNode: newTestNode(t, options...)}
	v.owner, v.agents = v.testNode.agents("acme", 4)
	v.group = must(v.testNode.createGroup(v.owner, v.agents[0], "board", group.Open, false))(t)
	must(v.group.join(v.agents[3]))(t)
	majority := group.Majority
	if err := v.node.Groups.Change(context.Background(), v.group.id, group.Change{By: v.group.by, Policy: &majority}); err != nil {
		t.Fatal(err)
	}
	v.asked = must(v.group.join(v.agents[1]))(t).Request.RequestID()
	must(v.node.Keys.Mint(context.Background(), issuer.Mint{Kid: "k", Public: key(1, "k"), SealedSeed: key(2, "k")}))(t)
	return v
}

// namedRequest is any request with a description.
type namedRequest struct {
	what string
	do   func() error
}

// reads returns all requests that read the state of actors.
func (v *fullJournalFixture) reads() []namedRequest {
	ctx := context.Background()
	return []namedRequest{
		{"an organization", func() error { _, err := v.node.Orgs.Current(ctx, v.owner); return err }},
		{"signing keys", func() error { _, err := v.node.Keys.Current(ctx); return err }},
		{"a group", func() error {
			_, err := v.node.Groups.View(ctx, v.group.id, group.GetView{})
			return err
		}},
		{"requests about an agent", func() error {
			all, err := v.node.Groups.Concerns(ctx, v.agents[1])
			if err == nil && len(all) != 1 {
				err = fmt.Errorf("%d requests, want 1", len(all))
			}
			return err
		}},
	}
}

// writes returns requests that write; some of them read first.
func (v *fullJournalFixture) writes() []namedRequest {
	ctx, a := context.Background(), v.agents
	name := "Acme & Sons"
	return []namedRequest{
		{"change an organization", func() error { _, err := v.node.Orgs.Change(ctx, v.owner, org.Change{Name: &name}); return err }},
		{"add a credential", func() error {
			_, err := v.node.Orgs.AddCredential(ctx, v.owner, org.AddCredential{SecretHash: key(9, "c")})
			return err
		}},
		{"mint a key", func() error {
			_, err := v.node.Keys.Mint(ctx, issuer.Mint{Kid: "l", Public: key(3, "l"), SealedSeed: key(4, "l"), Force: true})
			return err
		}},
		{"create an agent", func() error { _, err := v.create(v.owner, "late"); return err }},
		{"change an agent", func() error { _, err := v.node.Agents.Change(ctx, a[2], agent.Change{Unlisted: new(true)}); return err }},
		{"found a group", func() error { _, err := v.testNode.createGroup(v.owner, a[0], "other", group.Open, false); return err }},
		{"change a group", func() error {
			return v.node.Groups.Change(ctx, v.group.id, group.Change{By: v.group.by, Description: &name})
		}},
		{"ask for a seat", func() error { _, err := v.group.join(a[2]); return err }},
		{"send", func() error { _, err := v.send(direct(v.owner, a[0], a[1], "hello", "")); return err }},
		{"send to a group", func() error { _, err := v.group.say(a[0], "hello", ""); return err }},
		{"vote", func() error { _, err := v.group.vote(v.asked, a[0], true); return err }},
		{"revoke a member", func() error { _, err := v.node.Agents.Change(ctx, a[1], agent.Revoke{}); return err }},
		{"register", func() error { _, err := v.solve(must(v.challenge("globex"))(v.t)); return err }},
	}
}

// TestReadsWorkOnAFullJournal starts a node on a journal that admits no entries. Reads
// are answered, whether their actors are already loaded or not. Writes are rejected,
// and nothing is written.
func TestReadsWorkOnAFullJournal(t *testing.T) {
	onOneAndFour(t, func(t *testing.T, journals int) {
		j := &fullJournal{}
		v := newFullJournalFixture(t, withJournals(journals), withWrap(j.wrap))
		for _, look := range v.reads() { // this also empties the queues
			if err := look.do(); err != nil {
				t.Fatalf("with room, %s: %v", look.what, err)
			}
		}
		awaitKeyLog(t, v.node, v.agents...) // it writes in its own time
		j.full.Store(true)
		v.restart()
		for range 2 {
			for _, look := range v.reads() {
				if err := look.do(); err != nil {
					t.Errorf("without room, %s: %v", look.what, err)
				}
			}
		}
		for _, deed := range v.writes() {
			if err := deed.do(); !errors.Is(err, parley.ErrOverloaded) {
				t.Errorf("without room, %s: %v", deed.what, err)
			}
		}
		v.restart()
		if n := j.wrote.Load(); n != 0 {
			t.Errorf("without room %d entries were written", n)
		}
		j.full.Store(false)
		for _, deed := range v.writes() {
			if err := deed.do(); err != nil {
				t.Errorf("with room again, %s: %v", deed.what, err)
			}
		}
	})
}

// TestReadsAreBounded holds the release of the entries that answers depend on.
// QueriesMax reads may wait, including those whose callers gave up. The next read is
// rejected, while writes are still admitted.
func TestReadsAreBounded(t *testing.T) {
	j := &fullJournal{}
	v := newFullJournalFixture(t, withWrap(j.wrap))
	v.restart()
	v.node.engine.Timeout, v.node.engine.QueriesMax = 200*time.Millisecond, 64
	j.hold()
	var waiting sync.WaitGroup
	for range v.node.engine.QueriesMax {
		waiting.Go(func() {
			if _, err := v.node.Orgs.Current(t.Context(), v.owner); !errors.Is(err, parley.ErrOutcomeUnknown) {
				t.Errorf("while releases are held, a read got %v", err)
			}
		})
	}
	waiting.Wait()
	for _, look := range v.reads() {
		if err := look.do(); !errors.Is(err, parley.ErrOverloaded) {
			t.Errorf("above the limit, %s: %v", look.what, err)
		}
	}
	if err := v.writes()[0].do(); !errors.Is(err, parley.ErrOutcomeUnknown) {
		t.Errorf("a change beside these reads got %v", err)
	}
	j.release()
	eventually(t, "no look is under way", func() bool { return v.node.engine.Stats().Queries == 0 })
	v.node.engine.Timeout = time.Minute // nothing is held any more; a slow machine must not fail the test
	for _, look := range v.reads() {
		if err := look.do(); err != nil {
			t.Errorf("afterwards, %s: %v", look.what, err)
		}
	}
}

// TestUnreadableChangeHasUnknownOutcome gives a seat while no read is admitted: the
// answer must not claim that nothing was done.
func TestUnreadableChangeHasUnknownOutcome(t *testing.T) {
	r := newTestNode(t)
	owner, a := r.agents("acme", 2)
	c := must(r.createGroup(owner, a[0], "open", group.Open, false))(t)
	most := r.node.engine.QueriesMax
	r.node.engine.QueriesMax = 0
	if _, err := c.join(a[1]); !errors.Is(err, parley.ErrOutcomeUnknown) {
		t.Errorf("a seat that could not be read back got %v", err)
	}
	r.node.engine.QueriesMax = most
	eventually(t, "it is taken", func() bool { return len(c.members()) == 2 })
}
