package group_test

import (
	"fmt"
	"strings"
	"time"

	"parley/actors/actorstest"
	"parley/actors/group"
	"parley/client/parley"
)

// The oracle has its own words, so that it copies nothing from the rules: chair = seat,
// petition = join request, kept = offer.

// chair is a place in the group that is or was taken. A chair is never taken again,
// neither by another agent nor by the same one.
type chair struct {
	number, by uint32
	who        parley.AgentID
	admin      bool
	sinceMs    int64
	left       bool
	// leaf: the agent has one in the MLS group, or left one behind.
	leaf bool
	// leftAs counts departures: the first is 1.
	leftAs int
}

// petition is a join request with the list of its electors and their votes.
type petition struct {
	id                   parley.JoinRequestID
	who, by              parley.AgentID
	status, policy, word string
	consented            bool
	fromMs, toMs, endMs  int64
	electors             []*chair
	said                 map[*chair]bool
	reason               string
	// counted is the count at the time the vote ended.
	counted *count
}

// count is the state of a vote.
type count struct{ total, electors, approvals, denials int }

// kept is a seat reserved for an agent.
type kept struct {
	number         uint32
	who            parley.AgentID
	admin, byAsker bool
	for_           *petition
	settled        bool
	chair          *chair
	declined       string
}

// oracle is a group as the specification describes it.
type oracle struct {
	exists              bool
	settings            settings
	chairs              []*chair
	petitions           []*petition
	kept                []*kept
	ended               []settled
	left                leaving
	closed              string
	createdMs, closedMs int64
	convened            convening
	declined            []*kept
	sealed              sealing
	departures          int
}

func (o *oracle) sitting() (all []*chair) {
	for _, c := range o.chairs {
		if !c.left {
			all = append(all, c)
		}
	}
	return all
}

func (o *oracle) chairOf(who parley.AgentID) *chair {
	for _, c := range o.sitting() {
		if c.who == who {
			return c
		}
	}
	return nil
}

func (o *oracle) waiting() (all []*kept) {
	for _, k := range o.kept {
		if !k.settled {
			all = append(all, k)
		}
	}
	return all
}

func (o *oracle) keptFor(who parley.AgentID) *kept {
	for _, k := range o.waiting() {
		if k.who == who {
			return k
		}
	}
	return nil
}

func (p *petition) live() bool { return p.status == "pending" || p.status == "invited" }

func (o *oracle) open() (all []*petition) {
	for _, p := range o.petitions {
		if p.live() {
			all = append(all, p)
		}
	}
	return all
}

func (o *oracle) petitionOf(who parley.AgentID) *petition {
	for _, p := range o.open() {
		if p.who == who {
			return p
		}
	}
	return nil
}

// beingSeated reports whether a seat is reserved because of the petition.
func (o *oracle) beingSeated(p *petition) bool {
	for _, k := range o.waiting() {
		if k.for_ == p {
			return true
		}
	}
	return false
}

func (o *oracle) admins() (n int) {
	for _, c := range o.sitting() {
		if c.admin {
			n++
		}
	}
	return n
}

// count counts the electors that are still members.
func (p *petition) count() count {
	if p.counted != nil {
		return *p.counted
	}
	n := count{total: len(p.electors)}
	for _, c := range p.electors {
		if c.left {
			continue
		}
		n.electors++
		if approve, said := p.said[c]; said && approve {
			n.approvals++
		} else if said {
			n.denials++
		}
	}
	return n
}

// carries: majority: approvals > half of electorate; unanimity: all approve.
// // spec: Join request and membership
func carries(policy string, approvals, electors int) bool {
	if policy == "unanimity" {
		return approvals >= electors
	}
	return 2*approvals > electors
}

// fails: majority: denials >= half of electorate; unanimity: first denial.
func fails(policy string, denials, electors int) bool {
	if policy == "unanimity" {
		return denials >= 1
	}
	return 2*denials >= electors
}

// fewest returns the least number of votes that is enough.
func fewest(enough func(policy string, votes, electors int) bool, policy string, electors int) int {
	votes := 0
	for !enough(policy, votes, electors) {
		votes++
	}
	return votes
}

func (p *petition) approved() bool {
	n := p.count()
	return n.electors > 0 && carries(p.policy, n.approvals, n.electors)
}

func (p *petition) denied() bool {
	n := p.count()
	return n.electors > 0 && fails(p.policy, n.denials, n.electors)
}

// elector returns the chair from which an agent votes on p.
func (p *petition) elector(who parley.AgentID) *chair {
	for _, c := range p.electors {
		if c.who == who && !c.left {
			return c
		}
	}
	return nil
}

// returned returns an elector that left and now has another chair, preferably the
// nominator; nil for none.
func (o *oracle) returned(p *petition) (back *chair) {
	for _, c := range p.electors {
		if again := o.chairOf(c.who); c.left && again != nil && (back == nil || c.who == p.by) {
			back = again
		}
	}
	return back
}

func (p *petition) late(now time.Time) bool { return now.UnixMilli() >= p.toMs }

func (o *oracle) settle(p *petition, status, reason string, now time.Time) {
	n := p.count()
	p.counted, p.status, p.reason, p.endMs = &n, status, reason, now.UnixMilli()
	o.ended = append(o.ended, settled{p.id, p.who, status, reason, p.endMs, n})
}

// judge settles p if the votes suffice.
func (o *oracle) judge(p *petition, room bool, now time.Time) string {
	switch {
	case p.denied():
		o.settle(p, "denied", "", now)
		return "denied"
	case !p.approved():
		return "counted"
	case !p.consented:
		n := p.count()
		p.counted, p.status, p.toMs = &n, "invited", now.Add(7*24*time.Hour).UnixMilli()
		return "approved"
	case !room:
		o.settle(p, "canceled", "group_full", now)
		return "approved, no room"
	}
	o.keep(p.who, p, false)
	return "approved"
}

func (o *oracle) keep(who parley.AgentID, p *petition, byAsker bool) {
	o.kept = append(o.kept, &kept{number: uint32(len(o.kept) + 1), who: who, for_: p, byAsker: byAsker})
}

func (o *oracle) sit(k *kept, now time.Time) *chair {
	c := &chair{number: uint32(len(o.chairs) + 1), by: k.number, who: k.who, admin: k.admin, sinceMs: now.UnixMilli()}
	o.chairs = append(o.chairs, c)
	k.settled, k.chair = true, c
	return c
}

// decline gives up a reserved seat. The last 64 reasons are remembered.
func (o *oracle) decline(k *kept, because string) {
	k.settled, k.declined = true, because
	if o.declined = append(o.declined, k); len(o.declined) > 64 {
		o.declined[len(o.declined)-65].declined = ""
	}
}

// full returns the refusal of a full group, "" if there is room for one more besides
// the members and the reserved seats.
func (o *oracle) full(limit *int) string {
	used := len(o.sitting()) + len(o.waiting())
	if limit == nil || used < *limit {
		return ""
	}
	return fmt.Sprintf("403 quota_exceeded (limit=%d, quota=group_members, resets_at=<nil>, used=%d)", *limit, used)
}

// cancel ends a petition; its status is expired if it had expired before.
func (o *oracle) cancel(p *petition, reason string, now time.Time) {
	if p.late(now) && !o.beingSeated(p) {
		o.settle(p, "expired", "", now)
		return
	}
	o.settle(p, "canceled", reason, now)
}

// end settles all open requests.
func (o *oracle) end(by parley.AgentID, now time.Time) {
	for _, p := range o.open() {
		o.cancel(p, "group_deleted", now)
	}
	o.closed, o.closedMs = nameOrNobody(by), now.UnixMilli()
}

func (o *oracle) over() bool { return o.closed != "" }

func nameOrNobody(id parley.AgentID) string {
	if id.Zero() {
		return "nobody"
	}
	return nameIn(id)
}

// largeGroup is the name of a group that gets five more members when its founder joins.
const largeGroup = "large"

var moreMembers = []string{"abe", "bea", "ben", "cat", "amy"}

// crowding adds these members.
func crowding(s *group.State, e group.Event) {
	group.Evolve(s, e)
	seated, ok := e.(*group.Seated)
	if !ok || seated.GetOffer() != 1 || s.Name != largeGroup && s.Name != sealedGroup {
		return
	}
	for _, name := range moreMembers {
		if _, member := s.Member(idIn(name)); member || s.OfferTo(idIn(name)) != nil || s.RequestOf(idIn(name)) != nil {
			continue
		}
		group.Evolve(s, &group.Offered{Offer: &group.Offer{
			Number: s.LastOffer + 1, Agent: idBytes(name), Org: ownerIn(name).Bytes(), Role: group.RoleMember,
		}})
		group.Evolve(s, &group.Seated{Offer: s.LastOffer, Seat: s.LastSeat + 1, AtMs: seated.GetAtMs()})
	}
}

func (o *oracle) seatMore(now time.Time) {
	for _, name := range moreMembers {
		if who := idIn(name); o.chairOf(who) == nil && o.keptFor(who) == nil && o.petitionOf(who) == nil {
			o.keep(who, nil, false)
			o.sit(o.kept[len(o.kept)-1], now)
		}
	}
}

// ids are the agents' ids, computed once because names are hashed.
var ids, named, owners = func() (map[string]parley.AgentID, map[parley.AgentID]string, map[string]parley.OrgID) {
	ids, named, owners := map[string]parley.AgentID{}, map[parley.AgentID]string{}, map[string]parley.OrgID{}
	for _, name := range agentNames {
		ids[name], named[agent(name)], owners[name[:1]] = agent(name), name, owner(name)
	}
	return ids, named, owners
}()

func idIn(name string) parley.AgentID  { return ids[name] }
func idBytes(name string) []byte       { return ids[name].Bytes() }
func nameIn(id parley.AgentID) string  { return named[id] }
func ownerIn(name string) parley.OrgID { return owners[name[:1]] }

// acting lists the chairs from which a caller may act: that of the named agent, or
// those of its organization, oldest first.
func (o *oracle) acting(by group.Caller) (all []*chair) {
	for _, c := range o.sitting() {
		if c.who == by.Agent || by.Agent.Zero() && ownerIn(nameIn(c.who)) == by.Org {
			all = append(all, c)
		}
	}
	return all
}

func (o *oracle) admin(by group.Caller) *chair {
	for _, c := range o.acting(by) {
		if c.admin {
			return c
		}
	}
	return nil
}

func (o *oracle) Predict(c group.Command, now time.Time) actorstest.Verdict {
	switch c := c.(type) {
	case group.Found:
		return o.found(c, now)
	case group.Commit:
		if c.Repeated {
			return actorstest.Refused("made before", group.ErrCommitRepeated.Error())
		}
	case group.Send:
		if c.Prior != nil && c.Prior.Type == c.Type {
			return actorstest.Refused("made before", group.ErrRepeated.Error())
		} else if c.Prior != nil {
			return actorstest.Refused("another under the key", "409 idempotency_mismatch")
		}
	}
	if !o.exists {
		return actorstest.Refused("no group", "404 not_found")
	}
	switch c := c.(type) {
	case group.Answer:
		return o.answer(c, now)
	case group.Forget:
		return o.forget(c, now)
	case group.Expire:
		return o.expire(now)
	}
	del, deletes := c.(group.Delete)
	switch {
	case o.over() && deletes && (o.admin(del.By) != nil || o.admins() == 0 && del.By.Org == o.settings.org):
		return actorstest.Accepted("ended before")
	case o.over():
		return actorstest.Refused("over", "410 gone")
	case len(o.chairs) == 0: // the founder has not joined yet
		return actorstest.Refused("no group", "404 not_found")
	}
	if v := o.standsStill(c); v != (actorstest.Verdict{}) {
		return v
	}
	switch c := c.(type) {
	case group.Appoint:
		return o.appoint(c, now)
	case group.Change:
		return o.change(c)
	case group.Join:
		return o.join(c, now)
	case group.Invite:
		return o.invite(c, now)
	case group.CastVote:
		return o.vote(c, now)
	case group.EndRequest:
		return o.endRequest(c, now)
	case group.Remove:
		return o.remove(c, now)
	case group.ChangeRole:
		return o.changeRole(c)
	case group.Send:
		return o.send(c, now)
	case group.Commit:
		return o.commit(c, now)
	case group.Delete:
		return o.delete(c, now)
	}
	panic("no such command")
}

func (o *oracle) delete(c group.Delete, now time.Time) actorstest.Verdict {
	by := o.admin(c.By)
	switch {
	case by != nil:
		o.end(by.who, now)
	case o.frozen() && c.By.Org == o.settings.org:
		o.end(c.By.Agent, now)
		return actorstest.Accepted("ended by the owner")
	default:
		return actorstest.Refused("no admin", "403 not_admin")
	}
	return actorstest.Accepted("ended")
}

// tellAll renders the candidates as an ambiguous caller receives them.
func tellAll(chairs []*chair) string {
	words := make([]string, 0, len(chairs))
	for _, c := range chairs {
		words = append(words, c.who.String())
	}
	return "400 agent_required (candidates=[" + strings.Join(words, " ") + "])"
}
