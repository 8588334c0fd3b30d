package webhook

import (
	"cmp"
	"slices"
	"time"

	"parley/client/parley"
)

// Exists reports whether the webhook was ever created.
func (s *State) Exists() bool { return len(s.GetId()) > 0 }

// Deleted reports whether the webhook was deleted.
func (s *State) Deleted() bool { return s.GetDeletedMs() != 0 }

// WebhookID returns the webhook's id.
func (s *State) WebhookID() ID { return parley.IDFromBytes[ID](s.GetId()) }

// Watched returns the agent whose feed the webhook follows.
func (s *State) Watched() parley.AgentID { return parley.IDFromBytes[parley.AgentID](s.GetAgent()) }

// Owner returns the organization that owns the webhook.
func (s *State) Owner() parley.OrgID { return parley.IDFromBytes[parley.OrgID](s.GetOrg()) }

// Task returns the conversation that a configuration of push notifications follows, false
// for a webhook.
func (s *State) Task() (id parley.ConversationID, is bool) {
	return parley.IDFromBytes[parley.ConversationID](s.GetConversation()), len(s.GetConversation()) > 0
}

// Source returns the id of what the webhook follows: its task or its agent.
func (s *State) Source() parley.AnyID {
	if task, is := s.Task(); is {
		return parley.AnyID(task)
	}
	return parley.AnyID(s.Watched())
}

// CreatedAt returns when the webhook was created, UTC.
func (s *State) CreatedAt() time.Time { return time.UnixMilli(s.GetCreatedMs()).UTC() }

// SentURL returns the webhook's url as its owner wrote it.
func (s *State) SentURL() string { return cmp.Or(s.GetSentUrl(), s.GetUrl()) }

// Held reports whether an active webhook begins no attempts now, because its target keeps
// failing or asked for a pause, and until when, UTC.
func (s *State) Held(now time.Time) (until time.Time, held bool) {
	until = time.UnixMilli(s.GetHeldUntilMs()).UTC()
	return until, s.GetActive() && now.Before(until)
}

// NextAttempt returns when the job's next attempt is due, UTC: as planned, or when a hold
// ends. It returns false if none is planned.
func (s *State) NextAttempt(j *Job, now time.Time) (at time.Time, planned bool) {
	until, held := s.Held(now)
	if at, planned = j.Retry(); planned {
		if held && at.Before(until) {
			at = until
		}
		return at, true
	}
	return until, held && j.GetStatus() == Pending
}

// DisabledAt returns when and why the server disabled the webhook; false if it did not.
func (s *State) DisabledAt() (time.Time, Reason, bool) {
	return time.UnixMilli(s.GetDisabledMs()).UTC(), s.GetDisabledReason(), s.GetDisabledMs() != 0
}

// Wants reports whether the webhook subscribes to an event.
func (s *State) Wants(x What) bool { return slices.Contains(s.GetEvents(), x) }

// Sealed returns the encrypted secrets that sign deliveries, the current one first.
func (s *State) Sealed(now time.Time) [][]byte {
	sealed := make([][]byte, 0, len(s.GetSecrets()))
	for _, secret := range s.GetSecrets() {
		if secret.signs(now.UnixMilli()) {
			sealed = append(sealed, secret.Sealed)
		}
	}
	return sealed
}

func (x *Secret) signs(nowMs int64) bool { return x.UntilMs == 0 || nowMs < x.UntilMs }

// JobID returns the id of the job with that number: the webhook's id with the number in
// it. Receivers recognize repeated deliveries by it.
func (s *State) JobID(number uint64) JobID {
	id := JobID(s.WebhookID())
	for i := range jobBytes {
		id[15-i] ^= byte(number >> (8 * i))
	}
	return id
}

// jobBytes is how many bytes of an id encode a job's number: the random ones.
const jobBytes = 6

// JobNumber returns the number of the job with that id, false if the webhook has no such
// job.
func (s *State) JobNumber(id JobID) (number uint64, ok bool) {
	of := s.WebhookID()
	for i := range jobBytes {
		number |= uint64(id[15-i]^of[15-i]) << (8 * i)
	}
	return number, s.JobID(number) == id && 0 < number && number <= s.GetLastJob()
}

// Summary counts jobs by status. Pending includes those under way. // spec: Webhooks
type Summary struct{ Total, Delivered, Failed, Dead, Pending uint64 }

// Summary counts the webhook's jobs without reading them.
func (s *State) Summary() Summary {
	return Summary{
		Total: s.GetLastJob(), Delivered: s.GetDelivered(), Failed: s.GetFailed(), Dead: s.GetDead(),
		Pending: s.Unattempted() + uint64(len(s.GetUnderWay())),
	}
}

// Unattempted returns how many jobs wait for their first attempt.
func (s *State) Unattempted() uint64 {
	return s.GetLastJob() - s.GetLastFirst() + uint64(len(s.GetUnsent()))
}

// Capacity returns how many attempts may begin now, if at most places may be under way.
func (s *State) Capacity(now time.Time, places int) int {
	if !s.GetActive() || now.UnixMilli() < s.GetHeldUntilMs() {
		return 0
	}
	if _, is := s.Task(); is {
		places = min(places, 1)
	}
	return max(0, places-len(s.GetUnderWay()))
}

// Attempt returns the attempt with that lease, nil if the lease has ended.
func (s *State) Attempt(lease uint64) *Attempt {
	for _, a := range s.GetUnderWay() {
		if a.Lease == lease {
			return a
		}
	}
	return nil
}

// JobUnderWay reports whether an attempt of the job is under way.
func (s *State) JobUnderWay(number uint64) bool {
	return slices.ContainsFunc(s.GetUnderWay(), func(a *Attempt) bool { return a.Job == number })
}

// Ends returns when the attempt's lease runs out, UTC.
func (a *Attempt) Ends() time.Time { return time.UnixMilli(a.GetBeganMs()).Add(LeaseLife).UTC() }

// Wake returns the next instant at which a lease or a hold ends, or the webhook; false if
// there is none. It leaves out retries, which the rows schedule.
func (s *State) Wake(now time.Time) (at time.Time, ok bool) {
	if at, ended := s.ends(); ended && s.idle() {
		return at, true
	}
	if s.GetActive() && s.GetHeldUntilMs() > now.UnixMilli() {
		at, ok = time.UnixMilli(s.GetHeldUntilMs()).UTC(), true
	}
	for _, a := range s.GetUnderWay() {
		if ends := a.Ends(); !ok || ends.Before(at) {
			at, ok = ends, true
		}
	}
	return at, ok
}

// idle reports whether nothing is left to deliver, now or later.
func (s *State) idle() bool {
	return s.Unattempted() == 0 && s.GetFailed() == 0 && len(s.GetUnderWay()) == 0
}

// ends returns when a configuration of push notifications is over if nothing is left to
// deliver, UTC; false before the end of its task.
func (s *State) ends() (at time.Time, ok bool) {
	return time.UnixMilli(s.GetEndedMs()).Add(KeptAfterEnd).UTC(), s.GetEndedMs() != 0
}

// ownedHook is owned for what configurations of push notifications do not have.
func (s *State) ownedHook(by parley.OrgID) error {
	if _, is := s.Task(); is {
		return ErrUnknown
	}
	return s.owned(by)
}

// owned returns a refusal if the webhook does not exist for the organization.
func (s *State) owned(by parley.OrgID) error {
	if !s.Exists() || s.Deleted() || s.Owner() != by {
		return ErrUnknown
	}
	return nil
}
