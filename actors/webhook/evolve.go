package webhook

import "slices"

// Evolve folds one event into s. It cannot fail: an event is a fact.
func Evolve(s *State, e Event) {
	switch e := e.(type) {
	case *Created:
		s.Id, s.Agent, s.Org, s.Url, s.Events, s.Description = e.Id, e.Agent, e.Org, e.Url, e.Events, e.Description
		s.SentUrl, s.Conversation, s.ConfigId = e.SentUrl, e.Conversation, e.ConfigId
		s.CreatedMs, s.Active, s.Cursor = e.AtMs, true, e.Cursor
		s.Secrets = []*Secret{{Sealed: e.SealedSecret}}
	case *Activated:
		s.Active, s.Cursor = true, e.Cursor
		s.DisabledMs, s.DisabledReason, s.FailingSinceMs, s.HeldUntilMs = 0, Reason_no_reason, 0, 0
	case *Deactivated:
		s.Active = false
	case *Disabled:
		s.Active, s.DisabledMs, s.DisabledReason = false, e.AtMs, e.Reason
	case *Rotated:
		s.rotate(e)
	case *Deleted:
		s.end(e)
	case *Collected:
		s.Cursor = e.Upto
		s.LastJob += uint64(len(e.News))
		if e.Ended {
			s.EndedMs = e.AtMs
		}
	case *Tested:
		s.LastJob = e.Job
	case *Leased:
		for _, a := range e.Attempts {
			s.begin(a)
		}
	case *Reported:
		s.FailingSinceMs, s.HeldUntilMs = e.FailingSinceMs, e.HeldUntilMs
		s.conclude(e.Results)
	case *Expired:
		s.conclude(e.Results)
	case *Released:
		s.HeldUntilMs = 0
	case *Redirected:
		s.Url, s.SentUrl, s.Secrets = e.Url, e.SentUrl, []*Secret{{Sealed: e.SealedSecret}}
		s.HeldUntilMs, s.FailingSinceMs = 0, 0
	case *Retried:
		s.Retried++
		s.HeldUntilMs = 0 // a person expects the target to work again
		if e.Dead {
			s.Dead--
			s.Failed++
		}
	}
}

// rotate makes a new secret the current one and drops those that no longer sign.
func (s *State) rotate(e *Rotated) {
	if len(s.Secrets) > 0 {
		s.Secrets[0].UntilMs = e.AtMs + SecretAfterlife.Milliseconds()
	}
	former := slices.DeleteFunc(s.Secrets, func(x *Secret) bool { return !x.signs(e.AtMs) })
	s.Secrets = append([]*Secret{{Sealed: e.SealedSecret}}, former[:min(len(former), FormerSecretsMax)]...)
}

// end clears the settings, secrets and jobs, and keeps the webhook's identity.
func (s *State) end(e *Deleted) {
	s.DeletedMs, s.Active, s.Secrets, s.Url, s.SentUrl, s.Description = e.AtMs, false, nil, "", "", ""
	s.UnderWay, s.Unsent, s.HeldUntilMs, s.FailingSinceMs = nil, nil, 0, 0
	s.LastJob, s.LastFirst, s.Failed, s.Delivered, s.Dead = 0, 0, 0, 0, 0
}

func (s *State) begin(a *Attempt) {
	switch {
	case !a.First:
		s.Failed--
	case a.Job <= s.LastFirst:
		s.Unsent = slices.DeleteFunc(s.Unsent, func(number uint64) bool { return number == a.Job })
	default:
		s.LastFirst = a.Job
	}
	s.LastLease, s.RetryTurn = a.Lease, a.First
	s.UnderWay = append(s.UnderWay, a)
}

func (s *State) conclude(results []*Result) {
	for _, r := range results {
		s.UnderWay = slices.DeleteFunc(s.UnderWay, func(a *Attempt) bool { return a.Lease == r.Lease })
		switch r.Status {
		case Pending:
			at, _ := slices.BinarySearch(s.Unsent, r.Job)
			s.Unsent = slices.Insert(s.Unsent, at, r.Job)
		case Failed:
			s.Failed++
		case Delivered:
			s.Delivered++
		case Dead:
			s.Dead++
		}
	}
}

// Concerned returns the numbers of the existing jobs that an event changes: the rows that
// Fold needs.
func Concerned(e Event) (numbers []uint64) {
	ended := func(results []*Result) {
		for _, r := range results {
			numbers = append(numbers, r.Job)
		}
	}
	switch e := e.(type) {
	case *Leased:
		for _, a := range e.Attempts {
			numbers = append(numbers, a.Job)
		}
	case *Reported:
		ended(e.Results)
	case *Expired:
		ended(e.Results)
	case *Retried:
		numbers = append(numbers, e.Job)
	case *Activated, *Collected, *Created, *Deactivated, *Deleted, *Disabled, *Redirected, *Released, *Rotated, *Tested: // they change no existing job
	}
	return numbers
}

// Fold folds one event into rows, keyed by job number: it adds the jobs that the event
// creates and changes those that it concerns. A deleted webhook has no rows.
func Fold(rows map[uint64]*Job, e Event) {
	switch e := e.(type) {
	case *Deleted:
		clear(rows)
	case *Collected:
		for i, n := range e.News {
			row(rows, e.First+uint64(i), n, e.AtMs)
		}
	case *Tested:
		row(rows, e.Job, &News{Event: TestEvent, HappenedMs: e.AtMs, Position: e.Position}, e.AtMs)
	case *Leased:
		for _, a := range e.Attempts {
			j := rows[a.Job]
			j.Status, _ = j.Status.next(begun)
			j.Attempts, j.NextMs = a.Nth, 0
		}
	case *Reported:
		for _, r := range e.Results {
			rows[r.Job].conclude(r, e.AtMs)
		}
	case *Expired:
		for _, r := range e.Results {
			rows[r.Job].conclude(r, e.AtMs)
		}
	case *Retried:
		j := rows[e.Job]
		if e.Dead {
			j.Attempts = 0
		}
		j.Status, _ = j.Status.next(wanted)
		j.NextMs = e.AtMs
	case *Activated, *Created, *Deactivated, *Disabled, *Redirected, *Released, *Rotated: // they concern only the webhook
	}
}

func row(rows map[uint64]*Job, number uint64, n *News, atMs int64) {
	rows[number] = &Job{
		Number: number, Event: n.Event, Ref: n.Ref, Note: n.Note, HappenedMs: n.HappenedMs,
		Status: Pending, NextMs: atMs, CreatedMs: atMs, Position: n.Position,
	}
}

func (j *Job) conclude(r *Result, atMs int64) {
	j.Status, j.NextMs = r.Status, r.NextMs
	if r.Status == Delivered {
		j.DeliveredMs = atMs
	}
	if r.Unsent {
		j.Attempts--
		if r.Status == Pending {
			j.NextMs = j.CreatedMs
		}
		return
	}
	j.LastMs, j.LastCode, j.LastError, j.LastDurationMs = r.BeganMs, r.Code, r.Error, r.DurationMs
	j.Tries = append(j.Tries[max(0, len(j.Tries)-TriesMax+1):], &Try{BeganMs: r.BeganMs, Code: r.Code, Error: r.Error, DurationMs: r.DurationMs})
}
