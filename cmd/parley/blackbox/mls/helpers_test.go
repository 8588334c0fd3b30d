package mls

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
	"parley/http/mls/mlstest"
)

// mlsEnter returns the body of an external commit of an agent.
func mlsEnter(r *grouptest.Group, epoch uint64, g *kit.Agent) obj {
	return r.CommitBody(epoch, obj{"commit": kit.B64(mlstest.Commit{Group: r.ID, Epoch: epoch, External: true}.Message()), "added": grouptest.IDsOf([]*kit.Agent{g})})
}

// tryMLS broadcasts an application message of an epoch and checks nothing.
func tryMLS(r *grouptest.Group, by *kit.Agent, epoch uint64) *kit.Answer {
	return r.TryBroadcast(by, obj{"encrypted_payload": kit.B64(mlstest.Application(r.ID, epoch))})
}

// commits returns all commits from an epoch on, as an agent sees them, checked.
func commits(r *grouptest.Group, g *kit.Agent, query string) []obj {
	r.T.Helper()
	rows := g.List(r.Path("/mls/commits"), query)
	for _, row := range rows {
		kit.Exactly(r.T, "commit", row, "epoch commit committed_by created_at")
	}
	return rows
}

// checkMLS checks what GroupRead and the members say of the MLS group.
func checkMLS(r *grouptest.Group, what string, pending bool, leaves ...*kit.Agent) {
	r.T.Helper()
	r.Read(leaves[0]).As("%s", what).Is("mls_enabled", true, "mls_pending", pending, "mls_group_id", r.ID, "mls_cipher_suite", 1.0)
	seated := map[any]bool{}
	for _, g := range leaves {
		seated[g.ID] = true
	}
	for _, m := range r.Members(leaves[0]) {
		if m["mls_seated"] != seated[m["agent_id"]] {
			r.T.Errorf("%s: mls_seated of %v is %v", what, m["agent_handle"], m["mls_seated"])
		}
	}
}

// epochOf checks the GroupInfo that an agent gets.
func epochOf(r *grouptest.Group, g *kit.Agent, epoch uint64) {
	r.T.Helper()
	a := g.Request("GET", r.Path("/mls/group-info"), nil).Want(200).Is("epoch", float64(epoch), "cipher_suite", 1.0)
	kit.Exactly(r.T, "group-info", a.Body, "epoch group_info cipher_suite")
}

// trio returns three agents of three organizations, and a fourth of the first.
func trio(t *testing.T, s *kit.Server) (a, b, c, second *kit.Agent) {
	o := s.Org(t)
	return o.Agent("alice"), s.Org(t).Agent("bob"), s.Org(t).Agent("carol"), o.Agent("second")
}
