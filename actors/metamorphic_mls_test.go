package actors

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"parley/actors/group"
	"parley/actors/record"
	"parley/client/parley"
)

// scriptMLS is the group of a script that has an MLS group.
type scriptMLS struct {
	sealed parley.GroupID
	// draws makes the choices about it, so that those about everything else do not depend
	// on them.
	draws *rand.Rand
	// commits are those that were tried.
	commits []MLSCommit
}

// beginMLS creates the group with all agents, of which one has a leaf.
func (p *scriptRunner) beginMLS(ctx context.Context) {
	by := p.ids[0]
	p.sealed = must(p.node.Groups.Create(ctx, NewGroup{Found: group.Found{
		Org: p.owners[by], Founder: by, Name: "sealed", Policy: group.Open, VoteHours: 48,
	}}))(p.t).ID
	p.founders[p.sealed] = group.Caller{Org: p.owners[by], Agent: by}
	for _, id := range p.ids[1:] {
		must(p.node.Groups.Join(ctx, p.sealed, group.Join{Agent: id, Org: p.owners[id]}))(p.t)
	}
	p.tryCommit(ctx, mlsCommit(by, 0, nil, nil))
}

// tryCommit commits and notes the outcome.
func (p *scriptRunner) tryCommit(ctx context.Context, m MLSCommit) {
	p.restless = true
	p.commits = append(p.commits, m)
	done, err := p.node.Groups.CommitMLS(ctx, p.sealed, m)
	p.noteResult(err, "committed by %s: %+v", m.By, done)
}

// useMLS makes one request about the MLS group.
func (p *scriptRunner) useMLS(ctx context.Context, n int) {
	draw := func(of int) int { return p.draws.IntN(of) }
	who, other := p.ids[draw(len(p.ids))], p.ids[draw(len(p.ids))]
	epoch := must(readGroup(ctx, p.node.Groups, p.sealed, func(s *group.State) uint64 { return s.Epoch }))(p.t)
	if draw(8) == 0 {
		epoch--
	}
	founder := p.founders[p.sealed].Agent
	if draw(3) > 0 {
		who = founder
	}
	m := mlsCommit(who, epoch, nil, nil)
	m.Message = fmt.Appendf(m.Message, ", %d", n)
	p.note("%d in epoch %d: ", n, epoch)
	switch draw(12) {
	case 0, 1, 2:
		m.Added, m.Welcome = []parley.AgentID{other}, fmt.Appendf(nil, "welcome %d", n)
		p.tryCommit(ctx, m)
	case 3:
		m.Removed = []parley.AgentID{other}
		p.tryCommit(ctx, m)
	case 4:
		m.By, m.Added, m.External = other, []parley.AgentID{other}, true
		p.tryCommit(ctx, m)
	case 5:
		p.tryCommit(ctx, p.commits[draw(len(p.commits))])
	case 6, 7:
		p.restless = true
		posted, err := p.node.Messages.Broadcast(ctx, GroupSend{
			Content: Content{Type: "svc.v1.dm", Body: fmt.Appendf(nil, "sealed %d", n), FromOrg: p.owners[who]},
			Group:   p.sealed, From: who, MLS: &group.MLSHeader{Epoch: epoch},
		})
		p.noteResult(err, "sealed for %d", posted.Message.GetRecipients())
	case 8:
		p.comeOrGo(ctx, other)
	case 9:
		p.acknowledge(ctx, other, epoch)
	case 10:
		p.readMLS(ctx, other)
	default:
		p.tryCommit(ctx, m)
	}
}

// comeOrGo makes an agent join the group, or leave it if it is there.
func (p *scriptRunner) comeOrGo(ctx context.Context, who parley.AgentID) {
	p.restless = true
	if who == p.founders[p.sealed].Agent {
		p.note("the founder stays\n")
		return
	}
	self := group.Caller{Org: p.owners[who], Agent: who}
	if _, err := p.node.Groups.Join(ctx, p.sealed, group.Join{Agent: who, Org: self.Org}); err != nil {
		p.noteResult(err, "")
		p.noteResult(p.node.Groups.RemoveMember(ctx, p.sealed, group.Remove{Agent: who, By: self}), "%s left the group %s", who, p.sealed)
		return
	}
	p.note("%s joined\n", who)
}

func (p *scriptRunner) acknowledge(ctx context.Context, who parley.AgentID, epoch uint64) {
	page, _, err := p.node.Groups.MLSWelcomesFor(ctx, p.sealed, who, 0, 1, math.MaxInt, nil)
	if err == nil && len(page) > 0 {
		epoch = page[0].Epoch
	}
	p.noteResult(p.node.Groups.AcknowledgeWelcome(ctx, p.sealed, who, record.WelcomeID(p.sealed, epoch)), "%s acknowledged the Welcome of epoch %d", who, epoch)
}

// readMLS notes what an agent can read of the MLS group.
func (p *scriptRunner) readMLS(ctx context.Context, who parley.AgentID) {
	page, more, err := p.node.Groups.MLSCommitsFor(ctx, p.sealed, who, 0, math.MaxInt, math.MaxInt, nil)
	for _, m := range page {
		p.note("  in %d by %s at %d: %s\n", m.Epoch, m.By(), m.GetCreatedMs(), m.GetCommit())
	}
	p.noteResult(err, "end of the commits for %s: %v", who, more)
	info, err := p.node.Groups.MLSInfoFor(ctx, p.sealed, who, nil)
	p.noteResult(err, "GroupInfo %d %d %s", info.Epoch, info.Suite, info.GroupInfo)
	welcomes, _, err := p.node.Groups.MLSWelcomesFor(ctx, p.sealed, who, 0, math.MaxInt, math.MaxInt, nil)
	for _, w := range welcomes {
		p.note("  Welcome of %d: %s\n", w.Epoch, w.GetWelcome())
	}
	p.noteResult(err, "end of the Welcomes of %s", who)
	for _, of := range p.ids {
		awaits, err := p.node.Groups.AwaitsMLS(ctx, who, of)
		p.noteResult(err, "%s may claim a key package of %s: %v", who, of, awaits)
	}
	p.note("told %s: %v\n", who, p.mlsNews(who))
}
