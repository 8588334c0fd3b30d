package blackbox

import (
	"testing"

	"parley/http/mls/mlstest"
)

// mlsCommit returns the body of a commit by a member, in an epoch of the group.
func (r *group) mlsCommit(epoch uint64, more ...obj) obj {
	return Merged(obj{
		"epoch": epoch, "commit": B64(mlstest.Commit{Group: r.id, Epoch: epoch}.Message()),
		"group_info": B64(mlstest.GroupInfo{Group: r.id, Epoch: epoch + 1}.Message()),
	}, more...)
}

// mlsAdd returns the body of a commit that adds agents.
func (r *group) mlsAdd(epoch uint64, agents ...*Agent) obj {
	return r.mlsCommit(epoch, obj{"added": idsOf(agents), "welcome": B64(mlstest.Welcome(1, 0))})
}

// mlsEnter returns the body of an external commit of an agent.
func (r *group) mlsEnter(epoch uint64, g *Agent) obj {
	return r.mlsCommit(epoch, obj{"commit": B64(mlstest.Commit{Group: r.id, Epoch: epoch, External: true}.Message()), "added": idsOf([]*Agent{g})})
}

func idsOf(agents []*Agent) []any {
	all := make([]any, len(agents))
	for i, g := range agents {
		all[i] = g.ID
	}
	return all
}

func (r *group) tryCommit(by *Agent, body obj) *Answer {
	return by.Request("POST", r.path("/mls/commits"), body)
}

// committed commits, which begins the next epoch.
func (r *group) committed(by *Agent, body obj) {
	r.t.Helper()
	a := r.tryCommit(by, body).Want(201).Is("epoch", float64(body["epoch"].(uint64)+1))
	Exactly(r.t, "a commit", a.Body, "epoch")
}

// mlsGroup founds a group whose MLS group has its founder and the others.
func (g *Agent) mlsGroup(others ...*Agent) *group {
	g.T.Helper()
	r := g.groupWithPolicy("open", others...)
	if len(others) == 0 {
		r.committed(g, r.mlsCommit(0))
	} else {
		r.committed(g, r.mlsAdd(0, others...))
	}
	return r
}

// tryMLS broadcasts an application message of an epoch and checks nothing.
func (r *group) tryMLS(by *Agent, epoch uint64) *Answer {
	return r.tryBroadcast(by, obj{"encrypted_payload": B64(mlstest.Application(r.id, epoch))})
}

// commits returns all commits from an epoch on, as an agent sees them, checked.
func (r *group) commits(g *Agent, query string) []obj {
	r.t.Helper()
	rows := g.List(r.path("/mls/commits"), query)
	for _, row := range rows {
		Exactly(r.t, "commit", row, "epoch commit committed_by created_at")
	}
	return rows
}

func (r *group) welcomes(g *Agent) []obj {
	r.t.Helper()
	rows := g.List(r.path("/mls/welcomes"), "?limit=100")
	for _, row := range rows {
		Exactly(r.t, "Welcome", row, "id epoch welcome created_at")
	}
	return rows
}

// checkMLS checks what GroupRead and the members say of the MLS group.
func (r *group) checkMLS(what string, pending bool, leaves ...*Agent) {
	r.t.Helper()
	r.read(leaves[0]).As("%s", what).Is("mls_enabled", true, "mls_pending", pending, "mls_group_id", r.id, "mls_cipher_suite", 1.0)
	seated := map[any]bool{}
	for _, g := range leaves {
		seated[g.ID] = true
	}
	for _, m := range r.members(leaves[0]) {
		if m["mls_seated"] != seated[m["agent_id"]] {
			r.t.Errorf("%s: mls_seated of %v is %v", what, m["agent_handle"], m["mls_seated"])
		}
	}
}

// epochOf checks the GroupInfo that an agent gets.
func (r *group) epochOf(g *Agent, epoch uint64) {
	r.t.Helper()
	a := g.Request("GET", r.path("/mls/group-info"), nil).Want(200).Is("epoch", float64(epoch), "cipher_suite", 1.0)
	Exactly(r.t, "group-info", a.Body, "epoch group_info cipher_suite")
}

// trio returns three agents of three organizations, and a fourth of the first.
func trio(t *testing.T, s *Server) (a, b, c, second *Agent) {
	o := s.Org(t)
	return o.Agent("alice"), s.Org(t).Agent("bob"), s.Org(t).Agent("carol"), o.Agent("second")
}
