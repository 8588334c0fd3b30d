package agent_test

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/agent"
	"parley/client/parley"
)

// blocked is an agent that an agent blocks, or a whole organization: then agent is zero.
type blocked struct {
	agent parley.AgentID
	org   parley.OrgID
	ms    int64
}

var (
	owners = map[parley.AgentID]parley.OrgID{
		actorstest.Named("bob"): actorstest.Named("globex"), actorstest.Named("carol"): actorstest.Named("globex"), actorstest.Named("alice"): actorstest.Named("acme"),
	}
	organizations = rapid.SampledFrom([]parley.OrgID{actorstest.Named("globex"), actorstest.Named("acme")})
)

// blockable draws an agent with its owner, or an organization.
func blockable(t *rapid.T) (parley.AgentID, parley.OrgID) {
	if rarely.Draw(t, "all of it") {
		return parley.AgentID{}, organizations.Draw(t, "organization")
	}
	a := recipients.Draw(t, "agent")
	return a, owners[a]
}

func (o *oracle) place(other parley.AgentID, org parley.OrgID) int {
	return slices.IndexFunc(o.blocks, func(b blocked) bool { return b.agent == other && b.org == org })
}

func (o *oracle) blocksAny(other parley.AgentID, org parley.OrgID) bool {
	return o.place(other, org) >= 0 || o.place(parley.AgentID{}, org) >= 0
}

func (o *oracle) setBlock(c agent.SetBlock, now time.Time) actorstest.Verdict {
	switch {
	case c.Agent == o.id:
		return actorstest.Refused("itself", "422 validation_error")
	case o.place(c.Agent, c.Org) >= 0:
		return actorstest.Accepted("nothing new")
	}
	o.blocks = append(o.blocks, blocked{c.Agent, c.Org, now.UnixMilli()})
	return actorstest.Accepted("changed")
}

func (o *oracle) endBlock(c agent.EndBlock) actorstest.Verdict {
	at := o.place(c.Agent, c.Org)
	if at < 0 {
		return actorstest.Accepted("nothing new")
	}
	o.blocks = slices.Delete(slices.Clone(o.blocks), at, at+1)
	return actorstest.Accepted("changed")
}

func seeBlocks(s *agent.State) (all []blocked) {
	for _, b := range s.GetBlocks() {
		all = append(all, blocked{b.AgentID(), b.OrgID(), b.At().UnixMilli()})
	}
	return all
}
