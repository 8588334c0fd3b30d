package actors

import (
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
	"parley/persistence/layout"
)

func isClaim(k, v []byte) bool {
	_, _, claims := record.ReadClaim(v)
	return ofTable(journal.OnceTable)(k, v) && claims
}

// taskControls plant faults in what is stored about A2A tasks.
var taskControls = map[string]tamperCase{
	"a task has no row": {func(x *tamperer) { x.dropFirst('R', ofTable(journal.TaskTable)) }, []string{"task-rows"}, false},
	"a row of a task that nobody began": {func(x *tamperer) {
		k, v := x.find('R', ofTable(journal.TaskTable))
		x.set(append(k[:len(k)-16:len(k)-16], nobody[:]...), v)
	}, []string{"task-rows"}, false},
	"tasks count as listed beyond their journal": {func(x *tamperer) {
		x.set(layout.RowKey(x.agents[5].Slot(), journal.TaskedTable, x.agents[5][:]), bigEndian(1<<60))
	}, []string{"positions"}, true},
	"a foreign agent claims a key": {func(x *tamperer) {
		x.alter('R', isClaim, func([]byte) []byte { return record.Claim(parley.AgentID(nobody), 1) })
	}, []string{"once-rows"}, false},
	"a claim lies elsewhere": {func(x *tamperer) {
		k, v := x.find('R', isClaim)
		k[1] ^= 1
		x.set(k, v)
	}, []string{"once-rows"}, false},
}
