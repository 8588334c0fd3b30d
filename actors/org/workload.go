package org

import (
	"time"

	"parley/client/parley"
)

// tierProven is the tier of an organization that has proven a workload identity.
// // spec: Authentication
const tierProven = 2

// Refusals of a proof of a workload identity.
var (
	ErrUnknownChallenge = parley.ErrNotFound.Saying("There is no such challenge for this agent.")
	ErrChallengeUsed    = parley.Refuse(parley.Conflict, "challenge_used", "The challenge has already been used. Ask for a new one.")
	ErrChallengeExpired = parley.Refuse(parley.Gone, "challenge_expired", "The challenge has expired. Ask for a new one.")
	// ErrWorkloadTaken keeps two organizations from having one SPIFFE id.
	ErrWorkloadTaken = parley.Refuse(parley.Forbidden, "svid_invalid", "Another organization has proven this SPIFFE id.")
)

// ProveWorkload says that an agent has proven a workload identity. The caller has
// verified the proof.
type ProveWorkload struct {
	Challenge *WorkloadChallenge
	SPIFFEID  string
	// Used is a lookup: the challenge was used before.
	Used bool
	// Taken is a lookup: another organization has the SPIFFE id.
	Taken bool
}

// Agent returns the agent that the challenge was made for.
func (c *WorkloadChallenge) Agent() parley.AgentID {
	return parley.IDFromBytes[parley.AgentID](c.GetAgentId())
}

// ExpiresAt returns the instant from which proofs are refused, UTC.
func (c *WorkloadChallenge) ExpiresAt() time.Time { return time.UnixMilli(c.GetExpiresMs()).UTC() }

// Judge returns nil if an organization's agent may answer the challenge now, or else the
// refusal. used is a lookup: the challenge was used before.
func (c *WorkloadChallenge) Judge(org parley.OrgID, agent parley.AgentID, used bool, now time.Time) error {
	switch {
	case parley.IDFromBytes[parley.OrgID](c.GetOrgId()) != org || c.Agent() != agent:
		return ErrUnknownChallenge
	case used: // a used challenge stays used when it expires
		return ErrChallengeUsed
	case now.UnixMilli() >= c.GetExpiresMs():
		return ErrChallengeExpired
	}
	return nil
}

// decideProveWorkload raises the tier, but not beyond a decision of the operator that
// lowered it. Each proof yields an event, because it uses up a challenge.
func decideProveWorkload(s *State, c ProveWorkload, now time.Time) ([]Event, error) {
	if err := c.Challenge.Judge(s.OrgID(), c.Challenge.Agent(), c.Used, now); err != nil {
		return nil, err
	}
	if c.Taken {
		return nil, ErrWorkloadTaken
	}
	tier := s.GetTrustTier()
	if s.GetTierLoweredMs() == 0 {
		tier = max(tier, tierProven)
	}
	return []Event{&WorkloadProven{
		AgentId: c.Challenge.GetAgentId(), SpiffeId: c.SPIFFEID, Tier: tier, AtMs: now.UnixMilli(),
	}}, nil
}
