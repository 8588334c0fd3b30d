package blackbox

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/http/mls/mlstest"
)

// mlsEvents reads the wanted events about the MLS group, each as "kind epoch", and checks
// that no other of that kind follows.
func (st *Stream) mlsEvents(what string, r *group, want ...string) {
	st.T.Helper()
	var got []string
	for len(got) < len(want) {
		e := st.Next()
		if !strings.HasPrefix(Text(e.Data, "kind"), "mls_") {
			continue
		}
		if e.Name != "group" || e.ID != "" || e.Data["group_id"] != r.id {
			st.T.Errorf("%s: %q id %q: %s", what, e.Name, e.ID, e.Raw)
		}
		Exactly(st.T, "an event of the MLS group", e.Data, "group_id kind epoch")
		got = append(got, fmt.Sprint(e.Data["kind"], " ", e.Data["epoch"]))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		st.T.Errorf("%s: the stream has %q, want %q", what, got, want)
	}
}

// TestMLSEvents: commits reach all members, Welcomes those added, and what has to be
// committed those who can commit it; on streams and to webhooks.
func TestMLSEvents(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b, c, _ := trio(t, s)
		r := a.groupWithPolicy("open", b, c)
		streams := map[*Agent]*Stream{}
		for _, g := range []*Agent{a, b, c} {
			streams[g] = g.Stream("")
			streams[g].Opening()
		}
		to := b.wants("group.mls")
		tell := func(what string, of map[*Agent][]string) {
			t.Helper()
			for g, want := range of {
				streams[g].mlsEvents(what+", to "+g.Name, r, want...)
			}
		}
		r.committed(a, r.mlsAdd(0, b))
		tell("the first commit", map[*Agent][]string{a: {"mls_commit 1", "mls_admission 1"}, b: {"mls_commit 1", "mls_welcome 1", "mls_admission 1"}, c: {"mls_commit 1"}})
		r.committed(c, r.mlsEnter(1, c))
		tell("an external commit", map[*Agent][]string{a: {"mls_commit 2"}, b: {"mls_commit 2"}, c: {"mls_commit 2"}})
		r.remove(c, c).Want(204)
		tell("leaving", map[*Agent][]string{a: {"mls_removal 2"}, b: {"mls_removal 2"}})
		r.committed(b, r.mlsCommit(2, obj{"removed": idsOf([]*Agent{c})}))
		tell("a removal", map[*Agent][]string{a: {"mls_commit 3"}, b: {"mls_commit 3"}})
		r.joined(c)
		tell("joining", map[*Agent][]string{a: {"mls_admission 3"}, b: {"mls_admission 3"}})
		r.committed(b, r.mlsAdd(3, c))
		tell("an addition", map[*Agent][]string{a: {"mls_commit 4"}, b: {"mls_commit 4"}, c: {"mls_commit 4", "mls_welcome 4"}})
		r.committed(a, r.mlsCommit(4, obj{"removed": idsOf([]*Agent{c})}))
		tell("a kick", map[*Agent][]string{a: {"mls_commit 5"}, b: {"mls_commit 5"}, c: {"mls_commit 5"}})

		var got []string
		Eventually(t, "the webhook gets nine events", func() bool {
			got = nil
			for _, d := range to.to.deliveries() {
				got = append(got, fmt.Sprint(d.body["kind"], " ", d.body["epoch"]))
			}
			return len(got) >= 9
		})
		want := []string{"mls_commit 1", "mls_welcome 1", "mls_admission 1", "mls_commit 2", "mls_removal 2", "mls_commit 3", "mls_admission 3", "mls_commit 4", "mls_commit 5"}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("the webhook got %q, want %q", got, want)
		}
		d := to.to.deliveries()[0].judged(t, to)
		Exactly(t, "the payload", d.body, "message_id agent_id event timestamp group_id kind epoch")
		if d.body["event"] != "group.mls" || d.body["message_id"] != nil || d.body["group_id"] != r.id || d.body["agent_id"] != b.ID {
			t.Errorf("the payload: %s", d.raw)
		}
	})
}

// TestMLSRemoval: a seat goes at once, its leaf with a commit. Until then nobody broadcasts,
// because the former member could read on.
func TestMLSRemoval(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b, c, second := trio(t, s)
		r := a.mlsGroup(b, c)
		r.remove(c, c).Want(204)
		r.checkMLS("after leaving", true, a, b)
		r.tryMLS(b, 1).Refused(409, "mls_removal_pending").Is("removed", []any{c.ID})
		r.tryMLS(a, 7).As("of another epoch").Refused(409, "mls_removal_pending")
		r.tryCommit(c, r.mlsCommit(1)).As("by the former member").Refused(404, "not_found")
		if rows := r.commits(c, "?limit=1"); len(rows) != 1 {
			t.Errorf("who left a leaf behind sees %d commits, want 1", len(rows))
		}
		r.committed(b, r.mlsCommit(1, obj{"removed": idsOf([]*Agent{c})})) // not an admin
		r.checkMLS("after the removal", false, a, b)
		r.tryMLS(b, 2).Want(201).Is("recipient_count", 1.0)
		r.committed(a, r.mlsCommit(2))
		if rows := r.commits(c, "?limit=1"); len(rows) != 2 || rows[1]["epoch"] != 1.0 {
			t.Errorf("a removed agent sees %v, want the commits of epochs 0 and 1", rows)
		}
		c.Request("GET", r.path("/mls/group-info"), nil).As("a stranger again").Refused(404, "not_found")

		// Joining again needs a new leaf.
		r.joined(c)
		r.tryMLS(c, 3).Refused(409, "mls_pending")
		r.committed(b, r.mlsAdd(3, c))
		r.tryMLS(c, 4).Want(201)

		// A member is removed by a commit of an admin.
		r.remove(b, c).As("not an admin").Refused(403, "not_admin")
		r.remove(a, c).Refused(409, "mls_commit_required")
		s.Call(t, a.Token, "DELETE", r.path("/members/"+c.ID), nil).As("unnamed").Refused(409, "agent_required")
		r.remove(second, c).As("no member").Refused(403, "not_admin")
		r.tryCommit(b, r.mlsCommit(4, obj{"removed": idsOf([]*Agent{c})})).Refused(403, "not_admin")
		r.committed(a, r.mlsCommit(4, obj{"removed": idsOf([]*Agent{c})}))
		r.checkMLS("after the kick", false, a, b)
		r.remove(a, c).As("after the commit").Want(204)
		r.remove(a, c).As("after the commit, again").Want(204)
		r.remove(b, c).As("after the commit, by a member").Refused(403, "not_admin")
		r.remove(a, second).As("never a member").Refused(404, "not_found")
		r.tryMLS(c, 5).As("a stranger again").Refused(404, "not_found")

		// An agent that comes back before its leaf is removed needs both in one commit.
		r.remove(b, b).Want(204)
		r.joined(b)
		r.tryCommit(a, r.mlsAdd(5, b)).As("with its former leaf").Invalid("body.added", "value_error")
		r.tryCommit(b, r.mlsEnter(5, b)).As("with its former leaf").Invalid("body.added", "value_error")
		r.committed(b, Merged(r.mlsEnter(5, b), obj{"removed": idsOf([]*Agent{b})}))
		r.checkMLS("after all", false, a, b)
		b.Delete(b.Path("")).Want(204)
		r.tryMLS(a, 6).As("after a revocation").Refused(409, "mls_removal_pending").Is("removed", []any{b.ID})
		r.committed(a, r.mlsCommit(6, obj{"removed": idsOf([]*Agent{b})}))
		r.tryMLS(a, 7).RefusedByRule("no_recipients")
	})
}

// TestMLSBroadcasts: a broadcast is an application message of the group and its epoch. The
// format of groups without an MLS group stays valid in them.
func TestMLSBroadcasts(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b, _, _ := trio(t, s)
		plain := a.groupWithPolicy("open", b)
		for _, payload := range []string{B64([]byte{1, 2, 3}), B64(mlstest.Application(plain.id, 9)), "AA"} {
			plain.tryBroadcast(a, obj{"encrypted_payload": payload}).Want(201)
		}
		r := a.mlsGroup(b)
		for name, payload := range map[string]string{
			"the client's format": B64([]byte{1, 2, 3}), "a byte": "AA", "a commit": B64(mlstest.Commit{Group: r.id, Epoch: 1}.Message()),
			"a public commit": B64(mlstest.Commit{Group: r.id, Epoch: 1, Public: true}.Message()), "a proposal": B64(mlstest.Proposal(r.id, 1)),
			"a message of another group": B64(mlstest.Application(plain.id, 1)), "a byte too many": B64(append(mlstest.Application(r.id, 1), 0)),
		} {
			r.tryBroadcast(a, obj{"encrypted_payload": payload}).As("%s", name).Invalid("body.encrypted_payload", "value_error")
		}
		r.tryBroadcast(a, obj{"encrypted_payload": B64(mlstest.Application(r.id, 1)), "encryption_version": "hpke-v1"}).Invalid("body.encrypted_payload", "value_error")
		for _, epoch := range []uint64{0, 2} {
			r.tryMLS(a, epoch).Refused(409, "epoch_conflict").Is("current_epoch", 1.0)
		}
		key := "k-" + RandomHex(8)
		body := obj{"encrypted_payload": B64(mlstest.Application(r.id, 1))}
		sent := r.tryBroadcast(a, body, "Idempotency-Key", key).Want(201).Body
		r.committed(b, r.mlsCommit(1))
		r.tryBroadcast(a, body, "Idempotency-Key", key).As("a repeat in a later epoch").Want(200).Is("id", sent["id"])
		b.Reply(copiesOf(b)[len(copiesOf(b))-1])
	})
}

// TestMLSCommittersRace: of commits in one epoch exactly one is accepted, and the others
// learn the epoch.
func TestMLSCommittersRace(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b, c, _ := trio(t, s)
		r := a.mlsGroup(b, c)
		for epoch := uint64(1); epoch <= 20; epoch++ {
			committers, bodies := []*Agent{a, b, c}, []obj{r.mlsCommit(epoch), r.mlsCommit(epoch), r.mlsCommit(epoch)}
			answers := Concurrently(3, func(i int) *Answer { return r.tryCommit(committers[i], bodies[i]) })
			winner := slices.IndexFunc(answers, func(a *Answer) bool { return a.Status == 201 })
			if winner < 0 {
				t.Fatalf("nobody won epoch %d: %d", epoch, answers[0].Status)
			}
			for i, one := range answers {
				if i != winner {
					one.Refused(409, "epoch_conflict").Is("current_epoch", float64(epoch+1))
				}
			}
			for range 2 {
				r.tryCommit(committers[winner], bodies[winner]).As("the winner again").Want(200).Is("epoch", float64(epoch+1))
			}
			r.tryCommit(committers[(winner+1)%3], bodies[winner]).As("the same bytes by another").Refused(409, "epoch_conflict")
			if rows := r.commits(c, fmt.Sprint("?since_epoch=", epoch)); len(rows) != 1 || rows[0]["commit"] != bodies[winner]["commit"] || rows[0]["committed_by"] != committers[winner].ID {
				t.Fatalf("epoch %d has %v", epoch, rows)
			}
		}
	})
}

// TestMLSCatchUp: a reader that was away sees, epoch by epoch, all messages of an epoch
// before the commit that was made in it.
func TestMLSCatchUp(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b, c, _ := trio(t, s)
		r := a.mlsGroup(b, c)
		const epochs = 30
		st := c.Stream("")
		st.Opening()
		for epoch := uint64(1); epoch <= epochs; epoch++ {
			for range epoch % 3 {
				r.tryMLS(a, epoch).Want(201)
			}
			r.committed(b, r.mlsCommit(epoch))
			// A reader that sees the commit has the messages of the epoch.
			if rows, copies := r.commits(c, fmt.Sprint("?since_epoch=", epoch)), copiesOf(c); len(rows) != 1 || uint64(len(copies)) != epoch/3*3+epoch%3*(epoch%3+1)/2 {
				t.Fatalf("after epoch %d the reader has %d commits and %d copies", epoch, len(rows), len(copies))
			}
		}
		if rows := r.commits(c, "?limit=7"); len(rows) != epochs+1 || slices.ContainsFunc(rows, func(row obj) bool {
			return row["epoch"] != float64(slices.IndexFunc(rows, func(o obj) bool { return o["epoch"] == row["epoch"] }))
		}) {
			t.Errorf("%d commits, want %d in order", len(rows), epochs+1)
		}
		for epoch := uint64(1); epoch <= epochs; epoch++ {
			for range epoch % 3 {
				if e := st.Next(); e.Name != "message" || e.Data["encrypted_payload"] == nil {
					t.Fatalf("in epoch %d: %s %s", epoch, e.Name, e.Raw)
				}
			}
			st.mlsEvents("on the stream", r, fmt.Sprintf("mls_commit %d", epoch+1))
		}
	})
}

// TestMLSSurvivesAKill: what was answered 201 is there after a crash, the Welcome with it, and
// the committer that lost the answer repeats its commit.
func TestMLSSurvivesAKill(t *testing.T) {
	Own(t, func(t *testing.T, journals string) {
		s := Start(t, "--journals", journals)
		a, b, c, _ := trio(t, s)
		r := a.groupWithPolicy("open", b, c)
		bodies := []obj{r.mlsAdd(0, b)}
		for epoch := uint64(0); ; epoch++ {
			r.committed(a, bodies[epoch])
			s.Kill()
			s.Restart(t)
			r.tryCommit(a, bodies[epoch]).As("repeated").Want(200).Is("epoch", float64(epoch+1))
			r.tryCommit(b, r.mlsCommit(epoch)).As("another").Refused(409, "epoch_conflict").Is("current_epoch", float64(epoch+1))
			r.epochOf(c, epoch+1)
			if rows := r.commits(c, "?limit=2"); len(rows) != len(bodies) || rows[epoch]["commit"] != bodies[epoch]["commit"] {
				t.Fatalf("in epoch %d: %v", epoch+1, rows)
			}
			if epoch == 2 {
				break
			}
			bodies = append(bodies, r.mlsCommit(epoch+1))
		}
		if rows := r.welcomes(b); len(rows) != 1 || rows[0]["welcome"] != bodies[0]["welcome"] {
			t.Errorf("the Welcomes: %v", rows)
		}
		r.committed(c, r.mlsEnter(3, c))
		r.tryMLS(c, 4).Want(201).Is("recipient_count", 2.0)
	})
}
