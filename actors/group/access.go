package group

import "parley/client/parley"

// Access is how much of a group an organization may see, or needs to see.
type Access uint8

const (
	// Unjudged, as a need: the server reads the group for itself.
	Unjudged Access = iota
	// Stranger: the organization cannot tell the group from one that does not exist. As a
	// need: only the rules judge the caller while the group exists.
	Stranger
	// Onlooker: the group is public, so its existence is not secret.
	Onlooker
	// Insider: the organization owns the group or an agent in it.
	Insider
)

// errForeign refuses an organization that may only know that the group exists.
var errForeign = parley.ErrNotOwner.Saying("No agent of your organization is a member of this group.")

// Viewer is the caller for whom a group is read, and the access that it needs.
type Viewer struct {
	Caller
	Needs Access
}

// AccessOf returns the access of a caller.
func (s *State) AccessOf(by Caller) Access {
	switch {
	case by.PartOf(s):
		return Insider
	case s.Public && !s.Deleted():
		return Onlooker
	}
	return Stranger
}

// admit refuses a viewer that has less access than it needs. It searches the members only
// if that decides.
func (s *State) admit(v Viewer) error {
	if v.Needs == Unjudged || v.Needs == Stranger && !s.Deleted() {
		return nil
	}
	switch has := s.AccessOf(v.Caller); {
	case has == Insider && s.Deleted():
		return ErrDeleted
	case has == Stranger:
		return ErrUnknown
	case has < v.Needs:
		return errForeign
	}
	return nil
}
