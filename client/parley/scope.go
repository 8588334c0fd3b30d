package parley

import "slices"

// Scope is what a credential is good for, and each token that was made for it.
type Scope string

// The scopes of credentials.
const (
	// ScopeOrg is good for everything that an organization may do.
	ScopeOrg Scope = "org"
	// ScopeAgents is good for what some agents of an organization do.
	ScopeAgents Scope = "agents"
	// ScopeRead is good for reading; nothing is marked as delivered or read.
	ScopeRead Scope = "read"
)

// Scopes are all scopes, the widest first.
var Scopes = []Scope{ScopeOrg, ScopeAgents, ScopeRead}

// Principal is on whose behalf a request is made: an organization with all its agents, or only
// some of them, to which the credential is limited.
type Principal struct {
	Org OrgID
	// Only are the agents to which the principal is limited; nil means that it is not.
	Only []AgentID
}

// Owns reports whether an agent of an organization is one of the principal's.
func (p Principal) Owns(org OrgID, agent AgentID) bool {
	return org == p.Org && (p.Only == nil || slices.Contains(p.Only, agent))
}
