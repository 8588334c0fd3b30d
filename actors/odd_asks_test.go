package actors

import (
	"errors"
	"testing"

	"parley/actors/agent"
	"parley/actors/host"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// TestOddEffects: effects that another node asks for, and no node of this version would, do not
// get to the journal, whose writer they could end, and with it the process.
func TestOddEffects(t *testing.T) {
	r := newTestNode(t)
	owner, a := r.agents("acme", 1)
	key := []byte("a thumbprint")
	row := journal.Row{Slot: parley.SlotOf(string(key)), Table: journal.KidTable, Key: key, Value: a[0].Bytes()}
	far, other := row, row
	far.Slot, other.Table = parley.Slots, journal.NameTable
	for name, c := range map[string]struct {
		effect journal.Effect
		taken  bool
	}{
		"none": {nil, false}, "far": {journal.PutRow{Row: far}, false}, "other": {journal.PutRow{Row: other}, false},
		"feed": {journal.AppendFeed{}, false}, "row": {journal.PutRow{Row: row}, true},
	} {
		if areKidRows([]journal.Effect{c.effect}) != c.taken {
			t.Errorf("%s: want taken %v", name, c.taken)
		}
	}
	odd := []journal.Effect{nil}
	create := agent.Create{ID: parley.NewID[parley.AgentID](1, r.clock(), r.entropy()), OrgID: owner, Name: "odd"}
	for _, ask := range []host.Request{
		{Stream: rules.OrgStream(owner), Content: NewAgent{Create: create, Kids: odd}},
		{Stream: rules.AgentStream(a[0]), Content: loggedChange{Command: agent.RevokePollToken{}, Kids: odd}},
	} {
		if _, err := r.node.engine.Decide(ask); !errors.Is(err, parley.ErrInternal) {
			t.Errorf("%T: %v", ask.Content, err)
		}
	}
}
