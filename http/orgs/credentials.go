package orgs

import (
	"errors"
	"slices"

	"parley/actors/org"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/auth"
	"parley/http/rest"
	"parley/http/view"
	"parley/journal"
)

// AddCredential adds a credential. The secret is returned only here. // docs: api.md#credentials
func (s Orgs) AddCredential(c *rest.Call, in *api.CreateCredential) (api.CreatedCredential, error) {
	secret := auth.NewSecret(s.Entropy)
	hash := auth.HashSecret(secret)
	add := org.AddCredential{SecretHash: hash[:], Scope: parley.Scope(in.Scope), Agents: in.AgentIDs, Description: rest.Text(in.Description)}
	if in.ExpiresAt != nil {
		add.Expires = in.ExpiresAt.Time
	}
	if err := s.checkAgents(c, in.AgentIDs); err != nil {
		return api.CreatedCredential{}, err
	}
	if s.ScopesKnown != nil && (add.Scope != parley.ScopeOrg || in.ExpiresAt != nil) {
		if err := s.ScopesKnown(c.Context()); err != nil {
			return api.CreatedCredential{}, err
		}
	}
	made, err := s.Node.Orgs.AddCredential(c.Context(), c.Caller.Org, add)
	if err != nil {
		return api.CreatedCredential{}, err
	}
	return api.CreatedCredential{Credential: view.Credential(made), ClientSecret: secret}, nil
}

// checkAgents refuses ids that are not those of active agents of the caller.
func (s Orgs) checkAgents(c *rest.Call, ids []parley.AgentID) error {
	bad := &rest.SchemaError{}
	for i, id := range ids {
		a, err := s.Node.Agents.Get(c.Context(), id)
		unknown := errors.Is(err, parley.ErrNotFound) || errors.Is(err, journal.ErrErased)
		if err != nil && !unknown {
			return err
		}
		wrong := "Value error, this is no active agent of your organization"
		switch {
		case slices.Contains(ids[:i], id):
			wrong = "Value error, the agent is named twice"
		case !unknown && c.Caller.Owns(a.Owner(), id) && !a.Revoked():
			continue
		}
		bad.Faults = append(bad.Faults, rest.FieldError{Loc: []any{"body", "agent_ids", i}, Msg: wrong, Type: rest.FaultValue})
	}
	if bad.Faults == nil {
		return nil
	}
	return bad
}

// ListCredentials returns the live credentials, oldest first.
func (s Orgs) ListCredentials(c *rest.Call, _ *api.Nothing) ([]api.ListedCredential, error) {
	o, err := s.Node.Orgs.Current(c.Context(), c.Caller.Org)
	if err != nil {
		return nil, err
	}
	all := []api.ListedCredential{}
	for _, one := range o.GetCredentials() {
		if !one.Live(c.Now()) {
			continue
		}
		used, err := s.Node.Orgs.LastToken(c.Context(), c.Caller.Org, one.Client())
		if err != nil {
			return nil, err
		}
		all = append(all, api.ListedCredential{Credential: view.Credential(one), LastUsedAt: api.Maybe(used)})
	}
	return all, nil
}

// RevokeCredential revokes a credential and ends what it opened. When it returns, no node admits
// the credential: before each request a node learns what was acknowledged before it.
func (s Orgs) RevokeCredential(c *rest.Call, in *api.DeleteCredential) (rest.NoContent, error) {
	err := s.Node.Orgs.RevokeCredential(c.Context(), c.Caller.Org, in.ClientID)
	if err == nil {
		s.Ended(in.ClientID)
	}
	return rest.NoContent{}, err
}
