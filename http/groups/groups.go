// Package groups serves groups, their members, join requests, votes and MLS groups.
package groups

import (
	"errors"

	"parley/actors"
	"parley/actors/group"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/rest"
	"parley/http/submission"
	"parley/http/view"
)

// Options are what the handlers of groups need of the service.
type Options struct {
	Node    *actors.Node
	Agents  *access.Agents
	Access  *access.Groups
	Desk    *submission.Desk
	Quotas  access.QuotaProfile
	Lists   *rest.Lists
	Cursors *rest.Cursors
	// Brand is the word in message types.
	Brand string
}

// Groups has the requests about groups and their members, Requests those about invitations, join
// requests and votes.
type (
	Groups   struct{ Options }
	Requests struct{ Options }
)

// readGroup returns a group, with its owner, for callers that may read it.
func (s Groups) readGroup(c *rest.Call, id parley.GroupID) (g api.Group, owner parley.OrgID, err error) {
	v, err := s.Access.ViewWith(c, id, group.GetView{Viewer: access.Viewer(c, group.Insider), MemberIDs: true})
	if err != nil {
		return g, owner, err
	}
	g = view.Group(v)
	g.Handle, err = s.Access.Handle(c.Context(), v.Org, v.Name)
	return g, v.Org, err
}

func (s Groups) Get(c *rest.Call, in *api.GetGroup) (api.Group, error) {
	g, _, err := s.readGroup(c, in.ID)
	return g, err
}

// Create creates a group with its founder as the only member and invites the rest of
// its roster. // spec: Groups
func (s Groups) Create(c *rest.Call, in *api.CreateGroup) (api.GroupCreated, error) {
	founder, err := s.Agents.ActingOrFirst(c, in.ActingAgent)
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
		Found: found, Limit: s.Quotas.Allowed(c.Caller, access.QuotaGroups), Key: in.IdempotencyKey,
	})
	if err != nil {
		return api.GroupCreated{}, err
	}
	g, err := s.madeGroup(c, made)
	if err != nil {
		return api.GroupCreated{}, access.AfterCommit(err)
	}
	rows, err := Requests(s).inviteRoster(c, g, founder, in.Members, made.Repeated)
	return api.GroupCreated{Group: g, Invitations: rows}, access.AfterCommit(err)
}

// madeGroup returns a group that the caller has created, by this request or an earlier
// one with the same key.
func (s Groups) madeGroup(c *rest.Call, made actors.GroupMade) (g api.Group, err error) {
	v, err := s.Node.Groups.View(c.Context(), made.ID, group.GetView{MemberIDs: true})
	if errors.Is(err, group.ErrUnknown) { // the founder joined another group meanwhile
		err = group.ErrIsolationConflict
	}
	if err != nil {
		return g, err
	}
	if made.Repeated {
		c.SetStatus(200)
		c.SetHeader(rest.ReplayedHeader, "true")
	}
	g = view.Group(v)
	g.Handle, err = s.Access.Handle(c.Context(), v.Org, v.Name)
	return g, err
}

func (s Groups) Patch(c *rest.Call, in *api.GroupPatch) (api.Group, error) {
	by, err := s.Access.Caller(c, in.ActingAgent)
	if err != nil {
		return api.Group{}, err
	}
	if err := s.Access.MayKnow(c, in.ID); err != nil {
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
	return g, access.AfterCommit(err)
}

func (s Groups) Delete(c *rest.Call, in *api.DeleteGroup) (rest.NoContent, error) {
	by, err := s.Access.Caller(c, in.ActingAgent)
	if err == nil {
		err = s.Access.MayKnow(c, in.ID)
	}
	if err == nil || errors.Is(err, group.ErrDeleted) { // the rules know a repeat
		err = s.Node.Groups.Delete(c.Context(), in.ID, group.Delete{By: by})
	}
	return rest.NoContent{}, err
}
