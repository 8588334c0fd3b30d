package http

import (
	"context"
	"errors"
	"time"

	"parley"
	"parley/actors"
	"parley/actors/agent"
	"parley/actors/group"
	"parley/http/api"
	"parley/http/rest"
	"parley/http/submission"
	"parley/journal"
)

var errForeignGroup = parley.ErrNotOwner.Saying("No agent of your organization is a member of this group.")

// access is how much of a group an organization may see.
type access uint8

const (
	// accessNone: the organization cannot tell the group from one that does not exist.
	accessNone access = iota
	// accessExists: the group is public, so its existence is not secret.
	accessExists
	// accessFull: the organization owns the group or an agent in it.
	accessFull
)

func standingOf(g *group.State, org parley.OrgID) access {
	switch {
	case g.Org == org || g.Seats(org):
		return accessFull
	case g.Public && !g.Deleted():
		return accessExists
	}
	return accessNone
}

// to checks that a caller has the access it needs.
func (s access) to(needed access, deleted bool) error {
	switch {
	case s == accessFull && deleted:
		return group.ErrDeleted
	case s == accessNone && (deleted || needed != accessNone):
		return group.ErrUnknown
	case s < needed:
		return errForeignGroup
	}
	return nil
}

// readGroupAs reads a group in its own turn, for a caller that needs the given access.
// The result of read must not share memory with the group.
func readGroupAs[R any](s *core, c *rest.Call, id parley.GroupID, needed access, read func(*group.State, time.Time) R) (R, error) {
	type seen struct {
		value R
		err   error
	}
	org := c.Caller.Org
	v, err := actors.ReadGroup(c.Context(), s.Node.Groups, id, func(g *group.State, now time.Time) seen {
		// A caller that only the rules judge needs no access while the group exists.
		if needed != accessNone || g.Deleted() {
			if err := standingOf(g, org).to(needed, g.Deleted()); err != nil {
				return seen{err: err}
			}
		}
		return seen{value: read(g, now)}
	})
	if err == nil {
		err = v.err
	}
	if errors.Is(err, journal.ErrErased) {
		err = s.erasedGroup(c, id)
	}
	return v.value, err
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

// seenGroup is a group as of one instant, without its handle.
type seenGroup struct {
	api.Group
	owner parley.OrgID
}

func seeGroup(g *group.State, _ time.Time) seenGroup {
	out := seenGroup{owner: g.Org, Group: api.Group{
		ID: g.ID, Name: g.Name, Description: orNull(g.Description), EnrollmentPolicy: g.Policy.String(),
		Visibility: api.PrivateGroups, Isolated: g.Isolated, VoteDurationHours: g.VoteHours,
		MemberCount: len(g.Members()), MemberAgentIDs: make([]parley.AgentID, 0, len(g.Members())), CreatedAt: api.At(g.CreatedAt()),
	}}
	if g.Public {
		out.Visibility = api.PublicGroups
	}
	for _, m := range g.Members() {
		out.MemberAgentIDs = append(out.MemberAgentIDs, m.Agent)
	}
	if id := g.Conversation; !id.Zero() {
		out.ConversationID = &id
	}
	if out.MLSEnabled = g.Epoch > 0; out.MLSEnabled {
		out.MLSPending = g.AwaitingLeaf() > 0 || len(g.Abandoned()) > 0
		out.MLSGroupID, out.MLSCipherSuite = new(g.ID.String()), new(int(g.Suite))
	}
	return out
}

// readGroup returns a group for callers that may read it.
func (s groups) readGroup(c *rest.Call, id parley.GroupID) (seenGroup, error) {
	g, err := readGroupAs(s.core, c, id, accessFull, seeGroup)
	if err != nil {
		return g, err
	}
	g.Handle, err = s.groupHandle(c.Context(), g.owner, g.Name)
	return g, err
}

func (s groups) getGroup(c *rest.Call, in *api.GetGroup) (api.Group, error) {
	g, err := s.readGroup(c, in.ID)
	return g.Group, err
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
	return api.GroupCreated{Group: g.Group, Invitations: rows}, afterCommit(err)
}

// madeGroup returns a group that the caller has created, by this request or an earlier
// one with the same key.
func (s groups) madeGroup(c *rest.Call, made actors.GroupMade) (seenGroup, error) {
	g, err := actors.ReadGroup(c.Context(), s.Node.Groups, made.ID, seeGroup)
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
	g.Handle, err = s.groupHandle(c.Context(), g.owner, g.Name)
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
	g, err := s.readGroup(c, in.ID)
	return g.Group, afterCommit(err)
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
	_, err := readGroupAs(s, c, id, accessExists, func(*group.State, time.Time) struct{} { return struct{}{} })
	return err
}
