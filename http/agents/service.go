// Package agents serves what belongs to one agent: its settings, keys, card, poll token, key
// packages, workload identity, and the documents and the log by which others find its keys.
package agents

import (
	"context"
	"time"

	"parley/actors"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/auth"
	"parley/http/limit"
	"parley/http/rest"
	"parley/http/svid"
	"parley/http/view"
)

// Options are what the handlers of agents need of the service.
type Options struct {
	Node    *actors.Node
	Agents  *access.Agents
	Quotas  access.QuotaProfile
	Lists   *rest.Lists
	Show    view.Site
	Clock   parley.Clock
	Entropy parley.Entropy
	Cursors *rest.Cursors
	// HostSlug is the slug whose host is the server's own, "" if there is none.
	HostSlug string
	// Dev is set on a developer's machine, where organizations have no host names.
	Dev bool
	// Poll bounds the unauthenticated poll endpoint.
	Poll limit.Poll
	// Tries counts wrong solutions of a challenge.
	Tries *limit.Window
	// Source is the address of a client, for limits.
	Source func(*rest.Call) string
	// Ended ends the streams of an agent that was revoked.
	Ended func(parley.AgentID)
	// LogKey returns the key that signs checkpoints of the key log. It never changes.
	LogKey func(context.Context) (auth.SigningKey, error)
	// Bundles verify workload identities. None can be proven if it is nil.
	Bundles *svid.Bundles
}

// Service is what the handlers of agents share.
type Service struct {
	Options
	Limits
	logSigner logSigner
}

// Limits bound what one caller can do to agents.
type Limits struct {
	pollAddress, pollToken *limit.Window
	keyClaims, pqKeys      *limit.Window
	svidChallenges         *limit.Window // per agent
}

// The handlers, by topic.
type (
	Agents   struct{ *Service }
	Keys     struct{ *Service }
	Cards    struct{ *Service }
	KeyLog   struct{ *Service }
	Identity struct{ *Service } // documents by which others find an agent's keys
	Workload struct{ *Service } // proofs of workload identities
)

// New returns the handlers' common part.
func New(o Options) *Service {
	return &Service{Options: o, Limits: Limits{
		pollAddress:    limit.NewWindow(o.Poll.PerAddress, pollWindow, o.Clock),
		pollToken:      limit.NewWindow(o.Poll.PerToken, pollWindow, o.Clock),
		keyClaims:      limit.NewWindow(keyClaimsMax, keyClaimWindow, o.Clock),
		pqKeys:         limit.NewWindow(pqKeysMax, pqKeysWindow, o.Clock),
		svidChallenges: limit.NewWindow(parley.SVIDChallengesMax, parley.SVIDChallengeLifetime, o.Clock),
	}}
}

// Windows are the limits by name, to count them on several nodes together.
func (l *Limits) Windows() map[string]*limit.Window {
	return map[string]*limit.Window{
		"poll_address": l.pollAddress, "poll_token": l.pollToken, "key_claims": l.keyClaims, "pq_keys": l.pqKeys, "svid_challenges": l.svidChallenges,
	}
}

// since returns when a document last changed that depends on the server's settings too: a
// restart may have changed them.
func (s *Service) since(changed time.Time) time.Time {
	if started := s.started(); started.After(changed) {
		return started
	}
	return changed
}

// started is when the server started, in whole seconds.
func (s *Service) started() time.Time { return time.Unix(s.Show.Since.Unix(), 0) }
