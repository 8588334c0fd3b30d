package webhook

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// Decide applies the rules to c in state s and returns the resulting events, or the
// refusal. It never changes s.
func Decide(s *State, c Command, now time.Time) ([]Event, error) {
	switch c := c.(type) {
	case Create:
		return decideCreate(s, c, now)
	case Toggle:
		return decideToggle(s, c, now)
	case Rotate:
		return decideRotate(s, c, now)
	case Delete:
		return decideDelete(s, c, now)
	case Test:
		return decideTest(s, c, now)
	case Retry:
		return decideRetry(s, c, now)
	case Retire:
		return decideRetire(s, now), nil
	case Collect:
		return decideCollect(s, c, now), nil
	case Lease:
		return decideLease(s, c, now), nil
	case Report:
		return decideReport(s, c, now), nil
	case Expire:
		return decideExpire(s, c, now), nil
	case Redirect:
		return decideRedirect(s, c, now)
	case Finish:
		return decideFinish(s, now), nil
	}
	panic("webhook: unknown command")
}

func decideCreate(s *State, c Create, now time.Time) ([]Event, error) {
	switch {
	case s.Exists():
		return nil, nil
	case c.Taken:
		return nil, ErrDuplicate
	}
	events := slices.Clone(c.Events)
	if len(events) == 0 {
		events = []What{MessageReceived}
	}
	slices.Sort(events)
	e := &Created{
		Id: c.ID.Bytes(), Agent: c.Agent.Bytes(), Org: c.Org.Bytes(), Url: c.URL, SentUrl: sentURL(c.URL, c.SentURL), Events: slices.Compact(events),
		Description: c.Description, SealedSecret: c.SealedSecret, Cursor: c.Edge, AtMs: now.UnixMilli(),
	}
	if !c.Task.Zero() {
		e.Conversation, e.ConfigId, e.Events = c.Task.Bytes(), c.ConfigID, []What{TaskUpdated}
	}
	return []Event{e}, nil
}

// sentURL returns the text from which a url was parsed, empty if it equals the url.
func sentURL(url, sent string) string {
	if sent == url {
		return ""
	}
	return sent
}

func decideRedirect(s *State, c Redirect, now time.Time) ([]Event, error) {
	if err := s.owned(c.By); err != nil {
		return nil, err
	}
	if _, is := s.Task(); !is {
		return nil, ErrUnknown
	}
	e := &Redirected{Url: c.URL, SentUrl: sentURL(c.URL, c.SentURL), SealedSecret: c.SealedSecret, AtMs: now.UnixMilli()}
	same := e.Url == s.GetUrl() && e.SentUrl == s.GetSentUrl() && bytes.Equal(e.SealedSecret, s.Secrets[0].Sealed)
	if same && s.GetHeldUntilMs() == 0 && s.GetFailingSinceMs() == 0 {
		return nil, nil
	}
	return []Event{e}, nil
}

// decideFinish deletes a configuration whose task has ended, some time after that, but not
// before its last delivery.
func decideFinish(s *State, now time.Time) []Event {
	at, ended := s.ends()
	if !ended || !s.Exists() || s.Deleted() || !s.idle() || now.Before(at) {
		return nil
	}
	return []Event{&Deleted{AtMs: now.UnixMilli()}}
}

// disabled returns the event by which the server disables the webhook.
func (s *State) disabled(reason Reason, now time.Time) Event {
	if _, is := s.Task(); is {
		return &Deleted{AtMs: now.UnixMilli()}
	}
	return &Disabled{Reason: reason, AtMs: now.UnixMilli()}
}

// release ends a hold, if there is one.
func (s *State) release(now time.Time) []Event {
	if _, held := s.Held(now); !held {
		return nil
	}
	return []Event{&Released{AtMs: now.UnixMilli()}}
}

func decideToggle(s *State, c Toggle, now time.Time) ([]Event, error) {
	if err := s.ownedHook(c.By); err != nil {
		return nil, err
	}
	switch {
	case c.Active && s.GetActive():
		return s.release(now), nil
	case c.Active == s.GetActive():
		return nil, nil
	case !c.Active:
		return []Event{&Deactivated{AtMs: now.UnixMilli()}}, nil
	case s.GetDisabledReason() == AgentRevoked:
		return nil, ErrAgentRevoked
	}
	return []Event{&Activated{Cursor: max(c.Edge, s.GetCursor()), AtMs: now.UnixMilli()}}, nil
}

func decideRotate(s *State, c Rotate, now time.Time) ([]Event, error) {
	if err := s.ownedHook(c.By); err != nil {
		return nil, err
	}
	if bytes.Equal(c.SealedSecret, s.Secrets[0].Sealed) {
		return nil, nil
	}
	return []Event{&Rotated{SealedSecret: c.SealedSecret, AtMs: now.UnixMilli()}}, nil
}

// decideDelete ends a webhook for its owner, who may repeat that.
func decideDelete(s *State, c Delete, now time.Time) ([]Event, error) {
	if _, push := s.Task(); !push && s.Exists() && s.Deleted() && s.Owner() == c.By {
		return nil, nil
	}
	if err := s.owned(c.By); err != nil {
		return nil, err
	}
	return []Event{&Deleted{AtMs: now.UnixMilli()}}, nil
}

func decideTest(s *State, c Test, now time.Time) ([]Event, error) {
	if err := s.ownedHook(c.By); err != nil {
		return nil, err
	}
	if err := s.awake(); err != nil {
		return nil, err
	}
	return append(s.release(now), &Tested{Job: s.GetLastJob() + 1, AtMs: now.UnixMilli(), Position: s.GetCursor()}), nil
}

// awake returns a refusal if the webhook is inactive.
func (s *State) awake() error {
	switch {
	case s.GetActive():
		return nil
	case s.GetDisabledReason() == AgentRevoked:
		return ErrAgentRevoked
	}
	return ErrInactive.With("current_status", "inactive").With("allowed", []string{"active"})
}

func decideRetry(s *State, c Retry, now time.Time) ([]Event, error) {
	if err := s.ownedHook(c.By); err != nil {
		return nil, err
	}
	status := c.Job.GetStatus()
	switch {
	case c.Job == nil:
		return nil, ErrUnknownJob
	case status == Delivered:
		return nil, ErrDelivered.With("current_status", status.String()).With("allowed", []string{})
	}
	if err := s.awake(); err != nil {
		return nil, err
	}
	due := status == Failed && c.Job.NextMs <= now.UnixMilli()
	if _, may := status.next(wanted); !may || due {
		return s.release(now), nil // an attempt is under way, or due
	}
	return []Event{&Retried{Job: c.Job.Number, Dead: status == Dead, AtMs: now.UnixMilli()}}, nil
}

func decideRetire(s *State, now time.Time) []Event {
	if !s.Exists() || s.Deleted() || s.GetDisabledReason() == AgentRevoked {
		return nil
	}
	return []Event{s.disabled(AgentRevoked, now)}
}

// decideCollect creates a job for each subscribed entry beyond the cursor. One event
// stores the entries and moves the cursor, so no entry is collected twice.
func decideCollect(s *State, c Collect, now time.Time) []Event {
	ended := c.Ended && s.GetEndedMs() == 0
	if !s.GetActive() || c.Upto < s.GetCursor() || c.Upto == s.GetCursor() && !ended {
		return nil
	}
	e := &Collected{Upto: c.Upto, Ended: ended, First: s.GetLastJob() + 1, AtMs: now.UnixMilli()}
	for _, entry := range c.News {
		if s.GetCursor() < entry.Position && entry.Position <= c.Upto && s.Wants(entry.News.GetEvent()) {
			e.News = append(e.News, entry.News)
		}
	}
	return []Event{e}
}

// decideLease fills the free places, alternating between first attempts and retries.
func decideLease(s *State, c Lease, now time.Time) []Event {
	room := s.Capacity(now, c.Max)
	firsts, retries := s.firsts(room), s.retries(c.Due, now)
	e, retryTurn := &Leased{}, s.GetRetryTurn()
	for len(e.Attempts) < room && len(firsts)+len(retries) > 0 {
		a := &Attempt{Lease: s.GetLastLease() + uint64(len(e.Attempts)) + 1, BeganMs: now.UnixMilli()}
		if len(firsts) == 0 || retryTurn && len(retries) > 0 {
			a.Job, a.Nth, retries = retries[0].Number, retries[0].Attempts+1, retries[1:]
		} else {
			a.Job, a.Nth, a.First, firsts = firsts[0], 1, true, firsts[1:]
		}
		retryTurn = a.First
		e.Attempts = append(e.Attempts, a)
	}
	if len(e.Attempts) == 0 {
		return nil
	}
	return []Event{e}
}

// firsts returns the next jobs that are due for a first attempt, in order, at most n: none
// of a task while an earlier one may still be delivered.
func (s *State) firsts(n int) []uint64 {
	if _, inOrder := s.Task(); inOrder && s.GetFailed() > 0 {
		return nil
	}
	next := slices.Clone(s.GetUnsent())
	for number := s.GetLastFirst() + 1; number <= s.GetLastJob() && len(next) < n; number++ {
		next = append(next, number)
	}
	return next
}

// retries returns the jobs among rows that may be attempted again now, the earliest due
// first.
func (s *State) retries(rows []*Job, now time.Time) []*Job {
	due := make([]*Job, 0, len(rows))
	for _, j := range rows {
		at, waits := j.Retry()
		if waits && !at.After(now) && int(j.Attempts) < AttemptsMax && !s.JobUnderWay(j.Number) {
			due = append(due, j)
		}
	}
	slices.SortFunc(due, func(a, b *Job) int {
		return cmp.Or(cmp.Compare(a.NextMs, b.NextMs), cmp.Compare(a.Number, b.Number))
	})
	return slices.CompactFunc(due, func(a, b *Job) bool { return a.Number == b.Number })
}

// decideReport ends attempts. One accepted delivery ends the streak of failures. A target
// that answers 410, or that has only failed for FailuresMax, disables the webhook.
func decideReport(s *State, c Report, now time.Time) []Event {
	e := &Reported{FailingSinceMs: s.GetFailingSinceMs(), HeldUntilMs: s.GetHeldUntilMs(), AtMs: now.UnixMilli()}
	failure, reason := false, Reason_no_reason
	for _, o := range c.Outcomes {
		a := s.Attempt(o.Lease)
		if a == nil || slices.ContainsFunc(e.Results, func(r *Result) bool { return r.Lease == o.Lease }) {
			continue
		}
		d := o.deed(a)
		e.Results = append(e.Results, conclude(a, o, d, now))
		switch d {
		case unsentFirst, unsentAgain:
			if o.RetryAfter > 0 {
				e.HeldUntilMs = max(e.HeldUntilMs, now.Add(min(o.RetryAfter, HoldMax)).UnixMilli())
			}
		case erased: // it says nothing about the target
		case accepted:
			e.FailingSinceMs = 0
		case gone:
			if _, is := s.Task(); !is { // a dead event of a task makes way for the next
				reason = TargetGone
			}
			fallthrough
		default:
			failure = true
			if e.FailingSinceMs == 0 {
				e.FailingSinceMs = now.UnixMilli()
			}
		}
	}
	if len(e.Results) == 0 {
		return nil
	}
	if since := e.FailingSinceMs; failure && reason == Reason_no_reason && since != 0 && now.UnixMilli()-since >= FailuresMax.Milliseconds() {
		reason = OnlyFailures
	}
	if reason == Reason_no_reason || !s.GetActive() {
		return []Event{e}
	}
	return []Event{e, s.disabled(reason, now)}
}

// conclude returns the result of an attempt that ended by d.
func conclude(a *Attempt, o Outcome, d deed, now time.Time) *Result {
	r := &Result{
		Lease: a.Lease, Job: a.Job, Code: uint32(max(o.Code, 0)), Error: short(o.Error),
		BeganMs: a.BeganMs, DurationMs: o.Took.Milliseconds(), Unsent: o.Unsent,
	}
	r.Status, _ = Processing.next(d)
	if r.Status == Failed {
		r.NextMs = now.UnixMilli()
	}
	if d == declined {
		r.NextMs = now.Add(wait(a.Nth, o)).UnixMilli()
	}
	return r
}

// decideExpire ends the attempts that were not reported in time. Each counts, because it
// may have reached its target, and the next is due at once, because the target was not at
// fault. Attempts that a former process left behind do not count: a server that crashes
// repeatedly must not use up the attempts of its jobs.
func decideExpire(s *State, c Expire, now time.Time) []Event {
	e := &Expired{AtMs: now.UnixMilli()}
	for _, a := range s.GetUnderWay() {
		orphaned := a.Lease < c.Before
		if now.Before(a.Ends()) && !orphaned {
			continue
		}
		if orphaned {
			o := Outcome{Unsent: true}
			e.Results = append(e.Results, conclude(a, o, o.deed(a), now))
			continue
		}
		d := lost
		if int(a.Nth) >= AttemptsMax {
			d = lostLast
		}
		took := now.Sub(time.UnixMilli(a.BeganMs))
		e.Results = append(e.Results, conclude(a, Outcome{Error: lostError, Took: took}, d, now))
	}
	if len(e.Results) == 0 {
		return nil
	}
	return []Event{e}
}
