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

// What deliveries tell of. // spec: Webhook events
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
	TestEvent            = What_webhook_test
)

// deed is what can happen to a job.
type deed int

const (
	begun        deed = iota // an attempt began
	accepted                 // the target answered 2xx
	declined                 // it did not, and there are attempts left
	declinedLast             // it did not at the last attempt
	gone                     // it answered 410
	lost                     // the lease ran out: nobody knows
	lostLast                 // it ran out at the last attempt
	unsentFirst              // nothing was sent, and nothing was before
	unsentAgain              // nothing was sent this time
	wanted                   // a person wants an attempt now
)

// machine is the whole life of a job; a deed that is not here is not done, and a
// status without deeds is the end. // spec: Webhooks
var machine = map[Status]map[deed]Status{
	Pending: {begun: Processing},
	Processing: {
		accepted: Delivered,
		declined: Failed, declinedLast: Dead,
		gone: Dead,
		lost: Failed, lostLast: Dead,
		unsentFirst: Pending, unsentAgain: Failed,
	},
	Failed: {begun: Processing, wanted: Failed},
	Dead:   {wanted: Failed},
}

// next is the status after a deed, false where there is no such move.
func (x Status) next(d deed) (Status, bool) {
	to, ok := machine[x][d]
	return to, ok
}

// waits are the times before each attempt: before the first, counted from the
// job's creation, before others from the end of the attempt before. // spec: Webhooks
var waits = [...]time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 10 * time.Hour,
}

// AttemptsMax is how many attempts a job gets.
const AttemptsMax = len(waits)

// wait is the time between the nth attempt and the next: as planned, moved by
// the jitter, but never shorter than the target asks for.
func wait(nth uint32, o Outcome) time.Duration {
	planned := waits[nth]
	planned += planned * time.Duration(min(max(o.Jitter, -JitterMax), JitterMax)) / 1000
	return max(planned, min(o.RetryAfter, RetryAfterMax))
}

// deed is what an outcome of an attempt means to its job.
func (o Outcome) deed(a *Attempt) deed {
	switch last := int(a.Nth) >= AttemptsMax; {
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

// short is as much of an error as is kept, in sound UTF-8.
func short(text string) string {
	text = strings.ToValidUTF8(text, "�")
	if utf8.RuneCountInString(text) <= ErrorCharsMax {
		return text
	}
	return string([]rune(text)[:ErrorCharsMax])
}

// ParseEvent reads an event's name as the wire spells it.
func ParseEvent(word string) (What, bool) {
	n, ok := What_value[strings.ReplaceAll(word, ".", "_")]
	return What(n), ok && n != 0 && !strings.Contains(word, "_")
}

// Word is the event's name on the wire.
func (x What) Word() string { return strings.ReplaceAll(x.String(), "_", ".") }

// Retry is when the job is due for another attempt, UTC; false for one that
// waits for its first, is under way or at its end.
func (j *Job) Retry() (time.Time, bool) {
	return time.UnixMilli(j.GetNextMs()).UTC(), j.GetStatus() == Failed
}
