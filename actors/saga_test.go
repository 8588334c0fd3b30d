package actors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/actors/agent"
	"parley/actors/org"
	"parley/actors/registration"
	"parley/client/parley"
	"parley/journal"
)

// TestConcurrentAgentsOfOneName creates fifty agents of one name concurrently.
func TestConcurrentAgentsOfOneName(t *testing.T) {
	r := newTestNode(t, withJournals(4))
	owner := r.org("acme").Org.OrgID()
	for _, name := range []string{"alice", "bob"} {
		var mu sync.Mutex
		var made []parley.AgentID
		var creating sync.WaitGroup
		for range 50 {
			creating.Go(func() {
				a, err := r.create(owner, name)
				if err != nil {
					if !errors.Is(err, org.ErrNameTaken) {
						t.Errorf("%v", err)
					}
					return
				}
				mu.Lock()
				defer mu.Unlock()
				made = append(made, a.AgentID())
			})
		}
		creating.Wait()
		if len(made) != 1 {
			t.Fatalf("%d agents have the name %s", len(made), name)
		}
		if id := must(r.node.Agents.ByName(context.Background(), owner, name))(t); id != made[0] {
			t.Errorf("%s is %s, but %s was acknowledged", name, id, made[0])
		}
	}
	if n := must(r.node.Orgs.Current(context.Background(), owner))(t).GetActiveAgents(); n != 2 {
		t.Errorf("the organization counts %d agents", n)
	}
}

// entryBarrier delays entries until want of them have been appended. All of them were
// thus decided before the first was stored, so concurrent requests of a test do race.
type entryBarrier struct {
	journal.Journal
	want       int64
	arrived    atomic.Int64
	allArrived chan struct{}
}

func (c *entryBarrier) Append(e *journal.Entry) {
	switch n := c.arrived.Add(1); {
	case n == c.want:
		close(c.allArrived)
	case n < c.want:
		<-c.allArrived
	}
	c.Journal.Append(e)
}

// TestConcurrentSolutionsOfOneChallenge solves one challenge twenty times at once. The
// barrier makes all attempts pass the check before the first is stored.
func TestConcurrentSolutionsOfOneChallenge(t *testing.T) {
	const attempts = 20
	onOneAndFour(t, func(t *testing.T, journals int) {
		barrier := &entryBarrier{want: attempts, allArrived: make(chan struct{})}
		r := newTestNode(t, withJournals(journals), withWrap(func(j journal.Journal) journal.Journal { barrier.Journal = j; return journal.Of(barrier) }))
		challenge := must(r.challenge("acme"))(t)
		var made, used atomic.Int64
		var solving sync.WaitGroup
		for range attempts {
			solving.Go(func() {
				switch _, err := r.solve(challenge); {
				case err == nil:
					made.Add(1)
				case errors.Is(err, registration.ErrUsed):
					used.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		solving.Wait()
		if made.Load() != 1 || used.Load() != attempts-1 {
			t.Errorf("%d organizations were created, %d attempts were refused because the challenge is used", made.Load(), used.Load())
		}
		if n := barrier.arrived.Load(); n != attempts {
			t.Errorf("%d of %d attempts raced", n, attempts)
		}
	})
}

// TestConcurrentSolutionsOfOneSlug solves twenty challenges of one slug at once. The
// barrier makes all of them pass the check before the first is stored.
func TestConcurrentSolutionsOfOneSlug(t *testing.T) {
	challenges := make([]*registration.Challenge, 20)
	all := &entryBarrier{want: int64(len(challenges)), allArrived: make(chan struct{})}
	r := newTestNode(t, withJournals(4), withWrap(func(j journal.Journal) journal.Journal { all.Journal = j; return journal.Of(all) }))
	for i := range challenges {
		challenges[i] = must(r.challenge("acme"))(t)
	}
	var mu sync.Mutex
	var made []Registered
	var solving sync.WaitGroup
	for _, id := range challenges {
		solving.Go(func() {
			registered, err := r.solve(id)
			if err != nil {
				if !errors.Is(err, registration.ErrSlugTaken) {
					t.Errorf("%v", err)
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			made = append(made, registered)
		})
	}
	solving.Wait()
	if n := all.arrived.Load(); n != all.want {
		t.Errorf("%d of %d solutions raced", n, all.want)
	}
	if len(made) != 1 {
		t.Fatalf("%d organizations have the slug", len(made))
	}
	ctx, won := context.Background(), made[0]
	if id := must(r.node.Orgs.BySlug(ctx, "acme"))(t); id != won.Org.OrgID() {
		t.Errorf("the slug belongs to %s, but %s was acknowledged", id, won.Org.OrgID())
	}
	if id := must(r.node.Orgs.ByClient(ctx, won.ClientID))(t); id != won.Org.OrgID() {
		t.Errorf("the credential belongs to %s", id)
	}
	if _, err := r.challenge("acme"); !errors.Is(err, registration.ErrSlugTaken) {
		t.Errorf("another challenge for the slug: %v", err)
	}
	r.restart()
	used, refused := 0, 0
	for _, id := range challenges {
		switch _, err := r.solve(id); {
		case errors.Is(err, registration.ErrUsed):
			used++
		case errors.Is(err, registration.ErrSlugTaken):
			refused++
		}
	}
	if used != 1 || refused != len(challenges)-1 {
		t.Errorf("solved again after a restart: %d used, %d refused", used, refused)
	}
}

// TestSlugRefusalWaitsForDurability: a refusal that depends on another request's entry
// leaves only when that entry is durable.
func TestSlugRefusalWaitsForDurability(t *testing.T) {
	g := &undurableJournal{durable: make(chan struct{})}
	r := newTestNode(t, withWrap(func(j journal.Journal) journal.Journal { g.heldReleases.Journal = j; return journal.Of(g) }))
	first, second := must(r.challenge("acme"))(t), must(r.challenge("acme"))(t)
	g.hold(true)
	solve := func(c *registration.Challenge) <-chan error {
		to := make(chan error, 1)
		go func() { _, err := r.solve(c); to <- err }()
		return to
	}
	made := solve(first)
	eventually(t, "the solution is appended", func() bool { return g.waiting() == 1 })
	refused, again := solve(second), solve(first)
	eventually(t, "the others wait until that is durable", func() bool { return g.asked.Load() == 2 })
	for _, answer := range []<-chan error{made, refused, again} {
		if len(answer) > 0 {
			t.Fatalf("an answer was sent before the slug was durable: %v", <-answer)
		}
	}
	close(g.durable)
	g.hold(false)
	if err := <-made; err != nil {
		t.Errorf("the first answer: %v", err)
	}
	if err := <-refused; !errors.Is(err, registration.ErrSlugTaken) {
		t.Errorf("another challenge: %v", err)
	}
	if err := <-again; !errors.Is(err, registration.ErrUsed) {
		t.Errorf("the same challenge: %v", err)
	}
}

// undurableJournal reports entries as durable only when a test says so.
type undurableJournal struct {
	heldReleases
	durable chan struct{}
	asked   atomic.Int32
}

func (u *undurableJournal) View() journal.View {
	return journal.ViewOf(undurableView{u.heldReleases.Journal.View(), u})
}

type undurableView struct {
	journal.View
	of *undurableJournal
}

func (v undurableView) Durable(ctx context.Context) error {
	if v.of.releasesHeld() {
		v.of.asked.Add(1)
		<-v.of.durable
	}
	return v.View.Durable(ctx)
}

func (g *heldReleases) releasesHeld() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.holding
}

// TestQuotaRefusalWaitsForDurability: two agents of one organization share its last
// message. The refusal of the second waits until the first is durable.
func TestQuotaRefusalWaitsForDurability(t *testing.T) {
	for _, journals := range []int{1, 4} {
		g := &heldJournal{}
		r := newTestNode(t, withJournals(journals), withWrap(func(j journal.Journal) journal.Journal { g.Journal = j; return journal.Of(g) }))
		owner, ids := r.agents("acme", 5)
		limit := 1
		send := func(from parley.AgentID) <-chan postResult {
			s := direct(owner, from, ids[0], "hello", "")
			s.DayLimit = &limit
			return inBackground(func() (Posted, error) { return r.send(s) })
		}
		g.hold()
		granted := send(ids[1])
		eventually(t, "the message is appended", func() bool { return g.waiting() == 1 })
		var refused []<-chan postResult
		for _, id := range ids[1:] {
			refused = append(refused, send(id))
		}
		time.Sleep(20 * time.Millisecond)
		for _, answer := range append(refused, granted) {
			if len(answer) > 0 {
				t.Fatalf("an answer was sent before the message was stored: %+v", <-answer)
			}
		}
		g.release()
		if p := <-granted; p.err != nil {
			t.Errorf("the first message: %v", p.err)
		}
		for _, answer := range refused {
			if p := <-answer; !errors.Is(p.err, parley.ErrQuotaExceeded) {
				t.Errorf("above the quota: %+v", p)
			}
		}
	}
}

// heldReleases passes entries to the journal and holds their releases, in order.
type heldReleases struct {
	journal.Journal
	mu      sync.Mutex
	holding bool
	held    []func()
}

func (g *heldReleases) Append(e *journal.Entry) {
	if release := e.Release; release != nil && !e.Activate && e.Stream.Kind != journal.KeyLogStream {
		e.Release = func(err error) {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.holding {
				g.held = append(g.held, func() { release(err) })
				return
			}
			release(err)
		}
	}
	g.Journal.Append(e)
}

func (g *heldReleases) hold(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holding = on
	for _, release := range g.held {
		release()
	}
	g.held = nil
}

func (g *heldReleases) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.held)
}

// TestRevokedAgentIsUncountedButFound checks every place where an agent is stored.
func TestRevokedAgentIsUncountedButFound(t *testing.T) {
	r := newTestNode(t, withJournals(4))
	ctx, owner := context.Background(), r.org("acme").Org.OrgID()
	id := r.agent(owner, "alice")
	r.agent(owner, "bob")
	signing := parley.Thumbprint(parley.Ed25519, key(1, "alice"))
	look := func(when string, active int64, poll bool) {
		t.Helper()
		if n := must(r.node.Orgs.Current(ctx, owner))(t).GetActiveAgents(); n != active {
			t.Errorf("%s: the organization counts %d agents, not %d", when, n, active)
		}
		if found, err := r.node.Agents.ByKid(ctx, signing); found != id {
			t.Errorf("%s: by kid: %s, %v", when, found, err)
		}
		if found, err := r.node.Agents.ByName(ctx, owner, "alice"); found != id {
			t.Errorf("%s: by name: %s, %v", when, found, err)
		}
		if _, err := r.node.Agents.ByPollToken(ctx, key(3, "alice")); (err == nil) != poll {
			t.Errorf("%s: by poll token: %v", when, err)
		}
	}
	look("at first", 2, true)
	must(r.node.Agents.Change(ctx, id, agent.RotateKeys{Signing: key(9, "alice"), Encryption: key(8, "alice")}))(t)
	must(r.node.Agents.Change(ctx, id, agent.IssuePollToken{Hash: key(7, "alice")}))(t)
	look("rotated", 2, false)
	if found := must(r.node.Agents.ByKid(ctx, parley.Thumbprint(parley.X25519, key(8, "alice"))))(t); found != id {
		t.Errorf("by the new kid: %s", found)
	}
	if found := must(r.node.Agents.ByPollToken(ctx, key(7, "alice")))(t); found != id {
		t.Errorf("by the new poll token: %s", found)
	}
	for range 3 {
		must(r.node.Agents.Change(ctx, id, agent.Revoke{}))(t)
		look("revoked", 1, false)
	}
	if _, err := r.create(owner, "alice"); !errors.Is(err, org.ErrNameTaken) {
		t.Errorf("the name of a revoked agent: %v", err)
	}
	r.restart()
	look("restarted", 1, false)
}

// TestSagasFinishAfterPowerFailures fails the power repeatedly while agents are created
// and revoked. Acknowledged changes exist afterwards, and started ones are completed.
func TestSagasFinishAfterPowerFailures(t *testing.T) {
	cuts := 10
	if testing.Short() {
		cuts = 4
	}
	disk := vfs.NewCrashableMem()
	r := newTestNode(t, withJournals(4), func(r *testNode) { r.fs = disk })
	owner := r.org("acme").Org.OrgID()
	var mu sync.Mutex
	made, revoked := map[string]parley.AgentID{}, map[string]bool{}
	done := make(chan struct{})
	var working sync.WaitGroup
	for worker := range 4 {
		working.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
				}
				name := fmt.Sprintf("w%d-%d", worker, n)
				a := must(r.create(owner, name))(t)
				mu.Lock()
				made[name] = a.AgentID()
				mu.Unlock()
				if n%2 == 0 {
					must(r.node.Agents.Change(context.Background(), a.AgentID(), agent.Revoke{}))(t)
					mu.Lock()
					revoked[name] = true
					mu.Unlock()
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range cuts {
		time.Sleep(time.Duration(random.IntN(15)) * time.Millisecond)
		promised, gone := map[string]parley.AgentID{}, map[string]bool{}
		mu.Lock()
		for name, id := range made {
			promised[name], gone[name] = id, revoked[name]
		}
		mu.Unlock()
		crashed := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: random.IntN(101), RNG: random})
		checkFinished(t, owner, crashed, promised, gone)
	}
	close(done)
	working.Wait()
}

// checkFinished opens the image of a crash and waits until all stored data agrees.
func checkFinished(t *testing.T, owner parley.OrgID, disk *vfs.MemFS, promised map[string]parley.AgentID, gone map[string]bool) {
	t.Helper()
	r := newTestNode(t, func(r *testNode) { r.fs, r.journals = disk, 0 })
	defer r.close()
	ctx := context.Background()
	var named []parley.AgentID
	v := r.contents.View()
	if err := v.Rows(owner.Slot(), journal.NameTable, owner[:], nil, false, func(_, value []byte) bool {
		named = append(named, parley.IDFromBytes[parley.AgentID](value))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	v.Close()
	for name, id := range promised {
		if found, err := r.node.Agents.ByName(ctx, owner, name); found != id {
			t.Errorf("%s was acknowledged as %s and is %s, %v", name, id, found, err)
		}
	}
	active := int64(0)
	for _, id := range named {
		var a *agent.State
		eventually(t, id.String()+" is at its home", func() (found bool) { a, _ = r.node.Agents.Get(ctx, id); return a.Exists() })
		name := a.GetName()
		if gone[name] && !a.Revoked() {
			t.Errorf("%s was revoked and is active", name)
		}
		eventually(t, name+" is found by its key", func() bool {
			found, _ := r.node.Agents.ByKid(ctx, parley.Thumbprint(parley.X25519, key(2, name)))
			return found == id
		})
		if !a.Revoked() {
			active++
			eventually(t, name+" is found by its poll token", func() bool {
				found, _ := r.node.Agents.ByPollToken(ctx, key(3, name))
				return found == id
			})
		}
	}
	eventually(t, "the organization counts its agents", func() bool {
		return must(r.node.Orgs.Current(ctx, owner))(t).GetActiveAgents() == active
	})
}
