package access

import (
	"context"
	"errors"
	"slices"

	"parley/actors"
	"parley/actors/group"
	"parley/client/parley"
	"parley/http/rest"
	"parley/journal"
)

// Groups reads groups as far as callers may know of them.
type Groups struct {
	node   *actors.Node
	agents *Agents
	quotas QuotaProfile
}

// NewGroups returns the groups of a node. The quotas say how many members they may have.
func NewGroups(node *actors.Node, agents *Agents, quotas QuotaProfile) *Groups {
	return &Groups{node, agents, quotas}
}

// CallerOf returns the caller as a group's rules see it, with the agent that it named or zero.
func CallerOf(c *rest.Call, named parley.AgentID) group.Caller {
	return group.Caller{Org: c.Caller.Org, Agent: named, Only: c.Caller.Only}
}

// Viewer returns the caller as the reader of a group.
func Viewer(c *rest.Call, needs group.Access) group.Viewer {
	return group.Viewer{Caller: CallerOf(c, parley.AgentID{}), Needs: needs}
}

// View returns a group for a caller that needs the given access.
func (g *Groups) View(c *rest.Call, id parley.GroupID, needs group.Access) (group.View, error) {
	return g.ViewWith(c, id, group.GetView{Viewer: Viewer(c, needs)})
}

// ViewWith is View for callers that ask for more.
func (g *Groups) ViewWith(c *rest.Call, id parley.GroupID, q group.GetView) (group.View, error) {
	v, err := g.node.Groups.View(c.Context(), id, q)
	return v, g.Err(c, id, err)
}

// Err returns the error of a read of a group as the caller may see it.
func (g *Groups) Err(c *rest.Call, id parley.GroupID, err error) error {
	if errors.Is(err, journal.ErrErased) {
		return g.erased(c, id)
	}
	return err
}

// erased returns the refusal of what concerns a group whose owner was erased: it is
// gone for an organization that ever had a seat in it, and unknown to others.
func (g *Groups) erased(c *rest.Call, id parley.GroupID) error {
	holder, err := g.node.Groups.SeatHolder(c.Context(), id, c.Caller.Principal)
	switch {
	case err != nil:
		return err
	case holder.Zero():
		return group.ErrUnknown
	}
	return journal.ErrErased
}

// Caller returns the caller as a group's rules see it: its organization and the
// agent that it named.
func (g *Groups) Caller(c *rest.Call, name string) (group.Caller, error) {
	by := CallerOf(c, parley.AgentID{})
	if name == "" {
		return by, nil
	}
	a, err := g.agents.Acting(c, name)
	if err == nil {
		by.Agent = a.AgentID()
	}
	return by, err
}

// LikelyCaller is Caller, but with the organization's only active agent if none is
// named.
func (g *Groups) LikelyCaller(c *rest.Call, name string) (group.Caller, error) {
	by := CallerOf(c, parley.AgentID{})
	a, err := g.agents.Sole(c, name)
	switch {
	case err == nil:
		by.Agent = a.AgentID()
	case name == "" && errors.Is(err, ErrAgentRequired):
		err = nil
	}
	return by, err
}

// SeatLimit returns how many members a group of an owner may have.
func (g *Groups) SeatLimit(ctx context.Context, owner parley.OrgID) (*int, error) {
	o, err := g.node.Orgs.Get(ctx, owner)
	if err != nil {
		return nil, err
	}
	return g.quotas.Seats(o), nil
}

// Handle returns #name@slug.domain.
func (g *Groups) Handle(ctx context.Context, owner parley.OrgID, name string) (string, error) {
	o, err := g.node.Orgs.Get(ctx, owner)
	if err != nil {
		return "", err
	}
	return g.agents.show.GroupHandle(name, o.GetSlug()), nil
}

// AfterCommit returns the error for a committed change that cannot be read back: an error
// of the read must not look like a refusal of the change.
func AfterCommit(err error) error {
	if errors.Is(err, parley.ErrOverloaded) {
		return parley.ErrOutcomeUnknown
	}
	return err
}

// MayKnow checks that the caller may know of a group that it wants to change.
func (g *Groups) MayKnow(c *rest.Call, id parley.GroupID) error {
	_, err := g.View(c, id, group.Onlooker)
	return err
}

// ByHandle finds a group, deleted or not, by its handle.
func (g *Groups) ByHandle(c *rest.Call, h parley.Handle) (id parley.GroupID, err error) {
	err = parley.ErrNotFound
	if h.Domain == g.agents.show.Domain {
		var owner parley.OrgID
		if owner, err = g.node.Orgs.BySlug(c.Context(), h.Slug); err == nil {
			id, err = g.node.Groups.ByName(c.Context(), owner, h.Name)
		}
	}
	if errors.Is(err, parley.ErrNotFound) {
		err = group.ErrUnknown
	}
	return id, err
}

// Resolve returns the id of the agent or the group with a handle, or parley.ErrNotFound. Handlers
// judge whether the caller may know of it, as they do for an id.
func (g *Groups) Resolve(c *rest.Call, h parley.Handle) (parley.AnyID, error) {
	if h.Group {
		id, err := g.ByHandle(c, h)
		return parley.AnyID(id), err
	}
	id, err := g.agents.IDOf(c, h)
	return parley.AnyID(id), err
}

// Secret refuses a private group that the path names by its handle, unless the acting agent has
// a seat, an invitation or a request there: rules that take the id as the secret must not let
// anyone find groups by guessing names. If no agent is named, the view's Access decides.
func (g *Groups) Secret(c *rest.Call, v group.View, acting parley.AgentID) error {
	if !c.GroupByHandle || v.Public || acting.Zero() && v.Access == group.Insider {
		return nil
	}
	if acting.Zero() {
		return group.ErrUnknown
	}
	a, err := g.node.Agents.Get(c.Context(), acting)
	if err != nil || a.In(v.ID) {
		return err
	}
	concerns, err := g.node.Groups.Concerns(c.Context(), acting)
	if err == nil && !slices.ContainsFunc(concerns, func(of actors.Concern) bool { return of.Group == v.ID }) {
		err = group.ErrUnknown
	}
	return err
}
