package grouptest

import (
	"strings"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/http/mls/mlstest"
)

// CommitBody returns the body of a commit by a member, in an epoch of the group.
func (r *Group) CommitBody(epoch uint64, more ...obj) obj {
	return kit.Merged(obj{
		"epoch": epoch, "commit": kit.B64(mlstest.Commit{Group: r.ID, Epoch: epoch}.Message()),
		"group_info": kit.B64(mlstest.GroupInfo{Group: r.ID, Epoch: epoch + 1}.Message()),
	}, more...)
}

// AddBody returns the body of a commit that adds agents.
func (r *Group) AddBody(epoch uint64, agents ...*kit.Agent) obj {
	return r.CommitBody(epoch, obj{"added": IDsOf(agents), "welcome": kit.B64(mlstest.Welcome(1, 0))})
}

// IDsOf returns the ids of agents.
func IDsOf(agents []*kit.Agent) []any {
	all := make([]any, len(agents))
	for i, g := range agents {
		all[i] = g.ID
	}
	return all
}

// TryCommit posts a commit and checks nothing.
func (r *Group) TryCommit(by *kit.Agent, body obj) *kit.Answer {
	return by.Request("POST", r.Path("/mls/commits"), body)
}

// Committed commits, which begins the next epoch.
func (r *Group) Committed(by *kit.Agent, body obj) {
	r.T.Helper()
	a := r.TryCommit(by, body).Want(201).Is("epoch", float64(body["epoch"].(uint64)+1))
	kit.Exactly(r.T, "a commit", a.Body, "epoch")
}

// NewMLS founds a group whose MLS group has its founder and the others.
func NewMLS(g *kit.Agent, others ...*kit.Agent) *Group {
	g.T.Helper()
	r := NewWithPolicy(g, "open", others...)
	if len(others) == 0 {
		r.Committed(g, r.CommitBody(0))
	} else {
		r.Committed(g, r.AddBody(0, others...))
	}
	return r
}

// Welcomes returns the welcomes that wait for a member.
func (r *Group) Welcomes(g *kit.Agent) []obj {
	r.T.Helper()
	rows := g.List(r.Path("/mls/welcomes"), "?limit=100")
	for _, row := range rows {
		kit.Exactly(r.T, "Welcome", row, "id epoch welcome created_at")
	}
	return rows
}

// KeyPackage returns a new MLS KeyPackage of an agent in an MLSMessage.
func KeyPackage(g *kit.Agent, alter ...func(*mlstest.KeyPackage)) string {
	return kit.B64(KeyPackageOf(g, alter...).Message(time.Now()))
}

// KeyPackageOf returns a key package of an agent, altered.
func KeyPackageOf(g *kit.Agent, alter ...func(*mlstest.KeyPackage)) mlstest.KeyPackage {
	k := mlstest.KeyPackage{Key: g.Sign, Identity: strings.ToLower(g.Handle)}
	for _, change := range alter {
		change(&k)
	}
	return k
}

// PublishKeyPackages publishes key packages and checks nothing.
func PublishKeyPackages(g *kit.Agent, body obj) *kit.Answer {
	return g.Post(g.Path("/mls/key-packages"), body)
}
