package group_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/actors/actorstest"
	"parley/actors/group"
	"parley/client/parley"
)

var taken, refused = actorstest.Accepted, actorstest.Refused

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

// inTime returns an agent's live petition, after expiring it if its time has passed.
func (o *oracle) inTime(who parley.AgentID, now time.Time) *petition {
	p := o.petitionOf(who)
	if p != nil && p.late(now) {
		o.settle(p, "expired", "", now)
		return nil
	}
	return p
}

// join follows the rows of the table. // spec: Join request and membership
func (o *oracle) join(c group.Join, now time.Time) actorstest.Verdict {
	if o.chairOf(c.Agent) != nil {
		return refused("a member", "409 already_member")
	}
	if o.keptFor(c.Agent) != nil {
		return taken("being seated")
	}
	p, policy, because := o.inTime(c.Agent, now), o.settings.policy, ""
	switch {
	case p == nil && policy == "closed":
		return refused("closed", "403 invitation_required")
	case c.Confined:
		return refused("confined", "409 isolation_conflict")
	case p == nil && policy == "open":
		because = "open"
	case p == nil:
		if often := o.filedOften(c.Agent, now); often != "" {
			return refused("filed often", often)
		}
		if many := o.tooMany(c.Queue, c.Org, now); many != "" {
			return refused("too many", many)
		}
		p := o.file(c.RequestID, c.Agent, "pending", now)
		if p.consented = true; !o.settings.isolated { // outsiders send nothing into it
			p.word = c.Message
		}
		return taken("filed")
	case p.status == "invited":
		because = "accepted"
	default:
		p.consented = true
		switch {
		case policy == "open":
			because = "open after all"
		case p.approved():
			because = "accepted"
		case p.by.Zero():
			return taken("followed")
		default:
			return taken("consented")
		}
	}
	if full := o.full(c.SeatLimit); full != "" {
		return refused("full", full)
	}
	o.keep(c.Agent, p, true)
	return taken(because)
}

// tooMany returns why no further request may wait for votes, "" if one may. The number
// is bounded per group, and per applying organization.
func (o *oracle) tooMany(q group.Queue, of parley.OrgID, now time.Time) string {
	all, own := 0, 0
	for _, p := range o.petitions {
		if p.status != "pending" || p.late(now) && !o.beingSeated(p) {
			continue
		}
		all++
		if p.by.Zero() && ownerIn(nameIn(p.who)) == of {
			own++
		}
	}
	switch {
	case q.Org > 0 && own >= q.Org:
		return fmt.Sprintf("403 quota_exceeded (limit=%d, quota=join_requests, resets_at=<nil>, used=%d)", q.Org, own)
	case q.Group > 0 && all >= q.Group:
		return fmt.Sprintf("403 quota_exceeded (limit=%d, quota=join_requests, resets_at=<nil>, used=%d)", q.Group, all)
	}
	return ""
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

// invite: in a closed group admins issue vouchers; otherwise any member can nominate.
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
	case o.full(c.SeatLimit) != "":
		return refused("full", o.full(c.SeatLimit))
	}
	word := c.Message
	if o.settings.isolated { // nothing is sent to outsiders
		word = ""
	}
	if policy := o.settings.policy; c.Founding || policy == "closed" {
		p := o.file(c.RequestID, c.Agent, "invited", now)
		p.by, p.word = by.who, word
		return taken("invited")
	} else if policy == "open" {
		return taken("not required")
	}
	if many := o.tooMany(c.Queue, parley.OrgID{}, now); many != "" {
		return refused("too many", many)
	}
	p := o.file(c.RequestID, c.Agent, "pending", now)
	p.by, p.word, p.said[by] = by.who, word, true
	return taken("nominated")
}

// vote: an elector's vote counts while the request is pending and has not expired.
func (o *oracle) vote(c group.CastVote, now time.Time) actorstest.Verdict {
	var p *petition
	for _, live := range o.open() {
		if live.id == c.Request {
			p = live
		}
	}
	late := p != nil && p.late(now) && !o.beingSeated(p)
	switch acting := o.acting(c.By); {
	case p != nil && !late:
	case len(acting) == 0:
		return refused("no member", "403 not_in_electorate")
	case late:
		return refused("late", "409 request_closed")
	case c.Settled:
		return refused("settled", "409 request_closed")
	default:
		return refused("no request", "404 not_found")
	}
	if p.status == "pending" && p.count().electors == 0 {
		if len(o.acting(c.By)) == 0 && !c.Former {
			return refused("nobody left", "403 not_in_electorate")
		}
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
	case o.beingSeated(p):
		return refused("being seated", "409 request_closed")
	}
	approve, said := p.said[entitled[0]]
	p.said[entitled[0]] = c.Approve
	outcome := o.judge(p, o.full(c.SeatLimit) == "", now)
	switch {
	case !said || approve != c.Approve:
		return taken(outcome)
	case outcome == "counted":
		return taken("said before")
	}
	return taken("said before, judged now")
}

// answer applies the agent's answer to the seat reserved for it.
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
		o.decline(k, "group_deleted")
		return taken("too late")
	}
	if c.Refusal != "" {
		o.decline(k, c.Refusal)
		because := "cannot come"
		switch {
		case p == nil:
		case !k.byAsker:
			o.settle(p, "canceled", c.Refusal, now)
			because = "approved, cannot come"
		case p.late(now):
			o.settle(p, "expired", "", now)
			because = "cannot come, expired"
		case p.status == "pending" && p.denied() && !o.frozen():
			o.settle(p, "denied", "", now)
			because = "cannot come, denied"
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
	if k.number == 1 && (o.settings.name == largeGroup || o.settings.name == sealedGroup) {
		o.seatMore(now)
	}
	if o.admins() == 0 && o.owners(chair.who) {
		chair.admin = true
	}
	return taken("seated")
}

func (o *oracle) remove(c group.Remove, now time.Time) actorstest.Verdict {
	going, how, by := o.chairOf(c.Agent), "left", parley.AgentID{}
	if c.By.Agent != c.Agent {
		admin := o.admin(c.By)
		committed := going == nil && o.sealed.epoch > 0 && c.CommittedMs > 0 && now.UnixMilli()-c.CommittedMs < 24*3_600_000
		switch {
		case going == nil && !committed && o.maySeeMembers(c.By):
			return refused("no member", "404 not_found")
		case admin == nil:
			return refused("no admin", "403 not_admin")
		case o.sealed.epoch > 0 && c.By.Agent.Zero():
			return refused("unnamed", strings.Replace(tellAll(o.adminsOf(c.By.Org)), "400", "409", 1))
		case committed:
			return taken("committed before")
		case o.sealed.epoch > 0:
			return refused("no commit", "409 mls_commit_required")
		}
		how, by = "kicked", admin.who
	}
	switch {
	case going == nil:
		return refused("no member to leave", "404 not_found")
	case going.admin && o.admins() == 1:
		return refused("the last admin", "422 last_admin")
	}
	if o.frozen() && len(o.sitting())+len(o.waiting()) == 1 {
		o.vacate(going)
		o.end(parley.AgentID{}, now) // requests end with the count as it is without it
		o.left = leaving{going.number, how, "nobody", now.UnixMilli()}
		return taken("the last one left")
	}
	o.depart(going, how, by, c.SeatLimit, now)
	return taken(how)
}

// depart vacates a chair. Votes in which it was an elector are counted again.
func (o *oracle) depart(going *chair, how string, by parley.AgentID, limit *int, now time.Time) {
	o.vacate(going)
	o.left = leaving{going.number, how, nameOrNobody(by), now.UnixMilli()}
	o.countAgain([]*chair{going}, limit, now)
}

// countAgain counts the votes in which one of the chairs was an elector. In a frozen group
// that settles nothing.
func (o *oracle) countAgain(gone []*chair, limit *int, now time.Time) {
	for _, p := range o.open() {
		if o.frozen() || p.status != "pending" || p.late(now) || o.beingSeated(p) {
			continue
		}
		if slices.ContainsFunc(p.electors, func(c *chair) bool { return slices.Contains(gone, c) }) {
			o.judge(p, o.full(limit) == "", now)
		}
	}
}

// forget removes a member. If it was the last admin, the longest-seated member of the
// owning organization becomes admin. Without one, the group is frozen.
func (o *oracle) forget(c group.Forget, now time.Time) actorstest.Verdict {
	if o.over() {
		return taken("over")
	}
	because := "a stranger"
	if p := o.petitionOf(c.Agent); p != nil {
		o.cancel(p, "revoked", now)
		because = "a candidate"
	}
	if k := o.keptFor(c.Agent); k != nil {
		o.decline(k, "revoked")
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
		if going != nil {
			o.vacate(going)
		}
		o.end(parley.AgentID{}, now) // requests end with the count as it is without it
		if going != nil {
			o.left = leaving{going.number, "revoked", "nobody", now.UnixMilli()}
		}
		return taken("the last")
	}
	if going == nil {
		return taken(because)
	}
	if going.admin && o.admins() == 1 {
		because = "the last admin, and nobody follows"
		for _, heir := range others {
			if o.owners(heir.who) {
				heir.admin, because = true, "the last admin"
				break
			}
		}
	}
	o.depart(going, "revoked", parley.AgentID{}, c.SeatLimit, now)
	return taken(because)
}

func (o *oracle) changeRole(c group.ChangeRole) actorstest.Verdict {
	chair, admin := o.chairOf(c.Agent), c.Role == group.Admin
	switch {
	case chair == nil && o.maySeeMembers(c.By):
		return refused("no member", "404 not_found")
	case o.admin(c.By) == nil:
		return refused("no admin", "403 not_admin")
	case chair.admin == admin:
		return taken("nothing new")
	case chair.admin && o.admins() == 1:
		return refused("the last admin", "422 last_admin")
	}
	chair.admin = admin
	return taken("changed")
}

// maySeeMembers: the member list is shown to the owning organization and to
// organizations with a seat. // spec: Groups
func (o *oracle) maySeeMembers(by group.Caller) bool {
	for _, c := range o.sitting() {
		if ownerIn(nameIn(c.who)) == by.Org {
			return true
		}
	}
	return by.Org == o.settings.org
}

// send: every member except the sender receives its own copy. A group has one
// conversation at a time; after a terminal one the next begins.
func (o *oracle) send(c group.Send, now time.Time) actorstest.Verdict {
	switch {
	case o.chairOf(c.From) == nil:
		return refused("no member", "403 not_member")
	case o.unsealed(c) != actorstest.Verdict{}:
		return o.unsealed(c)
	case len(o.readers()) == 1:
		return refused("nobody else", "422 no_recipients")
	case !o.convened.id.Zero() && !c.Over:
		return taken("sent")
	}
	because := map[bool]string{true: "the first", false: "the next conversation"}[o.convened.id.Zero()]
	o.convened = convening{c.Conversation, nameIn(c.From), now.UnixMilli()}
	return taken(because)
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
