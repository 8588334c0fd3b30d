package actors

import (
	"context"
	"fmt"
	"testing"
	"time"

	"parley/actors/org"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/journal"
)

// expiringFixture is an organization with webhooks that ask for the ends of credentials.
type expiringFixture struct {
	*webhookFixture
	ctx context.Context
}

func newExpiring(t *testing.T, journals int, options ...option) *expiringFixture {
	h := newWebhookFixtureAt(t, newManualClock(noon), append(options, withJournals(journals))...)
	return &expiringFixture{h, context.Background()}
}

// add adds a credential that ends after a time.
func (x *expiringFixture) add(after time.Duration) *org.Credential {
	x.t.Helper()
	return must(x.node.Orgs.AddCredential(x.ctx, x.owner, org.AddCredential{SecretHash: []byte("hash"), Expires: x.manual.now().Add(after)}))(x.t)
}

// asking makes a webhook that asks for the ends of credentials.
func (x *expiringFixture) asking(n int, url string) webhook.ID {
	return x.watch(x.ids[n], "https://sink.example/"+url, webhook.CredentialExpiring).WebhookID()
}

// settle waits until no timer that is due is left, and nothing that it caused is under way.
func (x *expiringFixture) settle() {
	x.t.Helper()
	eventually(x.t, "what is due is done", func() bool {
		due, archive := 0, x.openArchive(x.store.Archive())
		defer archive.Close()
		err := archive.Timers(func(s journal.Stream, at time.Time) error {
			if s.Kind == journal.OrgStream && !at.After(x.manual.now()) {
				due++
			}
			return nil
		})
		return err == nil && due == 0
	})
	awaitIdleStore(x.t, x.store)
}

// expect waits for as many jobs of a webhook, and checks that they announce these credentials.
func (x *expiringFixture) expect(hook webhook.ID, want ...*org.Credential) {
	x.t.Helper()
	x.settle()
	got := ""
	eventually(x.t, "the jobs of webhook "+hook.String(), func() bool {
		jobs, total, err := x.node.Webhooks.Deliveries(x.ctx, hook, x.owner, 0, 0, 100)
		got = fmt.Sprint(total, err)
		for _, j := range jobs {
			got += fmt.Sprintf(" %s %x", j.GetEvent().Word(), j.GetRef())
		}
		return total >= len(want)
	})
	wanted := fmt.Sprint(len(want), error(nil))
	for i := range want {
		wanted += fmt.Sprintf(" credential.expiring %x", want[len(want)-1-i].GetClientId())
	}
	if got != wanted {
		x.t.Errorf("jobs %s, want %s", got, wanted)
	}
}

const day = 24 * time.Hour

// TestExpiryIsAnnounced: a credential is announced seven days and one day before it ends, by one job
// for each webhook that asks for it, also over restarts.
func TestExpiryIsAnnounced(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprint(journals), func(t *testing.T) {
			x := newExpiring(t, journals)
			one, two, off := x.asking(1, "one"), x.asking(2, "two"), x.asking(2, "off")
			must(x.node.Webhooks.Change(x.ctx, off, webhook.Toggle{By: x.owner}))(t)
			long, short, revoked := x.add(10*day), x.add(3*day), x.add(10*day)
			if err := x.node.Orgs.RevokeCredential(x.ctx, x.owner, revoked.Client()); err != nil {
				t.Fatal(err)
			}
			x.manual.advance(2*day - time.Millisecond)
			x.expect(one)
			x.manual.advance(time.Millisecond)
			x.expect(one, short)
			x.expect(two, short)
			x.close()
			x.manual.advance(day) // while no server runs
			x.open()
			x.expect(one, short, long)
			later := x.asking(0, "later")
			x.restart()
			x.expect(later)
			x.manual.advance(6 * day)
			for hook, want := range map[webhook.ID][]*org.Credential{one: {short, long, long}, two: {short, long, long}, later: {long}, off: nil} {
				x.expect(hook, want...)
			}
			must(x.node.Webhooks.Change(x.ctx, off, webhook.Toggle{By: x.owner, Active: true}))(t)
			x.restart()
			x.manual.advance(100 * day)
			for hook, n := range map[webhook.ID]int{one: 3, two: 3, later: 1, off: 0} {
				x.settle()
				if s := must(x.node.Webhooks.Get(x.ctx, hook, x.owner))(t).Summary(); s.Total != uint64(n) {
					t.Errorf("%d jobs of webhook %s, want %d", s.Total, hook, n)
				}
			}
			d := x.courier.delivered()[0]
			if d.Event != webhook.CredentialExpiring || d.Credential != short.Client() || !d.Expires.Equal(short.Expires()) || !d.Happened.Equal(noon.Add(2*day)) {
				t.Errorf("the first delivery is %+v", d)
			}
		})
	}
}

// TestExpiryIsAnnouncedToMany: more agents have such webhooks than one part of a fan-out reaches.
func TestExpiryIsAnnouncedToMany(t *testing.T) {
	skipUnderRace(t)
	x := newExpiring(t, 4)
	var hooks []webhook.ID
	for n := range journal.FanoutChunk + 20 {
		x.ids = append(x.ids[:3], x.agent(x.owner, fmt.Sprint("many", n)))
		hooks = append(hooks, x.asking(3, fmt.Sprint(n)))
	}
	c := x.add(8 * day)
	x.manual.advance(day)
	for _, hook := range hooks {
		x.expect(hook, c)
	}
}

// TestExpiryOfTheSuspendedAndTheErased: a suspended organization is notified when it is resumed, as
// of everything else. One that is erased announces nothing, and its timers go.
func TestExpiryOfTheSuspendedAndTheErased(t *testing.T) {
	x := newExpiring(t, 1, erasable)
	hook, c := x.asking(1, "one"), x.add(10*day)
	must(x.node.Orgs.SetTerms(x.ctx, x.owner, org.Suspend{}))(t)
	x.manual.advance(3 * day)
	x.expect(hook)
	must(x.node.Orgs.SetTerms(x.ctx, x.owner, org.Resume{}))(t)
	x.expect(hook, c)
	x.erase(x.owner)
	x.restart()
	x.manual.advance(6 * day)
	x.settle()
	if n := len(x.courier.delivered()); n != 1 {
		t.Errorf("%d deliveries", n)
	}
}

// TestDueTwice: a timer that fires again before its entry is stored announces nothing again.
func TestDueTwice(t *testing.T) {
	x := newExpiring(t, 1)
	hook, c := x.asking(1, "one"), x.add(8*day)
	x.manual.advance(day)
	for range 20 {
		x.node.engine.Fire(rules.OrgStream(x.owner), c.Expires().Add(-7*day))
	}
	x.expect(hook, c)
}
