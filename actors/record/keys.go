package record

import "parley/client/parley"

// PlaceKey returns the key of the row that lists the seats that an agent ever had in a
// group.
func PlaceKey(id parley.GroupID, of parley.AgentID) []byte { return append(id.Bytes(), of[:]...) }

// HolderKey returns the key of the row that names an agent of an organization that has,
// or ever had, a seat in a group.
func HolderKey(id parley.GroupID, org parley.OrgID) []byte { return append(id.Bytes(), org[:]...) }

// NameKey returns the key of the row that maps a name in an organization to its agent.
func NameKey(owner parley.OrgID, name string) []byte { return append(owner.Bytes(), name...) }
