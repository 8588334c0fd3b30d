package org

import (
	"time"

	"parley/client/parley"
)

// Live reports whether the credential can obtain tokens at an instant, and whether its tokens are
// valid.
func (c *Credential) Live(now time.Time) bool {
	return c != nil && c.RevokedMs == 0 && (c.ExpiresMs == 0 || now.UnixMilli() < c.ExpiresMs)
}

// endedMs returns when a credential that is not live ended.
func (c *Credential) endedMs() int64 {
	if c.RevokedMs != 0 {
		return c.RevokedMs
	}
	return c.ExpiresMs
}

// Reach returns the scope of the credential.
func (c *Credential) Reach() parley.Scope {
	if c.GetScope() == "" {
		return parley.ScopeOrg
	}
	return parley.Scope(c.GetScope())
}

// Only returns the agents to which the credential is limited, nil if it is not.
func (c *Credential) Only() (ids []parley.AgentID) {
	for _, id := range c.GetAgents() {
		ids = append(ids, parley.IDFromBytes[parley.AgentID](id))
	}
	return ids
}

// Expires returns when the credential ends without being revoked, zero for never.
func (c *Credential) Expires() time.Time {
	if c.GetExpiresMs() == 0 {
		return time.Time{}
	}
	return time.UnixMilli(c.GetExpiresMs()).UTC()
}

// Announcements returns the instants at which the credential is announced before it ends, those that
// were not announced yet: none that lie before its creation, and none of a revoked one.
func (c *Credential) Announcements() (due []time.Time) {
	if c.GetExpiresMs() == 0 || c.GetRevokedMs() != 0 {
		return nil
	}
	for _, before := range []time.Duration{parley.CredentialNoticeFirst, parley.CredentialNoticeLast} {
		if at := c.Expires().Add(-before); at.UnixMilli() >= c.GetCreatedMs() && at.UnixMilli() > c.GetAnnouncedMs() {
			due = append(due, at)
		}
	}
	return due
}

// Client returns the id of the announced credential.
func (x *ExpiryAnnounced) Client() (id parley.ClientID) {
	copy(id[:], x.GetClientId())
	return id
}

// announceExpiries announces each instant that has come once, also those that came while no server ran.
func announceExpiries(s *State, now time.Time) (events []Event) {
	for _, c := range s.GetCredentials() {
		for _, due := range c.Announcements() {
			if !due.After(now) {
				events = append(events, &ExpiryAnnounced{ClientId: c.GetClientId(), DueMs: due.UnixMilli(), AtMs: now.UnixMilli()})
			}
		}
	}
	return events
}

// lasting reports whether the credential keeps its organization from being locked out.
func (c *Credential) lasting() bool {
	return c.RevokedMs == 0 && c.ExpiresMs == 0 && c.Reach() == parley.ScopeOrg
}

// credentials counts the credentials that satisfy suits.
func (s *State) credentials(suits func(*Credential) bool) (n int) {
	for _, c := range s.GetCredentials() {
		if suits(c) {
			n++
		}
	}
	return n
}

func decideAddCredential(s *State, c AddCredential, now time.Time) ([]Event, error) {
	if s.Credential(c.ClientID) != nil {
		return nil, nil
	}
	e := &CredentialAdded{
		ClientId: c.ClientID.Bytes(), SecretHash: c.SecretHash, AtMs: now.UnixMilli(), Description: c.Description, Forgotten: s.forgettable(now),
	}
	quota, limit := parley.QuotaCredentials, parley.CredentialsMax
	if c.Scope != parley.ScopeOrg && c.Scope != "" {
		e.Scope, quota, limit = string(c.Scope), parley.QuotaScopedCredentials, parley.ScopedCredentialsMax
		if s.GetTrustTier() == TierMax {
			limit = parley.ScopedCredentialsTier3
		}
	}
	alike := func(other *Credential) bool { return other.Live(now) && (other.GetScope() == "") == (e.Scope == "") }
	if live := s.credentials(alike); live >= limit {
		return nil, ErrQuotaExceeded.OverQuota(quota, limit, live, nil)
	}
	if !c.Expires.IsZero() {
		if !c.Expires.After(now) {
			return nil, ErrExpiresEarly
		}
		e.ExpiresMs = c.Expires.UnixMilli()
	}
	for _, id := range c.Agents {
		e.Agents = append(e.Agents, id.Bytes())
	}
	return []Event{e}, nil
}

// forgettable returns the credentials that leave the state when the next credential is added:
// those that ended long ago, and the oldest of too many. So the state is bounded, however fast
// credentials are added and revoked.
func (s *State) forgettable(now time.Time) (ids [][]byte) {
	ended := s.credentials(func(c *Credential) bool { return !c.Live(now) })
	for _, c := range s.GetCredentials() {
		if c.Live(now) {
			continue
		}
		if ended >= parley.RevokedCredentialsMax || now.UnixMilli()-c.endedMs() >= parley.RevokedCredentialsKept.Milliseconds() {
			ids = append(ids, c.GetClientId())
			ended--
		}
	}
	return ids
}

func decideRevokeCredential(s *State, c RevokeCredential, now time.Time) ([]Event, error) {
	credential := s.Credential(c.ClientID)
	switch {
	case credential == nil:
		return nil, ErrUnknownCredential
	case !credential.Live(now):
		return nil, nil
	case credential.lasting() && s.credentials((*Credential).lasting) == 1:
		return nil, ErrLastCredential
	}
	return []Event{&CredentialRevoked{ClientId: c.ClientID.Bytes(), AtMs: now.UnixMilli()}}, nil
}
