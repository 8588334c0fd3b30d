package verify

import (
	"parley"
	"parley/actors/record"
)

// activityRow checks the row with the hour in which an agent last sent. The hour itself
// is not compared with the agent's messages: their ids never go back, not even when the
// clock does. A revoked agent may have a row, because a reply of it may have been under
// way.
func (x *verifier) activityRow(slot parley.Slot, key, value []byte) error {
	x.active.Checked++
	id := parley.IDFromBytes[parley.AgentID](key)
	s, err := x.agentNow(id)
	if err != nil {
		return err
	}
	if s == nil {
		x.active.Fault("agent "+idText(key), "it has an hour of activity, and does not exist")
	}
	if slot != id.Slot() && slot != parley.Slots {
		x.active.Fault("agent "+idText(key), "its hour of activity is in slot %d, where nobody looks for it", slot)
	}
	if _, ok := record.HourOf(value); !ok {
		x.active.Fault("agent "+idText(key), "its hour of activity has %d bytes", len(value))
	}
	return nil
}
