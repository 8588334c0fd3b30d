package actors

import (
	"context"

	"parley/actors/org"
	"parley/client/parley"
)

// Suspend suspends an organization until Resume. Its webhooks begin no more attempts and
// keep their pending jobs. The HTTP layer rejects its requests and ends its streams.
func (orgs *Orgs) Suspend(ctx context.Context, id parley.OrgID) (*org.State, error) {
	return orgs.SetTerms(ctx, id, org.Suspend{})
}

// Resume ends a suspension. Webhooks continue with their pending jobs.
func (orgs *Orgs) Resume(ctx context.Context, id parley.OrgID) (*org.State, error) {
	return orgs.SetTerms(ctx, id, org.Resume{})
}
