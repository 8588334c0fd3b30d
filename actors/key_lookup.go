package actors

import (
	"context"
	"errors"

	"parley/client/parley"
	"parley/journal"
)

// freeKids returns the rows that map the thumbprints of an agent's new keys to the agent.
// A key that another agent had first stays mapped to that agent. Anyone can upload
// anyone's public key, and the agent that a thumbprint leads to decides whether the key
// is retired.
func (as *Agents) freeKids(ctx context.Context, id parley.AgentID, owner parley.OrgID, signing, encryption []byte) ([]journal.Effect, error) {
	var free []journal.Effect
	for _, k := range []struct {
		curve string
		raw   []byte
	}{{parley.Ed25519, signing}, {parley.X25519, encryption}} {
		if len(k.raw) == 0 {
			continue
		}
		kid := parley.Thumbprint(k.curve, k.raw)
		held, err := as.kidHeld(ctx, kid, owner)
		if err != nil {
			return nil, err
		}
		if !held || as.kidsMove {
			free = append(free, journal.PutRow{Row: journal.Row{
				Slot: parley.SlotOf(kid), Table: journal.KidTable, Key: []byte(kid), Value: id.Bytes(),
			}})
		}
	}
	return free, nil
}

// areKidRows reports whether effects, perhaps of another node, are rows that freeKids returns.
func areKidRows(effects []journal.Effect) bool {
	for _, e := range effects {
		row, is := e.(journal.PutRow)
		if !is || row.Table != journal.KidTable || row.Slot != parley.SlotOf(string(row.Key)) {
			return false
		}
	}
	return true
}

// kidHeld reports whether a thumbprint stays mapped to its agent. An organization that
// revoked the agent may use the key for another of its agents, which can then retire it.
// A retired key stays with the agent that retired it.
func (as *Agents) kidHeld(ctx context.Context, kid string, owner parley.OrgID) (bool, error) {
	first, err := as.ByKid(ctx, kid)
	if errors.Is(err, parley.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	a, err := as.Get(ctx, first)
	switch {
	case errors.Is(err, parley.ErrNotFound): // the agent's first entry has not reached its home yet
		return true, nil
	case err != nil:
		return false, err
	}
	key, _ := a.KeyByKid(kid)
	return a.Owner() != owner || !a.Revoked() || !key.Retired.IsZero(), nil
}
