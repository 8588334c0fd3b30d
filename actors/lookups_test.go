package actors

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"parley/actors/agent"
	"parley/actors/org"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// numbered returns a key that contains a number.
func numbered(n uint64) []byte { return binary.BigEndian.AppendUint64(make([]byte, 24), n) }

func numberOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[24:]) }

// TestReadersSeeAcknowledgedChanges rotates a key repeatedly. Reads that begin after an
// answer see the new key, even while records are evicted from the cache.
func TestReadersSeeAcknowledgedChanges(t *testing.T) {
	for name, evicting := range map[string]bool{"at hand": false, "evicted": true} {
		t.Run(name, func(t *testing.T) {
			r := newTestNode(t)
			_, ids := r.agents("acme", 1)
			must(r.node.Agents.Change(context.Background(), ids[0], agent.RotateKeys{Signing: numbered(1)}))(t)
			var answered atomic.Uint64
			var reading sync.WaitGroup
			done := make(chan struct{})
			keep := func(do func()) {
				reading.Go(func() {
					for {
						select {
						case <-done:
							return
						default:
							do()
						}
					}
				})
			}
			for range 4 {
				keep(func() {
					floor := answered.Load()
					a, err := r.node.Agents.Get(context.Background(), ids[0])
					if err != nil {
						t.Error(err)
					} else if n := numberOf(a.GetSigningKey()); n < floor {
						t.Errorf("key %d was acknowledged, a read returns key %d", floor, n)
					}
				})
			}
			if evicting {
				for range 2 {
					keep(func() { r.node.queries.ForgetAgent(ids[0]) })
				}
			}
			for n := uint64(2); n < 120; n++ {
				must(r.node.Agents.Change(context.Background(), ids[0], agent.RotateKeys{Signing: numbered(n)}))(t)
				answered.Store(n)
			}
			close(done)
			reading.Wait()
		})
	}
}

// TestSlowReaderDoesNotCacheAnOldRecord reads rows, then waits while the record
// changes and is evicted from the cache.
func TestSlowReaderDoesNotCacheAnOldRecord(t *testing.T) {
	slow := &slowDurability{}
	r := newTestNode(t, withWrap(func(j journal.Journal) journal.Journal { slow.Journal = j; return journal.Of(slow) }))
	_, ids := r.agents("acme", 1)
	awaitKeyLog(t, r.node, ids...) // it opens views too
	r.node.queries.ForgetAgent(ids[0])
	entered, leave := make(chan struct{}), make(chan struct{})
	slow.next.Store(&slowDurabilityView{entered: entered, leave: leave})
	var reading sync.WaitGroup
	reading.Go(func() { must(r.node.Agents.Get(context.Background(), ids[0]))(t) })
	<-entered
	must(r.node.Agents.Change(context.Background(), ids[0], agent.Revoke{}))(t)
	r.node.queries.ForgetAgent(ids[0])
	close(leave)
	reading.Wait()
	if a := must(r.node.Agents.Get(context.Background(), ids[0]))(t); !a.Revoked() {
		t.Error("a revoked agent is active again")
	}
}

// slowDurability makes the next view's Durable wait.
type slowDurability struct {
	journal.Journal
	next atomic.Pointer[slowDurabilityView]
}

func (j *slowDurability) Latest() journal.View {
	v := j.next.Swap(nil)
	if v == nil {
		return j.Journal.Latest()
	}
	v.View = j.Journal.Latest()
	return journal.ViewOf(v)
}

type slowDurabilityView struct {
	journal.View
	entered, leave chan struct{}
}

func (v *slowDurabilityView) Durable(ctx context.Context) error {
	close(v.entered)
	<-v.leave
	return v.View.Durable(ctx)
}

// TestCredentialChangesAreSeenAtOnce adds and revokes credentials during concurrent reads, and
// while agents are made in other homes: those entries are answered later than some that follow.
func TestCredentialChangesAreSeenAtOnce(t *testing.T) {
	r := newTestNode(t, withJournals(4))
	owner, ctx := r.org("acme").Org.OrgID(), context.Background()
	var gone sync.Map // of parley.ClientID
	done := make(chan struct{})
	var reading sync.WaitGroup
	for range 3 {
		reading.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				var revoked []parley.ClientID
				gone.Range(func(client, _ any) bool {
					revoked = append(revoked, client.(parley.ClientID))
					return len(revoked) < 50
				})
				o := must(r.node.Orgs.Get(ctx, owner))(t)
				for _, client := range revoked {
					if o.Credential(client).Live(r.node.clock()) {
						t.Errorf("credential %s is live after it was revoked", client)
						return
					}
				}
				r.node.queries.ForgetOrg(owner)
			}
		})
	}
	for n := range 4 {
		reading.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
					r.agent(owner, fmt.Sprintf("a%d-%d", n, i))
				}
			}
		})
	}
	for range 300 {
		client := must(r.node.Orgs.AddCredential(ctx, owner, org.AddCredential{SecretHash: []byte("hash")}))(t).Client()
		if !must(r.node.Orgs.Get(ctx, owner))(t).Credential(client).Live(r.node.clock()) {
			t.Error("an acknowledged credential is not visible")
		}
		if err := r.node.Orgs.RevokeCredential(ctx, owner, client); err != nil {
			t.Fatal(err)
		}
		gone.Store(client, true)
	}
	close(done)
	reading.Wait()
}

// TestTheFirstActiveAgentIsTheOldest: this also holds for reads while another agent is
// being created.
func TestTheFirstActiveAgentIsTheOldest(t *testing.T) {
	late := &hiddenState{}
	r := newTestNode(t, withWrap(func(j journal.Journal) journal.Journal { late.Journal = j; return journal.Of(late) }))
	owner, ctx := r.org("acme").Org.OrgID(), context.Background()
	older, younger := r.agent(owner, "older"), r.agent(owner, "younger")
	// The older one has not been created at its home yet.
	r.node.queries.Forget()
	late.hidden.Store(older)
	if a := must(r.node.Agents.FirstActive(ctx, owner))(t); a.AgentID() != younger {
		t.Fatalf("the first is %s", a.GetName())
	}
	late.hidden.Store(parley.AgentID{})
	if a := must(r.node.Agents.FirstActive(ctx, owner))(t); a.AgentID() != older {
		t.Errorf("once the older one exists, the first is %s", a.GetName())
	}
	must(r.node.Agents.Change(ctx, older, agent.Revoke{}))(t)
	if a := must(r.node.Agents.FirstActive(ctx, owner))(t); a.AgentID() != younger {
		t.Errorf("once the older one is revoked, the first is %s", a.GetName())
	}
}

// hiddenState hides the state of one agent.
type hiddenState struct {
	journal.Journal
	hidden atomic.Value
}

func (j *hiddenState) Latest() journal.View {
	hidden, _ := j.hidden.Load().(parley.AgentID)
	return journal.ViewOf(hiddenStateView{j.Journal.Latest(), hidden})
}

type hiddenStateView struct {
	journal.View
	hidden parley.AgentID
}

func (v hiddenStateView) State(s journal.Stream) (uint64, []byte, error) {
	if !v.hidden.Zero() && s == rules.AgentStream(v.hidden) {
		return 0, nil, nil
	}
	return v.View.State(s)
}
