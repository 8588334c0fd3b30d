package http

import (
	"context"
	"errors"

	"parley"
	"parley/actors"
	"parley/actors/agent"
	"parley/actors/group"
	"parley/http/api"
	"parley/http/rest"
	"parley/http/submission"
	"parley/http/view"
	"parley/journal"
)

// groupViewer returns the caller's organization as the reader of a group.
func groupViewer(c *rest.Call, needs group.Access) group.Viewer {
	return group.Viewer{Caller: group.Caller{Org: c.Caller.Org}, Needs: needs}
}

// viewGroup returns a group for a caller that needs the given access.
func (s *core) viewGroup(c *rest.Call, id parley.GroupID, needs group.Access) (group.View, error) {
	return s.viewGroupWith(c, id, group.GetView{Viewer: groupViewer(c, needs)})
}

// viewGroupWith is viewGroup for callers that ask for more.
func (s *core) viewGroupWith(c *rest.Call, id parley.GroupID, q group.GetView) (group.View, error) {
	v, err := s.Node.Groups.View(c.Context(), id, q)
	return v, s.groupErr(c, id, err)
}

// groupErr returns the error of a read of a group as the caller may see it.
func (s *core) groupErr(c *rest.Call, id parley.GroupID, err error) error {
	if errors.Is(err, journal.ErrErased) {
		return s.erasedGroup(c, id)
	}
	return err
}

// erasedGroup returns the refusal of what concerns a group whose owner was erased: it is
// gone for an organization that ever had a seat in it, and unknown to others.
func (s *core) erasedGroup(c *rest.Call, id parley.GroupID) error {
	holder, err := s.Node.Groups.SeatHolder(c.Context(), id, c.Caller.Org)
	switch {
	case err != nil:
		return err
	case holder.Zero():
		return group.ErrUnknown
	}
	return journal.ErrErased
}

// groupCaller returns the caller as a group's rules see it: its organization and the
// agent that it named.
func (s *core) groupCaller(c *rest.Call, name string) (group.Caller, error) {
	by := group.Caller{Org: c.Caller.Org}
	if name == "" {
		return by, nil
	}
	a, err := s.desk.Acting(c, name)
	if err == nil {
		by.Agent = a.AgentID()
	}
	return by, err
}

// candidatesMax bounds how many agents are suggested to a caller that named none.
const candidatesMax = 100

// soleAgent returns the agent that the caller named, else its only active one.
func (s *core) soleAgent(c *rest.Call, name string) (*agent.State, error) {
	if name != "" {
		return s.desk.Acting(c, name)
	}
	var sole *agent.State
	candidates := []string{}
	err := s.Node.Agents.EachActive(c.Context(), c.Caller.Org, 0, func(_ uint64, a *agent.State) bool {
		sole, candidates = a, append(candidates, a.AgentID().String())
		return len(candidates) < candidatesMax
	})
	if err == nil && len(candidates) != 1 {
		err = submission.ErrAgentRequired.With("candidates", candidates)
	}
	return sole, err
}

// likelyCaller is groupCaller, but with the organization's only active agent if none is
// named.
func (s *core) likelyCaller(c *rest.Call, name string) (group.Caller, error) {
	by := group.Caller{Org: c.Caller.Org}
	a, err := s.soleAgent(c, name)
	switch {
	case err == nil:
		by.Agent = a.AgentID()
	case name == "" && errors.Is(err, submission.ErrAgentRequired):
		err = nil
	}
	return by, err
}

// seatLimit returns how many members a group of an owner may have.
func (s *core) seatLimit(ctx context.Context, owner parley.OrgID) (*int, error) {
	o, err := s.Node.Orgs.Get(ctx, owner)
	if err != nil {
		return nil, err
	}
	return s.Quotas.Seats(o), nil
}

// groupHandle returns #name@slug.domain.
func (s *core) groupHandle(ctx context.Context, owner parley.OrgID, name string) (string, error) {
	o, err := s.Node.Orgs.Get(ctx, owner)
	if err != nil {
		return "", err
	}
	return parley.Handle{Name: name, Slug: o.GetSlug(), Domain: s.Domain, Group: true}.String(), nil
}

// readGroup returns a group, with its owner, for callers that may read it.
func (s groups) readGroup(c *rest.Call, id parley.GroupID) (g api.Group, owner parley.OrgID, err error) {
	v, err := s.viewGroupWith(c, id, group.GetView{Viewer: groupViewer(c, group.Insider), MemberIDs: true})
	if err != nil {
		return g, owner, err
	}
	g = view.Group(v)
	g.Handle, err = s.groupHandle(c.Context(), v.Org, v.Name)
	return g, v.Org, err
}

func (s groups) getGroup(c *rest.Call, in *api.GetGroup) (api.Group, error) {
	g, _, err := s.readGroup(c, in.ID)
	return g, err
}

// createGroup creates a group with its founder as the only member and invites the rest of
// its roster. // spec: Groups
func (s groups) createGroup(c *rest.Call, in *api.CreateGroup) (api.GroupCreated, error) {
	founder, err := s.desk.ActingOrFirst(c, in.ActingAgent)
	if err != nil {
		return api.GroupCreated{}, err
	}
	policy, _ := group.ParsePolicy(in.EnrollmentPolicy)
	found := group.Found{
		Org: c.Caller.Org, Founder: founder.AgentID(), Name: in.Name, Policy: policy, Public: policy == group.Open,
		Isolated: in.Isolated, VoteHours: in.VoteDurationHours,
	}
	if in.Description != nil {
		found.Description = *in.Description
	}
	if in.Visibility != nil {
		found.Public = *in.Visibility == api.PublicGroups
	}
	made, err := s.Node.Groups.Create(c.Context(), actors.NewGroup{
		Found: found, Limit: s.allowed(c.Caller, quotaGroups), Key: in.IdempotencyKey,
	})
	if err != nil {
		return api.GroupCreated{}, err
	}
	g, err := s.madeGroup(c, made)
	if err != nil {
		return api.GroupCreated{}, afterCommit(err)
	}
	rows, err := joinRequests(s).inviteRoster(c, g, founder, in.Members, made.Repeated)
	return api.GroupCreated{Group: g, Invitations: rows}, afterCommit(err)
}

// madeGroup returns a group that the caller has created, by this request or an earlier
// one with the same key.
func (s groups) madeGroup(c *rest.Call, made actors.GroupMade) (g api.Group, err error) {
	v, err := s.Node.Groups.View(c.Context(), made.ID, group.GetView{MemberIDs: true})
	if errors.Is(err, group.ErrUnknown) { // the founder joined another group meanwhile
		err = group.ErrIsolationConflict
	}
	if err != nil {
		return g, err
	}
	if made.Repeated {
		c.SetStatus(200)
		c.SetHeader(replayedHeader, "true")
	}
	g = view.Group(v)
	g.Handle, err = s.groupHandle(c.Context(), v.Org, v.Name)
	return g, err
}

func (s groups) patchGroup(c *rest.Call, in *api.GroupPatch) (api.Group, error) {
	by, err := s.groupCaller(c, in.ActingAgent)
	if err != nil {
		return api.Group{}, err
	}
	if err := s.mayKnow(c, in.ID); err != nil {
		return api.Group{}, err
	}
	change := group.Change{By: by, Name: in.Name, Isolated: in.Isolated, VoteHours: in.VoteDurationHours}
	if in.Description.Set {
		change.Description = &in.Description.Value // empty clears it
	}
	if in.EnrollmentPolicy != nil {
		policy, _ := group.ParsePolicy(*in.EnrollmentPolicy)
		change.Policy = &policy
	}
	if in.Visibility != nil {
		change.Public = new(*in.Visibility == api.PublicGroups)
	}
	if err := s.Node.Groups.Change(c.Context(), in.ID, change); err != nil {
		return api.Group{}, err
	}
	g, _, err := s.readGroup(c, in.ID)
	return g, afterCommit(err)
}

// afterCommit returns the error for a committed change that cannot be read back: an error
// of the read must not look like a refusal of the change.
func afterCommit(err error) error {
	if errors.Is(err, parley.ErrOverloaded) {
		return parley.ErrOutcomeUnknown
	}
	return err
}

func (s groups) deleteGroup(c *rest.Call, in *api.DeleteGroup) (rest.NoContent, error) {
	by, err := s.groupCaller(c, in.ActingAgent)
	if err == nil {
		err = s.mayKnow(c, in.ID)
	}
	if err == nil {
		err = s.Node.Groups.Delete(c.Context(), in.ID, group.Delete{By: by})
	}
	return rest.NoContent{}, err
}

// mayKnow checks that the caller may know of a group that it wants to change.
func (s *core) mayKnow(c *rest.Call, id parley.GroupID) error {
	_, err := s.viewGroup(c, id, group.Onlooker)
	return err
}
