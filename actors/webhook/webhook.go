// Package webhook holds the rules of a webhook: which news of its agent become
// delivery jobs, when each is attempted, and when the webhook gives up. It does
// no I/O and reads no clock.
//
// A webhook may have a million jobs and holds none of them in memory. Jobs are
// numbered from 1 without holes, and first attempts go by number: those that
// were never attempted are all numbers beyond State.LastFirst. What is under
// way is a lease, of which there are as many as the host allows. All else is
// rows of the host, written in the entry of the events that they follow from:
//
//   - one Job under its number, made and changed by Fold;
//   - one line by time and number for each job for which Job.Retry gives a time.
//     The host reads the first few whose time has come and hands their jobs to Lease.
//
// The rows go when the webhook is deleted.
package webhook

import (
	"time"

	"parley"
)

type (
	idKind  struct{}
	jobKind struct{}
	// ID is a webhook's id.
	ID = parley.ID[idKind]
	// JobID is the id of a delivery job. It is computed: see State.JobID.
	JobID = parley.ID[jobKind]
)

// Numbers of docs/webhooks.md. // spec: Webhooks
const (
	// LeaseLife is how long an attempt may be under way.
	LeaseLife = 60 * time.Second
	// RetryAfterMax is the longest by which a target can put off the next attempt of
	// a job, HoldMax the longest for which that holds the webhook's other jobs.
	RetryAfterMax = 24 * time.Hour
	HoldMax       = 5 * time.Minute
	// FailuresMax is how long nothing but failures is borne.
	FailuresMax = 120 * time.Hour
	// SecretAfterlife is how long a former secret signs beside the current one.
	SecretAfterlife = 24 * time.Hour
	// JitterMax is the most by which a planned retry is moved, in thousandths.
	JitterMax = 100
	// FormerSecretsMax is how many former secrets are kept at most. They all
	// sign, and headers have bounds: the oldest falls out before its time.
	FormerSecretsMax = 4
	// TriesMax is how many of its attempts a job lists.
	TriesMax = 2 * AttemptsMax
	// ErrorCharsMax is how much of an error is kept.
	ErrorCharsMax = 300
)

// Reasons why a webhook is inactive though nobody switched it off.
const (
	TargetGone   = Reason_target_gone
	OnlyFailures = Reason_only_failures
	AgentRevoked = Reason_agent_revoked
)

// Command asks for a change of a webhook. Those that clients ask for name the
// organization in whose name they do: to any but the owner there is no webhook.
// Those of the host are never refused: what does not apply changes nothing.
//
//sumtype:decl
type Command interface{ command() }

// Create makes the webhook. To create one that exists changes nothing: the deed
// may be repeated after a crash. Whether the target may be dialled and the quota
// allows it was judged before.
type Create struct {
	ID    ID
	Agent parley.AgentID
	Org   parley.OrgID
	// URL is dialled; SentURL is the text that it was read from.
	URL, SentURL string
	// Events are what is delivered; none means messages received.
	Events       []What
	Description  string
	SealedSecret []byte
	// Edge is the feed's position at which the webhook begins.
	Edge uint64
	// Taken is a fact: the agent has a webhook of this url.
	Taken bool
}

// Toggle switches the webhook on or off. To switch on one that is on ends a hold. Jobs that wait go on waiting while it
// is off, and no news become jobs, also not afterwards: what is to be delivered of
// the time before, the host collects before it switches off.
type Toggle struct {
	By     parley.OrgID
	Active bool
	// Edge is the feed's position now.
	Edge uint64
}

// Rotate makes another secret the current one.
type Rotate struct {
	By           parley.OrgID
	SealedSecret []byte
}

// Delete ends the webhook.
type Delete struct{ By parley.OrgID }

// Test asks for a delivery of a test event, and ends a hold.
type Test struct{ By parley.OrgID }

// Retry asks for an attempt of a job now: of one that waits, or of a dead one,
// which gets all its attempts again. It ends a hold, whatever the job waits for.
type Retry struct {
	By parley.OrgID
	// Job is the job's row, nil if there is none.
	Job *Job
}

// Retire says that the agent was revoked: the webhook is inactive for good.
type Retire struct{}

// Collect reads on in the feed of the agent. What was collected before is
// passed over.
type Collect struct {
	// Upto is the position of the last entry read, which may tell of nothing
	// that is wanted. See State.Wants.
	Upto uint64
	// News are what the entries tell of, in their order.
	News []Entry
}

// Entry is one thing that happened, and where the feed has it. One line of a
// feed may tell of several.
type Entry struct {
	Position uint64
	News     *News
}

// Lease begins attempts: first attempts in the order of the jobs' creation and
// retries in the order in which they are due, in turn, so that neither waits
// for the other.
type Lease struct {
	// Max is how many attempts of this webhook may be under way.
	Max int
	// Due are the rows of jobs whose retry is due, the earliest first, at least
	// State.Room of them if there are so many.
	Due []*Job
}

// Report tells how attempts ended. One whose lease is over, or never was,
// changes nothing.
type Report struct{ Outcomes []Outcome }

// Outcome is how one attempt ended.
type Outcome struct {
	// Lease is the number of the attempt's lease.
	Lease uint64
	// Unsent: nothing was sent, and so nothing attempted. The webhook is held
	// for RetryAfter, at most for HoldMax.
	Unsent bool
	// Code is the status of the answer, zero where there was none.
	Code int
	// RetryAfter is what the answer asks for, zero for nothing.
	RetryAfter time.Duration
	// Error is what went wrong, empty for nothing.
	Error string
	Took  time.Duration
	// Jitter moves a planned retry by so many thousandths of the wait, at most
	// JitterMax to either side.
	Jitter int
}

// Expire takes back leases that have timed out and those that began before the process
// did: their holder is gone.
type Expire struct{ Process time.Time }

func (Create) command()  {}
func (Toggle) command()  {}
func (Rotate) command()  {}
func (Delete) command()  {}
func (Test) command()    {}
func (Retry) command()   {}
func (Retire) command()  {}
func (Collect) command() {}
func (Lease) command()   {}
func (Report) command()  {}
func (Expire) command()  {}

// Event is a fact about a webhook: past tense, append-only on disk.
//
//sumtype:decl
type Event interface {
	event()
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
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

// kinds are the events by the numbers under which they are on disk. Numbers are
// added, never changed or reused.
var kinds = []func() Event{
	1: func() Event { return &Created{} }, 2: func() Event { return &Activated{} }, 3: func() Event { return &Deactivated{} },
	4: func() Event { return &Disabled{} }, 5: func() Event { return &Rotated{} }, 6: func() Event { return &Deleted{} },
	7: func() Event { return &Collected{} }, 8: func() Event { return &Tested{} }, 9: func() Event { return &Leased{} },
	10: func() Event { return &Reported{} }, 11: func() Event { return &Expired{} }, 12: func() Event { return &Retried{} },
	13: func() Event { return &Released{} },
}

// Tag is the number under which an event's kind is on disk.
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
	}
	panic("webhook: unknown event")
}

// New is an empty event of the kind that Tag numbers tag, false for a number
// that was never given.
func New(tag byte) (Event, bool) {
	if int(tag) >= len(kinds) || kinds[tag] == nil {
		return nil, false
	}
	return kinds[tag](), true
}

// Refusals of a webhook.
var (
	// ErrUnknown is also what another organization than the owner is told.
	ErrUnknown    = parley.ErrNotFound.Saying("There is no such webhook.")
	ErrUnknownJob = parley.ErrNotFound.Saying("There is no such delivery job.")
	ErrDuplicate  = parley.Refuse(parley.Conflict, "duplicate_webhook", "The agent has a webhook of this url already.")
	// ErrAgentRevoked is for one who would switch on what is off for good.
	ErrAgentRevoked = parley.ErrGone.Saying("The webhook's agent has been revoked.")
	// ErrInactive and ErrDelivered carry current_status and allowed.
	ErrInactive  = parley.Refuse(parley.Conflict, "invalid_transition", "The webhook is inactive: nothing is attempted until it is activated.")
	ErrDelivered = parley.Refuse(parley.Conflict, "invalid_transition", "The job has been delivered.")
)
