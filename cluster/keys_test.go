package cluster

import (
	"errors"
	"testing"
	"time"

	"parley"
	"parley/actors/wire"
)

// fullKeys have no room.
type fullKeys struct{ Keys }

func (fullKeys) Creation(parley.OrgID) ([]byte, error) { return nil, ErrKeysFull }

func (fullKeys) Destruction(parley.OrgID, time.Time) []byte { return nil }

// TestFullKeys: the leader refuses a key for which there is no room, instead of proposing it,
// and the node that asked learns why.
func TestFullKeys(t *testing.T) {
	m := NewMember()
	m.keys = fullKeys{}
	m.follows.Store(&following{term: 1, takes: true})
	err := m.changeKey(t.Context(), changeKey{Org: parley.OrgID{1}}) // there is no loop that could propose
	if !errors.Is(err, ErrKeysFull) {
		t.Fatal(err)
	}
	types := wire.NewTypes()
	RegisterTypes(types)
	crossed, err := types.Append(nil, answer{Failure: err})
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := types.Value(crossed)
	if a, ok := decoded.(answer); err != nil || !ok || !errors.Is(a.Failure, ErrKeysFull) {
		t.Errorf("%v, %v", decoded, err)
	}
}
