package journal

import (
	"parley/client/parley"
)

// Owners are the one or two organizations to which a content belongs. It can be read as
// long as none of them was erased. The zero Owners own nothing: what they are given for
// is stored as it is.
type Owners struct{ A, B parley.OrgID }

// OwnedBy returns the owners of what belongs to one organization.
func OwnedBy(org parley.OrgID) Owners { return Owners{A: org} }

// Zero reports whether nobody owns the content.
func (o Owners) Zero() bool { return o == Owners{} }

// ErrErased is the error of a read: an owner of the content was erased, so that nobody
// can read it any more. Other refusals that say that something is gone, such as those of
// deleted groups and revoked agents, are no ErrErased.
var ErrErased = parley.ErrGone.Distinct().Saying("It was erased with the organization that it belonged to.")
