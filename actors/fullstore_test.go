package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/issuer"
	"parley/actors/org"
	"parley/actors/query"
	"parley/actors/record"
	actorsverify "parley/actors/verify"
	"parley/client/parley"
	"parley/journal"
	"parley/journal/report"
	rowverify "parley/persistence/verify"
)

// verifyStore verifies a store: its bytes and their meaning.
func verifyStore(t testing.TB, r *testNode) *report.Verification {
	t.Helper()
	audit := &report.Verification{}
	archive := r.archive()
	defer func() {
		if err := archive.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := rowverify.Rows(archive, audit); err != nil {
		t.Error(err)
	}
	if err := actorsverify.Run(actorsverify.ArchiveOf(archive), audit); err != nil {
		t.Error(err)
	}
	return audit
}

// verify verifies the store at the end of a test. It skips rows of tables that only
// tests use.
func (r *testNode) verify() {
	if r.node == nil {
		return
	}
	if r.erased.Load() {
		r.verifyErased()
		return
	}
	for _, f := range verifyStore(r.t, r).First(100) {
		if f.Check != "tables" {
			r.t.Error(f)
		}
	}
}

// fullStore is a store that contains every kind of row.
type fullStore struct {
	*testNode
	manual   *manualClock
	owner    parley.OrgID
	agents   []parley.AgentID
	first    *record.Message // of a conversation of agents 0 and 1
	messages []*record.Message
}

// newFullStore fills a store by using every feature once.
func newFullStore(t testing.TB, journals int, options ...option) *fullStore {
	w := &fullStore{manual: newManualClock(noon)}
	began := time.Now()
	w.testNode = newTestNode(t, append(options, withJournals(journals), withClock(w.manual.now), func(r *testNode) {
		r.journalClock = func() time.Time { return noon.Add(time.Since(began)) }
	})...)
	ctx := context.Background()
	w.owner = w.org("acme").Org.OrgID()
	for n := range 6 { // sequentially: the homes must not change from run to run
		w.agents = append(w.agents, w.agent(w.owner, fmt.Sprintf("a%d", n)))
	}
	if _, err := w.solve(must(w.challenge("hard"))(t)); err != nil {
		t.Fatal(err)
	}
	must(w.node.Keys.Mint(ctx, issuer.Mint{Kid: "k1", Public: key(1, "p"), SealedSeed: []byte("seed"), Force: true}))(t)
	second := must(w.node.Orgs.AddCredential(ctx, w.owner, org.AddCredential{SecretHash: []byte("second")}))(t)
	w.node.Orgs.NoteToken(w.owner, second.Client())
	w.prove("spiffe://example.org/a0")
	for n := range 24 {
		w.manual.advance(time.Minute)
		from, to := w.agents[n%4], w.agents[(n+1+n/8)%4]
		p := must(w.send(direct(w.owner, from, to, fmt.Sprint("hello ", n), fmt.Sprint("key", n))))(t)
		w.messages = append(w.messages, p.Message)
		if n%3 != 0 {
			w.answer(p.Message, n)
		}
		if n%4 == 1 && n%3 != 0 {
			for _, status := range []string{"paused", "open", "input_required", "completed"} {
				must(w.node.Messages.ChangeStatus(ctx, ChangeStatus{Conversation: p.Message.Conversation(), By: []parley.AgentID{from}, Status: status}))(t)
			}
		}
	}
	w.first = w.messages[0]
	must(w.node.Messages.ClaimTask(ctx, TaskClaim{Org: w.owner, Oldest: w.agents[0], By: w.agents[3], Key: "task"}))(t)
	must(w.node.Agents.Change(ctx, w.agents[4], agent.RotateKeys{Signing: key(9, "new"), Encryption: key(8, "new")}))(t)
	must(w.node.Agents.Change(ctx, w.agents[4], agent.IssuePollToken{Hash: key(7, "new")}))(t)
	for n, id := range []parley.AgentID{w.agents[0], w.agents[1], w.agents[0], w.agents[5]} {
		w.publish(id, fmt.Sprintf("card %d", n))
	}
	must(w.node.Agents.Change(ctx, w.agents[1], agent.WithdrawCard{}))(t)
	w.upload(w.agents[2], uploadOf(t, w.node, w.agents[2], "first", "second").lastResort("last"), StoredKeyPackages{Stored: 2, Available: 2})
	w.claimed(w.agents[2], 0)
	must(w.node.Agents.Change(ctx, w.agents[5], agent.Revoke{}))(t)
	eventually(t, "the agent is counted out", func() bool { return must(w.node.Orgs.Current(ctx, w.owner))(t).GetActiveAgents() == 5 })
	w.node.queries.Limits().ListedStep, w.node.queries.Limits().TaskedStep = 1, 1
	for _, id := range w.agents { // a listing stores rows
		if err := w.node.Messages.EachTask(ctx, id, id, func(*conversation.State) error { return nil }); err != nil {
			t.Fatal(err)
		}
		_, _, err := w.node.Messages.Conversations(ctx, id, 0, 5)
		if err != nil {
			t.Fatal(err)
		}
	}
	w.manual.advance(24 * time.Hour)
	must(w.send(direct(w.owner, w.agents[0], w.agents[1], "next day", "key0")))(t)
	awaitKeyLog(t, w.node, w.agents...)
	return w
}

// prove makes agent 0 prove a SPIFFE id.
func (w *fullStore) prove(spiffeID string) {
	w.t.Helper()
	c := &org.WorkloadChallenge{
		OrgId: w.owner.Bytes(), AgentId: w.agents[0].Bytes(), Nonce: "workload", ExpiresMs: w.clock().Add(time.Minute).UnixMilli(),
	}
	must(w.node.Orgs.ProveWorkload(context.Background(), w.owner, c, spiffeID))(w.t)
}

// answer makes the recipient read and reply, and the sender read a page.
func (w *fullStore) answer(m *record.Message, n int) {
	w.t.Helper()
	var mine query.Message
	eventually(w.t, "the message has arrived", func() bool {
		var err error
		mine, err = w.node.Messages.GetFor(context.Background(), m.Recipient().Slot(), m.MessageID())
		return err == nil && mine.Position != 0
	})
	a := answerTo(w.owner, m, fmt.Sprint("answer ", n), fmt.Sprint("key", n))
	a.Reads, a.Position = true, mine.Position
	reply := must(w.reply(a))(w.t).Message
	if n%2 == 0 {
		return
	}
	at := w.clock().UnixMilli()
	for _, got := range w.inbox(reply.Recipient()) {
		if got.Receipts.TransferredAt == 0 {
			mark := journal.RecordReceipt{Recipient: reply.Recipient(), Message: got.Record.MessageID(), Position: got.Position, Receipts: journal.Receipts{TransferredAt: at}}
			if err := w.node.Receipts.Record(context.Background(), reply.Recipient(), []journal.RecordReceipt{mark}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// TestVerifyFindsNoFault: the verifier reports nothing about data that real actors
// wrote, neither while they run nor afterwards.
func TestVerifyFindsNoFault(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprint(journals), func(t *testing.T) {
			checked := map[string]uint64{}
			for _, r := range []*testNode{newFullStore(t, journals).testNode, newGroupStore(t, journals).testNode} {
				audit := verifyStore(t, r)
				if err := audit.Err(); err != nil {
					t.Error(err)
				}
				for _, c := range audit.Checks() {
					checked[c.Name] += c.Checked
				}
				r.restart()
				if err := verifyStore(t, r).Err(); err != nil {
					t.Errorf("after a restart: %v", err)
				}
			}
			// TestVerifyPendingMessages has messages in outboxes; here all may have arrived.
			idle := []string{"status-underway", "seats-underway", "queued-messages", "queues", "quarantine", "outboxes"}
			if journals == 1 {
				idle = append(idle, "record-copy", "receipts", "receipts-place", "far-records")
			}
			for name, n := range checked {
				if n == 0 && !slices.Contains(idle, name) && !webhookNamesOfChecks[name] {
					t.Errorf("check %q examined nothing", name)
				}
			}
		})
	}
}

// TestForgottenCredentialsLeaveNoRow: when a credential leaves the state, its row is
// deleted too.
func TestForgottenCredentialsLeaveNoRow(t *testing.T) {
	r, ctx := newTestNode(t), context.Background()
	owner := r.org("acme").Org.OrgID()
	stale := must(r.node.Orgs.AddCredential(ctx, owner, org.AddCredential{SecretHash: []byte("first")}))(t).Client()
	id := stale
	for range parley.RevokedCredentialsMax {
		if err := r.node.Orgs.RevokeCredential(ctx, owner, id); err != nil {
			t.Fatal(err)
		}
		id = must(r.node.Orgs.AddCredential(ctx, owner, org.AddCredential{SecretHash: []byte("next")}))(t).Client()
	}
	if o := must(r.node.Orgs.Current(ctx, owner))(t); o.Credential(stale) != nil {
		t.Fatal("the credential is still in the state")
	}
	if _, err := r.node.Orgs.ByClient(ctx, stale); !errors.Is(err, parley.ErrNotFound) {
		t.Errorf("the row of a removed credential: %v", err)
	}
	must(r.node.Orgs.ByClient(ctx, id))(t)
}
