package actors

import (
	"context"
	"errors"
	"time"

	"parley/actors/group"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/parley"
)

// errUnknownWelcome means that an agent does not await a Welcome.
var errUnknownWelcome = parley.ErrNotFound.Saying("There is no such Welcome.")

// arrivalWait bounds how long a reader of commits waits for messages that are under way.
const arrivalWait = 5 * time.Second

// mlsStanding is what an agent is in a group, and the group itself.
type mlsStanding struct {
	group.Info
	group.Standing
}

// mlsStandingOf returns the standing of an agent, which may be no member.
func (gs *Groups) mlsStandingOf(ctx context.Context, id parley.GroupID, agent parley.AgentID) (mlsStanding, error) {
	v, err := gs.View(ctx, id, group.GetView{Agents: []parley.AgentID{agent}})
	switch {
	case err != nil:
		return mlsStanding{}, err
	case v.Deleted():
		return mlsStanding{}, group.ErrDeleted
	}
	return mlsStanding{v.Info, v.Agents[0]}, nil
}

// mlsMemberStanding is mlsStandingOf for a member; group.ErrNotMember for another agent.
func (gs *Groups) mlsMemberStanding(ctx context.Context, id parley.GroupID, agent parley.AgentID) (mlsStanding, error) {
	s, err := gs.mlsStandingOf(ctx, id, agent)
	if err == nil && !s.Seated() {
		err = group.ErrNotMember
	}
	return s, err
}

// CheckMember returns group.ErrNotMember for an agent that is no member of the group. It
// reads no row.
func (gs *Groups) CheckMember(ctx context.Context, id parley.GroupID, agent parley.AgentID) error {
	_, err := gs.mlsMemberStanding(ctx, id, agent)
	return err
}

// MLSCommitsFor returns the commits that an agent may see, as query.Groups.MLSCommits does:
// a member sees all, an agent that a commit removed those up to that one. A commit is
// shown only when the agent's copies of all earlier broadcasts are in its inbox, so the
// call waits for those that are under way. The error is group.ErrNotMember for an agent
// that may see none.
func (gs *Groups) MLSCommitsFor(ctx context.Context, id parley.GroupID, agent parley.AgentID, since uint64, limit, size int, reserve query.Reserve) (page []query.MLSCommit, more bool, err error) {
	s, err := gs.mlsStandingOf(ctx, id, agent)
	if err != nil {
		return nil, false, err
	}
	until := s.Epoch
	if !s.Seated() && !s.LeftLeaf {
		last, removed, err := gs.MLSRemoval(ctx, id, agent)
		if err != nil {
			return nil, false, err
		}
		if !removed {
			return nil, false, group.ErrNotMember
		}
		until = last + 1
	}
	page, more, err = gs.MLSCommits(ctx, id, since, until, limit, size, reserve)
	if err != nil || len(page) == 0 {
		return nil, false, err
	}
	return page, more, gs.awaitArrival(ctx, id.Slot(), agent.Slot())
}

// awaitArrival waits until all that was under way from one home to another has arrived.
func (gs *Groups) awaitArrival(ctx context.Context, from, to parley.Slot) error {
	limited, cancel := context.WithTimeout(ctx, arrivalWait)
	defer cancel()
	err := gs.journal.Arrived(limited, from, to)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = parley.ErrOverloaded
	}
	return err
}

// MLSInfo is what a newcomer needs to join an MLS group from outside.
type MLSInfo struct {
	Epoch     uint64
	Suite     uint16
	GroupInfo []byte
}

// MLSInfoFor returns the GroupInfo of a group's MLS group for a member; group.ErrNotMember
// for another agent, and parley.ErrNotFound if the group has no MLS group.
func (gs *Groups) MLSInfoFor(ctx context.Context, id parley.GroupID, agent parley.AgentID, reserve query.Reserve) (MLSInfo, error) {
	s, err := gs.mlsMemberStanding(ctx, id, agent)
	if err != nil {
		return MLSInfo{}, err
	}
	info, err := gs.MLSGroupInfo(ctx, id, reserve)
	if err == nil && info == nil {
		err = parley.ErrNotFound.Saying("The group has no MLS group.")
	}
	if err != nil {
		return MLSInfo{}, err
	}
	return MLSInfo{info.GetEpoch(), s.Suite, info.GetGroupInfo()}, nil
}

// MLSWelcomesFor returns the Welcomes of a member, as query.Groups.MLSWelcomes does;
// group.ErrNotMember for another agent.
func (gs *Groups) MLSWelcomesFor(ctx context.Context, id parley.GroupID, agent parley.AgentID, since uint64, limit, size int, reserve query.Reserve) ([]query.MLSWelcome, bool, error) {
	if err := gs.CheckMember(ctx, id, agent); err != nil {
		return nil, false, err
	}
	return gs.MLSWelcomes(ctx, id, agent, since, limit, size, reserve)
}

// AcknowledgeWelcome drops a Welcome for a member. The error is group.ErrNotMember for another
// agent, and parley.ErrNotFound if it is not for the member. To do it again changes nothing.
func (gs *Groups) AcknowledgeWelcome(ctx context.Context, id parley.GroupID, agent parley.AgentID, welcome parley.AnyID) error {
	s, err := gs.mlsStandingOf(ctx, id, agent)
	epoch := record.WelcomeEpoch(id, welcome)
	switch {
	case err != nil:
		return err
	case !s.Seated():
		return group.ErrNotMember
	case record.WelcomeID(id, epoch) != welcome:
		return errUnknownWelcome
	}
	_, err = askGroup[any](ctx, gs, id, 0, mlsAcknowledgment{agent, epoch})
	return err
}
