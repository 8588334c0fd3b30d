package access

import (
	"fmt"
	"slices"
	"strings"

	"parley/actors/org"
	"parley/client/parley"
	"parley/http/rest"
)

// QuotaProfile maps each trust tier to its limits by name. A missing name means no limit.
// // spec: Organization quotas
type QuotaProfile [org.TierMax + 1]map[string]int

// The quotas, in the wording and the order of the answer.
const (
	QuotaAgents   = "agents"
	QuotaMessages = parley.QuotaMessages
	QuotaGroups   = "groups"
	QuotaWebhooks = "webhooks_per_agent"
	QuotaMembers  = "group_members"
	QuotaStreams  = "streams_per_agent"
	QuotaExports  = "exports_per_hour"
	// QuotaJoinRequests is no quota of organizations.
	QuotaJoinRequests = "join_requests"
)

var quotaNames = [...]string{
	QuotaAgents, QuotaMessages, QuotaGroups, QuotaWebhooks, QuotaMembers, QuotaStreams, QuotaExports,
	parley.QuotaStoredBytes, parley.QuotaChanges, parley.QuotaInvitations, parley.QuotaInvitationsPerAgent,
	parley.QuotaReports,
}

// Quotas returns the profile with a name: "open" limits exports and reports only,
// "public" is for deployments that anyone may join.
func Quotas(profile string) QuotaProfile {
	if profile == "public" {
		return QuotaProfile{
			limits(0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 3, reports),
			limits(3, 100, 5, 3, 64, 3, 1, 1<<30, 1000, 50, 3, reports),
			limits(10, 1000, 25, 10, 256, 10, 1, 50<<30, 10_000, 500, 3, reports),
			limits(unlimited, unlimited, unlimited, 50, 1000, 50, 1, unlimited, unlimited, 10_000, 3, reports),
		}
	}
	var open QuotaProfile
	for tier := range open {
		open[tier] = map[string]int{QuotaExports: 1, parley.QuotaReports: reports}
	}
	return open
}

const (
	// unlimited stands for no limit.
	unlimited = -1
	// reports is how many reports an organization of any profile and tier may make on a day.
	reports = 20
)

func limits(values ...int) map[string]int {
	m := map[string]int{}
	for i, name := range quotaNames {
		if values[i] != unlimited {
			m[name] = values[i]
		}
	}
	return m
}

// QuotaNames returns the names of all quotas, in the order of the answer.
func QuotaNames() []string { return quotaNames[:] }

// With returns the profile with one limit of a tier replaced. A nil limit means no limit.
func (p QuotaProfile) With(tier int, name string, limit *int) (QuotaProfile, error) {
	switch {
	case tier < 0 || tier >= len(p):
		return p, fmt.Errorf("there is no trust tier %d", tier)
	case !slices.Contains(quotaNames[:], name):
		return p, fmt.Errorf("there is no quota %q; there are %s", name, strings.Join(quotaNames[:], ", "))
	case limit != nil && *limit < 0:
		return p, fmt.Errorf("%d is less than none", *limit)
	}
	changed := map[string]int{}
	for other, n := range p[tier] {
		changed[other] = n
	}
	delete(changed, name)
	if limit != nil {
		changed[name] = *limit
	}
	p[tier] = changed
	return p, nil
}

func (p QuotaProfile) limit(tier int, name string) *int {
	n, limited := p[min(max(tier, 0), len(p)-1)][name]
	if !limited {
		return nil
	}
	limit := n // a copy on the heap only where there is a limit
	return &limit
}

// Of returns an organization's current limit: the one that the operator has set, else the
// one of its trust tier. nil means no limit.
func (p QuotaProfile) Of(o *org.State, name string) *int {
	if limit, set := o.Allowed(name); set {
		return limit
	}
	return p.limit(int(o.GetTrustTier()), name)
}

// Payer returns who pays for what an organization's requests store.
func (p QuotaProfile) Payer(o *org.State) *parley.Payer {
	return &parley.Payer{
		Org: o.OrgID(), StoredBytes: p.Of(o, parley.QuotaStoredBytes), Changes: p.Of(o, parley.QuotaChanges),
		Invitations: p.Of(o, parley.QuotaInvitations), InvitationsPerAgent: p.Of(o, parley.QuotaInvitationsPerAgent),
		Reports: p.Of(o, parley.QuotaReports),
	}
}

// Seats returns how many members a group of the owner may have. nil means no limit.
func (p QuotaProfile) Seats(owner *org.State) *int { return p.Of(owner, QuotaMembers) }

// Allowed returns a caller's limit of a quota. nil means no limit.
func (p QuotaProfile) Allowed(who rest.Caller, name string) *int {
	o, _ := who.Record.(*org.State)
	return p.Of(o, name)
}
