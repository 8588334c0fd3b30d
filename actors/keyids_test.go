package actors

import (
	"context"
	"fmt"
	"testing"

	"parley/actors/agent"
	"parley/client/parley"
)

// keysOfOthers makes agents use keys that other agents had before them, and reports
// wrong results of lookups by thumbprint.
func keysOfOthers(t *testing.T, r *testNode) (faults []string) {
	ctx := context.Background()
	rotate := func(id parley.AgentID, signing []byte) {
		t.Helper()
		must(r.node.Agents.Change(ctx, id, agent.RotateKeys{Signing: signing}))(t)
	}
	create := func(owner parley.OrgID, name string, signing []byte) parley.AgentID {
		t.Helper()
		a := must(r.node.Agents.Create(ctx, NewAgent{Create: agent.Create{
			OrgID: owner, Name: name, SigningKey: signing, EncryptionKey: key(2, name), PollTokenHash: key(3, name),
		}}))(t)
		return a.AgentID()
	}
	finds := func(when string, signing []byte, want parley.AgentID) {
		t.Helper()
		if got := must(r.node.Agents.ByKid(ctx, parley.Thumbprint(parley.Ed25519, signing)))(t); got != want {
			faults = append(faults, when+" another agent is found")
		}
	}
	owner, ids := r.agents("acme", 2)
	thief, robbers := r.agents("thieves", 1)
	victim, other, robber := ids[0], ids[1], robbers[0]
	first, second, third := numbered(1), numbered(2), numbered(3)

	rotate(victim, first)
	rotate(robber, first)
	finds("after another organization uploaded the key", first, victim)
	create(thief, "copy", first)
	finds("after another organization made an agent with the key", first, victim)
	rotate(other, first)
	finds("after another agent of the organization took the key", first, victim)

	rotate(victim, second)
	rotate(victim, third)
	must(r.node.Agents.Change(ctx, victim, agent.RetireKey{Kid: parley.Thumbprint(parley.Ed25519, first)}))(t)
	must(r.node.Agents.Change(ctx, victim, agent.Revoke{}))(t)
	create(owner, "again", first)
	finds("after its organization took a retired key of a revoked agent", first, victim)
	create(thief, "late", second)
	finds("after another organization took a key of a revoked agent", second, victim)
	heir := create(owner, "heir", second)
	finds("after its organization went on with a key of a revoked agent", second, heir)
	return faults
}

// TestKeyIDNamesItsFirstAgent: the agent that a thumbprint names decides whether the
// key is retired. It must stay the first one, because anyone can upload any public key.
func TestKeyIDNamesItsFirstAgent(t *testing.T) {
	onOneAndFour(t, func(t *testing.T, journals int) {
		r := newTestNode(t, withJournals(journals))
		for _, fault := range keysOfOthers(t, r) {
			t.Error(fault)
		}
		r.verify()
	})
	t.Run("control", func(t *testing.T) {
		r := newTestNode(t)
		r.node.kidsMove = true
		if faults := keysOfOthers(t, r); len(faults) != 5 {
			t.Error("if the last agent got the key, the faults would be:", fmt.Sprintf("%q", faults))
		}
	})
}
