package http

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"parley/actors"
	"parley/actors/agent"
	"parley/actors/org"
	"parley/client/parley"
	"parley/http/a2a"
	"parley/http/access"
	"parley/http/agents"
	"parley/http/auth"
	"parley/http/directory"
	"parley/http/egress"
	"parley/http/export"
	"parley/http/groups"
	"parley/http/limit"
	"parley/http/messages"
	"parley/http/orgs"
	"parley/http/reports"
	"parley/http/rest"
	"parley/http/streams"
	"parley/http/submission"
	"parley/http/svid"
	"parley/http/view"
	"parley/http/web"
	"parley/http/webhooks"
	"parley/journal"
)

// ServiceOptions configure the endpoints.
type ServiceOptions struct {
	Node    *actors.Node
	Issuer  *auth.Issuer
	Cursors *rest.Cursors
	Clock   parley.Clock
	Entropy parley.Entropy
	// BaseURL is the public address, without a trailing slash.
	BaseURL string
	// Domain is the service domain in handles.
	Domain string
	// Brand is the neutral word in header names and message types, in lower case.
	Brand string
	// Version of the software.
	Version string
	// KeyLifetime is the age at which a signing key is replaced; 0 is
	// parley.SigningKeyLifetime.
	KeyLifetime time.Duration
	// CardKeys sign the A2A cards of agents, ReceiptKeys the receipts of messages.
	CardKeys, ReceiptKeys auth.KeySet
	// Dev is set on a developer's machine, where organizations have no host names.
	Dev bool
	// Difficulty of proofs of work.
	Difficulty *auth.Difficulty
	// TierAtSolve is the trust tier that a solved challenge gives.
	TierAtSolve int
	// Registration says who may register an organization: open, token or closed.
	Registration string
	// Poll bounds the unauthenticated poll endpoint.
	Poll limit.Poll
	// Quotas are the limits of the trust tiers.
	Quotas access.QuotaProfile
	// Rates are the request rates of callers; zero values mean no limits, for private
	// deployments.
	Rates Rates
	// Budget bounds the bytes that streams hold for slow readers, per organization.
	Budget *limit.Budget
	// Proxies are the networks of trusted proxies, whose X-Forwarded-For is believed. If
	// empty, the header is ignored.
	Proxies []netip.Prefix
	// Mail, if set, sends the token that verifies an address. It must not block on the
	// network.
	Mail func(address, token string)
	// Courier, if set, gets the bridge, which writes push notifications.
	Courier *webhooks.Courier
	// Guard checks the targets of new webhooks, Vault seals their secrets.
	Guard *egress.Guard
	Vault *auth.MasterKey
	// Notice is what the transparency notice says of the provider.
	Notice Notice
	// ClusterTrouble, if set, returns why this node of a cluster should receive no requests.
	ClusterTrouble func() *parley.Refusal
	// Elsewhere, if set, reports that another node of the cluster leads, or none.
	Elsewhere func() bool
	// CutOff, if set, reports that this node has lost contact with its cluster for longer than
	// an election takes: streams and waits end.
	CutOff func() bool
	// ScopesKnown, if set, refuses credentials of other scopes than org while a node of the cluster
	// might not know them.
	ScopesKnown func(context.Context) error
	// Directory finds agents and groups.
	Directory directory.Index
	// Bundles verify workload identities. None can be proven if it is nil.
	Bundles *svid.Bundles
	// Logger logs defects.
	Logger *slog.Logger
}

// Service implements the endpoints. Handlers are grouped by topic: each handler type is a
// view of the same core. // spec: Endpoints
type Service struct {
	*core
	admission
}

// core is the state that all handlers share.
type core struct {
	ServiceOptions
	// hostSlug is the slug whose host is the server's own: api, if the public address is
	// https://api.parley.example and the domain is parley.example. It is "" if the server's
	// host is not of this form.
	hostSlug string
	show     view.Site
	agents   *access.Agents
	groups   *access.Groups
	// Resolve returns the id of the agent or the group with a handle, for httpserver.Options.
	Resolve func(*rest.Call, parley.Handle) (parley.AnyID, error)
	began   time.Time // with a monotonic clock's reading
	started int64     // the same as a Unix time
	rates   rates
	// tries counts wrong solutions of a challenge, so that no client can make the server check
	// any number of them. A restart forgets them.
	tries *limit.Window
	// shared are the limits that several nodes count together, nil for one on its own.
	shared *limit.Shared
	// taskStreams are the streams of A2A tasks on all nodes, nil on one on its own.
	taskStreams *limit.Concurrency
	bridgeCards *a2a.Cards
	receiptKeys *receiptKeys
	// signing is held from reading the signing keys until they are in use, so that an older
	// set cannot replace a newer one.
	signing    sync.Mutex
	keyNews    keyNews
	streams    *streams.Streams
	exports    *export.Exports
	webhooks   *webhooks.Webhooks
	ofGroups   groups.Options
	endings    *endings
	lists      *rest.Lists
	directory  *directory.Directory
	desk       *submission.Desk
	bridge     *a2a.Bridge
	ofMessages *messages.Options
	ofAgents   *agents.Service
	ofOrgs     *orgs.Options
	reports    *reports.Reports
	closing    atomic.Bool
}

// NewService returns the endpoints of a node.
func NewService(o ServiceOptions) *Service {
	s := &core{ServiceOptions: o, began: o.Clock()}
	s.started = s.began.Unix()
	s.show = view.Site{BaseURL: o.BaseURL, Domain: o.Domain, Brand: o.Brand, Since: s.began}
	if base, err := url.Parse(o.BaseURL); err == nil {
		s.hostSlug = parley.SlugOfHost(base.Hostname(), o.Domain)
	}
	s.agents = access.NewAgents(o.Node, s.show)
	s.groups = access.NewGroups(o.Node, s.agents, o.Quotas)
	s.Resolve = s.groups.Resolve
	s.rates, s.tries = newRates(o.Rates, o.Clock), limit.NewWindow(parley.ChallengeTriesMax, parley.ChallengeLifetime+time.Minute, o.Clock)
	s.receiptKeys = newReceiptKeys(o.Node.ReceiptKeys, o.ReceiptKeys)
	s.keyNews.follow(o.Node.Keys, o.Node.CardKeys, o.Node.ReceiptKeys)
	s.bridgeCards = a2a.NewCards(a2a.CardOptions{
		BaseURL: o.BaseURL, Brand: o.Brand, Clock: o.Clock, Node: o.Node, Keys: o.CardKeys, Show: s.show.Card,
		Changed: func(a *agent.State, o *org.State) time.Time {
			return s.show.CardChanged(a, o, a.GetCard().GetUpdatedMs())
		},
	})
	s.lists = &rest.Lists{Cursors: o.Cursors, ArrayBytes: parley.ArrayBytesMax}
	s.streams, s.endings = streams.New(streams.Options{
		Node: o.Node, Agents: s.agents, Quotas: o.Quotas, Clock: o.Clock, Logger: o.Logger, Budget: o.Budget, CutOff: s.cutOff,
	}), newEndings(s)
	s.ofAgents = agents.New(agents.Options{
		Node: o.Node, Agents: s.agents, Quotas: o.Quotas, Lists: s.lists, Show: s.show, Clock: o.Clock, Entropy: o.Entropy, Cursors: o.Cursors,
		HostSlug: s.hostSlug, Dev: o.Dev, Poll: o.Poll, Tries: s.tries, Source: admission{s}.Source,
		Ended: func(id parley.AgentID) { s.endings.of(id) }, LogKey: s.logKey, Bundles: o.Bundles,
	})
	s.exports = export.New(export.Options{
		Node: o.Node, Agents: s.agents, Groups: s.groups, Quotas: o.Quotas, Show: s.show, Clock: o.Clock, Budget: o.Budget, Logger: o.Logger,
	})
	if o.ClusterTrouble != nil {
		s.shared = s.share()
	}
	s.desk = submission.New(submission.Options{
		Node: o.Node, Agents: s.agents, Domain: o.Domain, Brand: o.Brand, DayLimit: func(who rest.Caller) *int { return s.Quotas.Allowed(who, access.QuotaMessages) },
		PairRate: o.Rates.pair,
	})
	s.ofMessages = &messages.Options{
		Node: o.Node, Agents: s.agents, Groups: s.groups, Desk: s.desk, Lists: s.lists, Logger: o.Logger, Brand: o.Brand, BaseURL: o.BaseURL,
		CutOff: s.cutOff, ReceiptKey: s.receiptKey, Listening: s.streams.Listening, Erasures: &messages.Erasures{},
	}
	s.bridge = a2a.New(a2a.Options{
		Node: o.Node, Agents: s.agents, Desk: s.desk, Cards: s.bridgeCards, Cursors: o.Cursors, Brand: o.Brand, Clock: o.Clock, Budget: o.Budget, Logger: o.Logger,
		Transferred: messages.Inbox{Options: s.ofMessages}.Transferred, StreamLimit: func(who rest.Caller) *int { return s.Quotas.Allowed(who, access.QuotaStreams) },
		Entropy: o.Entropy, Guard: o.Guard, Vault: o.Vault, CutOff: s.cutOff, Streams: s.taskStreams,
	})
	if o.Courier != nil {
		o.Courier.SetService(&webhooks.Service{Bridge: s.bridge, HandleOf: s.agents.HandleOf})
	}
	s.webhooks = &webhooks.Webhooks{
		Node: o.Node, Agents: s.agents, Quotas: o.Quotas, Lists: s.lists, Entropy: o.Entropy, Guard: o.Guard, Vault: o.Vault,
	}
	s.ofGroups = groups.Options{
		Node: o.Node, Agents: s.agents, Access: s.groups, Desk: s.desk, Quotas: o.Quotas, Lists: s.lists, Cursors: o.Cursors, Brand: o.Brand,
	}
	s.ofOrgs = &orgs.Options{
		Node: o.Node, Agents: s.agents, Issuer: o.Issuer, Cursors: o.Cursors, Entropy: o.Entropy, Quotas: o.Quotas, BaseURL: o.BaseURL, Brand: o.Brand, HostSlug: s.hostSlug,
		Difficulty: o.Difficulty, TierAtSolve: o.TierAtSolve, Admission: orgs.Admission(o.Registration), Tries: s.tries, Mail: o.Mail, Source: admission{s}.Source,
		ScopesKnown: o.ScopesKnown, TakeFailure: admission{s}.takeFailure, TakeToken: func(c *rest.Call, id parley.ClientID) error { return take(c, s.rates.token, string(id[:])) },
		TakeKeys: s.takeKeys, Ended: func(id parley.ClientID) { s.endings.of(id) }, ExportsUsed: s.exports.Used, Started: time.Unix(s.started, 0),
	}
	s.reports = reports.New(o.Node, s.groups)
	s.directory = directory.New(directory.Options{
		Node: o.Node, Agents: s.agents, Groups: s.groups, Index: o.Directory, Lists: s.lists, Cursors: o.Cursors, Clock: o.Clock,
		Budget: o.Budget, Logger: o.Logger, Site: web.Site{Version: o.Version, BaseURL: o.BaseURL, Domain: o.Domain, Brand: o.Brand},
	})
	o.Node.OnErased(s.forget)
	return &Service{s, admission{s}}
}

// Close ends every stream. Clients can resume on another server, or later.
func (s *Service) Close() {
	s.closing.Store(true)
	s.streams.Close()
	s.exports.BreakOff(parley.OrgID{})
	s.bridge.Close()
}

// forget ends the streams and the export of an organization that was erased, and drops
// what was rendered: it may be of that organization.
func (s *core) forget(org parley.OrgID) {
	s.exports.BreakOff(org)
	s.bridge.Forget(org)
	s.streams.Forget(org)
	s.directory.Forget()
	s.ofMessages.Erasures.Announce()
}

// EndStreams ends all streams of an organization.
func (s *Service) EndStreams(id parley.OrgID) { s.endings.of(id) }

// OpenStreams is the number of open streams.
func (s *Service) OpenStreams() int { return s.streams.Open() + s.bridge.OpenStreams() }

// StreamStats returns the current totals of streams.
func (s *Service) StreamStats() streams.Stats {
	all := s.streams.Stats()
	all.Open += s.bridge.OpenStreams()
	return all
}

// Bearer identifies a caller by its access token: the token must verify, and the
// credential it was issued for must still be live. // spec: Authentication
func (s *Service) Bearer(header []byte) (rest.Caller, error) {
	token, ok := auth.ParseBearer(header)
	if !ok {
		return rest.Caller{}, auth.ErrNotAuthenticated
	}
	claims, invalid := s.Issuer.Verify(token)
	if invalid != nil && !errors.Is(invalid, auth.ErrNotAuthenticated) {
		return rest.Caller{}, invalid
	}
	if err := s.Node.Fence(context.Background()); err != nil {
		return rest.Caller{}, err
	}
	if invalid != nil { // its key may be one of a rotation on another node
		if err := s.takeKeys(context.Background()); err != nil {
			return rest.Caller{}, err
		}
		if claims, invalid = s.Issuer.Verify(token); invalid != nil {
			return rest.Caller{}, invalid
		}
	}
	o, err := s.Node.Orgs.Get(context.Background(), claims.OrgID)
	if errors.Is(err, journal.ErrErased) || err == nil && o.Erasing() {
		return s.erasing(claims.OrgID, token)
	}
	if errors.Is(err, parley.ErrNotFound) {
		return rest.Caller{}, errRevoked
	}
	if err != nil {
		return rest.Caller{}, err
	}
	return s.callerOf(o, claims.ClientID)
}

var (
	errRevoked = auth.ErrNotAuthenticated.Saying("The credential that the token was made for has been revoked, or has expired.")
	errNoAgent = auth.ErrNotAuthenticated.Saying("All agents to which the token's credential is limited have been revoked.")
)

// callerOf returns the caller that a token of a credential identifies. What it may do is read from
// the state at each call.
func (s *core) callerOf(o *org.State, client parley.ClientID) (rest.Caller, error) {
	credential := o.Credential(client)
	if !credential.Live(s.Clock()) {
		return rest.Caller{}, errRevoked
	}
	caller := rest.Caller{
		Principal: parley.Principal{Org: o.OrgID(), Only: credential.Only()}, Slug: o.GetSlug(), ClientID: client, Scope: credential.Reach(),
		Tier: int(o.GetTrustTier()), Suspended: o.Suspended(), Payer: s.Quotas.Payer(o), Record: o,
	}
	if caller.Only == nil {
		return caller, nil
	}
	active, err := s.agents.AnyActive(context.Background(), caller.Only)
	if err == nil && !active {
		err = errNoAgent
	}
	return caller, err
}

// erasing identifies the caller with the token that asked for the erasure of its
// organization. Other tokens of the organization prove nothing any more.
func (s *core) erasing(org parley.OrgID, token []byte) (rest.Caller, error) {
	asked, err := s.Node.Erasures.BegunBy(context.Background(), org, sha256.Sum256(token))
	if err == nil && !asked {
		err = orgs.ErrErased
	}
	return rest.Caller{Principal: parley.Principal{Org: org}, Erasing: true}, err
}

// The handlers, by topic.
type (
	bridge     struct{ *core } // A2A
	serverInfo struct{ *core }
	compliance struct{ *core } // what the service does with data
	// admission decides which requests are served, before the handlers run.
	admission struct{ *core }
)
