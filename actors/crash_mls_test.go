package actors

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"parley/actors/group"
	"parley/client/parley"
	"parley/journal"
)

// crashMLS are the groups of a workload that have, or will have, an MLS group.
type crashMLS struct{ mls []*crashGroup }

// knownCommit is a commit that was acknowledged or shown.
type knownCommit struct {
	by      parley.AgentID
	message string
}

// knownMLS is what clients know about MLS groups.
type knownMLS struct {
	// commits of each group by the epoch that they were made in.
	commits map[parley.GroupID]map[uint64]knownCommit
	// welcomes are the epochs of the acknowledged commits that added an agent last.
	welcomes map[membership]uint64
	// expelled are the agents whose removal was requested.
	expelled map[membership]bool
}

func newKnownMLS() knownMLS {
	return knownMLS{map[parley.GroupID]map[uint64]knownCommit{}, map[membership]uint64{}, map[membership]bool{}}
}

// commit notes a commit that a client knows of. An epoch has one.
func (k *knownFacts) commit(id parley.GroupID, epoch uint64, c knownCommit) {
	if k.commits[id] == nil {
		k.commits[id] = map[uint64]knownCommit{}
	}
	if had, known := k.commits[id][epoch]; known && had != c {
		k.fault("two commits won epoch %d of group %s: %+v and %+v", epoch, id, had, c)
	}
	k.commits[id][epoch] = c
}

// mlsRefusals are the refusals of commits whose client does not check first, or that came
// second.
var mlsRefusals = append([]error{
	group.ErrEpochConflict, group.ErrMLSPending, group.ErrNotBegun, group.ErrHasLeaf, group.ErrExternal, group.ErrNoLeaf,
	group.ErrCommitterStays, group.ErrNotAwaiting, group.ErrFormerLeaf,
}, groupRefusals...)

// useMLS runs requests about MLS groups. Several clients commit in the same groups.
func (c *client) useMLS() {
	a, some := pick(c, &c.active)
	if !some {
		return
	}
	g, ok := pick(c, &c.mls)
	switch draw := c.rng.IntN(10); {
	case !ok || draw == 0:
		if g = c.foundGroup(fmt.Sprint("mls", c.next()), a, group.Open, false); g != nil {
			note(c.workload, &c.mls, g)
			c.commitMLS(g, MLSCommit{Commit: group.Commit{By: a.id}})
		}
	case draw < 4:
		_, err := c.node().Groups.Join(context.Background(), g.id, group.Join{Agent: a.id, Org: a.owner})
		if !c.answered(err, groupRefusals...) {
			return
		}
		if m := (MLSCommit{Commit: group.Commit{By: g.founder.id, Added: []parley.AgentID{a.id}}}); draw == 1 {
			m.By, m.External = a.id, true
			c.commitMLS(g, m)
		} else {
			c.commitMLS(g, m)
		}
	case draw == 4 && a != g.founder:
		c.claim(func(k *knownFacts) { k.expelled[membership{g.id, a.id}] = true })
		c.commitMLS(g, MLSCommit{Commit: group.Commit{By: g.founder.id, Removed: []parley.AgentID{a.id}}})
	case draw == 5:
		c.readCommits(g)
	case draw == 6:
		c.commitMLS(g, MLSCommit{Commit: group.Commit{By: a.id}})
	default:
		c.commitMLS(g, MLSCommit{Commit: group.Commit{By: g.founder.id}})
	}
}

// commitMLS commits in the present epoch, and sometimes repeats the commit. Its bytes are
// those of no other commit.
func (c *client) commitMLS(g *crashGroup, m MLSCommit) {
	epoch, err := readGroup(context.Background(), c.node().Groups, g.id, func(s *group.State) uint64 { return s.Epoch })
	if !c.answered(err) {
		return
	}
	message := fmt.Sprintf("commit %d", c.next())
	m.Epoch, m.Suite, m.Message, m.GroupInfo = epoch, 1, []byte(message), []byte("info of "+message)
	if len(m.Added) > 0 && !m.External {
		m.Welcome = []byte("welcome of " + message)
	}
	for range 1 + c.rng.IntN(2) {
		done, err := c.node().Groups.CommitMLS(context.Background(), g.id, m)
		if !c.answered(err, mlsRefusals...) || err != nil {
			continue
		}
		if done.Epoch != epoch+1 {
			c.t.Errorf("a commit in epoch %d began epoch %d", epoch, done.Epoch)
		}
		c.claim(func(k *knownFacts) {
			k.commit(g.id, epoch, knownCommit{m.By, message})
			for _, a := range m.Added {
				if at := (membership{g.id, a}); len(m.Welcome) > 0 {
					k.welcomes[at] = max(k.welcomes[at], epoch)
				}
			}
		})
	}
}

// readCommits reads all commits of a group as its founder.
func (c *client) readCommits(g *crashGroup) {
	page, _, err := c.node().Groups.MLSCommitsFor(context.Background(), g.id, g.founder.id, 0, math.MaxInt, math.MaxInt, nil)
	if !c.answered(err, groupRefusals...) || err != nil {
		return
	}
	c.claim(func(k *knownFacts) {
		for i, m := range page {
			if m.Epoch != uint64(i) {
				k.fault("commit %d of group %s is that of epoch %d", i, g.id, m.Epoch)
			}
			k.commit(g.id, m.Epoch, knownCommit{m.By(), string(m.GetCommit())})
		}
	})
}

// mlsSight is what a check needs of a group's state.
type mlsSight struct {
	deleted bool
	epoch   uint64
	leaves  []parley.AgentID
}

// checkMLS: commits that were acknowledged or shown are there, one for each epoch and
// without gaps; the GroupInfo is that of the last one, and agents have their Welcomes.
func (x *imageCheck) checkMLS() {
	ctx, groups := context.Background(), x.node.node.Groups
	for id, known := range x.known.commits {
		s, err := readGroup(ctx, groups, id, func(s *group.State) (of mlsSight) {
			of.deleted, of.epoch = s.Deleted(), s.Epoch
			for _, m := range s.Members() {
				if m.Leaf {
					of.leaves = append(of.leaves, m.Agent)
				}
			}
			return of
		})
		if !x.noError(err, "lost: group %s", id) || s.deleted {
			continue
		}
		page, more, err := groups.MLSCommits(ctx, id, 0, s.epoch, math.MaxInt, math.MaxInt, nil)
		if !x.noError(err, "the commits of group %s", id) {
			continue
		}
		if uint64(len(page)) != s.epoch || more {
			x.fault("half: group %s is in epoch %d and has %d commits, more %v", id, s.epoch, len(page), more)
		}
		for i, m := range page {
			if m.Epoch != uint64(i) {
				x.fault("half: commit %d of group %s is that of epoch %d", i, id, m.Epoch)
			}
		}
		for epoch, c := range known {
			if epoch >= uint64(len(page)) || string(page[epoch].GetCommit()) != c.message || page[epoch].By() != c.by {
				x.fault("lost: epoch %d of group %s had %+v; there are %d commits", epoch, id, c, len(page))
			}
		}
		if info, err := groups.MLSGroupInfo(ctx, id, nil); len(page) > 0 && (err != nil || info.GetEpoch() != s.epoch || string(info.GetGroupInfo()) != "info of "+string(page[len(page)-1].GetCommit())) {
			x.fault("half: the GroupInfo of group %s in epoch %d is %v, %v", id, s.epoch, info, err)
		}
		x.checkWelcomes(id, s.leaves)
		x.checkWinners(id, s.leaves)
	}
}

// checkWelcomes: agents that were added have the Welcome. Nobody acknowledges any.
func (x *imageCheck) checkWelcomes(id parley.GroupID, leaves []parley.AgentID) {
	for at, epoch := range x.known.welcomes {
		if at.group != id || x.known.expelled[at] || !slices.Contains(leaves, at.agent) {
			continue
		}
		page, _, err := x.node.node.Groups.MLSWelcomesFor(context.Background(), id, at.agent, epoch, math.MaxInt, math.MaxInt, nil)
		if want := "welcome of " + x.known.commits[id][epoch].message; err != nil || len(page) == 0 || page[0].Epoch != epoch || string(page[0].GetWelcome()) != want {
			x.fault("lost: the Welcome of agent %s in epoch %d of group %s: %v, %v", at.agent, epoch, id, page, err)
		}
	}
}

// checkWinners: the winner of an epoch gets its answer again, and everybody else a refusal.
func (x *imageCheck) checkWinners(id parley.GroupID, leaves []parley.AgentID) {
	for epoch, c := range x.known.commits[id] {
		if !slices.Contains(leaves, c.by) {
			continue
		}
		m := MLSCommit{Commit: group.Commit{By: c.by, Epoch: epoch, Suite: 1}, Message: []byte(c.message), GroupInfo: []byte("info")}
		if done, err := x.node.node.Groups.CommitMLS(context.Background(), id, m); err != nil || done != (MLSCommitted{Epoch: epoch + 1, Repeated: true}) {
			x.fault("lost: epoch %d of group %s was won by %+v, whose repeat gets %+v, %v", epoch, id, c, done, err)
		}
		m.Message = []byte("another")
		if done, err := x.node.node.Groups.CommitMLS(context.Background(), id, m); !errors.Is(err, group.ErrEpochConflict) {
			x.fault("two: epoch %d of group %s was won by %+v, and another commit gets %+v, %v", epoch, id, c, done, err)
		}
	}
}

// withoutTable is a journal that does not store the rows of a table.
type withoutTable struct {
	journal.Journal
	table journal.Table
}

func (j withoutTable) Append(e *journal.Entry) {
	e.Effects = slices.DeleteFunc(slices.Clone(e.Effects), func(f journal.Effect) bool {
		put, ok := f.(journal.PutRow)
		return ok && put.Row.Table == j.table
	})
	j.Journal.Append(e)
}

// TestCrashMLSControls loses the rows of commits, GroupInfos or Welcomes: the check of MLS
// groups must report each.
func TestCrashMLSControls(t *testing.T) {
	skipUnderRace(t)
	for want, table := range map[string]journal.Table{
		"lost: epoch": journal.MLSCommitTable, "half: the GroupInfo": journal.MLSGroupInfoTable, "lost: the Welcome": journal.MLSWelcomeTable,
	} {
		t.Run(want, func(t *testing.T) {
			x := crashScenario{journals: 1, lives: 1, rounds: 12, wrap: func(j journal.Journal) journal.Journal { return journal.Of(withoutTable{j, table}) }}
			for ; x.seed < 10; x.seed++ {
				v := &crashResult{}
				if x.run(t, v); strings.Contains(strings.Join(v.faults, "\n"), want) {
					return
				}
			}
			t.Error("the check did not notice it")
		})
	}
}
