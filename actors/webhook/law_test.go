package webhook_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/webhook"
	"parley/client/parley"
)

// chronicle is what a host stores of a webhook: its rows, and the feed entries that
// must become jobs.
type chronicle struct {
	rows   map[uint64]*webhook.Job
	wanted []string
	// feed is the last position drawn.
	feed uint64
}

func newChronicle() *chronicle { return &chronicle{rows: map[uint64]*webhook.Job{}} }

func TestLaws(t *testing.T) {
	so := newChronicle()
	draw := func(t *rapid.T, s *webhook.State) webhook.Command {
		if !s.Exists() && so.feed > 0 {
			so = newChronicle()
		}
		return so.draw(t, s)
	}
	actorstest.Obey(t, rules, draw, func(t *rapid.T, step turn) {
		if broken := so.judge(step); broken != "" {
			t.Fatalf("%#v at %v: %s", step.Command, step.Now, broken)
		}
	})
}

var lawfulWishes = rapid.SampledFrom(strings.Fields(
	"lease lease lease lease lease report report report report feed feed feed retry expire toggle test rotate delete retire create",
))

func (k *chronicle) draw(t *rapid.T, s *webhook.State) webhook.Command {
	kind := lawfulWishes.Draw(t, "wish")
	if !s.Exists() && rapid.IntRange(0, 5).Draw(t, "too early") > 0 {
		kind = "create"
	}
	rarely := rapid.IntRange(0, 7).Draw(t, "really") == 7
	by := acme
	if rarely {
		by = actorstest.Named("globex")
	}
	switch {
	case kind == "lease":
		// Lease is given due jobs, jobs that are not due, and all other rows.
		rows := slices.SortedFunc(maps.Values(k.rows), func(a, b *webhook.Job) int { return int(a.Number) - int(b.Number) })
		return webhook.Lease{Max: rapid.IntRange(0, 4).Draw(t, "places"), Due: append(rows, rows...)}
	case kind == "report":
		return k.drawReport(t, s)
	case kind == "retry":
		return webhook.Retry{By: by, Job: k.rows[rapid.Uint64Range(1, s.GetLastJob()+1).Draw(t, "job")]}
	case kind == "expire":
		return webhook.Expire{}
	case kind == "toggle":
		return webhook.Toggle{By: by, Active: rapid.IntRange(0, 3).Draw(t, "on") > 0, Edge: k.feed}
	case kind == "test":
		return webhook.Test{By: by}
	case kind == "rotate":
		return webhook.Rotate{By: by, SealedSecret: []byte(rapid.SampledFrom([]string{"s0", "s1", "s2"}).Draw(t, "secret"))}
	case kind == "delete" && rarely:
		return webhook.Delete{By: acme}
	case kind == "retire" && rarely:
		return webhook.Retire{}
	case kind == "create":
		k.feed = max(k.feed, 1)
		return webhook.Create{ID: actorstest.Named("hook"), Org: acme, SealedSecret: []byte("s0"), Edge: k.feed, Taken: rarely}
	}
	return k.drawFeed(t)
}

// drawFeed continues at the feed's last position, or slightly before it.
func (k *chronicle) drawFeed(t *rapid.T) webhook.Collect {
	back := min(k.feed, uint64(rapid.SampledFrom([]int{0, 0, 0, 1, 5}).Draw(t, "back")))
	c := webhook.Collect{Upto: k.feed - back}
	for range rapid.IntRange(0, 4).Draw(t, "lines") {
		c.Upto += rapid.Uint64Range(0, 2).Draw(t, "hole")
		ref := fmt.Appendf(nil, "%d.%d", c.Upto, len(c.News))
		what := rapid.SampledFrom([]webhook.What{webhook.MessageReceived, webhook.MessageReceived, webhook.GroupInvited}).Draw(t, "what")
		c.News = append(c.News, webhook.Entry{Position: c.Upto, News: &webhook.News{Event: what, Ref: ref}})
	}
	k.feed = max(k.feed, c.Upto)
	c.Upto -= min(c.Upto, uint64(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "short")))
	return c
}

var codes = []int{200, 204, 500, 500, 503, 503, 302, 410, 0, 0, 429}

func (k *chronicle) drawReport(t *rapid.T, s *webhook.State) (c webhook.Report) {
	for range rapid.IntRange(1, 3).Draw(t, "outcomes") {
		lease := rapid.Uint64Range(0, s.GetLastLease()+1).Draw(t, "lease")
		if n := len(s.GetUnderWay()); n > 0 && rapid.IntRange(0, 5).Draw(t, "known") > 0 {
			lease = s.UnderWay[rapid.IntRange(0, n-1).Draw(t, "of")].Lease
		}
		c.Outcomes = append(c.Outcomes, webhook.Outcome{
			Lease: lease, Code: rapid.SampledFrom(codes).Draw(t, "code"), Unsent: rapid.IntRange(0, 7).Draw(t, "unsent") == 7,
			RetryAfter: rapid.SampledFrom([]time.Duration{0, 0, 0, time.Minute, 90 * time.Hour}).Draw(t, "retry after"),
			Jitter:     rapid.IntRange(-200, 200).Draw(t, "jitter"), Took: time.Second,
		})
	}
	return c
}

// judge applies a turn to the rows and returns the law that it broke, if any.
func (k *chronicle) judge(step turn) string {
	former := make(map[uint64]*webhook.Job, len(k.rows))
	for n, j := range k.rows {
		former[n] = proto.CloneOf(j)
	}
	if c, ok := step.Command.(webhook.Collect); ok && step.Before.GetActive() {
		for _, entry := range c.News {
			if entry.Position > step.Before.GetCursor() && entry.Position <= c.Upto && entry.News.Event == webhook.MessageReceived {
				k.wanted = append(k.wanted, string(entry.News.Ref))
			}
		}
	}
	for _, e := range step.Events {
		if broken := lawOfAttempts(step, k.rows, e); broken != "" {
			return broken
		}
		if concerned := webhook.Concerned(e); !all(k.rows, concerned) {
			return fmt.Sprintf("%T concerns a job of %v that is no row", e, concerned)
		}
		webhook.Fold(k.rows, e)
	}
	for _, law := range []func(turn, map[uint64]*webhook.Job, map[uint64]*webhook.Job) string{
		lawOfTurns, lawOfJobs, lawOfLeases, lawOfCounts,
	} {
		if broken := law(step, former, k.rows); broken != "" {
			return broken
		}
	}
	return k.lawOfTheFeed(step)
}

func all(rows map[uint64]*webhook.Job, numbers []uint64) bool {
	return !slices.ContainsFunc(numbers, func(n uint64) bool { return rows[n] == nil })
}

// lawOfTurns: a refusal yields no events, and events change the state. An inactive or
// deleted webhook changes only by a user's request or by the end of an attempt.
func lawOfTurns(step turn, former, _ map[uint64]*webhook.Job) string {
	before, after := step.Before, step.After
	switch {
	case len(step.Events) > 0 && (step.Err != nil || proto.Equal(before, after)):
		return fmt.Sprintf("%v, and yet %v and %v", step.Events, step.Err, after)
	case before.Deleted() && len(step.Events) > 0:
		return fmt.Sprintf("%v after the webhook was deleted", step.Events)
	case before.Exists() && (before.CreatedMs != after.CreatedMs || string(before.Id) != string(after.Id) || before.Owner() != after.Owner()):
		return fmt.Sprintf("what never changes changed: %v, %v", before, after)
	case before.GetDisabledReason() == webhook.AgentRevoked && after.GetActive():
		return "active again though the agent was revoked"
	case before.GetActive() && !after.GetActive() && former != nil && !ended(step):
		return "inactive, and nobody and nothing made it so"
	}
	for _, e := range step.Events {
		switch e.(type) {
		case *webhook.Collected, *webhook.Tested, *webhook.Leased, *webhook.Retried, *webhook.Released:
			if !before.GetActive() {
				return fmt.Sprintf("%T while inactive", e)
			}
		}
	}
	return ""
}

// ended reports whether the turn has an event that makes a webhook inactive.
func ended(step turn) bool {
	return slices.ContainsFunc(step.Events, func(e webhook.Event) bool {
		switch e.(type) {
		case *webhook.Deactivated, *webhook.Disabled, *webhook.Deleted:
			return true
		}
		return false
	})
}

// lawOfAttempts: an attempt begins only if a place is free, it is due and the webhook
// is not held. First attempts begin in the order of creation. There is no ninth
// attempt.
func lawOfAttempts(step turn, rows map[uint64]*webhook.Job, e webhook.Event) string {
	leased, ok := e.(*webhook.Leased)
	if !ok {
		return ""
	}
	now, given := step.Now.UnixMilli(), map[uint64]bool{}
	if step.Before.GetHeldUntilMs() > now {
		return "attempts begin while the webhook is held"
	}
	for i, a := range leased.Attempts {
		j := rows[a.Job]
		switch {
		case j == nil || given[a.Job] || step.Before.JobUnderWay(a.Job):
			return fmt.Sprintf("two leases of job %d, or no such job", a.Job)
		case a.Lease != step.Before.GetLastLease()+uint64(i)+1 || a.BeganMs != now:
			return fmt.Sprintf("lease %d of %d, begun at %d", a.Lease, step.Before.GetLastLease(), a.BeganMs)
		case a.Nth != j.Attempts+1 || int(a.Nth) > webhook.AttemptsMax:
			return fmt.Sprintf("attempt %d of job %d after %d", a.Nth, a.Job, j.Attempts)
		case a.First != (j.Status == webhook.Pending) || !a.First && j.Status != webhook.Failed:
			return fmt.Sprintf("an attempt of a job that is %v", j.Status)
		case j.NextMs > now:
			return fmt.Sprintf("job %d is attempted %d ms before its time", a.Job, j.NextMs-now)
		}
		given[a.Job] = true
		for n, other := range rows {
			if a.First && n < a.Job && other.Status == webhook.Pending && !given[n] {
				return fmt.Sprintf("the first attempt of job %d before that of job %d", a.Job, n)
			}
		}
	}
	if places := step.Command.(webhook.Lease).Max; len(step.After.UnderWay) > places {
		return fmt.Sprintf("%d attempts in %d places", len(step.After.UnderWay), places)
	}
	return ""
}

// lawOfJobs: no job has a ninth attempt, a delivered job never changes, a dead one
// changes only by a user's request, and every status change is in the table of moves.
func lawOfJobs(step turn, former, rows map[uint64]*webhook.Job) string {
	_, byHand := step.Command.(webhook.Retry)
	for n, j := range rows {
		was := former[n]
		waits := j.Status == webhook.Pending || j.Status == webhook.Failed
		switch {
		case int(j.Attempts) > webhook.AttemptsMax || j.Status == webhook.Pending && j.Attempts > 0:
			return fmt.Sprintf("job %d is %v after %d attempts", n, j.Status, j.Attempts)
		case waits != (j.NextMs != 0) || (j.Status == webhook.Delivered) != (j.DeliveredMs != 0):
			return fmt.Sprintf("job %d is %v, next at %d, delivered at %d", n, j.Status, j.NextMs, j.DeliveredMs)
		case was == nil:
		case was.Status == webhook.Delivered && !proto.Equal(was, j):
			return fmt.Sprintf("job %d was delivered and is %v", n, j)
		case was.Status == webhook.Dead && !byHand && !proto.Equal(was, j):
			return fmt.Sprintf("job %d was dead and is %v", n, j)
		case string(was.Ref) != string(j.Ref) || was.CreatedMs != j.CreatedMs || was.Event != j.Event:
			return fmt.Sprintf("job %d changed its subject", n)
		}
	}
	for n := range former {
		if rows[n] == nil && !step.After.Deleted() {
			return fmt.Sprintf("job %d is lost", n)
		}
	}
	return ""
}

// lawOfLeases: a job in status processing has one lease; other jobs have none.
func lawOfLeases(step turn, _, rows map[uint64]*webhook.Job) string {
	leases, jobs := map[uint64]bool{}, map[uint64]bool{}
	for _, a := range step.After.GetUnderWay() {
		if leases[a.Lease] || jobs[a.Job] || rows[a.Job].GetStatus() != webhook.Processing || a.Lease > step.After.LastLease {
			return fmt.Sprintf("lease %d of job %d, which is %v", a.Lease, a.Job, rows[a.Job].GetStatus())
		}
		leases[a.Lease], jobs[a.Job] = true, true
	}
	for n, j := range rows {
		if j.Status == webhook.Processing && !jobs[n] {
			return fmt.Sprintf("job %d is processing without a lease", n)
		}
	}
	return ""
}

// lawOfCounts: the summary equals a count of the jobs.
func lawOfCounts(step turn, _, rows map[uint64]*webhook.Job) string {
	counted := webhook.Summary{Total: uint64(len(rows))}
	for _, j := range rows {
		switch j.Status {
		case webhook.Delivered:
			counted.Delivered++
		case webhook.Failed:
			counted.Failed++
		case webhook.Dead:
			counted.Dead++
		default:
			counted.Pending++
		}
	}
	if sum := step.After.Summary(); sum != counted {
		return fmt.Sprintf("the summary is %v, counted are %v", sum, counted)
	}
	return ""
}

// lawOfTheFeed: every subscribed feed entry beyond the cursor becomes one job, in the
// order of the feed.
func (k *chronicle) lawOfTheFeed(step turn) string {
	if step.After.Deleted() {
		return ""
	}
	made := []string{}
	for _, n := range slices.Sorted(maps.Keys(k.rows)) {
		if k.rows[n].Event != webhook.TestEvent {
			made = append(made, string(k.rows[n].Ref))
		}
	}
	switch {
	case !slices.Equal(made, k.wanted):
		return fmt.Sprintf("jobs of %q, wanted are those of %q", made, k.wanted)
	case step.After.GetCursor() < step.Before.GetCursor():
		return "the cursor goes back"
	}
	return ""
}

func TestLawControl(t *testing.T) {
	now := actorstest.Epoch
	for want, plant := range lawBreakers(now.UnixMilli()) {
		k, step := lawful(now)
		plant(k, &step)
		got := k.judge(step)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("want %q, the laws say %q", want, got)
		}
	}
}

// lawful returns a turn that satisfies all laws: job 1 was delivered, 2 is dead, 3
// waits for a retry and gets it, 4 has its first attempt, 5 waits.
func lawful(now time.Time) (*chronicle, turn) {
	at := now.UnixMilli()
	k := &chronicle{rows: map[uint64]*webhook.Job{
		1: {Number: 1, Event: webhook.MessageReceived, Ref: []byte("1"), Status: webhook.Delivered, Attempts: 1, DeliveredMs: at, CreatedMs: at},
		2: {Number: 2, Event: webhook.MessageReceived, Ref: []byte("2"), Status: webhook.Dead, Attempts: 8, CreatedMs: at},
		3: {Number: 3, Event: webhook.MessageReceived, Ref: []byte("3"), Status: webhook.Failed, Attempts: 7, NextMs: at, CreatedMs: at},
		4: {Number: 4, Event: webhook.MessageReceived, Ref: []byte("4"), Status: webhook.Pending, NextMs: at, CreatedMs: at},
		5: {Number: 5, Event: webhook.TestEvent, Status: webhook.Pending, NextMs: at, CreatedMs: at},
	}, wanted: []string{"1", "2", "3", "4"}}
	id := parley.AnyID(actorstest.Named("hook")).Bytes()
	before := &webhook.State{
		Id: id, Org: acme.Bytes(), Active: true, Cursor: 9, LastJob: 5, LastFirst: 3, LastLease: 20, Delivered: 1, Dead: 1, Failed: 1,
	}
	leased := &webhook.Leased{Attempts: []*webhook.Attempt{
		{Lease: 21, Job: 4, Nth: 1, First: true, BeganMs: at}, {Lease: 22, Job: 3, Nth: 8, BeganMs: at},
	}}
	after := proto.CloneOf(before)
	webhook.Evolve(after, leased)
	return k, turn{Before: before, After: after, Command: webhook.Lease{Max: 2}, Events: []webhook.Event{leased}, Now: now}
}

func lawBreakers(at int64) map[string]func(*chronicle, *turn) {
	attempt := func(step *turn, i int) *webhook.Attempt { return step.Events[0].(*webhook.Leased).Attempts[i] }
	return map[string]func(*chronicle, *turn){
		"":                                 func(*chronicle, *turn) {},
		"and yet":                          func(_ *chronicle, s *turn) { s.Err = webhook.ErrInactive },
		"after the webhook was deleted":    func(_ *chronicle, s *turn) { s.Before.DeletedMs = at },
		"what never changes changed":       func(_ *chronicle, s *turn) { s.After.CreatedMs = at + 1 },
		"though the agent was revoked":     func(_ *chronicle, s *turn) { s.Before.DisabledReason = webhook.AgentRevoked },
		"nobody and nothing made it so":    func(_ *chronicle, s *turn) { s.After.Active = false },
		"while inactive":                   func(_ *chronicle, s *turn) { s.Before.Active = false },
		"while the webhook is held":        func(_ *chronicle, s *turn) { s.Before.HeldUntilMs = at + 1 },
		"two leases of job 4":              func(_ *chronicle, s *turn) { attempt(s, 1).Job = 4 },
		"two leases of job 3":              func(_ *chronicle, s *turn) { s.Before.UnderWay = []*webhook.Attempt{{Job: 3}} },
		"or no such job":                   func(k *chronicle, _ *turn) { delete(k.rows, 4) },
		"lease 21 of 21":                   func(_ *chronicle, s *turn) { s.Before.LastLease = 21 },
		"attempt 9 of job 3":               func(k *chronicle, s *turn) { k.rows[3].Attempts = 8; attempt(s, 1).Nth = 9 },
		"an attempt of a job that is dead": func(k *chronicle, _ *turn) { k.rows[3].Status = webhook.Dead },
		"1 ms before its time":             func(k *chronicle, _ *turn) { k.rows[3].NextMs++ },
		"before that of job 1":             func(k *chronicle, _ *turn) { k.rows[1] = &webhook.Job{Number: 1, Status: webhook.Pending} },
		"2 attempts in 1 places":           func(_ *chronicle, s *turn) { s.Command = webhook.Lease{Max: 1} },
		"job 5 is pending after 1":         func(k *chronicle, _ *turn) { k.rows[5].Attempts = 1 },
		"delivered at 0":                   func(k *chronicle, _ *turn) { k.rows[1].DeliveredMs = 0 },
		"is processing without a lease":    func(_ *chronicle, s *turn) { s.After.UnderWay = s.After.UnderWay[:1] },
		"which is pending":                 func(_ *chronicle, s *turn) { s.After.UnderWay[0] = &webhook.Attempt{Lease: 21, Job: 5} },
		"the summary is":                   func(_ *chronicle, s *turn) { s.After.Dead++ },
		`wanted are those of ["1" "2" "3"]`: func(k *chronicle, _ *turn) {
			k.wanted = k.wanted[:3]
		},
		"the cursor goes back":  func(_ *chronicle, s *turn) { s.After.Cursor-- },
		"that is no row":        func(_ *chronicle, s *turn) { s.Events = append(s.Events, &webhook.Retried{Job: 7}) },
		"was delivered and is":  func(_ *chronicle, s *turn) { s.Events = append(s.Events, ends(1, webhook.Delivered)) },
		"is lost":               func(_ *chronicle, s *turn) { s.Events = append(s.Events, &webhook.Deleted{}) },
		"job 2 was dead and is": func(_ *chronicle, s *turn) { s.Events = append(s.Events, ends(2, webhook.Dead)) },
		"changed its subject": func(_ *chronicle, s *turn) {
			s.Events = append(s.Events, &webhook.Collected{First: 5, AtMs: at, News: []*webhook.News{{Event: webhook.MessageRead}}})
		},
	}
}

// ends returns a report after which the job has the given status.
func ends(job uint64, status webhook.Status) webhook.Event {
	return &webhook.Reported{AtMs: 1, Results: []*webhook.Result{{Job: job, Status: status, Code: 200}}}
}
