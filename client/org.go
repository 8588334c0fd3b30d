package client

import (
	"parley/client/api"
	"parley/client/parley"
)

// Org makes the calls about the session's own organization.
type Org struct {
	// Get returns the organization's record.
	Get Fetch[api.Org] `call:"GET /org"`
	// Update changes the organization.
	Update Call[api.OrgPatch, api.Org] `call:"PATCH /org"`
	// Quotas returns the organization's limits and their use.
	Quotas Fetch[api.Quotas] `call:"GET /org/quotas"`
	// CreateCredential adds a credential; the others stay valid.
	CreateCredential Call[api.CreateCredential, api.CreatedCredential] `call:"POST /org/credentials"`
	// Credentials returns the live credentials, oldest first.
	Credentials List[struct{}, api.ListedCredential] `call:"GET /org/credentials"`
	// DeleteCredential revokes a credential and the tokens issued for it.
	DeleteCredential Command[parley.ClientID] `call:"DELETE /org/credentials/{client_id}"`
	// Erase erases the organization and everything that belongs to it, for good. It returns
	// when that is complete. Repeating it with the same access token gives the same result.
	Erase Call[parley.OrgID, api.Erasure] `call:"DELETE /orgs/{id} repeatable"`

	// Report reports a message, an agent or a group to the operator. Reporting it again while the
	// report is open returns the first one's id.
	Report Call[api.CreateReport, api.ReportFiled] `call:"POST /reports repeatable"`

	s *Session
}
