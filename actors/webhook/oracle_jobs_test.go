package webhook_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/webhook"
)

// lease: first attempts begin in the order of creation, retries when they are due, and
// neither kind blocks the other.
//
// Of a task, one attempt is under way at a time, and no event is attempted while an earlier
// one waits for a retry.
func (o *oracle) lease(c webhook.Lease, at int64) actorstest.Verdict {
	if o.task {
		c.Max = min(c.Max, 1)
	}
	switch {
	case !o.record.active:
		return actorstest.Accepted("inactive")
	case at < o.heldMs:
		return actorstest.Accepted("held")
	case len(o.record.leases) >= c.Max:
		return actorstest.Accepted("no place")
	}
	firsts, retries := []seenJob{}, []seenJob{}
	for _, j := range o.record.jobs {
		told := slices.ContainsFunc(c.Due, func(row *webhook.Job) bool { return row.Number == j.number })
		switch {
		case j.status == "pending":
			firsts = append(firsts, j)
		case j.status == "failed" && j.nextMs <= at && told:
			retries = append(retries, j)
		}
	}
	if o.task && slices.ContainsFunc(o.record.jobs, func(j seenJob) bool { return j.status == "failed" }) {
		firsts = nil
	}
	slices.SortStableFunc(retries, func(a, b seenJob) int { return cmp.Compare(a.nextMs, b.nextMs) })
	began := map[bool]int{}
	for len(o.record.leases) < c.Max && len(firsts)+len(retries) > 0 {
		from := &firsts
		if len(firsts) == 0 || len(retries) > 0 && o.lastWasFirst {
			from = &retries
		}
		o.begin((*from)[0].number, at)
		began[o.lastWasFirst]++
		*from = (*from)[1:]
	}
	switch {
	case len(began) == 0:
		return actorstest.Accepted("nothing waits")
	case len(began) == 2:
		return actorstest.Accepted("in turn")
	case began[true] > 0:
		return actorstest.Accepted("first attempts")
	}
	return actorstest.Accepted("retries")
}

func (o *oracle) begin(number uint64, at int64) {
	j := o.job(number)
	o.lastWasFirst = j.status == "pending"
	o.lastLease++
	j.status, j.nextMs, j.attempts = "processing", 0, j.attempts+1
	o.record.leases = append(o.record.leases, seenLease{o.lastLease, number, j.attempts, o.lastWasFirst, at, at + 60*sec})
}

// end closes the attempt of a lease; nil if there is none.
func (o *oracle) end(lease uint64) (*seenJob, seenLease) {
	for i, l := range o.record.leases {
		if l.number == lease {
			o.record.leases = slices.Delete(slices.Clone(o.record.leases), i, i+1)
			return o.job(l.job), l
		}
	}
	return nil, seenLease{}
}

func (o *oracle) report(c webhook.Report, at int64) actorstest.Verdict {
	verdict, failed, saidGone := "late or unknown", false, false
	for _, x := range c.Outcomes {
		j, l := o.end(x.Lease)
		if j == nil {
			continue
		}
		asked := min(x.RetryAfter.Milliseconds(), 24*hour)
		if x.Unsent {
			o.giveBack(j, l, at)
			if asked > 0 {
				o.heldMs = max(o.heldMs, at+min(asked, 300*sec))
			}
			verdict = "unsent"
			continue
		}
		j.lastMs, j.lastTookMs, j.lastCode, j.lastError = l.beganMs, x.Took.Milliseconds(), x.Code, x.Error
		if x.Code/100 == 2 {
			j.status, j.deliveredMs, o.record.failingSinceMs = "delivered", at, 0
			verdict = "delivered"
			continue
		}
		failed, o.record.failingSinceMs = true, cmp.Or(o.record.failingSinceMs, at)
		switch {
		case x.Code == 410:
			j.status, saidGone = "dead", !o.task // the next event of a task is delivered
			verdict = "gone while inactive"
		case j.attempts == 8:
			j.status = "dead"
			verdict = "dead"
		default:
			planned := pauseBefore(j.attempts + 1)
			j.status, j.nextMs = "failed", at+max(planned+planned*int64(x.Jitter)/1000, asked)
			verdict = "to be retried"
		}
	}
	tooLong := failed && o.record.failingSinceMs != 0 && at-o.record.failingSinceMs >= 120*hour
	switch {
	case !o.record.active:
	case saidGone:
		o.disable("target_gone", at)
		verdict = "gone"
	case tooLong:
		o.disable("only_failures", at)
		verdict = "nothing but failures"
	}
	return actorstest.Accepted(verdict)
}

// disable makes a webhook inactive, and deletes a configuration of push notifications.
func (o *oracle) disable(reason string, at int64) {
	if o.task {
		o.record.deleted = true
		return
	}
	o.record.active, o.record.reason, o.record.disabledMs = false, reason, at
}

// giveBack restores a job to its place before an attempt that was not sent.
func (o *oracle) giveBack(j *seenJob, l seenLease, at int64) {
	j.attempts--
	if l.first {
		j.status, j.nextMs = "pending", j.createdMs
		return
	}
	j.status, j.nextMs = "failed", at
}

// expire ends leases after 60 s.
func (o *oracle) expire(c webhook.Expire, at int64) actorstest.Verdict {
	verdict := "none is over"
	for _, l := range o.record.leases {
		if at < l.endMs && l.number >= c.Before {
			continue
		}
		j, _ := o.end(l.number)
		if l.number < c.Before {
			o.giveBack(j, l, at)
			if verdict == "none is over" {
				verdict = "nobody's"
			}
			continue
		}
		j.lastMs, j.lastTookMs, j.lastCode = l.beganMs, at-l.beganMs, 0
		j.lastError = "The attempt was cut short: what came of it is unknown."
		if j.attempts == 8 {
			j.status = "dead"
			verdict = "dead"
			continue
		}
		j.status, j.nextMs = "failed", at
		if verdict == "none is over" {
			verdict = "taken back"
		}
	}
	return actorstest.Accepted(verdict)
}

// Targets of random lives: an ordinary one, one that rejects everything, one at which
// the server dies in every attempt, and one whose webhook ends soon.
const (
	aTarget      = "https://a.example/hook"
	deadTarget   = "https://dead.example/hook"
	deadlyTarget = "https://deadly.example/hook"
	doomedTarget = "https://doomed.example/hook"
	// pushTarget is that of a configuration of push notifications.
	pushTarget = "https://push.example/hook"
)

var (
	often  = rapid.Map(rapid.IntRange(0, 3), func(n int) bool { return n > 0 })
	rarely = rapid.Map(rapid.IntRange(0, 15), func(n int) bool { return n == 15 })
	wishes = rapid.SampledFrom([]string{
		"lease", "report", "lease", "feed", "retry", "toggle", "rotate", "expire", "test", "delete", "delete", "revoke", "revoke", "create", "redirect", "finish",
	})
	urls    = rapid.SampledFrom([]string{aTarget, deadTarget, deadlyTarget, doomedTarget, deadTarget, deadlyTarget, aTarget, pushTarget})
	secrets = rapid.SampledFrom([]string{"s0", "s1", "s2", "s3"})
	answers = rapid.SampledFrom([]int{200, 500, 204, 299, 300, 199, 410, 0, 503})
	delays  = rapid.SampledFrom([]time.Duration{0, 0, 5 * time.Second, time.Minute, 3 * time.Hour, 24*time.Hour + time.Millisecond, 50 * time.Hour})
	jitters = rapid.SampledFrom([]int{0, 0, -100, 100, 37})
	allowed = rapid.SampledFrom([]int{3, 1, 2, 0})
	news    = rapid.SampledFrom([]webhook.What{webhook.MessageReceived, webhook.MessageReceived, webhook.MessageRead, webhook.GroupMemberLeft})
)

func wish(t *rapid.T, o *oracle, now time.Time) webhook.Command {
	kind := wishes.Draw(t, "wish")
	if detour := rarely; often.Draw(t, "as planned") || (o.record.url == deadTarget || o.record.url == deadlyTarget) && !detour.Draw(t, "detour") {
		kind = o.plan(t, now)
	}
	by := acme
	if rapid.IntRange(0, 4).Draw(t, "another") == 4 {
		by = actorstest.Named("globex")
	}
	switch kind {
	case "create":
		c := webhook.Create{
			ID: actorstest.Named("hook"), Agent: actorstest.Named("alice"), Org: acme, URL: urls.Draw(t, "url"), Description: "d",
			SealedSecret: []byte("s0"), Edge: o.feed, Taken: rarely.Draw(t, "taken"),
		}
		if !often.Draw(t, "the usual events") {
			c.Events = []webhook.What{webhook.MessageRead, webhook.GroupMemberLeft, webhook.MessageRead}
		}
		if c.URL == pushTarget {
			c.Task, c.ConfigID = actorstest.Named("task"), "config"
		}
		return c
	case "redirect":
		return webhook.Redirect{By: by, URL: pushTarget, SealedSecret: []byte(secrets.Draw(t, "secret"))}
	case "finish":
		return webhook.Finish{}
	case "on":
		return webhook.Toggle{By: acme, Active: true, Edge: o.feed}
	case "hurry":
		return webhook.Retry{By: acme, Job: o.waiting().row()}
	case "lease":
		return webhook.Lease{Max: allowed.Draw(t, "places"), Due: o.told(t)}
	case "report":
		return o.wishToReport(t)
	case "feed":
		return o.wishToCollect(t, now)
	case "retry":
		number := rapid.IntRange(0, len(o.record.jobs)).Draw(t, "job")
		if number == 0 {
			return webhook.Retry{By: by}
		}
		return webhook.Retry{By: by, Job: o.job(uint64(number)).row()}
	case "toggle":
		return webhook.Toggle{By: by, Active: !o.record.active || !often.Draw(t, "on"), Edge: o.feed}
	case "rotate":
		return webhook.Rotate{By: by, SealedSecret: []byte(secrets.Draw(t, "secret"))}
	case "expire":
		if often.Draw(t, "the same process") {
			return webhook.Expire{}
		}
		return webhook.Expire{Before: o.lastLease + 1 - min(o.lastLease, uint64(rapid.IntRange(0, 2).Draw(t, "own")))}
	case "test":
		return webhook.Test{By: by}
	}
	over := !o.record.exists || o.record.deleted
	switch really := over || o.record.url == doomedTarget || rarely.Draw(t, "really"); {
	case kind == "delete" && (really || by != acme):
		return webhook.Delete{By: by}
	case kind == "delete":
		return webhook.Delete{By: actorstest.Named("globex")}
	case really || o.record.reason == "agent_revoked":
		return webhook.Retire{}
	}
	return webhook.Toggle{By: by, Active: true, Edge: o.feed}
}

// waiting returns the job with the most attempts among those that wait for a retry.
func (o *oracle) waiting() (most *seenJob) {
	for i, j := range o.record.jobs {
		if j.status == "failed" && (most == nil || j.attempts > most.attempts) {
			most = &o.record.jobs[i]
		}
	}
	return most
}

// plan returns the command that brings the existing jobs closer to their end.
func (o *oracle) plan(t *rapid.T, now time.Time) string {
	switch next := o.waiting(); {
	case !o.record.exists && often.Draw(t, "at last"):
		return "create"
	case !o.record.exists:
		return wishes.Draw(t, "too early")
	case o.record.deleted:
		return wishes.Draw(t, "after the end")
	case o.record.reason == "agent_revoked":
		return rapid.SampledFrom([]string{"retry", "test", "on", "report", "expire", "feed", "lease", "revoke"}).Draw(t, "in vain")
	case o.record.url == doomedTarget && len(o.record.leases) > 0:
		return rapid.SampledFrom([]string{"report", "toggle", "delete", "revoke", "report", "retry", "test", "rotate"}).Draw(t, "the end")
	case !o.record.active && len(o.record.leases) > 0 && often.Draw(t, "the rest"):
		return "report"
	case !o.record.active && o.record.url != deadTarget && rapid.Bool().Draw(t, "asleep"):
		return rapid.SampledFrom([]string{"retry", "retry", "test"}).Draw(t, "in vain")
	case !o.record.active:
		return "on"
	case o.heldMs > now.UnixMilli() && often.Draw(t, "held"):
		return rapid.SampledFrom([]string{"lease", "retry", "lease", "on", "test", "retry"}).Draw(t, "let go")
	case len(o.record.leases) > 0 && o.record.url == deadlyTarget:
		return "expire"
	case len(o.record.leases) > 0:
		return "report"
	case o.endedMs != 0 && o.idle():
		return "finish"
	case len(o.record.jobs) == 0 || o.record.url == aTarget && rarely.Draw(t, "more"):
		return "feed"
	case next != nil && next.nextMs > now.UnixMilli() && (o.record.url != aTarget || rapid.Bool().Draw(t, "hurry")):
		return "hurry"
	case rarely.Draw(t, "any"):
		return "retry"
	}
	return "lease"
}

// told returns rows as a host may pass them: due or not, each of them twice.
func (o *oracle) told(t *rapid.T) (rows []*webhook.Job) {
	for _, j := range o.record.jobs {
		if often.Draw(t, "told") {
			rows = append(rows, j.row())
		}
	}
	return append(rows, rows...)
}

func (o *oracle) wishToCollect(t *rapid.T, now time.Time) webhook.Collect {
	upto := o.feed
	if !often.Draw(t, "on") {
		upto -= min(upto, 2)
	}
	c := webhook.Collect{Upto: upto}
	for range rapid.IntRange(0, 3).Draw(t, "lines") {
		c.Upto += uint64(rapid.IntRange(0, 2).Draw(t, "hole"))
		what := news.Draw(t, "news")
		if o.task {
			what = webhook.TaskUpdated
		}
		c.News = append(c.News, webhook.Entry{Position: c.Upto, News: &webhook.News{
			Event: what, Ref: fmt.Append(nil, c.Upto), Note: []byte("n"), HappenedMs: now.UnixMilli() - 1,
		}})
	}
	o.feed = max(o.feed, c.Upto)
	c.Ended = o.task && rapid.Bool().Draw(t, "ended")
	if rarely.Draw(t, "short") {
		c.Upto -= min(c.Upto, 1)
	}
	return c
}

func (o *oracle) wishToReport(t *rapid.T) (c webhook.Report) {
	for range rapid.IntRange(1, 3).Draw(t, "outcomes") {
		x := webhook.Outcome{
			Lease: o.lastLease - min(o.lastLease, uint64(rapid.IntRange(0, 5).Draw(t, "old"))), Code: answers.Draw(t, "code"),
			RetryAfter: delays.Draw(t, "retry after"), Took: time.Second + time.Millisecond, Jitter: jitters.Draw(t, "jitter"),
			Unsent: rapid.IntRange(0, 7).Draw(t, "unsent") == 7,
		}
		if n := len(o.record.leases); n > 0 && often.Draw(t, "under way") {
			x.Lease = o.record.leases[rapid.IntRange(0, n-1).Draw(t, "which")].number
		}
		if o.record.url == deadTarget {
			x.Code, x.RetryAfter = 500, 0
		}
		if !o.record.active && o.record.url != deadTarget && often.Draw(t, "gone") {
			x.Code = 410
		}
		if x.Code == 0 {
			x.Error = "timeout"
		}
		c.Outcomes = append(c.Outcomes, x)
	}
	return c
}
