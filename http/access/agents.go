// Package access says who acts: the agent that a caller names, what its organization may know of a
// group, and what its quotas are.
package access

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"parley/actors"
	"parley/actors/agent"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/rest"
	"parley/http/view"
)

var (
	ErrUnknownAgent = parley.ErrNotFound.Saying("There is no such agent.")
	ErrForeignAgent = parley.ErrNotOwner.Saying("The agent belongs to another organization.")
	ErrRevokedAgent = parley.ErrGone.Saying("The agent has been revoked.")

	ErrAgentRequired = parley.Refuse(parley.Invalid, "agent_required", "Name the acting agent: your organization has several, or none.")
	ErrActingAgent   = parley.ErrNotOwner.Saying("The acting agent is not an active agent of your organization.")
)

// Agents finds the agents that callers name.
type Agents struct {
	node *actors.Node
	show view.Site
}

// NewAgents returns the agents of a node.
func NewAgents(node *actors.Node, show view.Site) *Agents { return &Agents{node, show} }

// Own returns an agent of the caller, active or revoked.
func (g *Agents) Own(c *rest.Call, id parley.AgentID) (*agent.State, error) {
	a, err := g.node.Agents.Get(c.Context(), id)
	switch {
	case errors.Is(err, parley.ErrNotFound):
		return nil, ErrUnknownAgent
	case err != nil:
		return nil, err
	case !c.Caller.Owns(a.Owner(), id):
		return nil, ErrForeignAgent
	}
	return a, nil
}

// Active is Own for active agents.
func (g *Agents) Active(c *rest.Call, id parley.AgentID) (*agent.State, error) {
	a, err := g.Own(c, id)
	if err == nil && a.Revoked() {
		return nil, ErrRevokedAgent
	}
	return a, err
}

// Acting returns the agent that a header or from_handle names by UUID, handle or bare
// name. An unknown, foreign or revoked agent cannot act.
func (g *Agents) Acting(c *rest.Call, name string) (*agent.State, error) {
	a, err := g.named(c, strings.TrimSpace(name))
	switch {
	case errors.Is(err, parley.ErrNotFound), errors.Is(err, parley.ErrBadHandle):
		return nil, ErrActingAgent
	case err != nil:
		return nil, err
	case !c.Caller.Owns(a.Owner(), a.AgentID()) || a.Revoked():
		return nil, ErrActingAgent
	}
	return a, nil
}

func (g *Agents) named(c *rest.Call, name string) (*agent.State, error) {
	if id, err := parley.ParseID[parley.AgentID](name); err == nil {
		return g.node.Agents.Get(c.Context(), id)
	}
	if strings.Contains(name, "@") {
		return g.ByHandle(c, name)
	}
	id, err := g.node.Agents.ByName(c.Context(), c.Caller.Org, strings.ToLower(name))
	if err != nil {
		return nil, err
	}
	return g.node.Agents.Get(c.Context(), id)
}

// ByHandle returns the agent with a handle, active or revoked. The error is
// parley.ErrBadHandle or parley.ErrNotFound if there is none.
func (g *Agents) ByHandle(c *rest.Call, handle string) (*agent.State, error) {
	h, err := parley.ParseHandle(handle)
	if err != nil {
		return nil, err
	}
	id, err := g.IDOf(c, h)
	if err != nil {
		return nil, err
	}
	return g.node.Agents.Get(c.Context(), id)
}

// IDOf returns the id of the agent with a handle, or parley.ErrNotFound.
func (g *Agents) IDOf(c *rest.Call, h parley.Handle) (parley.AgentID, error) {
	if h.Domain != g.show.Domain || h.Group {
		return parley.AgentID{}, parley.ErrNotFound
	}
	owner, err := g.node.Orgs.BySlug(c.Context(), h.Slug)
	if err != nil {
		return parley.AgentID{}, err
	}
	return g.node.Agents.ByName(c.Context(), owner, h.Name)
}

// Handle returns the handle of an agent, which contains its organization's slug.
func (g *Agents) Handle(ctx context.Context, a *agent.State) (string, error) {
	o, err := g.node.Orgs.Get(ctx, a.Owner())
	if err != nil {
		return "", err
	}
	return g.show.Handle(a, o), nil
}

// ActingOrFirst returns the agent that was named, else the caller's first active one.
func (g *Agents) ActingOrFirst(c *rest.Call, name string) (*agent.State, error) {
	if name != "" {
		return g.Acting(c, name)
	}
	first, err := g.first(c)
	if errors.Is(err, parley.ErrNotFound) {
		return nil, ErrAgentRequired.With("candidates", []string{})
	}
	return first, err
}

// first returns the caller's oldest active agent, or parley.ErrNotFound.
func (g *Agents) first(c *rest.Call) (first *agent.State, err error) {
	if c.Caller.Only == nil {
		return g.node.Agents.FirstActive(c.Context(), c.Caller.Org)
	}
	err = g.EachActive(c, 0, func(_ uint64, a *agent.State) bool {
		first = a
		return false
	})
	if err == nil && first == nil {
		err = parley.ErrNotFound
	}
	return first, err
}

// EachActive calls visit for each active agent of the caller, oldest first, from a place on, until
// visit returns false. A place keeps its agent as long as the credential lives.
func (g *Agents) EachActive(c *rest.Call, from uint64, visit func(place uint64, a *agent.State) bool) error {
	if c.Caller.Only == nil {
		return g.node.Agents.EachActive(c.Context(), c.Caller.Org, from, visit)
	}
	return g.eachOf(c, from, func(place uint64, a *agent.State) bool { return a.Revoked() || visit(place, a) })
}

// Each is EachActive, revoked agents included.
func (g *Agents) Each(c *rest.Call, from uint64, visit func(place uint64, a *agent.State) bool) error {
	if c.Caller.Only == nil {
		return g.node.Agents.EachFrom(c.Context(), c.Caller.Org, from, visit)
	}
	return g.eachOf(c, from, visit)
}

// eachOf calls visit for the agents to which a caller is limited. Their ids begin with the time.
func (g *Agents) eachOf(c *rest.Call, from uint64, visit func(place uint64, a *agent.State) bool) error {
	ids := slices.SortedFunc(slices.Values(c.Caller.Only), func(a, b parley.AgentID) int { return bytes.Compare(a[:], b[:]) })
	for place := from; place < uint64(len(ids)); place++ {
		a, err := g.node.Agents.Get(c.Context(), ids[place])
		if err != nil {
			return err
		}
		if !visit(place, a) {
			return nil
		}
	}
	return nil
}

// AnyActive reports whether one of some agents is active.
func (g *Agents) AnyActive(ctx context.Context, ids []parley.AgentID) (bool, error) {
	for _, id := range ids {
		a, err := g.node.Agents.Get(ctx, id)
		if err != nil || !a.Revoked() {
			return err == nil, err
		}
	}
	return false, nil
}

// candidatesMax bounds how many agents are suggested to a caller that named none.
const candidatesMax = 100

// Sole returns the agent that the caller named, else its only active one.
func (g *Agents) Sole(c *rest.Call, name string) (*agent.State, error) {
	if name != "" {
		return g.Acting(c, name)
	}
	var sole *agent.State
	candidates := []string{}
	err := g.EachActive(c, 0, func(_ uint64, a *agent.State) bool {
		sole, candidates = a, append(candidates, a.AgentID().String())
		return len(candidates) < candidatesMax
	})
	if err == nil && len(candidates) != 1 {
		err = ErrAgentRequired.With("candidates", candidates)
	}
	return sole, err
}

// HandleOf returns the handle of an agent.
func (g *Agents) HandleOf(ctx context.Context, id parley.AgentID) (*string, error) {
	a, err := g.node.Agents.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	handle, err := g.Handle(ctx, a)
	return &handle, err
}

// Public returns an active agent by exact id or handle, which any caller may name.
func (g *Agents) Public(c *rest.Call, name string) (*agent.State, error) {
	a, err := g.Named(c, name)
	if err == nil && a.Revoked() {
		return nil, ErrUnknownAgent
	}
	return a, err
}

// Addressed is Public, except that there is no agent with a malformed name.
func (g *Agents) Addressed(c *rest.Call, name string) (*agent.State, error) {
	if _, notID := parley.ParseID[parley.AgentID](name); notID != nil && !strings.Contains(name, "@") {
		return nil, ErrUnknownAgent
	}
	a, err := g.Public(c, name)
	if errors.Is(err, parley.ErrBadHandle) {
		return nil, ErrUnknownAgent
	}
	return a, err
}

// Named is Public, revoked agents included.
func (g *Agents) Named(c *rest.Call, name string) (a *agent.State, err error) {
	if strings.Contains(name, "@") {
		if a, err = g.ByHandle(c, name); errors.Is(err, parley.ErrBadHandle) {
			return nil, parley.ErrBadHandle.With("loc", []any{"path", "id"})
		}
	} else {
		id, malformed := parley.ParseID[parley.AgentID](name)
		if malformed != nil {
			return nil, &rest.SchemaError{Faults: []rest.FieldError{{Loc: []any{"path", "id"}, Msg: rest.MsgNamed, Type: rest.FaultUUIDParsing}}}
		}
		a, err = g.node.Agents.Get(c.Context(), id)
	}
	if errors.Is(err, parley.ErrNotFound) {
		return nil, ErrUnknownAgent
	}
	return a, err
}

// ToView returns a message with what is shown beside it.
func (g *Agents) ToView(ctx context.Context, m query.Message) view.Message {
	out := view.Message{Message: m}
	if !m.Record.Copied() {
		return out
	}
	if handle, err := g.HandleOf(ctx, m.Record.Recipient()); err == nil { // resolved if possible
		out.Recipient = handle
	}
	return out
}

// ToViews is ToView for a page.
func (g *Agents) ToViews(ctx context.Context, page []query.Message) []view.Message {
	all := make([]view.Message, len(page))
	for i, m := range page {
		all[i] = g.ToView(ctx, m)
	}
	return all
}

// Card returns a card as it is shown, with what the service adds, and when any of it
// last changed. // spec: Agent card
func (g *Agents) Card(ctx context.Context, a *agent.State, stored *record.Card) (api.Card, time.Time, error) {
	o, err := g.node.Orgs.Get(ctx, a.Owner())
	if err != nil {
		return api.Card{}, time.Time{}, err
	}
	return g.show.Card(a, o, stored), g.show.CardChanged(a, o, stored.GetUpdatedMs()), nil
}
