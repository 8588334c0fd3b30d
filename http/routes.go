package http

import (
	"slices"

	"github.com/valyala/fasthttp"

	"parley/client/api"
	"parley/client/parley"
	"parley/http/a2a"
	"parley/http/agents"
	"parley/http/directory"
	"parley/http/docs"
	"parley/http/groups"
	"parley/http/messages"
	"parley/http/orgs"
	"parley/http/rest"
)

// Endpoint describes one route to other packages.
type Endpoint struct {
	Method string
	Path   string
}

// Endpoints returns the whole interface, documentation included.
func Endpoints() []Endpoint {
	var all []Endpoint
	for _, r := range append(Declared(), docs.Routes("", "")...) {
		all = append(all, Endpoint{r.Method, r.Path})
	}
	return all
}

const (
	get    = fasthttp.MethodGet
	post   = fasthttp.MethodPost
	put    = fasthttp.MethodPut
	patch  = fasthttp.MethodPatch
	remove = fasthttp.MethodDelete
)

// Declared returns the whole interface of a service that does not run, to describe it.
func Declared() []rest.Route { return (&Service{core: &core{}}).Routes() }

// Routes returns the whole interface, in the order of the specification.
func (s *Service) Routes() []rest.Route {
	return slices.Concat(
		s.registrationRoutes(), s.messagingRoutes(), s.cardRoutes(), s.agentRoutes(), s.orgRoutes(), s.groupRoutes(), s.webhookRoutes(), s.directoryRoutes(), s.pageRoutes(), s.otherRoutes(),
	)
}

func (s *Service) registrationRoutes() []rest.Route {
	registration, info := orgs.Registration{Options: s.ofOrgs}, serverInfo{s.core}
	return []rest.Route{
		rest.Typed(post, "/auth/register", rest.Public, 201, "Ask for a proof-of-work challenge.", registration.Register),
		rest.Typed(post, "/auth/register/solve", rest.Public, 201, "Solve the challenge and receive client credentials.", registration.Solve),
		rest.Typed(post, "/auth/verify-email", rest.Public, 200, "Hand in the token that was mailed at registration, for trust tier 1.", registration.VerifyEmail),
		rest.Typed(post, "/oauth/token", rest.Basic, 200, "Exchange client credentials for an access token.", registration.Token),
		rest.RenderedAs[api.AuthorizationServer](get, "/.well-known/oauth-authorization-server", rest.Public, 200, "Metadata of the authorization server.", registration.AuthorizationServer),
		rest.RenderedAs[api.SigningKeys](get, "/.well-known/jwks.json", rest.Public, 200, "Public keys that access tokens and A2A cards are signed with.", info.jwks),
	}
}

func (s *Service) messagingRoutes() []rest.Route {
	messaging, inbox, conversations := messages.Messages{Options: s.ofMessages}, messages.Inbox{Options: s.ofMessages}, messages.Conversations{Options: s.ofMessages}
	ofAgent := agents.Agents{Service: s.ofAgents}
	return []rest.Route{
		rest.RenderedAs[api.Message](post, "/messages", rest.Tier1, 201, "Send a message to an agent, or to a group.", messaging.Send),
		rest.RenderedAs[api.SyncResult](post, "/messages/sync", rest.Tier1, 200, "Send a message and wait for the reply.", messaging.SendAndWait),
		rest.RenderedAs[api.Message](get, "/messages/{id}", rest.Read, 200, "Read a message.", inbox.Get),
		rest.RenderedAs[api.Message](post, "/messages/{id}/reply", rest.Tier1, 201, "Reply in the message's conversation.", messaging.Reply),
		rest.RenderedAs[api.Message](post, "/messages/{id}/read", rest.Act, 200, "Mark a received message as read.", inbox.Read),
		rest.Typed(get, "/messages/{id}/receipt", rest.Read, 200, "A signed statement that the service accepted a message.", inbox.GetReceipt),
		rest.Typed(get, "/messages/{id}/trace", rest.Read, 200, "What was done to deliver a message, and why it is not delivered yet.", inbox.Trace),
		rest.RenderedAs[api.Page[api.Message]](get, "/agents/{id}/messages", rest.Read, 200, "Inbox of an agent, newest first.", inbox.List),
		rest.Typed(post, "/agents/{id}/messages/ack", rest.Act, 200, "Mark received messages as read: some, or all up to one.", inbox.Acknowledge),
		rest.RenderedAs[api.Waited](get, "/agents/{id}/wait", rest.Read, 200, "Wait for messages to an agent.", inbox.Wait),
		rest.Stream(get, "/agents/{id}/stream", rest.Read, "Stream of an agent: what it missed, then what comes.", s.streams.Serve),
		rest.RenderedAs[api.Page[api.Message]](get, "/conversations/{id}/messages", rest.Read, 200, "Transcript of a conversation, both sides.", conversations.Transcript),
		rest.Typed(get, "/poll/{token}", rest.Public, 200, "Count an agent's messages by poll token.", ofAgent.Poll),
		rest.Typed(post, "/agents/{id}/poll-token", rest.Act, 200, "Generate or regenerate the poll token.", ofAgent.CreatePollToken),
		rest.Typed(remove, "/agents/{id}/poll-token", rest.Act, 204, "Revoke the poll token.", ofAgent.DeletePollToken),
	}
}

func (s *Service) cardRoutes() []rest.Route {
	cards, bridge := agents.Cards{Service: s.ofAgents}, bridge{s.core}
	return []rest.Route{
		rest.RenderedAs[api.Card](put, "/agents/{id}/card", rest.Act, 200, "Publish an agent's card.", cards.Put),
		rest.RenderedAs[api.Card](get, "/agents/{id}/card", rest.Public, 200, "Card of an agent.", cards.Get),
		rest.RenderedAs[api.Card](get, "/.well-known/agent-cards/{id}.json", rest.Public, 200, "Public card of an agent.", cards.GetWellKnown),
		rest.Typed(remove, "/agents/{id}/card", rest.Act, 204, "Delete an agent's card.", cards.Delete),
		rest.RenderedAs[api.A2ACard](get, "/a2a/{handle}/agent.json", rest.Public, 200, "A2A card of an A2A-enabled agent, signed.", bridge.card),
		rest.RenderedAs[api.A2ACard](get, "/a2a/{handle}/.well-known/agent-card.json", rest.Public, 200, "The same, where A2A clients look for it.", bridge.card),
		rest.RenderedAs[api.A2AExtensionDocument](get, "/ext/{brand}/v1", rest.Public, 200, "What the members of the extension of A2A cards mean.", bridge.extension),
		rest.RPC("/a2a/{handle}", rest.Act, "Call an agent over A2A, by JSON-RPC.", bridge.call, a2a.Refuse),
	}
}

func (s *Service) agentRoutes() []rest.Route {
	ofAgent, keys, identity := agents.Agents{Service: s.ofAgents}, agents.Keys{Service: s.ofAgents}, agents.Identity{Service: s.ofAgents}
	workload := agents.Workload{Service: s.ofAgents}
	conversations := messages.Conversations{Options: s.ofMessages}
	keyLog := agents.KeyLog{Service: s.ofAgents}
	return []rest.Route{
		rest.RenderedAs[rest.ArrayOrPage[api.Agent]](get, "/agents", rest.Read, 200, "Agents of the organization, oldest first.", ofAgent.List),
		rest.Typed(post, "/agents", rest.ManageTier1, 201, "Create an agent.", ofAgent.Create),
		rest.RenderedAs[api.BatchKeys](get, "/agents/keys", rest.Public, 200, "Public keys of several agents.", keys.GetBatch),
		rest.Typed(get, "/agents/{id}", rest.Read, 200, "Read an agent.", ofAgent.Get),
		rest.Typed(patch, "/agents/{id}", rest.Manage, 200, "Change an agent.", ofAgent.Patch),
		rest.Typed(remove, "/agents/{id}", rest.Manage, 204, "Revoke an agent.", ofAgent.Delete),
		rest.RenderedAs[api.KeysAnswer](get, "/agents/{id}/keys", rest.Public, 200, "Public keys of an agent.", keys.Get),
		rest.Typed(post, "/agents/{id}/keys", rest.Act, 200, "Upload or rotate an agent's keys.", keys.Upload),
		rest.Typed(post, "/agents/{id}/keys/pq", rest.Act, 200, "Give an agent a post-quantum key.", keys.SetPQ),
		rest.Typed(remove, "/agents/{id}/keys/pq", rest.Act, 204, "Remove an agent's post-quantum key.", keys.RemovePQ),
		rest.Typed(post, "/agents/{id}/mls/key-packages", rest.Act, 200, "Store MLS key packages, with which others add an agent to MLS groups.", keys.PublishKeyPackages),
		rest.Typed(get, "/agents/{id}/mls/key-packages/count", rest.Read, 200, "Count the MLS key packages of an agent that others can claim.", keys.CountKeyPackages),
		rest.Typed(post, "/agents/{id}/mls/key-packages/claim", rest.Tier1, 200, "Claim an MLS key package of an agent that awaits its leaf.", keys.ClaimKeyPackage),
		rest.Typed(post, "/agents/{id}/keys/retire", rest.Act, 200, "Retire a former key.", keys.Retire),
		rest.Typed(put, "/agents/{id}/key-binding", rest.Act, 200, "Bind an agent's current keys by its signature.", keys.Bind),
		rest.RenderedAs[api.Page[api.KeyBinding]](get, "/agents/{id}/key-bindings", rest.Public, 200, "Bindings of an agent's keys, oldest first.", keys.ListBindings),
		rest.RenderedAs[api.Page[api.KeyLogEntry]](get, "/agents/{id}/key-log", rest.Public, 200, "Entries of an agent in the key log, oldest first.", keyLog.ListEntries),
		rest.RenderedAs[api.KeyLog](get, "/key-log", rest.Public, 200, "The key that signs checkpoints of the key log.", keyLog.Describe),
		rest.Raw(get, "/key-log/checkpoint", rest.Public, "text/plain", "Newest checkpoint of the key log: a signed note with its size and its root hash (C2SP tlog-checkpoint).", keyLog.Checkpoint),
		rest.RenderedAs[api.KeyLogProof](get, "/key-log/proofs/inclusion", rest.Public, 200, "Prove that a leaf is in the key log.", keyLog.ProveInclusion),
		rest.RenderedAs[api.KeyLogProof](get, "/key-log/proofs/consistency", rest.Public, 200, "Prove that the key log begins with an earlier one.", keyLog.ProveConsistency),
		rest.Typed(post, "/agents/{id}/verify-svid/challenge", rest.Manage, 201, "Ask for a challenge to prove a workload identity.", workload.CreateSVIDChallenge),
		rest.Typed(post, "/agents/{id}/verify-svid", rest.Manage, 200, "Prove a workload identity by an SVID, for trust tier 2.", workload.VerifySVID),
		rest.RenderedAs[api.WebFinger](get, "/.well-known/webfinger", rest.Public, 200, "Where the documents of an agent are (RFC 7033).", identity.WebFinger).As(api.MediaJRD).WithBadRequest(),
		rest.RenderedAs[api.DIDDocument](get, "/agents/{name}/did.json", rest.Public, 200, "DID document of an agent (did:web).", identity.DID).As(api.MediaDID),
		rest.Typed(put, "/agents/{id}/blocks/{other}", rest.Act, 204, "Block an agent or an organization.", ofAgent.PutBlock),
		rest.Typed(remove, "/agents/{id}/blocks/{other}", rest.Act, 204, "End a block.", ofAgent.DeleteBlock),
		rest.Typed(get, "/agents/{id}/blocks", rest.Read, 200, "What an agent blocks, oldest first.", ofAgent.ListBlocks),
		rest.Typed(get, "/agents/{id}/conversations", rest.Read, 200, "Conversations of an agent, newest first.", conversations.OfAgent),
	}
}

func (s *Service) orgRoutes() []rest.Route {
	org := orgs.Orgs{Options: s.ofOrgs}
	return []rest.Route{
		rest.Typed(get, "/org", rest.Read, 200, "Read the organization.", org.Get),
		rest.Typed(patch, "/org", rest.Manage, 200, "Change the organization.", org.Patch),
		rest.Typed(get, "/org/quotas", rest.Read, 200, "Usage against the limits of the trust tier.", org.Usage),
		rest.Typed(post, "/org/credentials", rest.Manage, 201, "Add a credential.", org.AddCredential),
		rest.Typed(get, "/org/credentials", rest.Manage, 200, "Live credentials of the organization, oldest first.", org.ListCredentials),
		rest.Typed(remove, "/orgs/{id}", rest.Manage, 200, "Erase your organization and everything that belongs to it. It cannot be undone.", org.Erase).ToErase(),
		rest.Typed(remove, "/org/credentials/{client_id}", rest.Manage, 204, "Revoke a credential.", org.RevokeCredential),
		rest.Typed(post, "/reports", rest.Act, 201, "Report a message, an agent or a group to the operator.", s.reports.File),
	}
}

func (s *Service) groupRoutes() []rest.Route {
	group, requests, mls := groups.Groups{Options: s.ofGroups}, groups.Requests{Options: s.ofGroups}, groups.MLS{Options: s.ofGroups}
	return []rest.Route{
		rest.Typed(post, "/groups", rest.Act, 201, "Create a group.", group.Create),
		rest.Typed(get, "/groups", rest.Read, 200, "Groups of the organization, oldest first.", group.List),
		rest.RenderedAs[rest.ArrayOrPage[api.JoinRequest]](get, "/groups/invites", rest.Read, 200, "Live invitations and nominations of the organization's agents.", requests.ListInvites),
		rest.Typed(get, "/groups/{id}", rest.Read, 200, "Read a group.", group.Get),
		rest.Typed(patch, "/groups/{id}", rest.Act, 200, "Change a group.", group.Patch),
		rest.Typed(remove, "/groups/{id}", rest.Act, 204, "Delete a group.", group.Delete),
		rest.Typed(get, "/groups/{id}/members", rest.Read, 200, "Members of a group, in the order of joining.", group.ListMembers),
		rest.Typed(patch, "/groups/{id}/members/{agent_id}", rest.Act, 200, "Promote or demote a member.", group.PatchMember),
		rest.Typed(post, "/groups/{id}/admins", rest.Act, 200, "Name an admin of a group that has none of its owner.", group.AppointAdmin),
		rest.Typed(remove, "/groups/{id}/members/{agent_id}", rest.Act, 204, "Leave a group, or remove a member.", group.RemoveMember),
		rest.Typed(post, "/groups/{id}/join", rest.Act, 200, "Join a group, or ask to.", group.Join),
		rest.Typed(post, "/groups/{id}/invite", rest.Act, 200, "Ask one agent or several into a group.", requests.Invite),
		rest.Typed(get, "/groups/{id}/requests", rest.Read, 200, "Join requests of a group, oldest first.", requests.List),
		rest.Typed(remove, "/groups/{id}/requests/{request_id}", rest.Act, 204, "Withdraw or decline a join request.", requests.End),
		rest.Typed(post, "/groups/{id}/requests/{request_id}/vote", rest.Act, 200, "Vote on a join request.", requests.Vote),
		rest.Typed(post, "/groups/{id}/mls/commits", rest.Act, 201, "Commit: begin the next epoch of a group's MLS group.", mls.Commit).WithBody(parley.MLSBodyBytesMax),
		rest.RenderedAs[api.Page[api.MLSCommit]](get, "/groups/{id}/mls/commits", rest.Read, 200, "Commits of a group's MLS group, by epoch.", mls.ListCommits),
		rest.RenderedAs[api.MLSGroupInfo](get, "/groups/{id}/mls/group-info", rest.Read, 200, "What an external commit to a group's MLS group begins with.", mls.GroupInfo),
		rest.RenderedAs[api.Page[api.MLSWelcome]](get, "/groups/{id}/mls/welcomes", rest.Act, 200, "MLS Welcomes of the acting agent, oldest first.", mls.ListWelcomes),
		rest.Typed(remove, "/groups/{id}/mls/welcomes/{welcome_id}", rest.Act, 204, "Acknowledge an MLS Welcome.", mls.AcknowledgeWelcome),
	}
}

func (s *Service) webhookRoutes() []rest.Route {
	webhooks := s.webhooks
	return []rest.Route{
		rest.Typed(post, "/webhooks", rest.Act, 201, "Have an agent's events delivered to a URL.", webhooks.Create),
		rest.RenderedAs[rest.ArrayOrPage[api.Webhook]](get, "/webhooks", rest.Read, 200, "Webhooks of the organization's agents, oldest first.", webhooks.List),
		rest.Typed(patch, "/webhooks/{id}", rest.Act, 200, "Switch a webhook on or off.", webhooks.Patch),
		rest.Typed(remove, "/webhooks/{id}", rest.Act, 204, "Delete a webhook.", webhooks.Delete),
		rest.Typed(post, "/webhooks/{id}/test", rest.Act, 200, "Deliver a test event.", webhooks.Test),
		rest.Typed(post, "/webhooks/{id}/rotate-secret", rest.Act, 200, "Make a webhook's secret anew.", webhooks.RotateSecret),
		rest.Typed(get, "/webhooks/{id}/deliveries", rest.Read, 200, "Delivery jobs of a webhook, newest first.", webhooks.ListDeliveries),
		rest.Typed(get, "/webhooks/{id}/deliveries/summary", rest.Read, 200, "Count a webhook's delivery jobs.", webhooks.Summary),
		rest.Typed(post, "/webhooks/{id}/deliveries/{job}/retry", rest.Act, 200, "Attempt a delivery job now.", webhooks.RetryDelivery),
	}
}

func (s *Service) directoryRoutes() []rest.Route {
	agents, groups := directory.Agents{Directory: s.directory}, directory.Groups{Directory: s.directory}
	return []rest.Route{
		rest.RenderedAs[api.AgentPage](get, "/directory/agents", rest.Public, 200, "Search the cards of agents.", agents.Find),
		rest.Stream(get, "/directory/agents/stream", rest.Public, "Search the cards of agents by words, then by meaning.", agents.Stream),
		rest.RenderedAs[api.ListedAgent](get, "/directory/agents/{id}", rest.Public, 200, "An agent of the directory, with its card.", agents.Get),
		rest.RenderedAs[rest.ArrayOrPage[api.CategoryCount]](get, "/directory/categories", rest.Public, 200, "Categories of public cards, the most frequent first.", agents.ListCategories),
		rest.Typed(get, "/directory/groups", rest.Public, 200, "Search public groups.", groups.Find),
		rest.Typed(get, "/directory/groups/{id}", rest.Public, 200, "Profile of a public group.", groups.Profile),
	}
}

func (s *Service) pageRoutes() []rest.Route {
	pages := directory.Pages{Directory: s.directory}
	return []rest.Route{
		rest.Page("/find/agents", "Search the cards of agents, as a page for people.", pages.FindAgents),
		rest.Page("/find/groups", "Search public groups, as a page for people.", pages.FindGroups),
		rest.Page("/a/{handle}", "An agent of the directory, as a page for people.", pages.Agent),
		rest.Page("/g/{handle}", "A public group, as a page for people. The handle has no # here.", pages.Group),
		rest.Raw(get, "/assets/{file}", rest.Public, "*/*", "The files of the pages for people.", pages.Asset),
	}
}

func (s *Service) otherRoutes() []rest.Route {
	conversations := messages.Conversations{Options: s.ofMessages}
	serverInfo, compliance := serverInfo{s.core}, compliance{s.core}
	return []rest.Route{
		// Conversations
		rest.Typed(get, "/conversations/{id}", rest.Read, 200, "Read a conversation.", conversations.Get),
		rest.RenderedAs[rest.ArrayOrPage[api.Participant]](get, "/conversations/{id}/participants", rest.Read, 200, "Participants of a conversation.", conversations.Participants),
		rest.Typed(patch, "/conversations/{id}/status", rest.Act, 200, "Move a conversation to another status.", conversations.PatchStatus),

		// Compliance
		rest.Download("/orgs/{id}/export", api.MediaNDJSON, "Export everything that belongs to the organization, as lines of JSON.", s.exports.Serve),
		rest.RenderedAs[api.ComplianceInfo](get, "/compliance/info", rest.Public, 200, "Transparency notice: who runs the service, and what it does with data.", compliance.complianceInfo),
		rest.Raw(get, "/llms.txt", rest.Public, "text/plain", "What language models need to use the service.", compliance.llms),

		// Infrastructure
		rest.RenderedAs[api.Start](get, "/", rest.Public, 200, "What runs here: a start page to browsers, links to all others.", serverInfo.startPage).ForPeople(),
		rest.Typed(get, "/health", rest.Public, 200, "Health check.", serverInfo.health).ForProbes(),
		rest.Typed(get, "/readyz", rest.Public, 200, "Readiness, for load balancers.", serverInfo.ready).ForProbes(),
		rest.Typed(get, "/version", rest.Public, 200, "Version of the software.", serverInfo.version),
	}
}
