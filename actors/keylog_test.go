package actors

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"parley/actors/agent"
	"parley/actors/keylog"
	"parley/client/parley"
	"parley/journal"
)

// awaitKeyLog waits until every event of some agents is in the key log, and returns the
// tree.
func awaitKeyLog(t testing.TB, n *Node, ids ...parley.AgentID) (tree Tree) {
	t.Helper()
	ctx := context.Background()
	eventually(t, "all leaves are in the key log", func() bool {
		var want uint64
		for _, id := range ids {
			want += uint64(must(n.Agents.Get(ctx, id))(t).GetKeyLeaves())
		}
		tree = must(n.KeyLog.Head(ctx))(t)
		return tree.Size >= want
	})
	return tree
}

// logged returns the entries of an agent of acme. Each must be in the tree.
func logged(t *testing.T, n *Node, tree Tree, id parley.AgentID) (entries []parley.KeyLogEntry) {
	t.Helper()
	ctx, after, more := context.Background(), uint64(0), true
	name := must(n.Agents.Get(ctx, id))(t).GetName()
	for more {
		var page []parley.KeyLogEntry
		var err error
		if page, after, more, err = n.Agents.KeyLog(ctx, id, name+"@acme", after, 2); err != nil || len(page) > 2 {
			t.Fatal(len(page), err)
		}
		entries = append(entries, page...)
	}
	for i, e := range entries {
		leaf := e.Commitment()
		index, found, err := n.KeyLog.Place(ctx, leaf)
		if err != nil || !found || e.Number != uint32(i) {
			t.Fatalf("entry %d, number %d, is in the log: %v, %v", i, e.Number, found, err)
		}
		proof := must(n.KeyLog.ProveInclusion(ctx, tree.Size, index))(t)
		if err := tlog.CheckRecord(hashesOf(proof), int64(tree.Size), tlog.Hash(tree.Root), int64(index), tlog.RecordHash(leaf[:])); err != nil {
			t.Errorf("entry %d: %v", i, err)
		}
	}
	return entries
}

func hashesOf(proof []keylog.Hash) (out []tlog.Hash) {
	for _, h := range proof {
		out = append(out, tlog.Hash(h))
	}
	return out
}

// TestKeyLog: each change of keys is one leaf, in its order, also over a restart. Later
// trees begin with earlier ones. A change of anything else is no leaf.
func TestKeyLog(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprint(journals), func(t *testing.T) {
			r, ctx := newTestNode(t, withJournals(journals)), context.Background()
			if empty := must(r.node.KeyLog.Head(ctx))(t); empty.Size != 0 {
				t.Fatalf("a new log has %d leaves", empty.Size)
			}
			_, ids := r.agents("acme", 3)
			first := awaitKeyLog(t, r.node, ids...)
			if first.Size != 3 {
				t.Fatalf("%d leaves of three agents", first.Size)
			}
			one := ids[0]
			was := must(r.node.Agents.Get(ctx, one))(t).GetSigningKey()
			for _, c := range []agent.Command{
				agent.RotateKeys{Signing: key(9, "new")},
				agent.RotateKeys{Signing: key(9, "new")}, // the second changes nothing
				agent.SetPQKey{Algorithm: parley.XWing, Raw: key(5, "pq")},
				agent.Change{Unlisted: new(true)},
				agent.RemovePQKey{},
				agent.RetireKey{Kid: parley.Thumbprint(parley.Ed25519, was)},
				agent.RotateKeys{Encryption: key(8, "new")},
				agent.Revoke{},
			} {
				must(r.node.Agents.Change(ctx, one, c))(t)
			}
			r.restart()
			tree := awaitKeyLog(t, r.node, ids...)
			kinds := ""
			entries := logged(t, r.node, tree, one)
			for _, e := range entries {
				kinds += e.Kind + " "
			}
			if kinds != "created keys pq pq_removed retired keys revoked " || tree.Size != 9 {
				t.Errorf("%d leaves, of one agent %q", tree.Size, kinds)
			}
			if e := entries[2]; e.SigningKid != parley.Thumbprint(parley.Ed25519, key(9, "new")) || e.PQKid != parley.AKPThumbprint(parley.XWing, key(5, "pq")) {
				t.Errorf("after the post-quantum key: %+v", e)
			}
			if e := entries[4]; e.Subject != parley.Thumbprint(parley.Ed25519, was) || e.PQKid != "" {
				t.Errorf("after the retirement: %+v", e)
			}
			if entries[0].Salt == entries[1].Salt || entries[0].Salt == [32]byte{} {
				t.Error("salts are not random")
			}
			logged(t, r.node, tree, ids[2])
			proof := must(r.node.KeyLog.ProveConsistency(ctx, first.Size, tree.Size))(t)
			if err := tlog.CheckTree(hashesOf(proof), int64(tree.Size), tlog.Hash(tree.Root), int64(first.Size), tlog.Hash(first.Root)); err != nil {
				t.Error(err)
			}
			if _, err := r.node.KeyLog.ProveInclusion(ctx, tree.Size+1, 0); !errors.Is(err, ErrBeyondKeyLog) {
				t.Errorf("a proof in a tree that does not exist: %v", err)
			}
			if _, found, err := r.node.KeyLog.Place(ctx, keylog.Hash{1}); found || err != nil {
				t.Errorf("an unknown leaf is found: %v, %v", found, err)
			}
		})
	}
}

// TestKeyLogForgets: after an erasure the leaves stay, and nobody can read which agent they
// are of.
func TestKeyLogForgets(t *testing.T) {
	x := newErasure(t, 1)
	before := awaitKeyLog(t, x.node, x.g)
	if entries, _, _, err := x.node.Agents.KeyLog(x.ctx, x.g, "g@gone", 0, 10); err != nil || len(entries) == 0 {
		t.Fatalf("control: %d entries, %v", len(entries), err)
	}
	x.erase(x.gone)
	if _, _, _, err := x.node.Agents.KeyLog(x.ctx, x.g, "g@gone", 0, 10); !errors.Is(err, journal.ErrErased) {
		t.Errorf("the entries of an erased agent: %v", err)
	}
	after := must(x.node.KeyLog.Head(x.ctx))(t)
	if after.Size < before.Size {
		t.Errorf("%d leaves of %d are left", after.Size, before.Size)
	}
}
