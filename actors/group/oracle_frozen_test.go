package group_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/group"
	"parley/client/parley"
)

// coldGroup is the name of a group that is often frozen.
const coldGroup = "cold"

// frozen: members of other organizations are left, and nobody is their admin.
func (o *oracle) frozen() bool { return len(o.chairs) > 0 && !o.over() && o.admins() == 0 }

func (o *oracle) owners(who parley.AgentID) bool { return ownerIn(nameIn(who)) == o.settings.org }

// standsStill returns the refusal of what is not done in a frozen group, the zero verdict for
// what goes on. Who has no part in the group is refused as ever.
func (o *oracle) standsStill(c group.Command) (none actorstest.Verdict) {
	if !o.frozen() {
		return none
	}
	var by group.Caller
	switch c := c.(type) {
	case group.Join:
		return refused("frozen", "409 frozen")
	case group.Change:
		by = c.By
	case group.ChangeRole:
		by = c.By
	case group.Invite:
		by = c.By
	case group.CastVote:
		by = c.By
	case group.Remove:
		if c.Agent == c.By.Agent {
			return none
		}
		by = c.By
	default:
		return none
	}
	if !o.maySeeMembers(by) {
		return none
	}
	return refused("frozen", "409 frozen")
}

// appoint: the owner, and nobody else, gives a group an admin, if it has none of the owner's.
func (o *oracle) appoint(c group.Appoint, now time.Time) actorstest.Verdict {
	chair, k := o.chairOf(c.Agent), o.keptFor(c.Agent)
	switch {
	case c.By.Org != o.settings.org:
		return refused("not the owner", "403 not_owner")
	case len(o.adminsOf(o.settings.org)) > 0:
		return refused("an admin of the owner", "409 invalid_transition")
	case slices.ContainsFunc(o.waiting(), func(k *kept) bool { return k.admin && k.who != c.Agent }):
		return refused("another to be seated", "409 invalid_transition")
	case !c.Known:
		return refused("nobody", "404 not_found")
	case chair == nil && !o.owners(c.Agent):
		return refused("no member", "404 not_found")
	case c.Revoked:
		return refused("revoked", "410 gone")
	case chair != nil && chair.admin:
		return taken("an admin already")
	case chair != nil:
		chair.admin = true
		return taken("a member")
	}
	p := o.inTime(c.Agent, now)
	switch {
	case k != nil && !k.admin && o.admins() > 0:
		return refused("will be a member", "409 already_invited")
	case k != nil:
		return taken("will be an admin")
	case c.Confined:
		return refused("confined", "409 isolation_conflict")
	case o.full(c.SeatLimit) != "":
		return refused("full", o.full(c.SeatLimit))
	}
	o.keep(c.Agent, p, true)
	o.kept[len(o.kept)-1].admin = true
	return taken("to be seated")
}

// wishToAppoint mostly makes an agent admin that may become one.
func (o *oracle) wishToAppoint(t *rapid.T) group.Appoint {
	who := idIn(rapid.SampledFrom(agentNames[:4]).Draw(t, "of the owner"))
	if sitting := o.sitting(); len(sitting) > 0 && rarely.Draw(t, "a member") {
		who = rapid.SampledFrom(sitting).Draw(t, "who").who
	}
	for _, k := range o.waiting() {
		if o.owners(k.who) && rapid.Bool().Draw(t, "on the way") {
			who = k.who
		}
	}
	if seldom.Draw(t, "anybody") {
		who = idIn(anybody.Draw(t, "who"))
	}
	c := group.Appoint{
		Agent: who, By: caller(rapid.SampledFrom([]string{"ada", "org:a"}).Draw(t, "by")), Org: ownerIn(nameIn(who)),
		Known: !seldom.Draw(t, "unknown"), Revoked: seldom.Draw(t, "revoked"), Confined: seldom.Draw(t, "confined"), SeatLimit: o.limit(t),
	}
	if rarely.Draw(t, "by others") {
		c.By = o.someone(t)
	}
	return c
}

// winter revokes the owner's agents in a group, and gives it admins again. It returns nil at
// most times.
func (o *oracle) winter(t *rapid.T, _ time.Time) group.Command {
	var own, others []*chair
	for _, c := range o.sitting() {
		if o.owners(c.who) {
			own = append(own, c)
		} else {
			others = append(others, c)
		}
	}
	colder := o.settings.name == coldGroup || len(o.chairs) > 0 && o.chairs[0].left
	readers := o.readers()
	switch {
	case o.frozen() && seldom.Draw(t, "delete"):
		return group.Delete{By: caller(rapid.SampledFrom([]string{"ada", "org:a"}).Draw(t, "by"))}
	case o.frozen() && o.sealed.epoch > 0 && len(readers) > 0 && len(others) > 0 && rarely.Draw(t, "removal"):
		return group.Commit{By: readers[0].who, Epoch: o.sealed.epoch, Suite: o.sealed.suite, Removed: []parley.AgentID{others[len(others)-1].who}}
	case len(o.sitting()) > 0 && len(o.adminsOf(o.settings.org)) == 0:
		if rarely.Draw(t, "appoint") {
			return o.wishToAppoint(t)
		}
	case len(own) == 0 || len(others) == 0:
	case colder && rarely.Draw(t, "colder"), o.sealed.epoch > 0 && seldom.Draw(t, "cold"), seldom.Draw(t, "cold") && rarely.Draw(t, "and colder"):
		return group.Forget{Agent: own[len(own)-1].who, SeatLimit: o.limit(t)}
	}
	return nil
}

const frozenCases = `
	Appoint: a member
	Appoint: an admin already
	Appoint: an admin of the owner
	Appoint: another to be seated
	Appoint: confined
	Appoint: full
	Appoint: no group
	Appoint: no member
	Appoint: nobody
	Appoint: not the owner
	Appoint: over
	Appoint: revoked
	Appoint: to be seated
	Appoint: will be a member
	Appoint: will be an admin
	CastVote: frozen
	Change: frozen
	ChangeRole: frozen
	Commit: frozen
	Delete: ended before
	Delete: ended by the owner
	Forget: the last admin, and nobody follows
	Invite: frozen
	Join: frozen
	Remove: frozen
	Remove: the last one left
`

func TestOracleFrozenControl(t *testing.T) { trial.Finds(t, winterGoneWrong) }

// thawed returns a state in which a member of another organization is an admin.
func thawed(p *group.Snapshot) {
	for _, m := range p.GetSeats() {
		if m.GetRole() == group.Admin {
			return
		}
	}
	if len(p.GetSeats()) > 0 {
		p.GetSeats()[0].Role = group.Admin
	}
}

var winterGoneWrong = map[string]func(*groupRules){
	"anyone follows": telling[group.Forget](func(s *group.State, events []group.Event) []group.Event {
		for _, e := range events {
			left, gone := e.(*group.Left)
			if next := s.MembersFrom(0); gone && len(events) == 1 && len(next) > 1 && next[0].Seat == left.GetSeat() && next[0].Role == group.Admin {
				return append(events, &group.RoleChanged{Seat: next[1].Seat, Role: group.Admin, AtMs: left.GetAtMs()})
			}
		}
		return events
	}),
	"a frozen group takes members":  seeing(func(p *group.Snapshot, _ group.Join) { thawed(p) }),
	"a frozen group invites":        seeing(func(p *group.Snapshot, _ group.Invite) { thawed(p) }),
	"a frozen group votes":          seeing(func(p *group.Snapshot, _ group.CastVote) { thawed(p) }),
	"departures settle requests":    seeing(func(p *group.Snapshot, _ group.Remove) { thawed(p) }),
	"answers settle requests":       seeing(func(p *group.Snapshot, _ group.Answer) { thawed(p) }),
	"nobody of the owner deletes":   seeing(func(p *group.Snapshot, _ group.Delete) { thawed(p) }),
	"members appoint":               askingFor(func(s *group.State, c *group.Appoint) { c.By.Org = s.Org }),
	"a foreigner is appointed":      askingFor(func(s *group.State, c *group.Appoint) { c.Org = s.Org }),
	"appointed, and a plain member": telling[group.Appoint](asMember),
	"appointed beside an admin of the owner": deciding(func(s *group.State, c group.Appoint, now time.Time) ([]group.Event, error) {
		return group.Decide(reshaped(s, func(p *group.Snapshot) {
			for _, m := range p.GetSeats() {
				if string(m.GetAgent()) != string(c.Agent.Bytes()) {
					m.Role = group.RoleMember
				}
			}
		}), c, now)
	}),
	"nobody left, and yet a group": telling[group.Remove](without[*group.Deleted]),
}

// asMember alters an offer of an admin's seat.
func asMember(_ *group.State, events []group.Event) []group.Event {
	for _, e := range events {
		if offered, ok := e.(*group.Offered); ok {
			offered.GetOffer().Role = group.RoleMember
		}
	}
	return events
}
