package group_test

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/group"
	"parley/client/parley"
)

// endRequest: those whom a request concerns end it before it is decided, and may repeat
// that.
func (o *oracle) endRequest(c group.EndRequest, now time.Time) actorstest.Verdict {
	at := slices.IndexFunc(o.petitions, func(p *petition) bool { return p.id == c.Request })
	if at < 0 {
		return refused("no request", "404 not_found")
	}
	p := o.petitions[at]
	own := func(who parley.AgentID, ours bool) bool { return c.By.Agent == who || c.By.Agent.Zero() && ours }
	about := own(p.who, ownerIn(nameIn(p.who)) == c.By.Org)
	declines := about && !p.by.Zero()
	withdraws := about && p.by.Zero() || !p.by.Zero() && own(p.by, c.Inviter) ||
		!p.by.Zero() && len(p.electors) == 0 && o.admin(c.By) != nil
	switch {
	case !declines && !withdraws && o.maySeeMembers(c.By):
		return refused("not concerned", "403 not_owner")
	case !declines && !withdraws:
		return refused("hidden", "404 not_found")
	case p.reason == "" && (withdraws && p.status == "canceled" || declines && p.status == "declined"):
		return taken("ended before")
	case !p.live():
		return refused("settled", "409 request_closed")
	case p.late(now):
		return refused("late", "409 request_closed")
	case o.beingSeated(p):
		return refused("being seated", "409 request_closed")
	case declines:
		o.settle(p, "declined", "", now)
		return taken("declined")
	case len(p.electors) > 0 && p.status == "invited":
		return refused("approved", "409 request_closed")
	}
	o.settle(p, "canceled", "", now)
	return taken("withdrawn")
}

// filedOften returns the refusal of an applicant that has filed five times today, "" for
// others.
func (o *oracle) filedOften(who parley.AgentID, now time.Time) string {
	today, n := now.UTC().Format(time.DateOnly), 0
	for _, p := range o.petitions {
		if p.who == who && p.by.Zero() && time.UnixMilli(p.fromMs).UTC().Format(time.DateOnly) == today {
			n++
		}
	}
	if n < 5 {
		return ""
	}
	next, _ := time.Parse(time.DateOnly, today)
	return fmt.Sprintf("403 quota_exceeded (limit=5, quota=join_requests, resets_at=%s, used=%d)", next.AddDate(0, 0, 1).Format("2006-01-02T15:04:05.000000Z"), n)
}

// wishToEnd usually ends a live request, and usually for one whom it concerns.
func wishToEnd(t *rapid.T, o *oracle) group.EndRequest {
	c := group.EndRequest{Request: actorstest.Named("no request"), By: o.someone(t), Inviter: rarely.Draw(t, "inviter")}
	all := o.petitions
	if open := o.open(); len(open) > 0 && rapid.Bool().Draw(t, "open") {
		all = open
	}
	if len(all) == 0 || seldom.Draw(t, "unknown") {
		return c
	}
	p := rapid.SampledFrom(all).Draw(t, "request")
	c.Request, c.Settled = p.id, p.asSettled()
	who := p.who
	if !p.by.Zero() && rapid.Bool().Draw(t, "by its inviter") {
		who = p.by
	}
	if often.Draw(t, "concerned") {
		c.By = caller(nameIn(who))
		if rarely.Draw(t, "unnamed") {
			c.By.Agent, c.Inviter = parley.AgentID{}, who == p.by
		}
	}
	return c
}

// asSettled returns what the lookup of a settled request finds, nil for a live one.
func (p *petition) asSettled() *group.Request {
	if p.live() {
		return nil
	}
	r := &group.Request{Id: p.id.Bytes(), Agent: p.who.Bytes(), Org: ownerIn(nameIn(p.who)).Bytes(), Status: group.Status(group.Status_value[p.status]), Reason: p.reason}
	if !p.by.Zero() {
		r.InvitedBy = p.by.Bytes()
	}
	if len(p.electors) > 0 {
		r.Mark = 1
	}
	return r
}

// insistent applies again and again for an agent that withdraws each time. It returns nil
// if there is none.
func (o *oracle) insistent(t *rapid.T, now time.Time) group.Command {
	if len(o.petitions) == 0 || !rapid.Bool().Draw(t, "insistent") {
		return nil
	}
	last := o.petitions[len(o.petitions)-1]
	votes := o.settings.policy == "majority" || o.settings.policy == "unanimity"
	switch {
	case !last.by.Zero() || !votes || o.keptFor(last.who) != nil || o.chairOf(last.who) != nil:
		return nil
	case last.live() && rapid.Bool().Draw(t, "withdraws"):
		return group.EndRequest{Request: last.id, By: caller(nameIn(last.who))}
	case last.status == "canceled":
		return group.Join{RequestID: o.nextID(now), Agent: last.who, Org: ownerIn(nameIn(last.who))}
	}
	return nil
}
