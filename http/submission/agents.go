package submission

import (
	"context"
	"errors"
	"strings"

	"parley"
	"parley/actors/agent"
	"parley/http/rest"
)

var (
	ErrAgentRequired = parley.Refuse(parley.Invalid, "agent_required", "Name the acting agent: your organization has several, or none.")
	ErrActingAgent   = parley.ErrNotOwner.Saying("The acting agent is not an active agent of your organization.")
)

// Acting returns the agent that a header or from_handle names by UUID, handle or bare
// name. An unknown, foreign or revoked agent cannot act.
func (d *Desk) Acting(c *rest.Call, name string) (*agent.State, error) {
	a, err := d.named(c, strings.TrimSpace(name))
	switch {
	case errors.Is(err, parley.ErrNotFound), errors.Is(err, parley.ErrBadHandle):
		return nil, ErrActingAgent
	case err != nil:
		return nil, err
	case a.Owner() != c.Caller.Org || a.Revoked():
		return nil, ErrActingAgent
	}
	return a, nil
}

func (d *Desk) named(c *rest.Call, name string) (*agent.State, error) {
	if id, err := parley.ParseID[parley.AgentID](name); err == nil {
		return d.node.Agents.Get(c.Context(), id)
	}
	if strings.Contains(name, "@") {
		return d.AgentByHandle(c, name)
	}
	id, err := d.node.Agents.ByName(c.Context(), c.Caller.Org, strings.ToLower(name))
	if err != nil {
		return nil, err
	}
	return d.node.Agents.Get(c.Context(), id)
}

// AgentByHandle returns the agent with a handle, active or revoked. The error is
// parley.ErrBadHandle or parley.ErrNotFound if there is none.
func (d *Desk) AgentByHandle(c *rest.Call, handle string) (*agent.State, error) {
	h, err := parley.ParseHandle(handle)
	if err != nil {
		return nil, err
	}
	if h.Domain != d.domain || h.Group {
		return nil, parley.ErrNotFound
	}
	owner, err := d.node.Orgs.BySlug(c.Context(), h.Slug)
	if err != nil {
		return nil, err
	}
	id, err := d.node.Agents.ByName(c.Context(), owner, h.Name)
	if err != nil {
		return nil, err
	}
	return d.node.Agents.Get(c.Context(), id)
}

// Handle returns the handle of an agent, which contains its organization's slug.
func (d *Desk) Handle(ctx context.Context, a *agent.State) (string, error) {
	o, err := d.node.Orgs.Get(ctx, a.Owner())
	if err != nil {
		return "", err
	}
	return parley.Handle{Name: a.GetName(), Slug: o.GetSlug(), Domain: d.domain}.String(), nil
}

// ActingOrFirst returns the agent that was named, else the organization's first active
// one.
func (d *Desk) ActingOrFirst(c *rest.Call, name string) (*agent.State, error) {
	if name != "" {
		return d.Acting(c, name)
	}
	a, err := d.node.Agents.FirstActive(c.Context(), c.Caller.Org)
	if errors.Is(err, parley.ErrNotFound) {
		return nil, ErrAgentRequired.With("candidates", []string{})
	}
	return a, err
}
