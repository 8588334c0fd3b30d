package parley

import "context"

// Payer is the organization that a request counts for, with what it may use. A nil limit means
// none. // spec: Organization quotas
type Payer struct {
	Org OrgID
	// StoredBytes bounds what it stores in all, the others what it does on a day.
	StoredBytes, Changes, Invitations, Reports *int
	// InvitationsPerAgent bounds those to one agent.
	InvitationsPerAgent *int
}

// Names of quotas that the actors judge.
const (
	QuotaMessages            = "messages_per_day"
	QuotaStoredBytes         = "stored_bytes"
	QuotaChanges             = "changes_per_day"
	QuotaInvitations         = "invitations_per_day"
	QuotaInvitationsPerAgent = "invitations_per_agent"
	QuotaReports             = "reports_per_day"
	// These are no quotas of organizations in GET /org/quotas.
	QuotaBlocks            = "blocks"
	QuotaCredentials       = "credentials"
	QuotaScopedCredentials = "scoped_credentials"
)

type payerKey struct{}

// payerContext is a context with a payer. It takes one allocation.
type payerContext struct {
	context.Context
	payer *Payer
}

func (c *payerContext) Value(key any) any {
	if key == (payerKey{}) {
		return c.payer
	}
	return c.Context.Value(key)
}

// WithPayer returns a context for requests that count for a payer.
func WithPayer(ctx context.Context, p *Payer) context.Context { return &payerContext{ctx, p} }

// PayerOf returns who pays for the requests of a context, nil if nobody does.
func PayerOf(ctx context.Context) *Payer {
	p, _ := ctx.Value(payerKey{}).(*Payer)
	return p
}
