package actors

import (
	"parley/actors/agent"
	"parley/actors/keylog"
	"parley/actors/rules"
	"parley/journal"
)

func isCreated(e agent.Event) bool { _, ok := e.(*agent.Created); return ok }

// alterLeaf changes what the first agent's creation says of its leaf in the key log.
func alterLeaf(change func(*agent.KeyLeaf)) func(*tamperer) {
	return func(x *tamperer) {
		rewriteEvent(x, journal.AgentStream, rules.Agent, isCreated, func(e agent.Event) { change(e.(*agent.Created).Leaf) })
	}
}

// keyLogControls plant faults in the key log, and in what agents say of it.
var keyLogControls = map[string]tamperCase{
	"a leaf of the key log is another": {func(x *tamperer) {
		rewriteEvent(x, journal.KeyLogStream, rules.KeyLog, func(keylog.Event) bool { return true },
			func(e keylog.Event) { e.(*keylog.Appended).Leaves[0][0] ^= 1 })
	}, []string{"key-log", "key-log-hashes", "key-log-places", "state"}, true},
	"a hash of the key log is another": {func(x *tamperer) {
		x.alter('R', ofTable(journal.KeyLogTable), flipLast)
	}, []string{"key-log-hashes"}, false},
	"a leaf of the key log is found elsewhere": {func(x *tamperer) {
		x.alter('R', ofTable(journal.KeyLogPlaceTable), flipLast)
	}, []string{"key-log-places"}, false},
	"a leaf of the key log is not found": {func(x *tamperer) {
		x.dropFirst('R', ofTable(journal.KeyLogPlaceTable))
	}, []string{"key-log-places"}, false},
	"a row of the key log lies in another slot": {func(x *tamperer) {
		x.move('R', ofTable(journal.KeyLogTable), func(k []byte) []byte { k[1] ^= 1; return k })
	}, []string{"key-log-entries"}, false},
	"an agent says another salt":          {alterLeaf(func(l *agent.KeyLeaf) { l.Salt[0] ^= 1 }), []string{"key-log"}, false},
	"an agent numbers its leaf otherwise": {alterLeaf(func(l *agent.KeyLeaf) { l.Number = 7 }), []string{"key-log", "key-log-entries"}, true},
	"an agent's leaf names another key":   {alterLeaf(func(l *agent.KeyLeaf) { l.Signing[0] ^= 1 }), []string{"key-log", "key-log-entries"}, false},
	"an event about keys has no leaf": {func(x *tamperer) {
		rewriteEvent(x, journal.AgentStream, rules.Agent, isCreated, func(e agent.Event) { e.(*agent.Created).Leaf = nil })
	}, []string{"key-log"}, true},
}
