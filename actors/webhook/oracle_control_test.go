package webhook_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/actorstest"
	"parley/actors/webhook"
	"parley/client/parley"
)

type hookRules = actorstest.Rules[*webhook.State, webhook.Command, webhook.Event]

// deciding plants a Decide that is wrong for commands of one type.
func deciding[C webhook.Command](wrong func(*webhook.State, C, time.Time) ([]webhook.Event, error)) func(*hookRules) {
	return func(r *hookRules) {
		r.Decide = func(s *webhook.State, c webhook.Command, now time.Time) ([]webhook.Event, error) {
			if mine, ok := c.(C); ok {
				return wrong(s, mine, now)
			}
			return webhook.Decide(s, c, now)
		}
	}
}

// seeing plants a Decide that uses an altered state.
func seeing[C webhook.Command](as func(*webhook.State, C, time.Time)) func(*hookRules) {
	return deciding(func(s *webhook.State, c C, now time.Time) ([]webhook.Event, error) {
		other := proto.CloneOf(s)
		as(other, c, now)
		return webhook.Decide(other, c, now)
	})
}

// saying plants a Decide whose events of one type are wrong.
func saying[E webhook.Event](wrong func(*webhook.State, E, time.Time)) func(*hookRules) {
	return func(r *hookRules) {
		r.Decide = func(s *webhook.State, c webhook.Command, now time.Time) ([]webhook.Event, error) {
			events, err := webhook.Decide(s, c, now)
			for _, e := range events {
				if mine, ok := e.(E); ok {
					wrong(s, mine, now)
				}
			}
			return events, err
		}
	}
}

// evolving plants an Evolve that is wrong for events of one type.
func evolving[E webhook.Event](wrong func(*webhook.State, E)) func(*hookRules) {
	return func(r *hookRules) {
		r.Evolve = func(s *webhook.State, e webhook.Event) {
			webhook.Evolve(s, e)
			if mine, ok := e.(E); ok {
				wrong(s, mine)
			}
		}
	}
}

// answering plants a Decide that uses other outcomes than those reported.
func answering(wrong func(*webhook.State, *webhook.Outcome)) func(*hookRules) {
	return deciding(func(s *webhook.State, c webhook.Report, now time.Time) ([]webhook.Event, error) {
		c.Outcomes = slices.Clone(c.Outcomes)
		for i := range c.Outcomes {
			wrong(s, &c.Outcomes[i])
		}
		return webhook.Decide(s, c, now)
	})
}

// resulting plants wrong results of attempts.
func resulting(wrong func(*webhook.State, *webhook.Result, time.Time)) func(*hookRules) {
	return saying(func(s *webhook.State, e *webhook.Reported, now time.Time) {
		for _, r := range e.Results {
			wrong(s, r, now)
		}
	})
}

func TestOracleControl(t *testing.T) {
	trial.Finds(t, defectsOfAttempts)
	trial.Finds(t, defectsOfTheFeed)
	trial.Finds(t, defectsOfTheWebhook)
}

var defectsOfAttempts = map[string]func(*hookRules){
	"only seven attempts": resulting(func(s *webhook.State, r *webhook.Result, _ time.Time) {
		if s.Attempt(r.Lease).Nth == 7 && r.Status == webhook.Failed && !r.Unsent {
			r.Status, r.NextMs = webhook.Dead, 0
		}
	}),
	"a ninth attempt": resulting(func(s *webhook.State, r *webhook.Result, now time.Time) {
		if s.Attempt(r.Lease).Nth == 8 && r.Status == webhook.Dead && r.Code != 410 {
			r.Status, r.NextMs = webhook.Failed, now.UnixMilli()
		}
	}),
	"a ninth attempt after a crash": saying(func(_ *webhook.State, e *webhook.Expired, now time.Time) {
		for _, r := range e.Results {
			r.Status, r.NextMs = webhook.Failed, now.UnixMilli()
		}
	}),
	"a retry a millisecond early":      seeingRows(func(j *webhook.Job) { j.NextMs-- }),
	"a retry a millisecond late":       seeingRows(func(j *webhook.Job) { j.NextMs++ }),
	"no jitter":                        answering(func(_ *webhook.State, o *webhook.Outcome) { o.Jitter = 0 }),
	"Retry-After is overlooked":        answering(func(_ *webhook.State, o *webhook.Outcome) { o.RetryAfter = 0 }),
	"Retry-After of a day and no more": answering(func(_ *webhook.State, o *webhook.Outcome) { o.RetryAfter = min(o.RetryAfter, 23*time.Hour) }),
	"a redirect is a success": answering(func(_ *webhook.State, o *webhook.Outcome) {
		if o.Code == 300 {
			o.Code = 200
		}
	}),
	"only 200 is a success": answering(func(_ *webhook.State, o *webhook.Outcome) {
		if o.Code == 299 {
			o.Code = 500
		}
	}),
	"gone is a failure like others": answering(func(_ *webhook.State, o *webhook.Outcome) {
		if o.Code == 410 {
			o.Code = 411
		}
	}),
	"what was not sent counts": answering(func(_ *webhook.State, o *webhook.Outcome) { o.Unsent = false }),
	"the former wait": resulting(func(_ *webhook.State, r *webhook.Result, now time.Time) {
		r.NextMs = min(r.NextMs, now.UnixMilli()+5000)
	}),
	"an attempt without its beginning": resulting(func(_ *webhook.State, r *webhook.Result, now time.Time) { r.BeganMs = now.UnixMilli() }),
	"an error is not kept":             resulting(func(_ *webhook.State, r *webhook.Result, _ time.Time) { r.Error = "" }),
	"leases for a millisecond more":    leasesFor(1),
	"leases for a millisecond less":    leasesFor(-1),
	"a place too many": deciding(func(s *webhook.State, c webhook.Lease, now time.Time) ([]webhook.Event, error) {
		c.Max++
		return webhook.Decide(s, c, now)
	}),
	"the holding is overlooked":          seeing(func(s *webhook.State, _ webhook.Lease, _ time.Time) { s.HeldUntilMs = 0 }),
	"held a millisecond longer":          seeing(func(s *webhook.State, _ webhook.Lease, _ time.Time) { s.HeldUntilMs++ }),
	"attempts while inactive":            seeing(func(s *webhook.State, _ webhook.Lease, _ time.Time) { s.Active = s.Exists() && !s.Deleted() }),
	"what was not sent waits at the end": seeing(func(s *webhook.State, _ webhook.Lease, _ time.Time) { laterFirst(s) }),
	"retries come first":                 seeing(func(s *webhook.State, _ webhook.Lease, _ time.Time) { s.RetryTurn = true }),
	"first attempts come first":          seeing(func(s *webhook.State, _ webhook.Lease, _ time.Time) { s.RetryTurn = false }),
	"the last job first":                 saying(func(_ *webhook.State, e *webhook.Leased, _ time.Time) { swap(e) }),
	"an unknown lease ends the first": answering(func(s *webhook.State, o *webhook.Outcome) {
		if s.Attempt(o.Lease) == nil && len(s.GetUnderWay()) > 0 {
			o.Lease = s.UnderWay[0].Lease
		}
	}),
	"a lease that is over stays": evolving(func(s *webhook.State, e *webhook.Expired) {
		s.UnderWay = append(s.UnderWay, &webhook.Attempt{Lease: e.Results[0].Lease, Job: e.Results[0].Job, Nth: 1})
	}),
	"the second lease of a running job": rerunning,
}

// rerunning plants a Decide that ignores attempts under way, and rows that show them.
func rerunning(r *hookRules) {
	deciding(func(s *webhook.State, c webhook.Lease, now time.Time) ([]webhook.Event, error) {
		for _, j := range c.Due {
			if j.Status == webhook.Processing {
				j.Status = webhook.Failed
			}
		}
		blind := proto.CloneOf(s)
		for _, a := range blind.GetUnderWay() {
			a.Job = 1 << 40
		}
		return webhook.Decide(blind, c, now)
	})(r)
}

// seeingRows plants a Decide that gets wrong rows of due jobs.
func seeingRows(wrong func(*webhook.Job)) func(*hookRules) {
	return deciding(func(s *webhook.State, c webhook.Lease, now time.Time) ([]webhook.Event, error) {
		rows := make([]*webhook.Job, 0, len(c.Due))
		for _, j := range c.Due {
			j = proto.CloneOf(j)
			wrong(j)
			rows = append(rows, j)
		}
		c.Due = rows
		return webhook.Decide(s, c, now)
	})
}

// leasesFor plants leases that last the given number of milliseconds longer.
func leasesFor(more int64) func(*hookRules) {
	return deciding(func(s *webhook.State, c webhook.Expire, now time.Time) ([]webhook.Event, error) {
		other := proto.CloneOf(s)
		for _, a := range other.GetUnderWay() {
			a.BeganMs += more
		}
		events, err := webhook.Decide(other, c, now)
		for _, e := range events {
			for _, r := range e.(*webhook.Expired).Results {
				r.BeganMs -= more
				r.DurationMs += more
			}
		}
		return events, err
	})
}

// laterFirst drops the list of first attempts that were not sent, and so their order.
func laterFirst(s *webhook.State) {
	if s.GetLastFirst() < s.GetLastJob() {
		s.Unsent = nil
	}
}

// swap exchanges the jobs of the first two attempts.
func swap(e *webhook.Leased) {
	if len(e.Attempts) > 1 {
		a, b := e.Attempts[0], e.Attempts[1]
		e.Attempts[0], e.Attempts[1] = proto.CloneOf(a), proto.CloneOf(b)
		a, b = e.Attempts[0], e.Attempts[1]
		a.Job, a.Nth, a.First, b.Job, b.Nth, b.First = b.Job, b.Nth, b.First, a.Job, a.Nth, a.First
	}
}

var defectsOfTheFeed = map[string]func(*hookRules){
	"the cursor stays where nothing was wanted": saying(func(s *webhook.State, e *webhook.Collected, _ time.Time) {
		if len(e.News) == 0 {
			e.Upto = s.GetCursor()
		}
	}),
	"collected twice": seeing(func(s *webhook.State, c webhook.Collect, _ time.Time) {
		if s.GetCursor() > 0 && c.Upto > s.Cursor {
			s.Cursor--
		}
	}),
	"news beyond what was read": deciding(func(s *webhook.State, c webhook.Collect, now time.Time) ([]webhook.Event, error) {
		read := c.Upto
		c.Upto = max(c.Upto, lastOf(c.News))
		events, err := webhook.Decide(s, c, now)
		for _, e := range events {
			e.(*webhook.Collected).Upto = max(read, s.GetCursor())
		}
		return events, err
	}),
	"the last line is lost": deciding(func(s *webhook.State, c webhook.Collect, now time.Time) ([]webhook.Event, error) {
		if len(c.News) > 1 {
			c.News = c.News[:len(c.News)-1]
		}
		return webhook.Decide(s, c, now)
	}),
	"jobs of all there is": seeing(func(s *webhook.State, c webhook.Collect, _ time.Time) {
		for _, e := range c.News {
			s.Events = append(s.Events, e.News.Event)
		}
	}),
	"jobs while inactive": seeing(func(s *webhook.State, _ webhook.Collect, _ time.Time) { s.Active = s.Exists() && !s.Deleted() }),
	"what came while inactive is delivered after all": saying(func(s *webhook.State, e *webhook.Activated, _ time.Time) {
		e.Cursor = s.GetCursor()
	}),
	"the cursor goes back when it is switched on": saying(func(_ *webhook.State, e *webhook.Activated, _ time.Time) {
		if e.Cursor > 0 {
			e.Cursor--
		}
	}),
	"news that do not say when": saying(func(_ *webhook.State, e *webhook.Collected, now time.Time) {
		for i, n := range e.News {
			e.News[i] = proto.CloneOf(n)
			e.News[i].HappenedMs = now.UnixMilli()
		}
	}),
}

// lastOf returns the position of the last entry, zero if there is none.
func lastOf(entries []webhook.Entry) uint64 {
	if len(entries) == 0 {
		return 0
	}
	return entries[len(entries)-1].Position
}

var defectsOfTheWebhook = map[string]func(*hookRules){
	"a success does not end the streak": saying(func(s *webhook.State, e *webhook.Reported, _ time.Time) {
		e.FailingSinceMs = max(e.FailingSinceMs, s.GetFailingSinceMs())
	}),
	"disabled a millisecond early": deciding(func(s *webhook.State, c webhook.Report, now time.Time) ([]webhook.Event, error) {
		events, err := webhook.Decide(s, c, now)
		if len(events) == 1 && s.GetActive() && failed(events[0]) == webhook.FailuresMax-time.Millisecond {
			events = append(events, &webhook.Disabled{Reason: webhook.OnlyFailures, AtMs: now.UnixMilli()})
		}
		return events, err
	}),
	"disabled a millisecond late": deciding(func(s *webhook.State, c webhook.Report, now time.Time) ([]webhook.Event, error) {
		events, err := webhook.Decide(s, c, now)
		if len(events) == 2 && events[1].(*webhook.Disabled).Reason == webhook.OnlyFailures && failed(events[0]) == webhook.FailuresMax {
			events = events[:1]
		}
		return events, err
	}),
	"disabled by what was not sent": deciding(func(s *webhook.State, c webhook.Report, now time.Time) ([]webhook.Event, error) {
		events, err := webhook.Decide(s, c, now)
		if len(events) == 1 && s.GetActive() && failed(events[0]) >= webhook.FailuresMax {
			events = append(events, &webhook.Disabled{Reason: webhook.OnlyFailures, AtMs: now.UnixMilli()})
		}
		return events, err
	}),
	"never disabled": deciding(func(s *webhook.State, c webhook.Report, now time.Time) ([]webhook.Event, error) {
		events, err := webhook.Decide(s, c, now)
		return events[:min(1, len(events))], err
	}),
	"disabled without a word why":        saying(func(_ *webhook.State, e *webhook.Disabled, _ time.Time) { e.Reason = webhook.OnlyFailures }),
	"disabled, and not since when":       evolving(func(s *webhook.State, _ *webhook.Disabled) { s.DisabledMs = s.CreatedMs }),
	"switched on, and failing as before": evolving(func(s *webhook.State, _ *webhook.Activated) { s.FailingSinceMs = s.CreatedMs }),
	"switched on, and disabled still":    evolving(func(s *webhook.State, _ *webhook.Activated) { s.DisabledMs = s.CreatedMs }),
	"a revoked agent's is switched on":   seeing(func(s *webhook.State, _ webhook.Toggle, _ time.Time) { s.DisabledReason = 0 }),
	"anybody's":                          seeing(func(s *webhook.State, c webhook.Toggle, _ time.Time) { s.Org = c.By.Bytes() }),
	"another's is forbidden, not absent": deciding(func(s *webhook.State, c webhook.Delete, now time.Time) ([]webhook.Event, error) {
		events, err := webhook.Decide(s, c, now)
		if errors.Is(err, webhook.ErrUnknown) && s.Exists() && !s.Deleted() {
			err = parley.ErrNotOwner
		}
		return events, err
	}),
	"two of the same": deciding(func(s *webhook.State, c webhook.Create, now time.Time) ([]webhook.Event, error) {
		c.Taken = false
		return webhook.Decide(s, c, now)
	}),
	"created anew": deciding(func(s *webhook.State, c webhook.Create, now time.Time) ([]webhook.Event, error) {
		return webhook.Decide(&webhook.State{}, c, now)
	}),
	"no events, no deliveries": saying(func(_ *webhook.State, e *webhook.Created, _ time.Time) {
		if len(e.Events) == 1 {
			e.Events = nil
		}
	}),
	"a deleted webhook rises again":   evolving(func(s *webhook.State, _ *webhook.Deleted) { s.DeletedMs = 0 }),
	"the old secret is over at once":  evolving(func(s *webhook.State, e *webhook.Rotated) { s.Secrets = s.Secrets[:1] }),
	"the old secret is never over":    evolving(func(s *webhook.State, _ *webhook.Rotated) { s.Secrets[1].UntilMs = 0 }),
	"a millisecond more for the old":  evolving(func(s *webhook.State, _ *webhook.Rotated) { s.Secrets[1].UntilMs++ }),
	"two secrets and no more":         evolving(func(s *webhook.State, _ *webhook.Rotated) { s.Secrets = s.Secrets[:2] }),
	"a dead job has one attempt more": evolvingRetried(func(s *webhook.State, e *webhook.Retried) { e.Dead = false }),
	"retries of what was delivered": deciding(func(s *webhook.State, c webhook.Retry, now time.Time) ([]webhook.Event, error) {
		events, err := webhook.Decide(s, c, now)
		if errors.Is(err, webhook.ErrDelivered) {
			return nil, nil
		}
		return events, err
	}),
	"asleep before delivered": deciding(func(s *webhook.State, c webhook.Retry, now time.Time) ([]webhook.Event, error) {
		events, err := webhook.Decide(s, c, now)
		if errors.Is(err, webhook.ErrDelivered) && !s.GetActive() {
			return nil, webhook.ErrInactive.With("current_status", "inactive").With("allowed", []string{"active"})
		}
		return events, err
	}),
	"a test of what is held waits": deciding(func(s *webhook.State, c webhook.Test, now time.Time) ([]webhook.Event, error) {
		return unreleased(webhook.Decide(s, c, now))
	}),
	"what is on is not let go": deciding(func(s *webhook.State, c webhook.Toggle, now time.Time) ([]webhook.Event, error) {
		return unreleased(webhook.Decide(s, c, now))
	}),
	"retry of a pending job does nothing": deciding(func(s *webhook.State, c webhook.Retry, now time.Time) ([]webhook.Event, error) {
		return unreleased(webhook.Decide(s, c, now))
	}),
	"held for as long as one job": deciding(func(s *webhook.State, c webhook.Report, now time.Time) ([]webhook.Event, error) {
		events, err := webhook.Decide(s, c, now)
		for _, o := range c.Outcomes {
			if o.Unsent && o.RetryAfter > webhook.HoldMax && s.Attempt(o.Lease) != nil {
				events[0].(*webhook.Reported).HeldUntilMs = now.Add(min(o.RetryAfter, webhook.RetryAfterMax)).UnixMilli()
			}
		}
		return events, err
	}),
	"a test while inactive":     seeing(func(s *webhook.State, _ webhook.Test, _ time.Time) { s.Active = true }),
	"delivered are not counted": evolving(func(s *webhook.State, _ *webhook.Reported) { s.Delivered = 0 }),
	"a woken job stays dead": evolving(func(s *webhook.State, e *webhook.Retried) {
		if e.Dead {
			s.Dead++
		}
	}),
	"expired attempts are lost":     evolving(func(s *webhook.State, e *webhook.Expired) { s.Failed-- }),
	"two leases of the same number": evolving(func(s *webhook.State, _ *webhook.Expired) { s.LastLease-- }),
	"events of a task overtake":     seeing(func(s *webhook.State, _ webhook.Lease, _ time.Time) { s.Conversation = nil }),
	"410 disables a configuration":  seeing(func(s *webhook.State, _ webhook.Report, _ time.Time) { s.Conversation = nil }),
	"a configuration never ends":    seeing(func(s *webhook.State, _ webhook.Finish, _ time.Time) { s.EndedMs = 0 }),
	"a configuration ends at once":  seeing(func(s *webhook.State, _ webhook.Finish, _ time.Time) { s.EndedMs -= min(s.EndedMs, hour) }),
	"an undelivered end": seeing(func(s *webhook.State, _ webhook.Finish, _ time.Time) {
		s.LastJob, s.LastFirst, s.Unsent, s.Failed, s.UnderWay = 0, 0, nil, 0, nil
	}),
	"the former target stays": evolving(func(s *webhook.State, _ *webhook.Redirected) { s.Url = aTarget }),
	"the end goes unnoticed":  evolving(func(s *webhook.State, _ *webhook.Collected) { s.EndedMs = 0 }),
}

// unreleased removes the end of a hold from a decision.
func unreleased(events []webhook.Event, err error) ([]webhook.Event, error) {
	return slices.DeleteFunc(events, func(e webhook.Event) bool {
		_, ends := e.(*webhook.Released)
		return ends
	}), err
}

// failed returns for how long only failures have been reported.
func failed(e webhook.Event) time.Duration {
	reported := e.(*webhook.Reported)
	if reported.FailingSinceMs == 0 {
		return 0
	}
	return time.Duration(reported.AtMs-reported.FailingSinceMs) * time.Millisecond
}

// evolvingRetried plants a Decide whose Retried events are wrong.
func evolvingRetried(wrong func(*webhook.State, *webhook.Retried)) func(*hookRules) {
	return saying(func(s *webhook.State, e *webhook.Retried, _ time.Time) { wrong(s, e) })
}
