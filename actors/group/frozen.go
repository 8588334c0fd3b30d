package group

import (
	"slices"

	"parley/client/parley"
)

// A group is frozen if its last admin was revoked or erased while no agent of its owner was
// another member. Members of other organizations never succeed it: its owner names the next
// admin, or deletes the group. Until then members talk and leave.

// Refusals that concern groups without an admin of the owner.
var (
	ErrFrozen    = parley.Refuse(parley.Conflict, "frozen", "The group is frozen, because its last admin was revoked: its owner may name another, or delete it.")
	ErrNotOwners = parley.ErrNotOwner.Saying("Only the organization that owns the group may do this.")
	ErrGoverned  = parley.Refuse(parley.Conflict, "invalid_transition", "An agent of the group's owner is an admin already: it promotes others.")
)

// Appoint makes a member, or an agent of the owner, an admin for the owner, as long as no
// agent of the owner is one.
type Appoint struct {
	Agent parley.AgentID
	By    Caller
	// Lookups of the agent: its owner, and what Invite and Join have.
	Org            parley.OrgID
	Known, Revoked bool
	Confined       bool
	SeatLimit      *int
}

func (Appoint) command() {}

// Frozen reports whether a group exists without an admin.
func Frozen(s *State) bool { return s.LastSeat > 0 && s.admins == 0 && !s.Deleted() }

// halted refuses what a frozen group does not do. Callers that have no part in the group get
// the refusal that they would get otherwise, but for a join.
func halted(d *decision, c Command) error {
	if !Frozen(d.s) {
		return nil
	}
	var by Caller
	switch c := c.(type) {
	case Join:
		return ErrFrozen
	case Change:
		by = c.By
	case Invite:
		by = c.By
	case CastVote:
		by = c.By
	case ChangeRole:
		by = c.By
	case Remove:
		if by = c.By; by.Agent == c.Agent {
			return nil
		}
	case Answer, Appoint, Commit, Delete, EndRequest, Expire, Forget, Found, Send: // go on
		return nil
	}
	if by.PartOf(d.s) {
		return ErrFrozen
	}
	return nil
}

// appoint decides who becomes an admin by the owner's word. An agent that is no member is
// seated as one.
func appoint(d *decision, c Appoint) error {
	m, member := d.s.Member(c.Agent)
	_, governed := d.acting(Caller{Org: d.s.Org}, isAdmin)
	switch {
	case !c.By.Governs(d.s):
		return ErrNotOwners
	case governed, willBeGoverned(d.s, c.Agent):
		return ErrGoverned
	case !c.Known:
		return ErrUnknownAgent
	case !member && c.Org != d.s.Org:
		return ErrUnknownMember
	case c.Revoked:
		return ErrAgentRevoked
	case !member:
		return appointNew(d, c)
	case m.Role != Admin:
		d.say(&RoleChanged{Seat: m.Seat, Role: Admin, AtMs: d.at()})
	}
	return nil
}

// willBeGoverned reports whether another agent is being seated as an admin.
func willBeGoverned(s *State, by parley.AgentID) bool {
	return slices.ContainsFunc(s.offers, func(o *Offer) bool { return o.GetRole() == Admin && o.agent() != by })
}

// appointNew offers an admin's seat to an agent of the owner that is no member.
func appointNew(d *decision, c Appoint) error {
	o, r := d.s.OfferTo(c.Agent), d.live(c.Agent)
	switch {
	case o != nil && (o.GetRole() == Admin || Frozen(d.s)):
		return nil // it will be an admin
	case o != nil:
		return ErrAlreadyInvited
	case c.Confined:
		return ErrIsolationConflict
	}
	if err := d.checkCapacity(c.SeatLimit); err != nil {
		return err
	}
	d.offer(c.Agent, c.Org, r, true).Role = Admin
	return nil
}
