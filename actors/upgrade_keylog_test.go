package actors

import (
	"context"
	"testing"

	"parley/actors/agent"
	"parley/client/parley"
)

// answersInLog renders what the key log says of an agent.
func answersInLog(t testing.TB, node *Node, a *agent.State, say func(string, ...any)) {
	t.Helper()
	ctx := context.Background()
	o := must(node.Orgs.Get(ctx, a.Owner()))(t)
	entries, _, more, err := node.Agents.KeyLog(ctx, a.AgentID(), a.GetName()+"@"+o.GetSlug(), 0, 100)
	if err != nil || more {
		t.Error(err, more)
	}
	for _, e := range entries {
		index, found, err := node.KeyLog.Place(ctx, e.Commitment())
		if err != nil || !found {
			t.Errorf("entry %d of agent %s is in the key log: %v, %v", e.Number, a.AgentID(), found, err)
		}
		say("  leaf %d of the key log: %q", index, e.Text())
	}
}

// answersOfLog renders the tree of the key log.
func answersOfLog(t testing.TB, node *Node, agents []parley.AgentID, say func(string, ...any)) {
	t.Helper()
	tree := awaitKeyLog(t, node, agents...)
	say("key log: %d leaves, root %x", tree.Size, tree.Root)
	if tree.Size == 0 {
		return
	}
	for _, size := range []uint64{1, tree.Size/2 + 1, tree.Size} {
		say("  from %d: %x", size, must(node.KeyLog.ProveConsistency(context.Background(), size, tree.Size))(t))
	}
}
