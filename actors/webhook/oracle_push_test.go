package webhook_test

import (
	"slices"

	"parley/actors/actorstest"
	"parley/actors/webhook"
)

// idle reports whether nothing is left to deliver.
func (o *oracle) idle() bool {
	return !slices.ContainsFunc(o.record.jobs, func(j seenJob) bool { return j.status != "delivered" && j.status != "dead" })
}

// ownedHook hides configurations of push notifications, which are no webhooks.
func (o *oracle) ownedHook(byOwner bool, then func() actorstest.Verdict) actorstest.Verdict {
	return o.owned(byOwner, func() actorstest.Verdict {
		if o.task {
			return actorstest.Refused("a task's", "404 not_found")
		}
		return then()
	})
}

// redirect: the same id replaces a configuration.
func (o *oracle) redirect(c webhook.Redirect) actorstest.Verdict {
	if !o.task {
		return actorstest.Refused("a webhook's", "404 not_found")
	}
	o.record.url, o.secrets, o.heldMs, o.record.failingSinceMs = c.URL, []oldSecret{{sealed: string(c.SealedSecret)}}, 0, 0
	return actorstest.Accepted("redirected")
}

// finish: a configuration ends an hour after its task, when nothing is left to deliver.
func (o *oracle) finish(at int64) actorstest.Verdict {
	if o.endedMs == 0 || at < o.endedMs+hour || !o.idle() {
		return actorstest.Accepted("not yet")
	}
	o.record.deleted = true
	return actorstest.Accepted("over")
}
