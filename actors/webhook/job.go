package webhook

import (
	"strings"
	"time"
	"unicode/utf8"
)

// Statuses of a delivery job. // spec: Webhook delivery job statuses
const (
	Pending    = Status_pending
	Processing = Status_processing
	Failed     = Status_failed
	Delivered  = Status_delivered
	Dead       = Status_dead
)

// Events that webhooks deliver. // spec: Webhook events
const (
	MessageReceived      = What_message_received
	MessageDelivered     = What_message_delivered
	MessageRead          = What_message_read
	ConversationUpdated  = What_conversation_updated
	GroupInvited         = What_group_invited
	GroupRequestCreated  = What_group_request_created
	GroupRequestResolved = What_group_request_resolved
	GroupMemberJoined    = What_group_member_joined
	GroupMemberLeft      = What_group_member_left
	GroupMLS             = What_group_mls
	Disabling            = What_webhook_disabled
	CredentialExpiring   = What_credential_expiring
	TestEvent            = What_webhook_test
	// TaskUpdated is delivered by configurations of push notifications only.
	TaskUpdated = What_task_updated
)

// deed is an event in the life of a job.
type deed int

const (
	begun        deed = iota // an attempt began
	accepted                 // the target answered 2xx
	declined                 // another answer or none, and attempts are left
	declinedLast             // the same at the last attempt
	gone                     // it answered 410
	lost                     // the lease ran out: the outcome is unknown
	lostLast                 // the lease of the last attempt ran out
	unsentFirst              // nothing was sent at the first attempt
	unsentAgain              // nothing was sent at a later attempt
	wanted                   // a person requested an attempt now
	erased                   // what it is about was erased, so nothing was sent
)

// machine is the state machine of a job. A deed that is not listed is impossible, and a
// status without deeds is final. // spec: Webhooks
var machine = map[Status]map[deed]Status{
	Pending: {begun: Processing},
	Processing: {
		accepted: Delivered,
		declined: Failed, declinedLast: Dead,
		gone: Dead, erased: Dead,
		lost: Failed, lostLast: Dead,
		unsentFirst: Pending, unsentAgain: Failed,
	},
	Failed: {begun: Processing, wanted: Failed},
	Dead:   {wanted: Failed},
}

// next returns the status after a deed, false if the deed is impossible.
func (x Status) next(d deed) (Status, bool) {
	to, ok := machine[x][d]
	return to, ok
}

// waits are the delays before each attempt. The first counts from the job's creation, the
// others from the end of the preceding attempt. // spec: Webhooks
var waits = [...]time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 10 * time.Hour,
}

// AttemptsMax is how many attempts a job gets.
const AttemptsMax = len(waits)

// wait returns the time between the nth attempt and the next: the planned delay with
// jitter, but at least what the target asks for, up to RetryAfterMax.
func wait(nth uint32, o Outcome) time.Duration {
	planned := waits[nth]
	planned += planned * time.Duration(min(max(o.Jitter, -JitterMax), JitterMax)) / 1000
	return max(planned, min(o.RetryAfter, RetryAfterMax))
}

// deed returns what an attempt's outcome means for its job.
func (o Outcome) deed(a *Attempt) deed {
	switch last := int(a.Nth) >= AttemptsMax; {
	case o.Erased:
		return erased
	case o.Unsent && a.First:
		return unsentFirst
	case o.Unsent:
		return unsentAgain
	case o.Code >= 200 && o.Code < 300:
		return accepted
	case o.Code == 410:
		return gone
	case last:
		return declinedLast
	default:
		return declined
	}
}

// lostError is the error of an attempt whose lease ran out.
const lostError = "The attempt was cut short: what came of it is unknown."

// short returns the part of an error that is stored, in valid UTF-8.
func short(text string) string {
	text = strings.ToValidUTF8(text, "�")
	if utf8.RuneCountInString(text) <= ErrorCharsMax {
		return text
	}
	return string([]rune(text)[:ErrorCharsMax])
}

// ParseEvent parses an event's name as spelled in the API.
func ParseEvent(word string) (What, bool) {
	n, ok := What_value[strings.ReplaceAll(word, ".", "_")]
	return What(n), ok && n != 0 && !strings.Contains(word, "_")
}

// Word returns the event's name in the API.
func (x What) Word() string { return strings.ReplaceAll(x.String(), "_", ".") }

// Retry returns when the job is due for another attempt, UTC; false for a job that waits
// for its first attempt, is under way, or is finished.
func (j *Job) Retry() (time.Time, bool) {
	return time.UnixMilli(j.GetNextMs()).UTC(), j.GetStatus() == Failed
}
