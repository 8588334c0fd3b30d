package query

import (
	"context"
	"errors"

	"parley/actors/agent"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// keyLogScan is how many events of an agent one call of KeyLog reads at most.
const keyLogScan = 4096

// KeyLog returns entries of an agent in the key log, oldest first, of its events after the
// event number after. There are at most limit of them, fewer if many events are not about
// keys. last is the number of the last event that was read; more says that there are later
// ones. address is the agent's name@slug.
func (q *Agents) KeyLog(ctx context.Context, id parley.AgentID, address string, after uint64, limit int) (entries []parley.KeyLogEntry, last uint64, more bool, err error) {
	var bad error
	last = after
	err = q.view(ctx, func(v journal.View) error {
		read := 0
		err := v.Events(rules.AgentStream(id), after+1, false, func(seq uint64, _ int64, f journal.StoredEvent) bool {
			if more = len(entries) == limit || read == keyLogScan; more {
				return false
			}
			last, read = seq, read+1
			var e agent.Event
			if e, bad = rules.Agent.Decode(f); bad != nil {
				return false
			}
			if entry, logged := agent.KeyLogEntry(id, address, e); logged {
				entries = append(entries, entry)
			}
			return true
		})
		return errors.Join(err, bad)
	})
	return entries, last, more, err
}
