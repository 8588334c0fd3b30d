package record

import "parley/client/parley"

// IsErasure reports whether a row is one of journal.ErasureTable.
func IsErasure(slot parley.Slot, key, value []byte) bool {
	e := &Erasure{}
	return len(key) == 16 && slot == parley.IDFromBytes[parley.OrgID](key).Slot() && e.UnmarshalVT(value) == nil && e.GetBegunMs() > 0
}
