package group_test

import (
	"time"

	"pgregory.net/rapid"

	"parley/actors/group"
)

// ways returns commands that lead a life into situations that chance alone rarely
// reaches.
func (o *oracle) ways() []func(*rapid.T, time.Time) group.Command {
	return []func(*rapid.T, time.Time) group.Command{o.extremes, o.fewer, o.brink, o.wayBack, o.deserted, o.fullQueue, o.handshake, o.insistent, o.winter}
}

// extremes returns the next command that continues a nomination approved by the
// nominator's own vote alone, or one whose nominee has not answered, or a vote on a
// request without electors. It returns nil if there is none.
func (o *oracle) extremes(t *rapid.T, now time.Time) group.Command {
	for _, p := range o.open() {
		switch nominee := !p.by.Zero() && !p.consented; {
		case p.status != "pending" || p.late(now) || o.keptFor(p.who) != nil:
		case p.count().electors == 0 && often.Draw(t, "nobody left"):
			c := group.CastVote{Request: p.id, By: o.someone(t), Approve: true, Former: rarely.Draw(t, "former")}
			if rapid.Bool().Draw(t, "outsider") {
				c.By = caller(o.outsider(t))
			}
			return c
		case p.approved() && nominee && often.Draw(t, "once more"):
			return group.CastVote{Request: p.id, By: caller(nameIn(p.by)), Approve: true, SeatLimit: o.limit(t)}
		case nominee && rarely.Draw(t, "consent"):
			return group.Join{RequestID: o.nextID(now), Agent: p.who, Org: ownerIn(nameIn(p.who))}
		}
	}
	return nil
}

// fewer makes an elector leave a full group if that departure admits an applicant. It
// returns nil if there is no such elector.
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

// wayBack lets an elector that left join again; it then has no vote on its earlier
// requests. It returns nil if there is nothing to do.
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

// brink lowers the thresholds of a vote while a seat is reserved: an applicant with a
// few denials joins a group that has become open, electors leave, and the seat is
// declined. It returns nil if there is nothing to do.
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

// deserted makes the last electors of a request leave while other members stay. It
// returns nil if there are none.
func (o *oracle) deserted(t *rapid.T, now time.Time) group.Command {
	for _, p := range o.open() {
		if n := p.count(); p.status != "pending" || p.late(now) || n.electors == 0 || n.electors > 2 || len(o.sitting()) <= n.electors || !rapid.Bool().Draw(t, "deserted") {
			continue
		}
		for _, c := range o.sitting() {
			switch elector := p.elector(c.who) == c; {
			case elector && (!c.admin || o.admins() > 1):
				return group.Remove{Agent: c.who, By: caller(nameIn(c.who))}
			case !elector && !c.admin:
				if by := o.admin(group.Caller{Org: o.settings.org}); by != nil {
					return group.ChangeRole{Agent: c.who, By: caller(nameIn(by.who)), Role: group.Admin}
				}
			}
		}
	}
	return nil
}

// fullQueue files one request more than may be pending. It returns nil if none is
// pending.
func (o *oracle) fullQueue(t *rapid.T, now time.Time) group.Command {
	waiting := o.waitingForVotes()
	if by := o.sitting(); waiting > 0 && len(by) > 0 && seldom.Draw(t, "full queue") && rapid.Bool().Draw(t, "very") {
		who := anybody.Draw(t, "one more")
		return group.Invite{
			RequestID: o.nextID(now), By: caller(nameIn(by[0].who)), Agent: idIn(who), Org: ownerIn(who), Known: true,
			Queue: group.Queue{Group: waiting},
		}
	}
	return nil
}

// waitingForVotes returns the number of pending requests, including those that have
// expired but are not settled yet.
func (o *oracle) waitingForVotes() (n int) {
	for _, p := range o.open() {
		if p.status == "pending" {
			n++
		}
	}
	return n
}
