package actors

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"parley/actors/encoding"
	"parley/actors/group"
	"parley/client/parley"
	"parley/journal"
)

// Vote votes on a request. If the vote settles the request, the result is the settled
// request. If the vote names no agent, the group cannot tell which of the organization's agents
// were electors before, so Vote looks them up. // spec: Groups
func (gs *Groups) Vote(ctx context.Context, id parley.GroupID, c group.CastVote) (Voted, error) {
	v, err := askGroup[Voted](ctx, gs, id, 0, c)
	if !c.By.Agent.Zero() || !errors.Is(err, group.ErrNotInElectorate) {
		return v, err
	}
	was, failure := wasElector(ctx, gs, id, c.Request, parley.Principal{Org: c.By.Org, Only: c.By.Only})
	if failure != nil || !was {
		return v, cmp.Or(failure, err)
	}
	c.Former = true
	return askGroup[Voted](ctx, gs, id, 0, c)
}

// wasElector reports whether an agent of the caller had a seat when the request was
// filed. It looks only at requests whose electors have all left: votes cannot bring one
// back.
func wasElector(ctx context.Context, gs *Groups, id parley.GroupID, request parley.JoinRequestID, by parley.Principal) (was bool, err error) {
	v, err := gs.View(ctx, id, group.GetView{Request: request})
	if err != nil || v.Request == nil {
		return false, err
	}
	r := v.Request.Request
	if r.GetStatus() != group.Pending || r.GetElectorate() != 0 {
		return false, nil
	}
	err = gs.SeatHolders(ctx, id, by, func(_ parley.AgentID, seats []uint32) bool {
		was = slices.ContainsFunc(seats, func(seat uint32) bool { return seat <= r.GetMark() })
		return !was
	})
	return was, err
}

// EndRequest withdraws or declines a request. If the caller names no agent, the group cannot
// tell whose agent the inviter is, so EndRequest looks it up.
func (gs *Groups) EndRequest(ctx context.Context, id parley.GroupID, c group.EndRequest) error {
	if c.By.Agent.Zero() {
		r, err := requestOf(ctx, gs, id, c.Request)
		if err != nil {
			return err
		}
		if r != nil && r.Nomination() {
			by, err := gs.agents.Get(ctx, r.Inviter())
			if err != nil && !errors.Is(err, parley.ErrNotFound) && !errors.Is(err, journal.ErrErased) {
				return err
			}
			c.Inviter = err == nil && c.By.Owns(by.Owner(), by.AgentID()) && !by.Revoked()
		}
	}
	_, err := askGroup[any](ctx, gs, id, 0, c)
	return err
}

// requestOf returns a live or settled request, nil if there is none.
func requestOf(ctx context.Context, gs *Groups, id parley.GroupID, request parley.JoinRequestID) (*group.Request, error) {
	v, err := gs.View(ctx, id, group.GetView{Request: request})
	if err != nil {
		return nil, err
	}
	if v.Request != nil {
		return v.Request.Request, nil
	}
	r, err := gs.SettledRequest(ctx, id, request)
	if errors.Is(err, parley.ErrNotFound) {
		return nil, nil
	}
	return r, err
}

// endRequest adds the lookup of a settled request: the group forgets those.
func (gs *Groups) endRequest(t *groupTurn, c group.EndRequest) error {
	if t.State.Request(c.Request) == nil {
		row, settled, err := t.Row(journal.RequestTable, append(t.State.ID.Bytes(), c.Request[:]...))
		if err != nil {
			return err
		}
		if settled {
			c.Settled = &group.Request{}
			if err := encoding.Unmarshal(row, c.Settled); err != nil {
				return err
			}
		}
	}
	return gs.decide(t, c)
}
