package agents

import (
	"errors"
	"strings"

	"parley/actors/agent"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/rest"
	"parley/journal"
)

var errUnknownOther = parley.ErrNotFound.Saying("There is no such agent or organization.")

// PutBlock blocks an agent or an organization.
func (s Agents) PutBlock(c *rest.Call, in *api.PutBlock) (rest.NoContent, error) {
	if _, err := s.Agents.Own(c, in.ID); err != nil {
		return rest.NoContent{}, err
	}
	other, owner, err := s.other(c, in.Other)
	switch {
	case errors.Is(err, journal.ErrErased):
		return rest.NoContent{}, errUnknownOther
	case err != nil:
		return rest.NoContent{}, err
	case other == in.ID:
		return rest.NoContent{}, agent.ErrSelfBlock.With("loc", []any{"path", "other"})
	}
	_, err = s.Node.Agents.Change(c.Context(), in.ID, agent.SetBlock{Agent: other, Org: owner})
	return rest.NoContent{}, err
}

// DeleteBlock ends a block, also that of an agent or organization that was erased.
func (s Agents) DeleteBlock(c *rest.Call, in *api.DeleteBlock) (rest.NoContent, error) {
	own, err := s.Agents.Own(c, in.ID)
	if err != nil {
		return rest.NoContent{}, err
	}
	other, owner, err := blockOf(own, in.Other)
	if err != nil {
		switch other, owner, err = s.other(c, in.Other); {
		case errors.Is(err, journal.ErrErased): // a block of it would have been found
			return rest.NoContent{}, nil
		case err != nil:
			return rest.NoContent{}, err
		}
	}
	_, err = s.Node.Agents.Change(c.Context(), in.ID, agent.EndBlock{Agent: other, Org: owner})
	return rest.NoContent{}, err
}

// blockOf finds what an agent blocks by an id.
func blockOf(a *agent.State, text string) (other parley.AgentID, owner parley.OrgID, err error) {
	id, err := parley.ParseID[parley.AnyID](text)
	if err != nil {
		return other, owner, err
	}
	for _, b := range a.GetBlocks() {
		if b.AgentID() == parley.AgentID(id) || b.AgentID().Zero() && b.OrgID() == parley.OrgID(id) {
			return b.AgentID(), b.OrgID(), nil
		}
	}
	return other, owner, errUnknownOther
}

// other returns the agent that an id or handle names and its owner, or the organization with an
// id, and a zero agent.
func (s Agents) other(c *rest.Call, text string) (other parley.AgentID, owner parley.OrgID, err error) {
	var a *agent.State
	if strings.Contains(text, "@") {
		a, err = s.Agents.ByHandle(c, text)
	} else {
		id, malformed := parley.ParseID[parley.AnyID](text)
		if malformed != nil {
			return other, owner, &rest.SchemaError{Faults: []rest.FieldError{{Loc: []any{"path", "other"}, Msg: rest.MsgNamed, Type: rest.FaultUUIDParsing}}}
		}
		if a, err = s.Node.Agents.Get(c.Context(), parley.AgentID(id)); errors.Is(err, parley.ErrNotFound) {
			if _, err = s.Node.Orgs.Get(c.Context(), parley.OrgID(id)); err == nil {
				return other, parley.OrgID(id), nil
			}
		}
	}
	switch {
	case errors.Is(err, parley.ErrBadHandle):
		return other, owner, parley.ErrBadHandle.With("loc", []any{"path", "other"})
	case errors.Is(err, parley.ErrNotFound):
		return other, owner, errUnknownOther
	case err != nil:
		return other, owner, err
	}
	return a.AgentID(), a.Owner(), nil
}

// ListBlocks returns a page of what an agent blocks, oldest first.
func (s Agents) ListBlocks(c *rest.Call, in *api.ListBlocks) (api.Page[api.Block], error) {
	page := api.Page[api.Block]{Items: []api.Block{}}
	own, err := s.Agents.Own(c, in.ID)
	if err != nil {
		return page, err
	}
	list := "blocks " + in.ID.String()
	after, err := s.Lists.Place(list, in.Cursor)
	if err != nil {
		return page, err
	}
	for _, b := range own.GetBlocks() {
		switch {
		case uint64(b.GetNumber()) <= after:
			continue
		case len(page.Items) == in.Limit:
			page.HasMore, page.NextCursor = true, new(s.Lists.Cursor(list, after))
			return page, nil
		}
		row := api.Block{OrgID: b.OrgID(), CreatedAt: api.At(b.At())}
		if id := b.AgentID(); !id.Zero() {
			row.AgentID = &id
			handle, err := s.Agents.HandleOf(c.Context(), id)
			switch {
			case err == nil:
				row.Handle = handle
			case !errors.Is(err, journal.ErrErased) && !errors.Is(err, parley.ErrNotFound):
				return page, err
			}
		}
		page.Items, after = append(page.Items, row), uint64(b.GetNumber())
	}
	return page, nil
}
