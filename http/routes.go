package http

import (
	"slices"

	"github.com/valyala/fasthttp"

	"parley/http/api"
)

// Endpoint is a line of the table as others see it.
type Endpoint struct {
	Method string
	Path   string
}

// Endpoints is the whole interface, documentation included.
func Endpoints() []Endpoint {
	var all []Endpoint
	for _, r := range append((&Service{}).Routes(), documentationRoutes(&Server{})...) {
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

// Routes is the whole interface, in the order of the specification.
func (s *Service) Routes() []Route {
	return slices.Concat(
		s.registrationRoutes(), s.messagingRoutes(), s.agentRoutes(), s.orgRoutes(), s.groupRoutes(), s.webhookRoutes(), s.otherRoutes(),
	)
}

func (s *Service) registrationRoutes() []Route {
	return []Route{
		route(post, "/auth/register", public, 201, "Ask for a proof-of-work challenge.", s.register),
		route(post, "/auth/register/solve", public, 201, "Solve the challenge and receive client credentials.", s.solve),
		route(post, "/auth/verify-email", public, 200, "Hand in the token that was mailed at registration, for trust tier 1.", s.verifyEmail),
		route(post, "/oauth/token", basic, 200, "Exchange client credentials for an access token.", s.token),
		rendered[api.AuthorizationServer](get, "/.well-known/oauth-authorization-server", public, 200, "Metadata of the authorization server.", s.authorizationServer),
		rendered[api.SigningKeys](get, "/.well-known/jwks.json", public, 200, "Public keys that access tokens are signed with.", s.jwks),
	}
}

func (s *Service) messagingRoutes() []Route {
	return []Route{
		rendered[api.Message](post, "/messages", tier1, 201, "Send a message to an agent, or to a group.", s.sendMessage),
		rendered[api.SyncResult](post, "/messages/sync", tier1, 200, "Send a message and wait for the reply.", s.syncMessage),
		rendered[api.Message](get, "/messages/{id}", bearer, 200, "Read a message.", s.getMessage),
		rendered[api.Message](post, "/messages/{id}/reply", tier1, 201, "Reply in the message's conversation.", s.replyMessage),
		rendered[api.Message](post, "/messages/{id}/read", bearer, 200, "Mark a received message as read.", s.readMessage),
		route(get, "/messages/{id}/trace", bearer, 200, "What was done to deliver a message, and why it is not delivered yet.", s.traceMessage),
		rendered[api.Page[api.Message]](get, "/agents/{id}/messages", bearer, 200, "Inbox of an agent, newest first.", s.inbox),
		route(post, "/agents/{id}/messages/ack", bearer, 200, "Mark received messages as read: some, or all up to one.", s.ackMessages),
		rendered[api.Waited](get, "/agents/{id}/wait", bearer, 200, "Wait for messages to an agent.", s.wait),
		stream(get, "/agents/{id}/stream", bearer, "Stream of an agent: what it missed, then what comes.", s.streamAgent),
		rendered[api.Page[api.Message]](get, "/conversations/{id}/messages", bearer, 200, "Transcript of a conversation, both sides.", s.transcript),
		route(get, "/poll/{token}", public, 200, "Count an agent's messages by poll token.", s.poll),
		route(post, "/agents/{id}/poll-token", bearer, 200, "Generate or regenerate the poll token.", s.createPollToken),
		route(remove, "/agents/{id}/poll-token", bearer, 204, "Revoke the poll token.", s.deletePollToken),
	}
}

func (s *Service) agentRoutes() []Route {
	return []Route{
		rendered[arrayOrPage[api.Agent]](get, "/agents", bearer, 200, "Agents of the organization, oldest first.", s.listAgents),
		route(post, "/agents", tier1, 201, "Create an agent.", s.createAgent),
		rendered[api.BatchKeys](get, "/agents/keys", public, 200, "Public keys of several agents.", s.batchKeys),
		route(get, "/agents/{id}", bearer, 200, "Read an agent.", s.getAgent),
		route(patch, "/agents/{id}", bearer, 200, "Change an agent.", s.patchAgent),
		route(remove, "/agents/{id}", bearer, 204, "Revoke an agent.", s.deleteAgent),
		rendered[api.KeysAnswer](get, "/agents/{id}/keys", public, 200, "Public keys of an agent.", s.getKeys),
		route(post, "/agents/{id}/keys", bearer, 200, "Upload or rotate an agent's keys.", s.uploadKeys),
		route(post, "/agents/{id}/keys/retire", bearer, 200, "Retire a former key.", s.retireKey),
		route(put, "/agents/{id}/key-binding", bearer, 200, "Bind an agent's current keys by its signature.", s.bindKeys),
		rendered[api.Page[api.KeyBinding]](get, "/agents/{id}/key-bindings", public, 200, "Bindings of an agent's keys, oldest first.", s.listBindings),
		route(get, "/agents/{id}/conversations", bearer, 200, "Conversations of an agent, newest first.", s.agentConversations),
	}
}

func (s *Service) orgRoutes() []Route {
	return []Route{
		route(get, "/org", bearer, 200, "Read the organization.", s.getOrg),
		route(patch, "/org", bearer, 200, "Change the organization.", s.patchOrg),
		route(get, "/org/quotas", bearer, 200, "Usage against the limits of the trust tier.", s.quotas),
		route(post, "/org/credentials", bearer, 201, "Add client credentials.", s.createCredentials),
		route(remove, "/org/credentials/{client_id}", bearer, 204, "Revoke client credentials.", s.deleteCredentials),
	}
}

func (s *Service) groupRoutes() []Route {
	return []Route{
		route(post, "/groups", bearer, 201, "Create a group.", s.createGroup),
		route(get, "/groups", bearer, 200, "Groups of the organization, oldest first.", s.listGroups),
		rendered[arrayOrPage[api.JoinRequest]](get, "/groups/invites", bearer, 200, "Live invitations and nominations of the organization's agents.", s.listInvites),
		route(get, "/groups/{id}", bearer, 200, "Read a group.", s.getGroup),
		route(patch, "/groups/{id}", bearer, 200, "Change a group.", s.patchGroup),
		route(remove, "/groups/{id}", bearer, 204, "Delete a group.", s.deleteGroup),
		route(get, "/groups/{id}/members", bearer, 200, "Members of a group, in the order of joining.", s.listMembers),
		route(patch, "/groups/{id}/members/{agent_id}", bearer, 200, "Promote or demote a member.", s.patchMember),
		route(remove, "/groups/{id}/members/{agent_id}", bearer, 204, "Leave a group, or remove a member.", s.removeMember),
		route(post, "/groups/{id}/join", bearer, 200, "Join a group, or ask to.", s.joinGroup),
		route(post, "/groups/{id}/invite", bearer, 200, "Ask one agent or several into a group.", s.invite),
		route(get, "/groups/{id}/requests", bearer, 200, "Join requests of a group, oldest first.", s.listRequests),
		route(post, "/groups/{id}/requests/{request_id}/vote", bearer, 200, "Vote on a join request.", s.vote),
	}
}

func (s *Service) webhookRoutes() []Route {
	return []Route{
		route(post, "/webhooks", bearer, 201, "Have an agent's events delivered to a URL.", s.createWebhook),
		rendered[arrayOrPage[api.Webhook]](get, "/webhooks", bearer, 200, "Webhooks of the organization's agents, oldest first.", s.listWebhooks),
		route(patch, "/webhooks/{id}", bearer, 200, "Switch a webhook on or off.", s.patchWebhook),
		route(remove, "/webhooks/{id}", bearer, 204, "Delete a webhook.", s.deleteWebhook),
		route(post, "/webhooks/{id}/test", bearer, 200, "Deliver a test event.", s.testWebhook),
		route(post, "/webhooks/{id}/rotate-secret", bearer, 200, "Make a webhook's secret anew.", s.rotateWebhookSecret),
		route(get, "/webhooks/{id}/deliveries", bearer, 200, "Delivery jobs of a webhook, newest first.", s.listDeliveries),
		route(get, "/webhooks/{id}/deliveries/summary", bearer, 200, "Count a webhook's delivery jobs.", s.summary),
		route(post, "/webhooks/{id}/deliveries/{job}/retry", bearer, 200, "Attempt a delivery job now.", s.retryDelivery),
	}
}

func (s *Service) otherRoutes() []Route {
	return []Route{
		// Directory
		route(get, "/directory/groups", public, 200, "Search public groups.", s.findGroups),
		route(get, "/directory/groups/{id}", public, 200, "Profile of a public group.", s.getProfile),

		// Conversations
		route(get, "/conversations/{id}", bearer, 200, "Read a conversation.", s.getConversation),
		rendered[arrayOrPage[api.Participant]](get, "/conversations/{id}/participants", bearer, 200, "Participants of a conversation.", s.participants),
		route(patch, "/conversations/{id}/status", bearer, 200, "Move a conversation to another status.", s.patchStatus),

		// Infrastructure
		rendered[api.Start](get, "/", public, 200, "What runs here: a start page to browsers, links to all others.", s.startPage),
		route(get, "/health", public, 200, "Health check.", s.health),
		route(get, "/readyz", public, 200, "Readiness, for load balancers.", s.ready),
		route(get, "/version", public, 200, "Version of the software.", s.version),
	}
}
