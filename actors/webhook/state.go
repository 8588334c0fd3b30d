package webhook

import (
	"cmp"
	"slices"
	"time"

	"parley"
)

// Exists reports whether the webhook was ever created.
func (s *State) Exists() bool { return len(s.GetId()) > 0 }

// Deleted reports whether the webhook is over.
func (s *State) Deleted() bool { return s.GetDeletedMs() != 0 }

// WebhookID is the webhook's id.
func (s *State) WebhookID() ID { return parley.IDFromBytes[ID](s.GetId()) }

// Watched is the agent whose feed the webhook follows.
func (s *State) Watched() parley.AgentID { return parley.IDFromBytes[parley.AgentID](s.GetAgent()) }

// Owner is the organization that owns the webhook.
func (s *State) Owner() parley.OrgID { return parley.IDFromBytes[parley.OrgID](s.GetOrg()) }

// CreatedAt is when the webhook was created, UTC.
func (s *State) CreatedAt() time.Time { return time.UnixMilli(s.GetCreatedMs()).UTC() }

// SentURL is the webhook's url as its owner wrote it.
func (s *State) SentURL() string { return cmp.Or(s.GetSentUrl(), s.GetUrl()) }

// Held tells whether no attempt of an active webhook begins now, because its
// target failed again and again or asked to be left alone, and until when, UTC.
func (s *State) Held(now time.Time) (until time.Time, held bool) {
	until = time.UnixMilli(s.GetHeldUntilMs()).UTC()
	return until, s.GetActive() && now.Before(until)
}

// NextAttempt is when the next attempt of one of its jobs is due, UTC: as
// planned, or when a hold ends. False where none is planned.
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

// DisabledAt is when the webhook was switched off, and not by a person, and why;
// false if it was not.
func (s *State) DisabledAt() (time.Time, Reason, bool) {
	return time.UnixMilli(s.GetDisabledMs()).UTC(), s.GetDisabledReason(), s.GetDisabledMs() != 0
}

// Wants reports whether the webhook delivers events of that kind.
func (s *State) Wants(x What) bool { return slices.Contains(s.GetEvents(), x) }

// Sealed are the secrets that deliveries are signed with, the current one first.
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

// JobID is the id of the job with that number: the webhook's, with the number in
// it. It is what receivers tell repeated deliveries by.
func (s *State) JobID(number uint64) JobID {
	id := JobID(s.WebhookID())
	for i := range jobBytes {
		id[15-i] ^= byte(number >> (8 * i))
	}
	return id
}

// jobBytes is how many bytes of an id carry a job's number: those that are random.
const jobBytes = 6

// JobNumber is the number of the job with that id, false if the webhook has none.
func (s *State) JobNumber(id JobID) (number uint64, ok bool) {
	of := s.WebhookID()
	for i := range jobBytes {
		number |= uint64(id[15-i]^of[15-i]) << (8 * i)
	}
	return number, s.JobID(number) == id && 0 < number && number <= s.GetLastJob()
}

// Summary counts jobs by what has become of them. Pending are also those under
// way. // spec: Webhooks
type Summary struct{ Total, Delivered, Failed, Dead, Pending uint64 }

// Summary counts the webhook's jobs, without looking at them.
func (s *State) Summary() Summary {
	return Summary{
		Total: s.GetLastJob(), Delivered: s.GetDelivered(), Failed: s.GetFailed(), Dead: s.GetDead(),
		Pending: s.Unattempted() + uint64(len(s.GetUnderWay())),
	}
}

// Unattempted is how many jobs wait for their first attempt.
func (s *State) Unattempted() uint64 {
	return s.GetLastJob() - s.GetLastFirst() + uint64(len(s.GetUnsent()))
}

// Capacity is how many attempts may begin now, if so many may be under way.
func (s *State) Capacity(now time.Time, places int) int {
	if !s.GetActive() || now.UnixMilli() < s.GetHeldUntilMs() {
		return 0
	}
	return max(0, places-len(s.GetUnderWay()))
}

// Attempt is the one that runs under that lease, nil if the lease is over.
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

// Ends is when the attempt's lease runs out, UTC.
func (a *Attempt) Ends() time.Time { return time.UnixMilli(a.GetBeganMs()).Add(LeaseLife).UTC() }

// Wake is the next moment at which time alone gives the webhook something to do,
// but for retries, of which the rows tell: a lease runs out, or the webhook is
// held no longer. False if there is none.
func (s *State) Wake(now time.Time) (at time.Time, ok bool) {
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

// owned refuses a client for whom there is no webhook.
func (s *State) owned(by parley.OrgID) error {
	if !s.Exists() || s.Deleted() || s.Owner() != by {
		return ErrUnknown
	}
	return nil
}
