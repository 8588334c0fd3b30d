package orgs

import (
	"context"
	"crypto/sha256"
	"time"

	"parley/actors/org"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/auth"
	"parley/http/rest"
	"parley/http/view"
)

// Get returns the organization's record. // spec: Organization
func (s Orgs) Get(c *rest.Call, _ *api.Nothing) (api.Org, error) {
	o, err := s.Node.Orgs.Current(c.Context(), c.Caller.Org)
	return view.Org(o), err
}

// Patch changes the organization's record.
func (s Orgs) Patch(c *rest.Call, in *api.OrgPatch) (api.Org, error) {
	o, err := s.Node.Orgs.Change(c.Context(), c.Caller.Org, org.Change{
		Name: in.Name, ContactEmail: org.Clearable(in.ContactEmail), CountryCode: org.Clearable(in.CountryCode), Slug: in.Slug,
	})
	return view.Org(o), err
}

// Usage returns the limits of the organization's tier and their current use.
func (s Orgs) Usage(c *rest.Call, _ *api.Nothing) (api.Quotas, error) {
	o, err := s.Node.Orgs.Current(c.Context(), c.Caller.Org)
	if err != nil {
		return api.Quotas{}, err
	}
	used, err := s.Node.Orgs.Used(c.Context(), c.Caller.Org)
	if err != nil {
		return api.Quotas{}, err
	}
	q := api.Quotas{Tier: int(o.GetTrustTier()), Quotas: map[string]api.Quota{}}
	for _, name := range access.QuotaNames() {
		q.Quotas[name] = api.Quota{Limit: s.Quotas.Of(o, name)}
	}
	midnight := api.At(c.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour))
	q.Quotas[access.QuotaAgents] = api.Quota{Limit: s.Quotas.Of(o, access.QuotaAgents), Used: new(int(o.GetActiveAgents()))}
	q.Quotas[access.QuotaGroups] = api.Quota{Limit: s.Quotas.Of(o, access.QuotaGroups), Used: new(int(o.GetActiveGroups()))}
	for name, n := range map[string]int64{access.QuotaMessages: used.Messages, parley.QuotaChanges: used.Changes, parley.QuotaInvitations: used.Invitations, parley.QuotaReports: used.Reports} {
		q.Quotas[name] = api.Quota{Limit: s.Quotas.Of(o, name), Used: new(int(n)), ResetsAt: &midnight}
	}
	q.Quotas[parley.QuotaStoredBytes] = api.Quota{Limit: s.Quotas.Of(o, parley.QuotaStoredBytes), Used: new(int(max(used.Stored, 0)))}
	exported, again := s.ExportsUsed(c.Caller.Org)
	q.Quotas[access.QuotaExports] = api.Quota{Limit: s.Quotas.Of(o, access.QuotaExports), Used: &exported, ResetsAt: again}
	return q, nil
}

// ErrErased refuses the tokens of an organization that was erased.
var ErrErased = auth.ErrNotAuthenticated.Saying("The organization was erased.")

var errEraseForeign = parley.ErrNotOwner.Saying("An organization can only erase itself.")

// erasurePatience is how long a request waits for an erasure, which goes on in any case.
const erasurePatience = 10 * time.Minute

// Erase erases the caller's organization. It returns when that is complete.
// // spec: Compliance and infrastructure
func (s Orgs) Erase(c *rest.Call, in *api.EraseOrg) (api.Erasure, error) {
	if in.ID != c.Caller.Org {
		if c.Caller.Erasing {
			return api.Erasure{}, ErrErased
		}
		return api.Erasure{}, errEraseForeign
	}
	token, ok := auth.ParseBearer([]byte(c.Header("Authorization")))
	if !ok {
		return api.Erasure{}, auth.ErrNotAuthenticated
	}
	defer c.Park()()
	ctx, stop := context.WithTimeout(c.Context(), erasurePatience)
	defer stop()
	done, err := s.Node.Erasures.Erase(ctx, in.ID, sha256.Sum256(token))
	return api.Erasure{
		OrgID: done.Org, ErasedAt: api.At(done.ErasedAt), MessagesDeleted: done.Messages, AgentsDeleted: done.Agents,
		ConversationsDeleted: done.Conversations, GroupsDeleted: done.Groups,
	}, err
}
