package actors

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"parley/actors/group"
	"parley/client/parley"
)

// Vote votes on a request. If the vote settles the request, the result is the settled
// request. If the vote names no agent, the group cannot tell which of the organization's agents
// were electors before, so Vote looks them up. // spec: Groups
func (gs *Groups) Vote(ctx context.Context, id parley.GroupID, c group.CastVote) (Voted, error) {
	v, err := askGroup[Voted](ctx, gs, id, 0, c)
	if !c.By.Agent.Zero() || !errors.Is(err, group.ErrNotInElectorate) {
		return v, err
	}
	was, failure := gs.wasElector(ctx, id, c.Request, c.By.Org)
	if failure != nil || !was {
		return v, cmp.Or(failure, err)
	}
	c.Former = true
	return askGroup[Voted](ctx, gs, id, 0, c)
}

// wasElector reports whether an agent of the organization had a seat when the request was
// filed. It looks only at requests whose electors have all left: votes cannot bring one
// back.
func (gs *Groups) wasElector(ctx context.Context, id parley.GroupID, request parley.JoinRequestID, org parley.OrgID) (was bool, err error) {
	v, err := gs.View(ctx, id, group.GetView{Request: request})
	if err != nil || v.Request == nil {
		return false, err
	}
	r := v.Request.Request
	if r.GetStatus() != group.Pending || r.GetElectorate() != 0 {
		return false, nil
	}
	err = gs.SeatHolders(ctx, id, org, func(_ parley.AgentID, seats []uint32) bool {
		was = slices.ContainsFunc(seats, func(seat uint32) bool { return seat <= r.GetMark() })
		return !was
	})
	return was, err
}
