package query

import (
	"context"

	"parley/actors/agent"
	"parley/actors/encoding"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// KeyPackages returns how many of an agent's MLS KeyPackages others can claim now, and
// whether there is one of last resort besides. // docs: mls.md
func (q *Agents) KeyPackages(ctx context.Context, id parley.AgentID) (available int, lastResort bool, err error) {
	err = q.view(ctx, func(v journal.View) error {
		_, stored, err := v.State(rules.AgentStream(id))
		if err != nil {
			return err
		}
		s := &agent.State{}
		if err := encoding.Unmarshal(stored, s); err != nil {
			return err
		}
		available, lastResort = int(s.GetKeyPackages()), s.GetLastResort()
		now := uint64(q.clock().Unix())
		over := func(of bool) (n int, err error) { // rows are in the order in which they expire
			err = v.Rows(id.Slot(), journal.KeyPackageTable, record.KeyPackagesOf(id, of), nil, false, func(key, _ []byte) bool {
				k, ok := record.ParseKeyPackageKey(key)
				if !ok || k.NotAfter >= now {
					return false
				}
				n++
				return true
			})
			return n, err
		}
		expired, err := over(false)
		if err != nil {
			return err
		}
		resorts, err := over(true)
		available, lastResort = available-expired, lastResort && resorts == 0
		return err
	})
	return available, lastResort, err
}
