// Package webhook holds the rules of a webhook: which events of its agent become delivery
// jobs, when each is attempted, and when the webhook gives up. It does no I/O and reads
// no clock.
//
// A webhook may have a million jobs and keeps none of them in memory. Jobs are numbered
// from 1 without gaps, and first attempts are made in that order: the jobs beyond
// State.LastFirst were never attempted. An attempt under way has a lease; the host limits
// how many there are. The host stores everything else in rows, written in the entry of
// the events that cause them:
//
//   - one Job under its number, created and changed by Fold;
//   - one row by time and number for each job for which Job.Retry returns a time.
//     The host reads the first few that are due and passes their jobs to Lease.
//
// The host deletes the rows when the webhook is deleted.
//
// A configuration of push notifications is a webhook that follows a task, which is a
// conversation, instead of its agent's feed. It delivers strictly in order: no event
// while an earlier one may still be delivered. It is never inactive: what disables a
// webhook deletes it. It ends some time after its task.
package webhook

import (
	"time"

	"google.golang.org/protobuf/proto"

	"parley/client/parley"
)

type (
	idKind  struct{}
	jobKind struct{}
	// ID is a webhook's id.
	ID = parley.ID[idKind]
	// JobID is the id of a delivery job, computed by State.JobID.
	JobID = parley.ID[jobKind]
)

// Limits of docs/webhooks.md. // spec: Webhooks
const (
	// LeaseLife is how long an attempt may be under way.
	LeaseLife = 60 * time.Second
	// RetryAfterMax is the longest time by which a target can postpone the next attempt
	// of a job. HoldMax is the longest time for which that holds the webhook's other
	// jobs.
	RetryAfterMax = 24 * time.Hour
	HoldMax       = 5 * time.Minute
	// FailuresMax is how long a webhook may only fail before it is disabled.
	FailuresMax = 120 * time.Hour
	// SecretAfterlife is how long a former secret still signs, along with the current
	// one.
	SecretAfterlife = 24 * time.Hour
	// JitterMax is the largest shift of a planned retry, in thousandths of the wait.
	JitterMax = 100
	// FormerSecretsMax is how many former secrets are kept. They all sign, and the size
	// of headers is limited, so the oldest may be dropped before its time.
	FormerSecretsMax = 4
	// TriesMax is how many of its attempts a job lists.
	TriesMax = 2 * AttemptsMax
	// ErrorCharsMax is how many characters of an error are stored.
	ErrorCharsMax = 300
	// KeptAfterEnd is how long a configuration of push notifications can be read after
	// the end of its task.
	KeptAfterEnd = time.Hour
)

// Reasons why the server disabled a webhook.
const (
	TargetGone   = Reason_target_gone
	OnlyFailures = Reason_only_failures
	AgentRevoked = Reason_agent_revoked
)

// Command asks for a change of a webhook. Commands of clients name the organization that
// asks: for all but the owner the webhook does not exist. Commands of the host are never
// refused: one that does not apply changes nothing.
//
//sumtype:decl
type Command interface{ command() }

// Create creates the webhook. Creating one that exists changes nothing, so the command
// may be repeated after a crash. The caller has already checked the target's address and
// the quota.
type Create struct {
	ID    ID
	Agent parley.AgentID
	Org   parley.OrgID
	// URL is the address that is dialled; SentURL is the text from which it was parsed.
	URL, SentURL string
	// Events are the subscribed events; none means messages received.
	Events       []What
	Description  string
	SealedSecret []byte
	// Edge is the position in the feed at which the webhook begins.
	Edge uint64
	// Taken is a lookup: the agent has another webhook with this url.
	Taken bool
	// Task, unless zero, is the conversation that a configuration of push notifications
	// follows, from its event number Edge on. ConfigID is the configuration's id there.
	Task     parley.ConversationID
	ConfigID string
}

// Redirect replaces the target and the secret of a configuration of push notifications.
// Events that were not delivered yet go to the new target.
type Redirect struct {
	By           parley.OrgID
	URL, SentURL string
	SealedSecret []byte
}

// Finish deletes a configuration of push notifications whose time is over.
type Finish struct{}

// Toggle activates or deactivates the webhook. Activating an active one ends a hold.
// While the webhook is inactive, pending jobs wait, and events create no jobs, not even
// later. The host collects earlier events before it deactivates the webhook.
type Toggle struct {
	By     parley.OrgID
	Active bool
	// Edge is the feed's current position.
	Edge uint64
}

// Rotate replaces the current secret.
type Rotate struct {
	By           parley.OrgID
	SealedSecret []byte
}

// Delete deletes the webhook.
type Delete struct{ By parley.OrgID }

// Test requests a delivery of a test event and ends a hold.
type Test struct{ By parley.OrgID }

// Retry requests an attempt of a job now: of one that waits, or of a dead one, which gets
// all its attempts again. It ends a hold, whatever the job waits for.
type Retry struct {
	By parley.OrgID
	// Job is the job's row, nil if there is none.
	Job *Job
}

// Retire says that the agent was revoked. The webhook stays inactive for good.
type Retire struct{}

// Collect adds entries of the agent's feed. It skips those that were collected before.
type Collect struct {
	// Upto is the position of the last entry read, subscribed to or not. See State.Wants.
	Upto uint64
	// News are the events of the entries, in their order.
	News []Entry
	// Ended: the task has ended, so nothing follows.
	Ended bool
}

// Entry is one event and its position in the feed. One feed entry may yield several.
type Entry struct {
	Position uint64
	News     *News
}

// Lease begins attempts. It alternates between first attempts, in the order of the jobs'
// creation, and retries, in the order in which they are due, so that neither waits for
// the other.
type Lease struct {
	// Max is how many attempts of this webhook may be under way.
	Max int
	// Due are the rows of jobs whose retry is due, the earliest first. If there are
	// enough, they are at least as many as State.Capacity returns.
	Due []*Job
}

// Report says how attempts ended. An outcome without a current lease changes nothing.
type Report struct{ Outcomes []Outcome }

// Outcome is how one attempt ended.
type Outcome struct {
	// Lease is the number of the attempt's lease.
	Lease uint64
	// Unsent: nothing was sent, so no attempt was made. The webhook is held for
	// RetryAfter, at most HoldMax.
	Unsent bool
	// Erased: nothing was sent, because what the event is about was erased. The job is dead.
	Erased bool
	// Code is the HTTP status of the answer, zero if there was none.
	Code int
	// RetryAfter is the delay that the answer asks for, zero for none.
	RetryAfter time.Duration
	// Error describes what went wrong, empty for nothing.
	Error string
	Took  time.Duration
	// Jitter shifts a planned retry by so many thousandths of the wait, at most JitterMax
	// in either direction.
	Jitter int
}

// Expire ends leases that have timed out, and those with a number below Before. They are of
// a former process, or of a former leadership: their holder is gone.
type Expire struct{ Before uint64 }

func (Create) command()   {}
func (Toggle) command()   {}
func (Rotate) command()   {}
func (Delete) command()   {}
func (Test) command()     {}
func (Retry) command()    {}
func (Retire) command()   {}
func (Collect) command()  {}
func (Lease) command()    {}
func (Report) command()   {}
func (Expire) command()   {}
func (Redirect) command() {}
func (Finish) command()   {}

// Event is a fact about a webhook: past tense, append-only on disk.
//
//sumtype:decl
type Event interface {
	proto.Message
	event()
}

func (*Created) event()     {}
func (*Activated) event()   {}
func (*Deactivated) event() {}
func (*Disabled) event()    {}
func (*Rotated) event()     {}
func (*Deleted) event()     {}
func (*Collected) event()   {}
func (*Tested) event()      {}
func (*Leased) event()      {}
func (*Reported) event()    {}
func (*Expired) event()     {}
func (*Retried) event()     {}
func (*Released) event()    {}
func (*Redirected) event()  {}

// kinds are the events, indexed by the number that identifies each kind on disk. Numbers
// are added, never changed or reused.
var kinds = []func() Event{
	1: func() Event { return &Created{} }, 2: func() Event { return &Activated{} }, 3: func() Event { return &Deactivated{} },
	4: func() Event { return &Disabled{} }, 5: func() Event { return &Rotated{} }, 6: func() Event { return &Deleted{} },
	7: func() Event { return &Collected{} }, 8: func() Event { return &Tested{} }, 9: func() Event { return &Leased{} },
	10: func() Event { return &Reported{} }, 11: func() Event { return &Expired{} }, 12: func() Event { return &Retried{} },
	13: func() Event { return &Released{} }, 14: func() Event { return &Redirected{} },
}

// Tag returns the number that identifies an event's kind on disk.
func Tag(e Event) byte {
	switch e.(type) {
	case *Created:
		return 1
	case *Activated:
		return 2
	case *Deactivated:
		return 3
	case *Disabled:
		return 4
	case *Rotated:
		return 5
	case *Deleted:
		return 6
	case *Collected:
		return 7
	case *Tested:
		return 8
	case *Leased:
		return 9
	case *Reported:
		return 10
	case *Expired:
		return 11
	case *Retried:
		return 12
	case *Released:
		return 13
	case *Redirected:
		return 14
	}
	panic("webhook: unknown event")
}

// New returns an empty event of the kind with this tag, false for an unknown tag.
func New(tag byte) (Event, bool) {
	if int(tag) >= len(kinds) || kinds[tag] == nil {
		return nil, false
	}
	return kinds[tag](), true
}

// Refusals of a webhook.
var (
	// ErrUnknown is also the answer to organizations other than the owner.
	ErrUnknown    = parley.ErrNotFound.Saying("There is no such webhook.")
	ErrUnknownJob = parley.ErrNotFound.Saying("There is no such delivery job.")
	ErrDuplicate  = parley.Refuse(parley.Conflict, "duplicate_webhook", "The agent has a webhook of this url already.")
	// ErrAgentRevoked refuses to activate a webhook that is disabled for good.
	ErrAgentRevoked = parley.ErrGone.Saying("The webhook's agent has been revoked.")
	// ErrInactive and ErrDelivered carry current_status and allowed.
	ErrInactive  = parley.Refuse(parley.Conflict, "invalid_transition", "The webhook is inactive: nothing is attempted until it is activated.")
	ErrDelivered = parley.Refuse(parley.Conflict, "invalid_transition", "The job has been delivered.")
)
