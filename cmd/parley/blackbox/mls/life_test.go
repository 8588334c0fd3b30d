package mls

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
	"parley/cmd/parley/blackbox/kit/hooktest"
	"parley/http/mls/mlstest"
)

// mlsEvents reads the wanted events about the MLS group, each as "kind epoch", and checks
// that no other of that kind follows.
func mlsEvents(st *kit.Stream, what string, r *grouptest.Group, want ...string) {
	st.T.Helper()
	var got []string
	for len(got) < len(want) {
		e := st.Next()
		if !strings.HasPrefix(kit.Text(e.Data, "kind"), "mls_") {
			continue
		}
		if e.Name != "group" || e.ID != "" || e.Data["group_id"] != r.ID {
			st.T.Errorf("%s: %q id %q: %s", what, e.Name, e.ID, e.Raw)
		}
		kit.Exactly(st.T, "an event of the MLS group", e.Data, "group_id kind epoch")
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
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b, c, _ := trio(t, s)
		r := grouptest.NewWithPolicy(a, "open", b, c)
		streams := map[*kit.Agent]*kit.Stream{}
		for _, g := range []*kit.Agent{a, b, c} {
			streams[g] = g.Stream("")
			streams[g].Opening()
		}
		to := hooktest.Wanting(b, "group.mls")
		tell := func(what string, of map[*kit.Agent][]string) {
			t.Helper()
			for g, want := range of {
				mlsEvents(streams[g], what+", to "+g.Name, r, want...)
			}
		}
		r.Committed(a, r.AddBody(0, b))
		tell("the first commit", map[*kit.Agent][]string{a: {"mls_commit 1", "mls_admission 1"}, b: {"mls_commit 1", "mls_welcome 1", "mls_admission 1"}, c: {"mls_commit 1"}})
		r.Committed(c, mlsEnter(r, 1, c))
		tell("an external commit", map[*kit.Agent][]string{a: {"mls_commit 2"}, b: {"mls_commit 2"}, c: {"mls_commit 2"}})
		r.Remove(c, c).Want(204)
		tell("leaving", map[*kit.Agent][]string{a: {"mls_removal 2"}, b: {"mls_removal 2"}})
		r.Committed(b, r.CommitBody(2, obj{"removed": grouptest.IDsOf([]*kit.Agent{c})}))
		tell("a removal", map[*kit.Agent][]string{a: {"mls_commit 3"}, b: {"mls_commit 3"}})
		r.Joined(c)
		tell("joining", map[*kit.Agent][]string{a: {"mls_admission 3"}, b: {"mls_admission 3"}})
		r.Committed(b, r.AddBody(3, c))
		tell("an addition", map[*kit.Agent][]string{a: {"mls_commit 4"}, b: {"mls_commit 4"}, c: {"mls_commit 4", "mls_welcome 4"}})
		r.Committed(a, r.CommitBody(4, obj{"removed": grouptest.IDsOf([]*kit.Agent{c})}))
		tell("a kick", map[*kit.Agent][]string{a: {"mls_commit 5"}, b: {"mls_commit 5"}, c: {"mls_commit 5"}})

		var got []string
		kit.Eventually(t, "the webhook gets nine events", func() bool {
			got = nil
			for _, d := range to.To.Deliveries() {
				got = append(got, fmt.Sprint(d.Body["kind"], " ", d.Body["epoch"]))
			}
			return len(got) >= 9
		})
		want := []string{"mls_commit 1", "mls_welcome 1", "mls_admission 1", "mls_commit 2", "mls_removal 2", "mls_commit 3", "mls_admission 3", "mls_commit 4", "mls_commit 5"}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("the webhook got %q, want %q", got, want)
		}
		d := to.To.Deliveries()[0].Judged(t, to)
		kit.Exactly(t, "the payload", d.Body, "message_id agent_id event timestamp group_id kind epoch")
		if d.Body["event"] != "group.mls" || d.Body["message_id"] != nil || d.Body["group_id"] != r.ID || d.Body["agent_id"] != b.ID {
			t.Errorf("the payload: %s", d.Raw)
		}
	})
}

// TestMLSRemoval: a seat goes at once, its leaf with a commit. Until then nobody broadcasts,
// because the former member could read on.
func TestMLSRemoval(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b, c, second := trio(t, s)
		r := grouptest.NewMLS(a, b, c)
		r.Remove(c, c).Want(204)
		checkMLS(r, "after leaving", true, a, b)
		tryMLS(r, b, 1).Refused(409, "mls_removal_pending").Is("removed", []any{c.ID})
		tryMLS(r, a, 7).As("of another epoch").Refused(409, "mls_removal_pending")
		r.TryCommit(c, r.CommitBody(1)).As("by the former member").Refused(404, "not_found")
		if rows := commits(r, c, "?limit=1"); len(rows) != 1 {
			t.Errorf("who left a leaf behind sees %d commits, want 1", len(rows))
		}
		r.Committed(b, r.CommitBody(1, obj{"removed": grouptest.IDsOf([]*kit.Agent{c})})) // not an admin
		checkMLS(r, "after the removal", false, a, b)
		tryMLS(r, b, 2).Want(201).Is("recipient_count", 1.0)
		r.Committed(a, r.CommitBody(2))
		if rows := commits(r, c, "?limit=1"); len(rows) != 2 || rows[1]["epoch"] != 1.0 {
			t.Errorf("a removed agent sees %v, want the commits of epochs 0 and 1", rows)
		}
		c.Request("GET", r.Path("/mls/group-info"), nil).As("a stranger again").Refused(404, "not_found")

		// Joining again needs a new leaf.
		r.Joined(c)
		tryMLS(r, c, 3).Refused(409, "mls_pending")
		r.Committed(b, r.AddBody(3, c))
		tryMLS(r, c, 4).Want(201)

		// A member is removed by a commit of an admin.
		r.Remove(b, c).As("not an admin").Refused(403, "not_admin")
		r.Remove(a, c).Refused(409, "mls_commit_required")
		s.Call(t, a.Token, "DELETE", r.Path("/members/"+c.ID), nil).As("unnamed").Refused(409, "agent_required")
		r.Remove(second, c).As("no member").Refused(403, "not_admin")
		r.TryCommit(b, r.CommitBody(4, obj{"removed": grouptest.IDsOf([]*kit.Agent{c})})).Refused(403, "not_admin")
		r.Committed(a, r.CommitBody(4, obj{"removed": grouptest.IDsOf([]*kit.Agent{c})}))
		checkMLS(r, "after the kick", false, a, b)
		r.Remove(a, c).As("after the commit").Want(204)
		r.Remove(a, c).As("after the commit, again").Want(204)
		r.Remove(b, c).As("after the commit, by a member").Refused(403, "not_admin")
		r.Remove(a, second).As("never a member").Refused(404, "not_found")
		tryMLS(r, c, 5).As("a stranger again").Refused(404, "not_found")

		// An agent that comes back before its leaf is removed needs both in one commit.
		r.Remove(b, b).Want(204)
		r.Joined(b)
		r.TryCommit(a, r.AddBody(5, b)).As("with its former leaf").Invalid("body.added", "value_error")
		r.TryCommit(b, mlsEnter(r, 5, b)).As("with its former leaf").Invalid("body.added", "value_error")
		r.Committed(b, kit.Merged(mlsEnter(r, 5, b), obj{"removed": grouptest.IDsOf([]*kit.Agent{b})}))
		checkMLS(r, "after all", false, a, b)
		b.Delete(b.Path("")).Want(204)
		tryMLS(r, a, 6).As("after a revocation").Refused(409, "mls_removal_pending").Is("removed", []any{b.ID})
		r.Committed(a, r.CommitBody(6, obj{"removed": grouptest.IDsOf([]*kit.Agent{b})}))
		tryMLS(r, a, 7).RefusedByRule("no_recipients")
	})
}

// TestMLSBroadcasts: a broadcast is an application message of the group and its epoch. The
// format of groups without an MLS group stays valid in them.
func TestMLSBroadcasts(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b, _, _ := trio(t, s)
		plain := grouptest.NewWithPolicy(a, "open", b)
		for _, payload := range []string{kit.B64([]byte{1, 2, 3}), kit.B64(mlstest.Application(plain.ID, 9)), "AA"} {
			plain.TryBroadcast(a, obj{"encrypted_payload": payload}).Want(201)
		}
		r := grouptest.NewMLS(a, b)
		for name, payload := range map[string]string{
			"the client's format": kit.B64([]byte{1, 2, 3}), "a byte": "AA", "a commit": kit.B64(mlstest.Commit{Group: r.ID, Epoch: 1}.Message()),
			"a public commit": kit.B64(mlstest.Commit{Group: r.ID, Epoch: 1, Public: true}.Message()), "a proposal": kit.B64(mlstest.Proposal(r.ID, 1)),
			"a message of another group": kit.B64(mlstest.Application(plain.ID, 1)), "a byte too many": kit.B64(append(mlstest.Application(r.ID, 1), 0)),
		} {
			r.TryBroadcast(a, obj{"encrypted_payload": payload}).As("%s", name).Invalid("body.encrypted_payload", "value_error")
		}
		r.TryBroadcast(a, obj{"encrypted_payload": kit.B64(mlstest.Application(r.ID, 1)), "encryption_version": "hpke-v1"}).Invalid("body.encrypted_payload", "value_error")
		for _, epoch := range []uint64{0, 2} {
			tryMLS(r, a, epoch).Refused(409, "epoch_conflict").Is("current_epoch", 1.0)
		}
		key := "k-" + kit.RandomHex(8)
		body := obj{"encrypted_payload": kit.B64(mlstest.Application(r.ID, 1))}
		sent := r.TryBroadcast(a, body, "Idempotency-Key", key).Want(201).Body
		r.Committed(b, r.CommitBody(1))
		r.TryBroadcast(a, body, "Idempotency-Key", key).As("a repeat in a later epoch").Want(200).Is("id", sent["id"])
		b.Reply(grouptest.CopiesOf(b)[len(grouptest.CopiesOf(b))-1])
	})
}

// TestMLSCommittersRace: of commits in one epoch exactly one is accepted, and the others
// learn the epoch.
func TestMLSCommittersRace(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b, c, _ := trio(t, s)
		r := grouptest.NewMLS(a, b, c)
		for epoch := uint64(1); epoch <= 20; epoch++ {
			committers, bodies := []*kit.Agent{a, b, c}, []obj{r.CommitBody(epoch), r.CommitBody(epoch), r.CommitBody(epoch)}
			answers := kit.Concurrently(3, func(i int) *kit.Answer { return r.TryCommit(committers[i], bodies[i]) })
			winner := slices.IndexFunc(answers, func(a *kit.Answer) bool { return a.Status == 201 })
			if winner < 0 {
				t.Fatalf("nobody won epoch %d: %d", epoch, answers[0].Status)
			}
			for i, one := range answers {
				if i != winner {
					one.Refused(409, "epoch_conflict").Is("current_epoch", float64(epoch+1))
				}
			}
			for range 2 {
				r.TryCommit(committers[winner], bodies[winner]).As("the winner again").Want(200).Is("epoch", float64(epoch+1))
			}
			r.TryCommit(committers[(winner+1)%3], bodies[winner]).As("the same bytes by another").Refused(409, "epoch_conflict")
			if rows := commits(r, c, fmt.Sprint("?since_epoch=", epoch)); len(rows) != 1 || rows[0]["commit"] != bodies[winner]["commit"] || rows[0]["committed_by"] != committers[winner].ID {
				t.Fatalf("epoch %d has %v", epoch, rows)
			}
		}
	})
}

// TestMLSCatchUp: a reader that was away sees, epoch by epoch, all messages of an epoch
// before the commit that was made in it.
func TestMLSCatchUp(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b, c, _ := trio(t, s)
		r := grouptest.NewMLS(a, b, c)
		const epochs = 30
		st := c.Stream("")
		st.Opening()
		for epoch := uint64(1); epoch <= epochs; epoch++ {
			for range epoch % 3 {
				tryMLS(r, a, epoch).Want(201)
			}
			r.Committed(b, r.CommitBody(epoch))
			// A reader that sees the commit has the messages of the epoch.
			if rows, copies := commits(r, c, fmt.Sprint("?since_epoch=", epoch)), grouptest.CopiesOf(c); len(rows) != 1 || uint64(len(copies)) != epoch/3*3+epoch%3*(epoch%3+1)/2 {
				t.Fatalf("after epoch %d the reader has %d commits and %d copies", epoch, len(rows), len(copies))
			}
		}
		if rows := commits(r, c, "?limit=7"); len(rows) != epochs+1 || slices.ContainsFunc(rows, func(row obj) bool {
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
			mlsEvents(st, "on the stream", r, fmt.Sprintf("mls_commit %d", epoch+1))
		}
	})
}

// TestMLSSurvivesAKill: what was answered 201 is there after a crash, the Welcome with it, and
// the committer that lost the answer repeats its commit.
func TestMLSSurvivesAKill(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals)
		a, b, c, _ := trio(t, s)
		r := grouptest.NewWithPolicy(a, "open", b, c)
		bodies := []obj{r.AddBody(0, b)}
		for epoch := uint64(0); ; epoch++ {
			r.Committed(a, bodies[epoch])
			s.Kill()
			s.Restart(t)
			r.TryCommit(a, bodies[epoch]).As("repeated").Want(200).Is("epoch", float64(epoch+1))
			r.TryCommit(b, r.CommitBody(epoch)).As("another").Refused(409, "epoch_conflict").Is("current_epoch", float64(epoch+1))
			epochOf(r, c, epoch+1)
			if rows := commits(r, c, "?limit=2"); len(rows) != len(bodies) || rows[epoch]["commit"] != bodies[epoch]["commit"] {
				t.Fatalf("in epoch %d: %v", epoch+1, rows)
			}
			if epoch == 2 {
				break
			}
			bodies = append(bodies, r.CommitBody(epoch+1))
		}
		if rows := r.Welcomes(b); len(rows) != 1 || rows[0]["welcome"] != bodies[0]["welcome"] {
			t.Errorf("the Welcomes: %v", rows)
		}
		r.Committed(c, mlsEnter(r, 3, c))
		tryMLS(r, c, 4).Want(201).Is("recipient_count", 2.0)
	})
}
