package actors

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/actors/agent"
	"parley/actors/delivery"
	"parley/actors/group"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// overWhich returns the quota that an error says is used up, "" for no error.
func overWhich(err error) string {
	var refusal *parley.Refusal
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refusal) && errors.Is(err, parley.ErrQuotaExceeded):
		return fmt.Sprint(refusal.Extra["quota"])
	}
	return err.Error()
}

func (d *quotaFixture) usage() journal.Usage {
	d.t.Helper()
	return must(d.node.Orgs.Used(context.Background(), d.owner))(d.t)
}

func hashOf(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// TestChangesAreExact: of 64 concurrent changes as many succeed as the limit allows, today, after a
// restart and tomorrow. One that is refused changes nothing, and what removes something is counted
// and never refused.
func TestChangesAreExact(t *testing.T) {
	onOneAndFour(t, func(t *testing.T, journals int) {
		clock := newManualClock(noon)
		r := newTestNode(t, withJournals(journals), withClock(clock.now))
		r.journalClock = time.Now
		d := newQuotaFixture(t, r)
		ctx := parley.WithPayer(context.Background(), &parley.Payer{Org: d.owner, Changes: new(5)})
		var tokens atomic.Int64
		change := func(i int, token string) string {
			_, err := d.node.Agents.Change(ctx, d.ids[i%8], agent.IssuePollToken{Hash: hashOf(token)})
			return overWhich(err)
		}
		changeConcurrently := func() (made int64) {
			var all sync.WaitGroup
			var n atomic.Int64
			for i := range 64 {
				all.Go(func() {
					if over := change(i, fmt.Sprint("token ", tokens.Add(1))); over == "" {
						n.Add(1)
					} else if over != parley.QuotaChanges {
						t.Error(over)
					}
				})
			}
			all.Wait()
			return n.Load()
		}
		if made := changeConcurrently(); made != 5 || d.usage().Changes != 5 {
			t.Errorf("%d were made and %d counted, want 5", made, d.usage().Changes)
		}
		token := func() string { return string(must(d.node.Agents.Get(ctx, d.ids[0]))(t).GetPollTokenHash()) }
		before := token()
		if over := change(0, "refused"); over != parley.QuotaChanges {
			t.Errorf("beyond the limit: %q", over)
		}
		if now := token(); now != before {
			t.Errorf("a refused change was made: %x became %x", before, now)
		}
		d.restart()
		if made := changeConcurrently(); made != 0 {
			t.Errorf("%d were made beyond the limit after a restart", made)
		}
		// A repeat that changes nothing is no change.
		if _, err := d.node.Agents.Change(ctx, d.ids[0], agent.Change{Unlisted: new(false)}); err != nil {
			t.Errorf("beyond the limit what changes nothing is refused: %v", err)
		}
		if _, err := d.node.Agents.Change(ctx, d.ids[8], agent.Revoke{}); err != nil || d.usage().Changes != 6 {
			t.Errorf("revoking beyond the limit: %v, %d changes are counted, want 6", err, d.usage().Changes)
		}
		clock.advance(12 * time.Hour)
		if made := changeConcurrently(); made != 5 {
			t.Errorf("%d were made tomorrow, want 5", made)
		}
	})
}

// TestChangesOfKeysAreFree: the first 20 changes of keys of a day are never refused.
func TestChangesOfKeysAreFree(t *testing.T) {
	d := newQuotaFixture(t, newTestNode(t))
	ctx := parley.WithPayer(context.Background(), &parley.Payer{Org: d.owner, Changes: new(0)})
	for i := range keyChangesFree + 1 {
		key := make([]byte, 32)
		key[0], key[31] = byte(i+1), 7
		_, err := d.node.Agents.Change(ctx, d.ids[0], agent.RotateKeys{Signing: key})
		if over := overWhich(err); i < keyChangesFree && over != "" || i == keyChangesFree && over != parley.QuotaChanges {
			t.Fatalf("change %d: %q", i+1, over)
		}
	}
	if u := d.usage(); u.Changes != keyChangesFree || u.KeyChanges != keyChangesFree {
		t.Errorf("%+v", u)
	}
}

// TestStoredBytes: an organization pays for messages, cards and KeyPackages, and no longer for what
// is replaced, withdrawn or claimed. Beyond the limit nothing more is stored.
func TestStoredBytes(t *testing.T) {
	onOneAndFour(t, func(t *testing.T, journals int) {
		d := newQuotaFixture(t, newTestNode(t, withJournals(journals), withClock(newManualClock(noon).now)))
		payer := &parley.Payer{Org: d.owner, StoredBytes: new(10_000)}
		ctx := parley.WithPayer(context.Background(), payer)
		want := int64(0)
		stores := func(what string, bytes int64, err error) {
			t.Helper()
			if want += bytes; err != nil || d.usage().Stored != want {
				t.Errorf("%s: %v, %d bytes are stored, want %d", what, err, d.usage().Stored, want)
			}
		}
		send := func(bytes int) error {
			s := direct(d.owner, d.ids[1], d.ids[0], "text", "")
			s.Sent = bytes
			_, err := d.node.Messages.Send(ctx, s)
			return err
		}
		stores("a message", 1008, send(1000))
		_, err := d.node.Agents.PublishCard(ctx, d.ids[0], agent.PublishCard{}, fullCard("first"))
		card := d.usage().Stored - want
		stores("a card", card, err)
		_, err = d.node.Agents.PublishCard(ctx, d.ids[0], agent.PublishCard{}, fullCard("first"))
		stores("the same card again", 0, err)
		up := uploadOf(t, d.node, d.ids[0], "one", "two") // of 14 bytes each
		_, err = d.node.Agents.StoreKeyPackages(ctx, d.ids[0], up.UploadedKeyPackages)
		stores("two KeyPackages", 32, err)
		_, err = d.node.Agents.ClaimKeyPackage(ctx, d.ids[0], 1)
		stores("a KeyPackage is claimed", -16, err)
		_, err = d.node.Agents.Change(ctx, d.ids[0], agent.WithdrawCard{})
		stores("the card is withdrawn", -card, err)
		d.restart()
		stores("a restart", 0, nil)
		if over := overWhich(send(10_000 - int(want) + 1)); over != parley.QuotaStoredBytes {
			t.Errorf("a message beyond the limit: %q", over)
		}
		stores("up to the limit", 10_000-want, send(10_000-int(want)))
		_, err = d.node.Agents.PublishCard(ctx, d.ids[1], agent.PublishCard{}, fullCard("beyond"))
		if over := overWhich(err); over != parley.QuotaStoredBytes {
			t.Errorf("a card beyond the limit: %q", over)
		}
		if now := must(d.node.Agents.Get(ctx, d.ids[1]))(t); now.GetCard() != nil {
			t.Error("a card that was refused is there")
		}
		stores("what is refused", 0, nil)
		// The present card would be released: a refusal must not release it.
		payer.StoredBytes = new(20_000)
		_, err = d.node.Agents.PublishCard(ctx, d.ids[2], agent.PublishCard{}, fullCard("third"))
		stores("another card", card, err)
		payer.StoredBytes, payer.Changes = new(int(want)), new(0)
		for range 20 {
			if _, err := d.node.Agents.PublishCard(ctx, d.ids[2], agent.PublishCard{}, fullCard("third")); overWhich(err) != parley.QuotaChanges {
				t.Errorf("a card in place of another, beyond the changes: %v", err)
			}
		}
		if over := overWhich(send(1)); over != parley.QuotaStoredBytes {
			t.Errorf("after refusals there is room: %q", over)
		}
		payer.Changes = nil
		_, err = d.node.Agents.PublishCard(ctx, d.ids[2], agent.PublishCard{}, fullCard("third"))
		stores("at the limit, a card in place of an equal one", 0, err)
		payer.StoredBytes = new(20_000)
		if _, err := d.node.Agents.PublishCard(context.Background(), d.ids[1], agent.PublishCard{}, fullCard("nobody's")); err != nil {
			t.Errorf("without a payer: %v", err)
		}
	})
}

// TestInvitationsAreExact: an organization invites agents of others up to its limit, and one agent
// three times, whichever groups it is invited to.
func TestInvitationsAreExact(t *testing.T) {
	d := newQuotaFixture(t, newTestNode(t))
	_, theirs := d.agents("other", 12)
	var groups []*testGroup
	for i := range 5 {
		groups = append(groups, must(d.createGroup(d.owner, d.ids[0], fmt.Sprint("group-", i), group.Closed, false))(t))
	}
	ctx := parley.WithPayer(context.Background(), &parley.Payer{Org: d.owner, Invitations: new(10), InvitationsPerAgent: new(3)})
	invite := func(to parley.AgentID, in int) string {
		_, err := d.node.Groups.Invite(ctx, groups[in].id, Invitation{
			Invite: group.Invite{By: group.Caller{Org: d.owner, Agent: d.ids[0]}, Agent: to},
			Notice: Content{Type: "svc.v1.group_invite", Body: []byte(BlankRequestID)},
		})
		return overWhich(err)
	}
	for i := range 5 {
		want := ""
		if i >= 3 {
			want = parley.QuotaInvitationsPerAgent
		}
		if over := invite(theirs[0], i); over != want {
			t.Errorf("invitation %d of one agent: %q, want %q", i+1, over, want)
		}
	}
	if over := invite(d.ids[1], 0); over != "" {
		t.Errorf("an agent of the organization's own: %q", over)
	}
	d.restart()
	if over := invite(theirs[0], 3); over != parley.QuotaInvitationsPerAgent {
		t.Errorf("after a restart: %q", over)
	}
	var made atomic.Int64
	var all sync.WaitGroup
	for _, to := range theirs[1:] {
		all.Go(func() {
			if over := invite(to, 4); over == "" {
				made.Add(1)
			} else if over != parley.QuotaInvitations {
				t.Error(over)
			}
		})
	}
	all.Wait()
	if made.Load() != 7 || d.usage().Invitations != 10 {
		t.Errorf("%d more agents were invited, %d counted; want 7 and 10", made.Load(), d.usage().Invitations)
	}
}

// TestSumsAreDropped: what is refused leaves no sum for good, and what was used is still known when
// the sums that are not needed are dropped.
func TestSumsAreDropped(t *testing.T) {
	q, day := &usages{}, uint32(20_000)
	id := func(n int) (id parley.OrgID) {
		binary.BigEndian.PutUint32(id[:], uint32(n))
		return id
	}
	for n := range 4 * sumsLeast {
		u := q.of(id(n), day)
		u.day = day
		if n%1000 == 0 {
			u.Invitations = 1
		}
		u.mu.Unlock()
	}
	if len(q.used) > 2*sumsLeast {
		t.Errorf("%d sums are kept", len(q.used))
	}
	for n := 0; n < 4*sumsLeast; n += 1000 {
		if u := q.used[id(n)]; u == nil || u.Invitations != 1 {
			t.Fatalf("the sum of %d is lost", n)
		}
	}
}

// TestRefusedChangesDoNotCount: a webhook that is refused because there is one for its URL is no
// change, below the limit and at it.
func TestRefusedChangesDoNotCount(t *testing.T) {
	r := newTestNode(t)
	d := newQuotaFixture(t, r)
	ctx := parley.WithPayer(context.Background(), &parley.Payer{Org: d.owner, Changes: new(3)})
	create := func(url string) error {
		_, err := d.node.Webhooks.Create(ctx, delivery.CreateWebhook{
			Agent: d.ids[0], ID: d.node.Webhooks.NewID(d.ids[0]), Org: d.owner, URL: url, SentURL: url, SealedSecret: []byte("sealed"),
		})
		return err
	}
	if err := create("https://one.example/"); err != nil {
		t.Fatal(err)
	}
	counted := d.usage().Changes
	for range 5 {
		if err := create("https://one.example/"); !errors.Is(err, webhook.ErrDuplicate) {
			t.Fatalf("a second webhook of the URL: %v", err)
		}
	}
	if now := d.usage().Changes; now != counted {
		t.Errorf("%d changes are counted, want %d", now, counted)
	}
}
