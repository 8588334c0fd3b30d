package group_test

import (
	"time"

	"pgregory.net/rapid"

	"parley/actors/group"
)

// ways lead lives to where chance alone seldom leads them.
func (o *oracle) ways() []func(*rapid.T, time.Time) group.Command {
	return []func(*rapid.T, time.Time) group.Command{o.extremes, o.fewer, o.brink, o.wayBack}
}

// extremes leads a nomination on that met its bar with the nominator's own vote,
// and one whose nominee is still silent; and lets somebody vote where no elector
// is left. Nil where nothing leads there now.
func (o *oracle) extremes(t *rapid.T, now time.Time) group.Command {
	for _, p := range o.open() {
		switch nominee := !p.by.Zero() && !p.consented; {
		case p.status != "pending" || p.late(now) || o.keptFor(p.who) != nil:
		case p.count().electors == 0 && rapid.Bool().Draw(t, "nobody left"):
			return group.CastVote{Request: p.id, By: o.someone(t), Approve: true}
		case p.approved() && nominee && often.Draw(t, "once more"):
			return group.CastVote{Request: p.id, By: caller(nameIn(p.by)), Approve: true, SeatLimit: o.limit(t)}
		case nominee && rarely.Draw(t, "consent"):
			return group.Join{RequestID: o.nextID(now), Agent: p.who, Org: ownerIn(nameIn(p.who))}
		}
	}
	return nil
}

// fewer leads an elector out of a full group whose departure lets an applicant in.
// Nil where there is none.
func (o *oracle) fewer(t *rapid.T, _ time.Time) group.Command {
	for _, p := range o.open() {
		n, full := p.count(), len(o.sitting())+len(o.waiting())
		if p.status != "pending" || !p.consented || o.keptFor(p.who) != nil || n.approvals == 0 || !rarely.Draw(t, "fewer") {
			continue
		}
		for _, c := range p.electors {
			if _, said := p.said[c]; !c.left && !c.admin && !said && carries(p.policy, n.approvals, n.electors-1) {
				return group.Remove{Agent: c.who, By: caller(nameIn(c.who)), SeatLimit: &full}
			}
		}
	}
	return nil
}

// wayBack leads an elector who left into the group again, where it has no vote on
// what it was an elector of. Nil where nothing leads there now.
func (o *oracle) wayBack(t *rapid.T, now time.Time) group.Command {
	for _, p := range o.open() {
		for _, c := range p.electors {
			if p.status != "pending" || p.late(now) || !c.left || o.chairOf(c.who) != nil || !rarely.Draw(t, "back") {
				continue
			}
			name := nameIn(c.who)
			by, own, k := o.admin(group.Caller{Org: o.settings.org}), o.petitionOf(c.who), o.keptFor(c.who)
			switch {
			case k != nil:
				return group.Answer{Offer: k.number}
			case own != nil:
				return group.Join{RequestID: o.nextID(now), Agent: c.who, Org: ownerIn(name)}
			case by != nil:
				return group.Invite{
					RequestID: o.nextID(now), By: caller(nameIn(by.who)), Agent: c.who, Org: ownerIn(name), Known: true, Founding: true,
				}
			}
		}
	}
	return nil
}

// brink leads to where bars fall while a seat is kept: somebody whom a few have
// denied joins a group that has become open, electors leave, and the seat is
// given back. Nil where nothing leads there now.
func (o *oracle) brink(t *rapid.T, now time.Time) group.Command {
	for _, p := range o.open() {
		k := o.keptFor(p.who)
		leads := p.status == "pending" && (p.count().denials > 0 || !p.consented) && !p.late(now) && (k == nil || k.byAsker)
		switch {
		case !leads:
		case k == nil && o.settings.policy != "open":
			if by := o.admin(group.Caller{Org: o.settings.org}); by != nil && rarely.Draw(t, "to be open") {
				policy := group.Open
				return group.Change{By: caller(nameIn(by.who)), Policy: &policy}
			}
		case !rapid.Bool().Draw(t, "on the brink"):
		case k == nil:
			return group.Join{RequestID: o.nextID(now), Agent: p.who, Org: ownerIn(nameIn(p.who))}
		case p.denied():
			return group.Answer{Offer: k.number, Refusal: group.ReasonIsolation}
		default:
			for _, c := range p.electors {
				if approve, said := p.said[c]; !c.left && !c.admin && (approve || !said) {
					return group.Remove{Agent: c.who, By: caller(nameIn(c.who))}
				}
			}
		}
	}
	return nil
}
