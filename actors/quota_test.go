package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/actors/agent"
	"parley/actors/group"
	"parley/actors/org"
	"parley/client/parley"
	"parley/journal"
)

// quotaFixture is an organization whose agents send under a limit, all to one agent.
type quotaFixture struct {
	*testNode
	owner parley.OrgID
	ids   []parley.AgentID
	sent  atomic.Int64
}

func newQuotaFixture(t *testing.T, r *testNode) *quotaFixture {
	owner, ids := r.agents("acme", 9)
	return &quotaFixture{testNode: r, owner: owner, ids: ids}
}

// sendFrom sends one message from the i-th agent; a nil limit means no limit.
func (d *quotaFixture) sendFrom(i int, limit *int, key string) (Posted, error) {
	s := direct(d.owner, d.ids[1+i%8], d.ids[0], fmt.Sprint("message ", d.sent.Add(1)), key)
	s.DayLimit = limit
	return d.send(s)
}

// sendConcurrently sends from 64 callers and returns how many were admitted.
func (d *quotaFixture) sendConcurrently(limit *int) (granted int) {
	d.t.Helper()
	var all sync.WaitGroup
	var stored atomic.Int64
	for i := range 64 {
		all.Go(func() {
			switch _, err := d.sendFrom(i, limit, ""); {
			case err == nil:
				stored.Add(1)
			case !errors.Is(err, parley.ErrQuotaExceeded):
				d.t.Error(err)
			}
		})
	}
	all.Wait()
	return int(stored.Load())
}

func (d *quotaFixture) checkUsed(want int64) {
	d.t.Helper()
	if used := must(d.node.Orgs.Used(context.Background(), d.owner))(d.t).Messages; used != want {
		d.t.Errorf("used %d, want %d", used, want)
	}
}

func onOneAndFour(t *testing.T, test func(*testing.T, int)) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprint(journals), func(t *testing.T) { test(t, journals) })
	}
}

// dayFaults sends from 64 callers concurrently under a limit, again after a restart,
// under a higher limit, just before midnight and after it. It begins at noon with
// nothing sent.
func dayFaults(d *quotaFixture, clock *manualClock) (faults []string) {
	d.t.Helper()
	ctx := context.Background()
	hold := func(what string, got, want int) {
		if got != want {
			faults = append(faults, fmt.Sprintf("%s: %d, want %d", what, got, want))
		}
	}
	used := func(what string, want int) {
		hold("used "+what, int(must(d.node.Orgs.Used(ctx, d.owner))(d.t).Messages), want)
	}
	limit := 10
	hold("sent", d.sendConcurrently(&limit), 10)
	used("up", 10)
	d.restart()
	hold("sent beyond the limit after a restart", d.sendConcurrently(&limit), 0)
	limit = 12
	hold("sent of 2 more", d.sendConcurrently(&limit), 2)
	_, err := d.sendFrom(0, &limit, "")
	var refusal *parley.Refusal
	if !errors.As(err, &refusal) || fmt.Sprint(refusal.Extra) != "map[limit:12 quota:messages_per_day resets_at:2026-03-15T00:00:00.000000Z used:12]" {
		faults = append(faults, fmt.Sprintf("refused with %v", refusal))
	}
	clock.advance(12*time.Hour - time.Nanosecond)
	hold("sent a nanosecond before midnight", d.sendConcurrently(&limit), 0)
	clock.advance(time.Nanosecond)
	used("on the new day", 0)
	hold("sent on the new day", d.sendConcurrently(&limit), 12)
	used("up on the new day", 12)
	return faults
}

// TestDailyQuotaIsExact: of 64 concurrent sends, as many succeed as the limit allows:
// today, after a restart and tomorrow.
func TestDailyQuotaIsExact(t *testing.T) {
	onOneAndFour(t, func(t *testing.T, journals int) {
		clock := newManualClock(noon)
		r := newTestNode(t, withJournals(journals), withClock(clock.now))
		r.journalClock = time.Now
		for _, fault := range dayFaults(newQuotaFixture(t, r), clock) {
			t.Error(fault)
		}
	})
}

// TestLimitCountsEarlierUnlimitedMessages: a limit that is set while messages are
// being sent, or removed and set again, counts all messages of the day.
func TestLimitCountsEarlierUnlimitedMessages(t *testing.T) {
	onOneAndFour(t, func(t *testing.T, journals int) {
		d := newQuotaFixture(t, newTestNode(t, withJournals(journals)))
		var sending sync.WaitGroup
		for range 2 {
			sending.Go(func() { d.sendConcurrently(nil) })
		}
		limit := 1000
		if n := d.sendConcurrently(&limit); n != 64 {
			t.Errorf("%d sent far below the limit", n)
		}
		sending.Wait()
		limit = 200
		if n := d.sendConcurrently(&limit); n != 200-192 {
			t.Errorf("%d sent besides 192, 200 allowed", n)
		}
		d.sendConcurrently(nil)
		limit = 270
		if n := d.sendConcurrently(&limit); n != 6 {
			t.Errorf("%d of 6 sent after the limit was lifted for 64", n)
		}
		d.checkUsed(270)
	})
}

// TestWhichRequestsUseQuota: a send, a reply and a broadcast use one each, however many
// members a broadcast reaches; a replay and a refusal use none.
func TestWhichRequestsUseQuota(t *testing.T) {
	onOneAndFour(t, func(t *testing.T, journals int) {
		ctx := context.Background()
		d := newQuotaFixture(t, newTestNode(t, withJournals(journals)))
		limit := 4
		first := must(d.sendFrom(0, &limit, "k"))(t)
		d.checkUsed(1)
		if p := must(d.sendFrom(0, &limit, "k"))(t); !p.Repeated {
			t.Error("not recognized as a repeat")
		}
		s := direct(d.owner, d.ids[1], d.ids[1], "to oneself", "")
		s.DayLimit = &limit
		if _, err := d.send(s); err == nil {
			t.Error("a message to oneself was accepted")
		}
		d.checkUsed(1)
		answer := answerTo(d.owner, first.Message, "answer", "")
		answer.DayLimit = &limit
		must(d.reply(answer))(t)
		d.checkUsed(2)
		made := must(d.node.Groups.Create(ctx, NewGroup{Found: group.Found{Org: d.owner, Founder: d.ids[0], Name: "club", Policy: group.Open, Public: true}}))(t)
		for _, id := range d.ids[1:] {
			must(d.node.Groups.Join(ctx, made.ID, group.Join{Agent: id, Org: d.owner}))(t)
		}
		d.checkUsed(2)
		all := GroupSend{Content: Content{Type: "svc.v1.dm", Body: []byte("to all"), Key: "all", FromOrg: d.owner, DayLimit: &limit}, Group: made.ID, From: d.ids[0]}
		must(d.node.Messages.Broadcast(ctx, all))(t)
		must(d.node.Messages.Broadcast(ctx, all))(t)
		d.checkUsed(3)
		if n := d.sendConcurrently(&limit); n != 1 {
			t.Errorf("%d sent, 1 left", n)
		}
		if _, err := d.sendFrom(0, &limit, "k"); err != nil {
			t.Errorf("a replay above the limit: %v", err)
		}
		d.checkUsed(4)
	})
}

// exactFaults makes 64 concurrent requests, of which `may` are allowed: exactly as many
// must succeed, and all others get quota_exceeded.
func exactFaults(what string, may int, one func(name string) error) (faults []string) {
	var all sync.WaitGroup
	var made, failed atomic.Int64
	for i := range 64 {
		all.Go(func() {
			if err := one(fmt.Sprintf("%s-%d", what, i)); err == nil {
				made.Add(1)
			} else if !errors.Is(err, org.ErrQuotaExceeded) {
				failed.Add(1)
			}
		})
	}
	all.Wait()
	if made.Load() != int64(may) || failed.Load() != 0 {
		faults = append(faults, fmt.Sprintf("%s: %d made, %d allowed, %d failed otherwise", what, made.Load(), may, failed.Load()))
	}
	return faults
}

// TestAgentsAndGroupsAreExact: of 64 concurrent requests, as many succeed as the limit
// allows; a revoked agent no longer counts.
func TestAgentsAndGroupsAreExact(t *testing.T) {
	onOneAndFour(t, func(t *testing.T, journals int) {
		ctx := context.Background()
		r := newTestNode(t, withJournals(journals))
		owner := r.org("acme").Org.OrgID()
		limit := 5
		var last atomic.Value
		newAgent := func(name string) error {
			a, err := r.node.Agents.Create(ctx, NewAgent{Limit: &limit, Create: agent.Create{
				OrgID: owner, Name: name, SigningKey: key(1, name), EncryptionKey: key(2, name), PollTokenHash: key(3, name),
			}})
			if err == nil {
				last.Store(a.AgentID())
			}
			return err
		}
		faults := exactFaults("agents", limit, newAgent)
		founder := last.Load().(parley.AgentID)
		newGroup := func(name string) error {
			_, err := r.node.Groups.Create(ctx, NewGroup{Limit: &limit, Found: group.Found{Org: owner, Founder: founder, Name: name, Policy: group.Open}})
			return err
		}
		faults = append(faults, exactFaults("groups", limit, newGroup)...)
		if _, err := r.node.Agents.Change(ctx, founder, agent.Revoke{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the revoked agent counts no more", func() bool {
			return must(r.node.Orgs.Current(ctx, owner))(t).GetActiveAgents() == int64(limit)-1
		})
		for _, fault := range append(faults, exactFaults("in the place of one", 1, newAgent)...) {
			t.Error(fault)
		}
	})
}

// TestDailyQuotaSurvivesACrash: the messages admitted before and after a power failure
// do not exceed the limit.
func TestDailyQuotaSurvivesACrash(t *testing.T) {
	onOneAndFour(t, func(t *testing.T, journals int) {
		disk := vfs.NewCrashableMem()
		r := newTestNode(t, withJournals(journals), func(r *testNode) { r.fs = disk })
		d := newQuotaFixture(t, r)
		limit := 40
		before := make(chan int)
		go func() { before <- d.sendConcurrently(&limit) }()
		eventually(t, "some are sent", func() bool { return d.sent.Load() > 20 })
		crashed := disk.CrashClone(vfs.CrashCloneCfg{})
		<-before
		r.close()
		r.fs = crashed
		r.open()
		kept := must(r.node.Orgs.Used(context.Background(), d.owner))(t).Messages
		if n := d.sendConcurrently(&limit); int64(n)+kept != int64(limit) {
			t.Errorf("%d survived and %d were sent afterwards, %d allowed", kept, n, limit)
		}
	})
}

// TestTermsApplyFromTheNextRequest: terms that the operator sets apply to the next
// request.
func TestTermsApplyFromTheNextRequest(t *testing.T) {
	onOneAndFour(t, func(t *testing.T, journals int) {
		ctx := context.Background()
		r := newTestNode(t, withJournals(journals))
		owner := r.org("acme").Org.OrgID()
		for i := range 20 {
			limit := i
			must(r.node.Orgs.SetTerms(ctx, owner, org.SetAllowance{Quota: "agents", Limit: &limit}))(t)
			must(r.node.Orgs.SetTerms(ctx, owner, org.GrantTier{Tier: i % 4}))(t)
			o := must(r.node.Orgs.Get(ctx, owner))(t)
			if own, set := o.Allowed("agents"); !set || own == nil || *own != i || int(o.GetTrustTier()) != i%4 {
				t.Fatalf("cached: %v", o)
			}
		}
		if _, err := r.node.Orgs.SetTerms(ctx, parley.OrgID{1}, org.GrantTier{Tier: 1}); !errors.Is(err, parley.ErrNotFound) {
			t.Errorf("an organization that does not exist: %v", err)
		}
		r.restart()
		if o := must(r.node.Orgs.Get(ctx, owner))(t); o.GetTrustTier() != 3 || len(o.GetAllowances()) != 1 {
			t.Errorf("after a restart: %v", o)
		}
	})
}

// TestSumsOfEarlierDaysAreForgotten: memory holds the sums of today's senders. Other
// sums are read from the store again.
func TestSumsOfEarlierDaysAreForgotten(t *testing.T) {
	clock := newManualClock(noon)
	r := newTestNode(t, withClock(clock.now))
	r.journalClock = time.Now
	d := newQuotaFixture(t, r)
	limit := 3
	d.sendConcurrently(&limit)
	q := &r.node.memory.Load().quota
	today := journal.Day(noon)
	q.sweep(today)
	if q.used[d.owner] == nil {
		t.Fatal("a sum of today was forgotten")
	}
	held := q.used[d.owner]
	q.sweep(today + 1)
	if len(q.used) != 0 || !held.dropped {
		t.Fatalf("%d sums of yesterday are kept", len(q.used))
	}
	if n := d.sendConcurrently(&limit); n != 0 {
		t.Errorf("%d sent above the limit", n)
	}
}

// TestNoTurnReadsTheSum: while the sum of one organization is read, the same conversation takes the
// replies of another.
func TestNoTurnReadsTheSum(t *testing.T) {
	read, reading := make(chan struct{}), make(chan struct{}, 1)
	var slow atomic.Pointer[parley.OrgID]
	r := newTestNode(t, withWrap(func(j journal.Journal) journal.Journal {
		return journal.Of(&wrongUsage{j, func(v journal.View, id parley.OrgID, day uint32) (journal.Usage, error) {
			if of := slow.Load(); of != nil && *of == id {
				reading <- struct{}{}
				<-read
			}
			return v.Used(id, day)
		}})
	}))
	acme, from := r.agents("acme", 1)
	other, to := r.agents("other", 1)
	slow.Store(&other)
	opening := direct(acme, from[0], to[0], "first", "")
	opening.ToOrg = other
	first := must(r.send(opening))(t)
	done := make(chan error)
	for range 2 {
		go func() {
			theirs := answerTo(other, first.Message, "of the slow one", "")
			theirs.ToOrg = acme
			_, err := r.reply(theirs)
			done <- err
		}()
		<-reading
	}
	own := answerTo(acme, first.Message, "of the other", "")
	own.From, own.To, own.ToOrg, own.Continues = from[0], to[0], other, true
	must(r.reply(own))(t)
	close(read)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
