package webhook_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/actorstest"
	"parley/actors/webhook"
)

// retryTable is the table of docs/webhooks.md: the pauses before each attempt.
const retryTable = "0s 5s 5m 30m 2h 5h 10h 10h"

const (
	ms   = int64(1)
	sec  = 1000 * ms
	hour = 3600 * sec
)

// pauseBefore returns the pause before the nth attempt, in milliseconds.
func pauseBefore(nth int) int64 {
	d, err := time.ParseDuration(strings.Fields(retryTable)[nth-1])
	if err != nil {
		panic(err)
	}
	return d.Milliseconds()
}

// seenJob is a job as its owner sees it. // spec: Webhooks
type seenJob struct {
	number                                     uint64
	event, ref, note, status                   string
	attempts                                   int
	happenedMs, createdMs, nextMs, deliveredMs int64
	lastMs, lastTookMs                         int64
	lastCode                                   int
	lastError                                  string
}

// seenLease is an attempt under way.
type seenLease struct {
	number, job    uint64
	nth            int
	first          bool
	beganMs, endMs int64
}

// sight is everything visible of a webhook at one time.
type sight struct {
	exists, deleted          bool
	id                       webhook.ID
	agent, org               string
	url, description, events string
	active                   bool
	createdMs, disabledMs    int64
	reason                   string
	cursor                   uint64
	failingSinceMs           int64
	sealed                   string
	summary                  webhook.Summary
	jobs                     []seenJob
	leases                   []seenLease
	room                     int
	wakeMs                   int64
}

// oracle is a webhook as docs/webhooks.md describes it, with a list of all its jobs.
type oracle struct {
	record    sight
	secrets   []oldSecret
	heldMs    int64
	lastLease uint64
	// lastWasFirst is set if the latest attempt to begin was the first of its job.
	lastWasFirst bool
	// feed is the last position drawn.
	feed uint64
	// task is set for a configuration of push notifications, endedMs when its task has ended.
	task    bool
	endedMs int64
}

type oldSecret struct {
	sealed  string
	untilMs int64
}

// places is the number of concurrent attempts that the trial assumes when it looks.
const places = 3

func (o *oracle) Visible(now time.Time) any {
	seen, at := o.record, now.UnixMilli()
	if !seen.exists || seen.deleted {
		return sight{exists: seen.exists, deleted: seen.deleted}
	}
	for _, s := range o.secrets {
		if s.untilMs == 0 || at < s.untilMs {
			seen.sealed += s.sealed + " "
		}
	}
	seen.jobs, seen.leases = append([]seenJob{}, seen.jobs...), append([]seenLease{}, seen.leases...)
	for _, j := range seen.jobs {
		seen.summary.Total++
		switch j.status {
		case "delivered":
			seen.summary.Delivered++
		case "failed":
			seen.summary.Failed++
		case "dead":
			seen.summary.Dead++
		default: // processing counts as pending
			seen.summary.Pending++
		}
	}
	most := places
	if o.task {
		most = 1
	}
	if seen.active && at >= o.heldMs && len(seen.leases) < most {
		seen.room = most - len(seen.leases)
	}
	for _, l := range seen.leases {
		if seen.wakeMs == 0 || l.endMs < seen.wakeMs {
			seen.wakeMs = l.endMs
		}
	}
	if seen.active && at < o.heldMs && (seen.wakeMs == 0 || o.heldMs < seen.wakeMs) {
		seen.wakeMs = o.heldMs
	}
	if o.endedMs != 0 && o.idle() {
		seen.wakeMs = o.endedMs + hour
	}
	return seen
}

func look(l *life) any {
	s := l.State
	if !s.Exists() || s.Deleted() {
		return sight{exists: s.Exists(), deleted: s.Deleted()}
	}
	seen := sight{
		exists: true, id: s.WebhookID(), agent: s.Watched().String(), org: s.Owner().String(), url: s.GetUrl(), description: s.GetDescription(),
		active: s.GetActive(), createdMs: s.CreatedAt().UnixMilli(), cursor: s.GetCursor(), failingSinceMs: s.GetFailingSinceMs(),
		summary: s.Summary(), room: s.Capacity(l.Now, places), jobs: []seenJob{}, leases: []seenLease{},
	}
	for what := webhook.MessageReceived; what <= webhook.TaskUpdated; what++ {
		if s.Wants(what) {
			seen.events += what.Word() + " "
		}
	}
	if at, why, disabled := s.DisabledAt(); disabled {
		seen.disabledMs, seen.reason = at.UnixMilli(), why.String()
	}
	for _, sealed := range s.Sealed(l.Now) {
		seen.sealed += string(sealed) + " "
	}
	rows := jobs(l.History)
	for _, n := range slices.Sorted(maps.Keys(rows)) {
		seen.jobs = append(seen.jobs, seeJob(rows[n]))
	}
	for _, a := range s.GetUnderWay() {
		seen.leases = append(seen.leases, seenLease{a.Lease, a.Job, int(a.Nth), a.First, a.BeganMs, a.Ends().UnixMilli()})
	}
	if at, ok := s.Wake(l.Now); ok {
		seen.wakeMs = at.UnixMilli()
	}
	return seen
}

func seeJob(j *webhook.Job) seenJob {
	return seenJob{
		number: j.Number, event: j.Event.Word(), ref: string(j.Ref), note: string(j.Note), status: j.Status.String(), attempts: int(j.Attempts),
		happenedMs: j.HappenedMs, createdMs: j.CreatedMs, nextMs: j.NextMs, deliveredMs: j.DeliveredMs,
		lastMs: j.LastMs, lastTookMs: j.LastDurationMs, lastCode: int(j.LastCode), lastError: j.LastError,
	}
}

// row returns the job as the host stores it.
func (j seenJob) row() *webhook.Job {
	event, _ := webhook.ParseEvent(j.event)
	return &webhook.Job{
		Number: j.number, Event: event, Ref: []byte(j.ref), Note: []byte(j.note), Status: webhook.Status(webhook.Status_value[j.status]),
		Attempts: uint32(j.attempts), HappenedMs: j.happenedMs, CreatedMs: j.createdMs, NextMs: j.nextMs, DeliveredMs: j.deliveredMs,
		LastMs: j.lastMs, LastDurationMs: j.lastTookMs, LastCode: uint32(j.lastCode), LastError: j.lastError,
	}
}

// nothingForgotten lets the target recover and runs all remaining jobs: each must be
// delivered, except the dead ones.
func nothingForgotten(l *life, _ *oracle) error {
	s, rows, now := proto.CloneOf(l.State), jobs(l.History), l.Now
	if !s.Exists() || s.Deleted() || s.GetDisabledReason() == webhook.AgentRevoked {
		return nil
	}
	do := func(c webhook.Command) {
		events, err := webhook.Decide(s, c, now)
		if err != nil {
			panic(err)
		}
		for _, e := range events {
			webhook.Evolve(s, e)
			webhook.Fold(rows, e)
		}
	}
	dead := s.GetDead()
	if _, is := s.Task(); !is {
		do(webhook.Toggle{By: acme, Active: true, Edge: s.GetCursor()})
	}
	for range 100 {
		now = now.Add(11 * time.Hour)
		do(webhook.Expire{})
		do(webhook.Lease{Max: places, Due: due(rows, now)})
		well := webhook.Report{}
		for _, a := range s.GetUnderWay() {
			well.Outcomes = append(well.Outcomes, webhook.Outcome{Lease: a.Lease, Code: 200})
		}
		do(well)
	}
	if sum := s.Summary(); sum.Pending+sum.Failed > 0 || sum.Dead < dead || sum.Delivered+sum.Dead != uint64(len(rows)) {
		return fmt.Errorf("the target is well, and yet: %+v", sum)
	}
	return nil
}

func (o *oracle) Predict(c webhook.Command, now time.Time) actorstest.Verdict {
	at := now.UnixMilli()
	switch c := c.(type) {
	case webhook.Create:
		return o.create(c, at)
	case webhook.Toggle:
		return o.ownedHook(c.By == acme, func() actorstest.Verdict { return o.toggle(c, at) })
	case webhook.Rotate:
		return o.ownedHook(c.By == acme, func() actorstest.Verdict { return o.rotate(string(c.SealedSecret), at) })
	case webhook.Delete:
		if o.record.deleted && c.By == acme && !o.task {
			return actorstest.Accepted("deleted before")
		}
		return o.owned(c.By == acme, func() actorstest.Verdict {
			o.record.deleted = true
			return actorstest.Accepted("deleted")
		})
	case webhook.Test:
		return o.ownedHook(c.By == acme, func() actorstest.Verdict { return o.test(at) })
	case webhook.Retry:
		return o.ownedHook(c.By == acme, func() actorstest.Verdict { return o.retry(c, at) })
	case webhook.Redirect:
		return o.owned(c.By == acme, func() actorstest.Verdict { return o.redirect(c) })
	}
	if !o.record.exists || o.record.deleted {
		return actorstest.Accepted("no webhook")
	}
	switch c := c.(type) {
	case webhook.Finish:
		return o.finish(at)
	case webhook.Retire:
		return o.retire(at)
	case webhook.Collect:
		return o.collect(c, at)
	case webhook.Lease:
		return o.lease(c, at)
	case webhook.Report:
		return o.report(c, at)
	case webhook.Expire:
		return o.expire(c, at)
	}
	panic("no such command")
}

// owned hides whether a webhook exists from all but its owner.
func (o *oracle) owned(byOwner bool, then func() actorstest.Verdict) actorstest.Verdict {
	switch {
	case !o.record.exists || o.record.deleted:
		return actorstest.Refused("no webhook", "404 not_found")
	case !byOwner:
		return actorstest.Refused("another's", "404 not_found")
	}
	return then()
}

func (o *oracle) create(c webhook.Create, at int64) actorstest.Verdict {
	switch {
	case o.record.exists:
		return actorstest.Accepted("again")
	case c.Taken:
		return actorstest.Refused("twice the same", "409 duplicate_webhook")
	}
	o.record = sight{
		exists: true, id: c.ID, agent: c.Agent.String(), org: c.Org.String(), url: c.URL, description: c.Description,
		active: true, createdMs: at, cursor: c.Edge,
	}
	for _, word := range everyEvent {
		if slices.ContainsFunc(c.Events, func(x webhook.What) bool { return x.Word() == word }) {
			o.record.events += word + " "
		}
	}
	o.record.events = cmp.Or(o.record.events, "message.received ")
	if o.task = !c.Task.Zero(); o.task {
		o.record.events = "task.updated "
	}
	o.secrets = []oldSecret{{sealed: string(c.SealedSecret)}}
	return actorstest.Accepted("created")
}

// everyEvent is the list of docs/webhooks.md.
var everyEvent = strings.Fields(`message.received message.delivered message.read conversation.updated group.invited
	group.request.created group.request.resolved group.member.joined group.member.left webhook.test`)

// toggle: PATCH active:true ends any hold.
func (o *oracle) toggle(c webhook.Toggle, at int64) actorstest.Verdict {
	switch {
	case c.Active && o.record.active && o.heldMs > at:
		o.heldMs = 0
		return actorstest.Accepted("released")
	case c.Active == o.record.active:
		return actorstest.Accepted("as it is")
	case !c.Active:
		o.record.active = false
		return actorstest.Accepted("off")
	case o.record.reason == "agent_revoked":
		return actorstest.Refused("agent revoked", "410 gone")
	}
	o.record.active, o.record.disabledMs, o.record.reason, o.record.failingSinceMs, o.heldMs = true, 0, "", 0, 0
	o.record.cursor = max(o.record.cursor, c.Edge)
	return actorstest.Accepted("on")
}

// rotate: a former secret stays valid for 24 hours; at most four former ones are kept.
func (o *oracle) rotate(sealed string, at int64) actorstest.Verdict {
	if o.secrets[0].sealed == sealed {
		return actorstest.Accepted("the same")
	}
	o.secrets[0].untilMs = at + 24*hour
	valid := []oldSecret{{sealed: sealed}}
	for _, s := range o.secrets {
		if at < s.untilMs && len(valid) < 5 {
			valid = append(valid, s)
		}
	}
	o.secrets = valid
	return actorstest.Accepted("rotated")
}

// asleep returns the refusal of an inactive webhook, and whether it is inactive.
func (o *oracle) asleep() (actorstest.Verdict, bool) {
	if o.record.reason == "agent_revoked" {
		return actorstest.Refused("agent revoked", "410 gone"), true
	}
	return actorstest.Refused("inactive", "409 invalid_transition (allowed=[active], current_status=inactive)"), !o.record.active
}

func (o *oracle) test(at int64) actorstest.Verdict {
	if no, asleep := o.asleep(); asleep {
		return no
	}
	o.make("webhook.test", "", "", at, at)
	if o.heldMs > at {
		o.heldMs = 0
		return actorstest.Accepted("released")
	}
	return actorstest.Accepted("made")
}

func (o *oracle) make(event, ref, note string, happenedMs, at int64) {
	o.record.jobs = append(o.record.jobs, seenJob{
		number: uint64(len(o.record.jobs)) + 1, event: event, ref: ref, note: note, status: "pending",
		happenedMs: happenedMs, createdMs: at, nextMs: at,
	})
}

func (o *oracle) job(number uint64) *seenJob { return &o.record.jobs[number-1] }

func (o *oracle) retry(c webhook.Retry, at int64) actorstest.Verdict {
	if c.Job == nil {
		return actorstest.Refused("no such job", "404 not_found")
	}
	j := o.job(c.Job.Number)
	if j.status == "delivered" {
		return actorstest.Refused("delivered", "409 invalid_transition (allowed=[], current_status=delivered)")
	}
	if no, asleep := o.asleep(); asleep {
		return no
	}
	switch {
	case j.status == "dead":
		j.status, j.attempts, j.nextMs, o.heldMs = "failed", 0, at, 0
		return actorstest.Accepted("woken")
	case j.status == "failed" && j.nextMs > at:
		j.nextMs, o.heldMs = at, 0
		return actorstest.Accepted("at once")
	case o.heldMs > at: // due, pending or under way: only the hold prevents an attempt
		o.heldMs = 0
		return actorstest.Accepted("released")
	}
	return actorstest.Accepted("on its way")
}

func (o *oracle) retire(at int64) actorstest.Verdict {
	if o.record.reason == "agent_revoked" {
		return actorstest.Accepted("again")
	}
	o.disable("agent_revoked", at)
	return actorstest.Accepted("for good")
}

func (o *oracle) collect(c webhook.Collect, at int64) actorstest.Verdict {
	ends := c.Ended && o.endedMs == 0
	switch {
	case !o.record.active:
		return actorstest.Accepted("inactive")
	case c.Upto < o.record.cursor, c.Upto == o.record.cursor && !ends:
		return actorstest.Accepted("read before")
	}
	before := len(o.record.jobs)
	for _, e := range c.News {
		if e.Position > o.record.cursor && e.Position <= c.Upto && strings.Contains(" "+o.record.events, " "+e.News.Event.Word()+" ") {
			o.make(e.News.Event.Word(), string(e.News.Ref), string(e.News.Note), e.News.HappenedMs, at)
		}
	}
	o.record.cursor = c.Upto
	if ends {
		o.endedMs = at
		return actorstest.Accepted("the end")
	}
	if len(o.record.jobs) == before {
		return actorstest.Accepted("nothing wanted")
	}
	return actorstest.Accepted("jobs")
}

var trial = actorstest.Trial[*webhook.State, webhook.Command, webhook.Event, *oracle]{
	Rules: rules, Oracle: func() *oracle { return &oracle{} }, Draw: wish, Look: look, Closer: nothingForgotten,
	Pauses: []time.Duration{
		0, time.Millisecond, time.Millisecond, 4999 * time.Millisecond, 5 * time.Second, 59999 * time.Millisecond, time.Minute,
		time.Minute, 5 * time.Minute, 2 * time.Hour, 11 * time.Hour, 24*time.Hour - time.Millisecond, 120*time.Hour - time.Millisecond,
	},
	Cases: []string{
		"Create: created", "Create: again", "Create: twice the same",
		"Toggle: no webhook", "Toggle: another's", "Toggle: as it is", "Toggle: released", "Toggle: off", "Toggle: on", "Toggle: agent revoked",
		"Rotate: no webhook", "Rotate: another's", "Rotate: the same", "Rotate: rotated",
		"Delete: no webhook", "Delete: another's", "Delete: deleted", "Delete: deleted before",
		"Test: no webhook", "Test: another's", "Test: inactive", "Test: agent revoked", "Test: made", "Test: released",
		"Retry: no webhook", "Retry: another's", "Retry: no such job", "Retry: delivered", "Retry: inactive", "Retry: agent revoked",
		"Retry: woken", "Retry: at once", "Retry: on its way", "Retry: released",
		"Retire: no webhook", "Retire: again", "Retire: for good",
		"Collect: no webhook", "Collect: inactive", "Collect: read before", "Collect: nothing wanted", "Collect: jobs",
		"Lease: no webhook", "Lease: inactive", "Lease: held", "Lease: no place", "Lease: nothing waits",
		"Lease: first attempts", "Lease: retries", "Lease: in turn",
		"Report: no webhook", "Report: late or unknown", "Report: unsent", "Report: delivered", "Report: to be retried", "Report: dead",
		"Report: gone", "Report: gone while inactive", "Report: nothing but failures",
		"Collect: the end", "Toggle: a task's", "Rotate: a task's", "Test: a task's", "Retry: a task's",
		"Redirect: no webhook", "Redirect: another's", "Redirect: a webhook's", "Redirect: redirected",
		"Finish: no webhook", "Finish: not yet", "Finish: over",
		"Expire: no webhook", "Expire: none is over", "Expire: taken back", "Expire: nobody's", "Expire: dead",
	},
	Errors: map[string]error{
		"ErrUnknown": webhook.ErrUnknown, "ErrUnknownJob": webhook.ErrUnknownJob, "ErrDuplicate": webhook.ErrDuplicate,
		"ErrAgentRevoked": webhook.ErrAgentRevoked, "ErrInactive": webhook.ErrInactive, "ErrDelivered": webhook.ErrDelivered,
	},
}

func TestOracle(t *testing.T) { trial.Run(t) }

// TestCensusControl: the census reports what a run did not meet.
func TestCensusControl(t *testing.T) {
	trial.Misses(t, "ErrDuplicate", func(x *actorstest.Trial[*webhook.State, webhook.Command, webhook.Event, *oracle]) {
		x.Errors = maps.Clone(x.Errors)
		x.Errors["ErrDuplicate"] = errors.New("never raised")
	})
}
