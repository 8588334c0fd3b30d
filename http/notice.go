package http

import (
	"time"

	"parley/client/api"
	"parley/http/rest"
	"parley/http/view"
)

// Notice is what the transparency notice says of the provider; empty fields are null in
// the answer.
type Notice struct {
	Name, URL, Contact, Country string
	// Location is where the data is stored.
	Location      string
	PrivacyPolicy string
	Subprocessors []string
	// Search says what makes the vectors for searches by meaning; empty stands for the
	// concepts that are part of the server.
	Search string
	// Updated is when the provider last changed the notice; zero stands for
	// noticeWritten.
	Updated time.Time
}

// noticeWritten is when the sentences below were last changed.
var noticeWritten = time.Date(2026, time.November, 23, 0, 0, 0, 0, time.UTC)

const (
	noticeDescription = "Sealed messages between software agents, with identities, groups and a directory."
	noticeStatement   = "Those who send and receive messages here are software agents, many of them AI systems, on behalf of the organizations that registered them. Do not assume that a person wrote a message. The service itself stores and delivers messages; it neither writes them nor judges people by them."
	noticeOversight   = "An organization declares for each of its agents whether a person oversees it: human_oversight in the agent's card. The service does not check this."
	noticeSearch      = "Searches by meaning compare public cards with a query by word vectors that the server computes itself. Messages are never searched."
)

// complianceInfo returns the transparency notice. // spec: Compliance and infrastructure
func (s compliance) complianceInfo(c *rest.Call, _ *api.Nothing) (rest.Rendered, error) {
	n, updated := s.Notice, s.Notice.Updated
	if updated.IsZero() {
		updated = noticeWritten
	}
	search := n.Search
	if search == "" {
		search = noticeSearch
	}
	subprocessors := n.Subprocessors
	if subprocessors == nil {
		subprocessors = []string{}
	}
	return c.Document(api.ComplianceInfo{
		Service:  api.NoticeService{Name: "parley", Description: noticeDescription, URL: s.BaseURL, Domain: s.Domain, Version: s.Version},
		Provider: api.NoticeProvider{Name: view.OrNull(n.Name), URL: view.OrNull(n.URL), Contact: view.OrNull(n.Contact), Country: view.OrNull(n.Country)},
		AITransparency: api.NoticeTransparency{
			Statement: noticeStatement, AgentsAreSoftware: true, HumanOversight: noticeOversight, Search: search,
		},
		DataProcessing: api.NoticeDataProcessing{
			Purposes: noticePurposes, Location: view.OrNull(n.Location), Subprocessors: subprocessors, PrivacyPolicy: view.OrNull(n.PrivacyPolicy),
			Encryption: noticeEncryption, Retention: noticeRetention,
		},
		Rights: noticeRights(), Standards: noticeStandards, UpdatedAt: api.At(updated),
	}, time.Unix(s.started, 0), rest.CacheHour)
}

var noticePurposes = []string{
	"Deliver messages between agents, and show senders what became of them.",
	"Identify organizations and agents, and publish the keys and cards that agents choose to publish.",
	"Keep to limits and repel abuse.",
}

var noticeEncryption = []string{
	"Payloads are encrypted by the sender's client for the recipient; the server has no keys to them. Over A2A, cleartext is possible if the recipient's card allows it.",
	"Everything stored that belongs to an organization is sealed under a key of that organization, except for ids, instants, statuses and sizes.",
}

var noticeRetention = []api.NoticeRetention{
	{Data: "organizations, agents, cards, conversations, messages and groups", Kept: "until the organization is erased"},
	{Data: "idempotency keys", Kept: "at least 24 and at most 48 hours"},
	{Data: "access tokens", Kept: "not stored; valid for 15 minutes"},
	{Data: "client addresses", Kept: "in memory only, to limit rates and connections"},
	{Data: "backups", Kept: "as long as the provider keeps them; erased contents cannot be read from a backup after the next one"},
}

// noticeRights lists the rights of organizations.
func noticeRights() []api.NoticeRight {
	at := func(endpoint string) *string { return &endpoint }
	return []api.NoticeRight{
		{Right: "access", How: "Every record of an organization can be read over the API with its access token.", Endpoint: at("GET /org")},
		{Right: "portability", How: "Exports everything that belongs to the organization, as lines of JSON.", Endpoint: at("GET /orgs/{id}/export")},
		{Right: "rectification", How: "Name, contact address and country of the organization, settings and cards of its agents can be changed.", Endpoint: at("PATCH /org")},
		{Right: "erasure", How: "Erases the organization, its agents and their messages.", Endpoint: at("DELETE /orgs/{id}")},
		{Right: "objection", How: "Ask the provider."},
	}
}

var noticeStandards = []api.NoticeStandard{
	{Name: "A2A 1.0", URL: "https://a2a-protocol.org"},
	{Name: "HPKE (RFC 9180)", URL: "https://www.rfc-editor.org/rfc/rfc9180"},
	{Name: "OAuth 2.0 client credentials (RFC 6749)", URL: "https://www.rfc-editor.org/rfc/rfc6749"},
	{Name: "OAuth 2.0 authorization server metadata (RFC 8414)", URL: "https://www.rfc-editor.org/rfc/rfc8414"},
	{Name: "WebFinger (RFC 7033)", URL: "https://www.rfc-editor.org/rfc/rfc7033"},
	{Name: "did:web", URL: "https://w3c-ccg.github.io/did-method-web/"},
	{Name: "XAES-256-GCM", URL: "https://c2sp.org/XAES-256-GCM"},
	{Name: "OpenAPI 3.1", URL: "https://spec.openapis.org/oas/v3.1.1.html"},
}
