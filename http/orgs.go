package http

import (
	"time"

	"parley/actors/org"
	"parley/http/api"
	"parley/http/auth"
)

// QuotaProfile gives each trust tier its limits; nil is no limit.
// // spec: Organization quotas
type QuotaProfile [4]map[string]*int

// The quotas, in the contract's words and order.
const (
	quotaAgents   = "agents"
	quotaMessages = "messages_per_day"
	quotaGroups   = "groups"
	quotaMembers  = "group_members"
	quotaStreams  = "streams_per_agent"
)

var quotaNames = [...]string{
	quotaAgents, quotaMessages, quotaGroups, "webhooks_per_agent", quotaMembers, quotaStreams, "exports_per_hour",
}

// Quotas gives the profile of a name: "open" lifts every limit but that of
// exports, "public" is for deployments that anyone may join.
func Quotas(profile string) QuotaProfile {
	if profile == "public" {
		return QuotaProfile{
			limits(0, 0, 0, 0, 0, 0, 0), limits(3, 100, 5, 3, 64, 3, 1), limits(10, 1000, 25, 10, 256, 10, 1),
			limits(unlimited, unlimited, unlimited, 50, 1000, 50, 1),
		}
	}
	u := unlimited
	open := limits(u, u, u, u, u, u, 1)
	return QuotaProfile{open, open, open, open}
}

// unlimited stands for no limit.
const unlimited = -1

func limits(values ...int) map[string]*int {
	m := map[string]*int{}
	for i, name := range quotaNames {
		if values[i] != unlimited {
			m[name] = &values[i]
		}
	}
	return m
}

func (p QuotaProfile) limit(tier int, name string) *int { return p[min(max(tier, 0), len(p)-1)][name] }

// Seats is how many members a group may have whose owner is of a trust tier; nil
// is any number.
func (p QuotaProfile) Seats(tier int) *int { return p.limit(tier, quotaMembers) }

// getOrg is the organization's record. // spec: Organization
func (s *Service) getOrg(c *Call, _ *api.Nothing) (api.Org, error) {
	o, err := s.Node.OrgNow(c.Context(), c.Caller.Org)
	return orgOf(o), err
}

func (s *Service) patchOrg(c *Call, in *api.OrgPatch) (api.Org, error) {
	o, err := s.Node.ChangeOrg(c.Context(), c.Caller.Org, org.Change{
		Name: in.Name, ContactEmail: org.Clearable(in.ContactEmail), CountryCode: org.Clearable(in.CountryCode), Slug: in.Slug,
	})
	return orgOf(o), err
}

func orgOf(o *org.State) api.Org {
	if o == nil {
		return api.Org{}
	}
	return api.Org{
		ID: o.OrgID(), Name: o.GetName(), ContactEmail: orNull(o.GetContactEmail()), CountryCode: orNull(o.GetCountryCode()),
		Slug: orNull(o.GetSlug()), TrustTier: int(o.GetTrustTier()), AgentCount: int(o.GetActiveAgents()), CreatedAt: api.At(o.CreatedAt()),
	}
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// quotas are the limits of the organization's tier and what is used of them.
func (s *Service) quotas(c *Call, _ *api.Nothing) (api.Quotas, error) {
	o, err := s.Node.OrgNow(c.Context(), c.Caller.Org)
	if err != nil {
		return api.Quotas{}, err
	}
	sent, err := s.Node.Used(c.Context(), c.Caller.Org)
	if err != nil {
		return api.Quotas{}, err
	}
	tier := int(o.GetTrustTier())
	q := api.Quotas{Tier: tier, Quotas: map[string]api.Quota{}}
	for _, name := range quotaNames {
		q.Quotas[name] = api.Quota{Limit: s.Quotas.limit(tier, name)}
	}
	midnight := api.At(c.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour))
	q.Quotas[quotaAgents] = api.Quota{Limit: s.Quotas.limit(tier, quotaAgents), Used: new(int(o.GetActiveAgents()))}
	q.Quotas[quotaGroups] = api.Quota{Limit: s.Quotas.limit(tier, quotaGroups), Used: new(int(o.GetActiveGroups()))}
	q.Quotas[quotaMessages] = api.Quota{Limit: s.Quotas.limit(tier, quotaMessages), Used: new(int(sent)), ResetsAt: &midnight}
	return q, nil
}

// createCredentials adds a second way in, so that secrets can be changed
// without a gap. The secret is shown here and never again.
func (s *Service) createCredentials(c *Call, _ *api.CreateCredentials) (api.Credentials, error) {
	secret := auth.NewSecret(s.Entropy)
	hash := auth.HashSecret(secret)
	client, err := s.Node.AddCredential(c.Context(), c.Caller.Org, hash[:])
	if err != nil {
		return api.Credentials{}, err
	}
	return api.Credentials{
		OrgID: c.Caller.Org, OrgSlug: c.Caller.Slug, ClientID: client, ClientSecret: secret, TrustTier: c.Caller.Tier,
		TokenURL: s.BaseURL + "/oauth/token", CreatedAt: api.At(client.Time()),
	}, nil
}

func (s *Service) deleteCredentials(c *Call, in *api.DeleteCredentials) (NoContent, error) {
	err := s.Node.RevokeCredential(c.Context(), c.Caller.Org, in.ClientID)
	if err == nil {
		s.streams.endIf(func(st *agentStream) bool { return st.caller.ClientID == in.ClientID })
	}
	return NoContent{}, err
}
