package agents

import (
	"context"
	"encoding/binary"
	"fmt"

	"parley/actors"
	"parley/actors/agent"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/rest"
	"parley/http/view"
)

// List returns the organization's agents. // spec: Agents
func (s Agents) List(c *rest.Call, in *api.ListAgents) (rest.Rendered, error) {
	l, err := s.Lists.New(c, in.Paging, fmt.Sprint("agents ", in.IncludeRevoked), 8)
	if err != nil {
		return rest.Rendered{}, err
	}
	from := uint64(0)
	if l.After != nil {
		from = binary.BigEndian.Uint64(l.After) // add knows that it was in an earlier page
	}
	agents := s.Agents.EachActive
	if in.IncludeRevoked {
		agents = s.Agents.Each
	}
	return l.Answer(agents(c, from, func(place uint64, a *agent.State) bool {
		one, err := s.agentOf(c.Context(), a)
		return l.Add(binary.BigEndian.AppendUint64(nil, place), one, err)
	}))
}

func (s Agents) Get(c *rest.Call, in *api.GetAgent) (api.Agent, error) {
	a, err := s.Agents.Own(c, in.ID)
	if err != nil {
		return api.Agent{}, err
	}
	return s.agentOf(c.Context(), a)
}

// Create creates an agent with a poll token. The poll address is returned only here.
func (s Agents) Create(c *rest.Call, in *api.CreateAgent) (api.Agent, error) {
	keys, err := readKeys(in.SigningPublicKey, in.EncryptionPublicKey)
	if err != nil {
		return api.Agent{}, err
	}
	token, hash := s.newPollToken()
	made, err := s.Node.Agents.Create(c.Context(), actors.NewAgent{
		Create: agent.Create{
			OrgID: c.Caller.Org, Name: in.Name, HumanOversight: in.HumanOversight == nil || *in.HumanOversight,
			Unlisted: in.Unlisted != nil && *in.Unlisted, SigningKey: keys.signing, EncryptionKey: keys.encryption,
			PollTokenHash: hash,
		},
		Limit: s.Quotas.Allowed(c.Caller, access.QuotaAgents),
	})
	if err != nil {
		return api.Agent{}, err
	}
	a, err := s.agentOf(c.Context(), made)
	a.PollURL = new(s.pollURL(token))
	return a, err
}

func (s Agents) Patch(c *rest.Call, in *api.AgentPatch) (api.Agent, error) {
	return s.changeAgent(c, in.ID, agent.Change{
		Name: in.Name, HumanOversight: in.HumanOversight, IncomingPolicy: in.IncomingPolicy,
		OutgoingPolicy: in.OutgoingPolicy, Unlisted: in.Unlisted,
	})
}

func (s Agents) Delete(c *rest.Call, in *api.DeleteAgent) (rest.NoContent, error) {
	_, err := s.changeAgent(c, in.ID, agent.Revoke{})
	if err == nil {
		s.Ended(in.ID)
	}
	return rest.NoContent{}, err
}

// changeAgent sends a command to one of the caller's agents.
func (s Agents) changeAgent(c *rest.Call, id parley.AgentID, command agent.Command) (api.Agent, error) {
	if _, err := s.Agents.Own(c, id); err != nil {
		return api.Agent{}, err
	}
	a, err := s.Node.Agents.Change(c.Context(), id, command)
	if err != nil {
		return api.Agent{}, err
	}
	return s.agentOf(c.Context(), a)
}

// agentOf returns an agent as its owner sees it. // spec: Agent (AgentRead)
func (s Agents) agentOf(ctx context.Context, a *agent.State) (api.Agent, error) {
	o, err := s.Node.Orgs.Get(ctx, a.Owner())
	if err != nil {
		return api.Agent{}, err
	}
	read := s.Show.Agent(a, o)
	disabled, unread := s.Node.Webhooks.Disabled(ctx, a)
	for _, w := range disabled {
		read.Warnings = append(read.Warnings, view.WebhookWarning(w))
	}
	return read, unread
}
