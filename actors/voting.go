package actors

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"parley"
	"parley/actors/group"
)

// castVote has a group decide a vote. If the request names no agent, the group cannot
// tell which of the organization's agents were electors before, so castVote looks them
// up.
func (gs *Groups) castVote(ctx context.Context, id parley.GroupID, c group.CastVote) (voteOutcome, error) {
	v, err := askGroup[voteOutcome](ctx, gs, id, 0, c)
	if !c.By.Agent.Zero() || !errors.Is(err, group.ErrNotInElectorate) {
		return v, err
	}
	was, failure := gs.wasElector(ctx, id, c.Request, c.By.Org)
	if failure != nil || !was {
		return v, cmp.Or(failure, err)
	}
	c.Former = true
	return askGroup[voteOutcome](ctx, gs, id, 0, c)
}

// wasElector reports whether an agent of the organization had a seat when the request was
// filed. It looks only at requests whose electors have all left: votes cannot bring one
// back.
func (gs *Groups) wasElector(ctx context.Context, id parley.GroupID, request parley.JoinRequestID, org parley.OrgID) (was bool, err error) {
	mark, err := ReadGroup(ctx, gs, id, func(g *group.State, _ time.Time) uint32 {
		if r := g.Request(request); r.GetStatus() == group.Pending && r.GetElectorate() == 0 {
			return r.GetMark()
		}
		return 0
	})
	if err != nil || mark == 0 {
		return false, err
	}
	err = gs.SeatHolders(ctx, id, org, func(_ parley.AgentID, seats []uint32) bool {
		was = slices.ContainsFunc(seats, func(seat uint32) bool { return seat <= mark })
		return !was
	})
	return was, err
}
