package group_test

import (
	"time"

	"parley"
	"parley/actors/actorstest"
	"parley/actors/group"
)

var taken, refused = actorstest.Taken, actorstest.Refused

func (o *oracle) found(c group.Found, now time.Time) actorstest.Verdict {
	if o.exists {
		return taken("again")
	}
	o.exists, o.createdMs = true, now.UnixMilli()
	o.settings = settings{c.ID, c.Org, c.Name, c.Description, c.Policy.String(), c.Public, c.Isolated, c.VoteHours}
	o.keep(c.Founder, nil, true)
	o.kept[0].admin = true
	return taken("founded")
}

func (o *oracle) change(c group.Change) actorstest.Verdict {
	switch {
	case o.admin(c.By) == nil:
		return refused("no admin", "403 not_admin")
	case c.Name != nil && *c.Name != o.settings.name:
		return refused("another name", "409 name_immutable")
	case c.Isolated != nil && *c.Isolated != o.settings.isolated:
		return refused("isolation", "409 isolated_immutable")
	}
	was := o.settings
	if c.Description != nil {
		o.settings.description = *c.Description
	}
	if c.Policy != nil {
		o.settings.policy = c.Policy.String()
	}
	if c.Public != nil {
		o.settings.public = *c.Public
	}
	if c.VoteHours != nil {
		o.settings.hours = *c.VoteHours
	}
	if o.settings == was {
		return taken("nothing new")
	}
	return taken("changed")
}

// inTime is the live petition of an agent; one whose time has passed expires.
func (o *oracle) inTime(who parley.AgentID, now time.Time) *petition {
	p := o.petitionOf(who)
	if p != nil && p.late(now) {
		o.settle(p, "expired", "", now)
		return nil
	}
	return p
}

// join goes through the rows of the table. // spec: Join request and membership
func (o *oracle) join(c group.Join, now time.Time) actorstest.Verdict {
	if o.chairOf(c.Agent) != nil {
		return refused("a member", "409 already_member")
	}
	if o.keptFor(c.Agent) != nil {
		return taken("being seated")
	}
	p, policy, because := o.inTime(c.Agent, now), o.settings.policy, ""
	switch {
	case p == nil && policy == "open":
		because = "open"
	case p == nil && policy == "closed":
		return refused("closed", "403 invitation_required")
	case p == nil:
		p := o.file(c.RequestID, c.Agent, "pending", now)
		p.word, p.consented = c.Message, true
		return taken("filed")
	case p.status == "invited":
		because = "accepted"
	case policy == "open":
		because = "open"
	case p.by.Zero():
		return taken("followed")
	default:
		p.consented = true
		if !p.approved() {
			return taken("consented")
		}
		because = "accepted"
	}
	if full := o.full(c.SeatLimit, 0); full != "" {
		return refused("full", full)
	}
	o.keep(c.Agent, p, true)
	return taken(because)
}

func (o *oracle) file(id parley.JoinRequestID, who parley.AgentID, status string, now time.Time) *petition {
	p := &petition{
		id: id, who: who, status: status, policy: o.settings.policy, fromMs: now.UnixMilli(),
		toMs: now.Add(7 * 24 * time.Hour).UnixMilli(), said: map[*chair]bool{},
	}
	if status == "pending" {
		p.electors, p.toMs = o.sitting(), now.Add(time.Duration(o.settings.hours)*time.Hour).UnixMilli()
	}
	o.petitions = append(o.petitions, p)
	return p
}

// invite: vouchers of a closed group admins; nominations any member. // contract: Groups
func (o *oracle) invite(c group.Invite, now time.Time) actorstest.Verdict {
	by := o.admin(c.By)
	if by == nil {
		acting := o.acting(c.By)
		if len(acting) == 0 {
			return refused("no member", "403 not_member")
		}
		if o.settings.policy == "closed" {
			return refused("no admin", "403 not_admin")
		}
		by = acting[0]
	}
	switch {
	case !c.Known:
		return refused("nobody", "404 not_found")
	case c.Revoked:
		return refused("revoked", "410 gone")
	case o.chairOf(c.Agent) != nil:
		return refused("a member", "409 already_member")
	case o.keptFor(c.Agent) != nil || o.inTime(c.Agent, now) != nil:
		return refused("asked already", "409 already_invited")
	case c.Confined:
		return refused("confined", "409 isolation_conflict")
	case o.full(c.SeatLimit, 0) != "":
		return refused("full", o.full(c.SeatLimit, 0))
	}
	if policy := o.settings.policy; c.Founding || policy == "closed" {
		p := o.file(c.RequestID, c.Agent, "invited", now)
		p.by, p.word = by.who, c.Message
		return taken("invited")
	} else if policy == "open" {
		return taken("not required")
	}
	p := o.file(c.RequestID, c.Agent, "pending", now)
	p.by, p.word, p.said[by] = by.who, c.Message, true
	return taken("nominated")
}

// vote: an elector's vote counts while the request is pending and in time.
func (o *oracle) vote(c group.CastVote, now time.Time) actorstest.Verdict {
	var p *petition
	for _, live := range o.open() {
		if live.id == c.Request {
			p = live
		}
	}
	switch acting := o.acting(c.By); {
	case p != nil:
	case len(acting) == 0:
		return refused("no member", "403 not_in_electorate")
	case c.Settled:
		return refused("settled", "409 request_closed")
	default:
		return refused("no request", "404 not_found")
	}
	if p.status == "pending" && p.count().electors == 0 {
		return refused("nobody left", "403 electorate_empty")
	}
	var entitled []*chair
	for _, chair := range o.acting(c.By) {
		if p.status == "invited" || p.elector(chair.who) == chair {
			entitled = append(entitled, chair)
		}
	}
	switch {
	case len(entitled) == 0:
		return refused("no elector", "403 not_in_electorate")
	case len(entitled) > 1:
		return refused("several electors", tellAll(entitled))
	case p.status == "invited":
		return refused("an invitation", "409 request_closed")
	case p.late(now):
		return refused("late", "409 request_closed")
	case o.beingSeated(p):
		return refused("being seated", "409 request_closed")
	}
	if approve, said := p.said[entitled[0]]; said && approve == c.Approve {
		return taken("said before")
	}
	p.said[entitled[0]] = c.Approve
	return taken(o.judge(p, o.full(c.SeatLimit, 0) == "", now))
}

// answer is what the agent says of the seat that is kept for it.
func (o *oracle) answer(c group.Answer, now time.Time) actorstest.Verdict {
	var k *kept
	for _, waiting := range o.waiting() {
		if waiting.number == c.Offer {
			k = waiting
		}
	}
	if k == nil {
		return taken("no news")
	}
	p := k.for_
	if p != nil && !p.live() {
		p = nil
	}
	if o.over() {
		k.settled = true
		return taken("cannot come")
	}
	if c.Refusal != "" {
		k.settled = true
		because := "cannot come"
		switch {
		case p == nil:
		case !k.byAsker:
			o.settle(p, "canceled", c.Refusal, now)
			because = "approved, cannot come"
		case p.late(now):
			o.settle(p, "expired", "", now)
		}
		if len(o.sitting()) == 0 && len(o.waiting()) == 0 {
			o.end(parley.AgentID{}, now)
			because = "the founder cannot come"
		}
		return taken(because)
	}
	chair := o.sit(k, now)
	if p != nil {
		o.settle(p, map[string]string{"pending": "approved", "invited": "accepted"}[p.status], "", now)
	}
	if k.number == 1 && o.settings.name == crowded {
		o.crowd(now)
	}
	if o.admins() == 0 {
		chair.admin = true
	}
	return taken("seated")
}

func (o *oracle) remove(c group.Remove, now time.Time) actorstest.Verdict {
	going, how, by := o.chairOf(c.Agent), "left", parley.AgentID{}
	if c.By.Agent != c.Agent {
		admin := o.admin(c.By)
		if admin == nil {
			return refused("no admin", "403 not_admin")
		}
		how, by = "kicked", admin.who
	}
	switch {
	case going == nil:
		return refused("no member", "404 not_found")
	case going.admin && o.admins() == 1:
		return refused("the last admin", "422 last_admin")
	}
	o.depart(going, how, by, c.SeatLimit, now)
	return taken(how)
}

// depart empties a chair: its electorates are counted anew.
func (o *oracle) depart(going *chair, how string, by parley.AgentID, limit *int, now time.Time) {
	going.left = true
	o.left = leaving{going.number, how, nameOrNobody(by), now.UnixMilli()}
	for _, p := range o.open() {
		if p.status != "pending" || p.late(now) || o.beingSeated(p) {
			continue
		}
		for _, elector := range p.electors {
			if elector == going {
				o.judge(p, o.full(limit, 1) == "", now)
			}
		}
	}
}

// forget: was it the last admin, the longest-seated member of the owning
// organization follows, else the longest-seated. // contract: Groups
func (o *oracle) forget(c group.Forget, now time.Time) actorstest.Verdict {
	if o.over() {
		return taken("over")
	}
	because := "a stranger"
	if k := o.keptFor(c.Agent); k != nil {
		k.settled, because = true, "a candidate"
	}
	if p := o.petitionOf(c.Agent); p != nil {
		o.settle(p, "canceled", "revoked", now)
		because = "a candidate"
	}
	going, others := o.chairOf(c.Agent), o.sitting()
	if going != nil {
		because = "a member"
		others = nil
		for _, c := range o.sitting() {
			if c != going {
				others = append(others, c)
			}
		}
	}
	if len(others) == 0 && len(o.waiting()) == 0 {
		o.end(parley.AgentID{}, now) // requests end as they stood
		if going != nil {
			going.left = true
			o.left = leaving{going.number, "revoked", "nobody", now.UnixMilli()}
		}
		return taken("the last")
	}
	if going == nil {
		return taken(because)
	}
	if going.admin && o.admins() == 1 && len(others) > 0 {
		heir := others[0]
		for _, c := range others {
			if ownerIn(nameIn(c.who)) == o.settings.org {
				heir = c
				break
			}
		}
		heir.admin, because = true, "the last admin"
	}
	o.depart(going, "revoked", parley.AgentID{}, c.SeatLimit, now)
	return taken(because)
}

func (o *oracle) changeRole(c group.ChangeRole) actorstest.Verdict {
	chair, admin := o.chairOf(c.Agent), c.Role == group.Admin
	switch {
	case o.admin(c.By) == nil:
		return refused("no admin", "403 not_admin")
	case chair == nil:
		return refused("no member", "404 not_found")
	case chair.admin == admin:
		return taken("nothing new")
	case chair.admin && o.admins() == 1:
		return refused("the last admin", "422 last_admin")
	}
	chair.admin = admin
	return taken("changed")
}

func (o *oracle) expire(now time.Time) actorstest.Verdict {
	because := "none is late"
	for _, p := range o.open() {
		if p.late(now) && !o.beingSeated(p) {
			o.settle(p, "expired", "", now)
			because = "expired"
		}
	}
	return taken(because)
}
