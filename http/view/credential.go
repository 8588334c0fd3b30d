package view

import (
	"parley/actors/org"
	"parley/client/api"
)

// Credential returns a credential as its organization sees it, without its secret.
func Credential(c *org.Credential) api.Credential {
	out := api.Credential{
		ClientID: c.Client(), Scope: string(c.Reach()), Description: OrNull(c.GetDescription()),
		CreatedAt: Millis(c.GetCreatedMs()), ExpiresAt: MaybeMillis(c.GetExpiresMs()), RevokedAt: MaybeMillis(c.GetRevokedMs()),
	}
	if only := c.Only(); only != nil {
		out.AgentIDs = &only
	}
	return out
}
