// Package orgs serves organizations: their registration and tokens, their record, quotas and
// credentials, and their erasure.
package orgs

import (
	"context"
	"time"

	"parley/actors"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/auth"
	"parley/http/limit"
	"parley/http/rest"
)

// Options are what the handlers of organizations need of the service.
type Options struct {
	Node    *actors.Node
	Agents  *access.Agents
	Issuer  *auth.Issuer
	Cursors *rest.Cursors
	Entropy parley.Entropy
	Quotas  access.QuotaProfile
	// BaseURL is the public address, Brand the neutral word that no organization may have as its
	// slug, HostSlug the slug whose host is the server's own, "" if there is none.
	BaseURL, Brand, HostSlug string
	// Difficulty of proofs of work, TierAtSolve the trust tier that a solved one gives.
	Difficulty  *auth.Difficulty
	TierAtSolve int
	// Admission says who may register.
	Admission Admission
	// Tries counts wrong solutions of a challenge.
	Tries *limit.Window
	// Mail, if set, sends the token that verifies an address.
	Mail func(address, token string)
	// Source is the address of a client, for limits.
	Source func(*rest.Call) string
	// TakeFailure counts a wrong secret before it is checked; giveBack undoes that.
	TakeFailure func(*rest.Call) (giveBack func(), err error)
	// ScopesKnown, if set, refuses credentials that expire or have another scope than org while a
	// node of the cluster might take them for others.
	ScopesKnown func(context.Context) error
	// TakeToken counts a token of a client.
	TakeToken func(*rest.Call, parley.ClientID) error
	// TakeKeys makes the newest signing keys those in use.
	TakeKeys func(context.Context) error
	// Ended ends the streams of a credential that was revoked.
	Ended func(parley.ClientID)
	// ExportsUsed is how many exports of an organization count, and when the first no longer does.
	ExportsUsed func(parley.OrgID) (int, *api.Time)
	// Started is when the service was started.
	Started time.Time
}

// The handlers, by topic.
type (
	// Registration serves proofs of work, mailed tokens, and access tokens.
	Registration struct{ *Options }
	// Orgs serves the record of the caller's organization.
	Orgs struct{ *Options }
)
