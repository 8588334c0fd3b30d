package rest

import (
	"reflect"

	"github.com/valyala/fasthttp"

	"parley/client/api"
)

const (
	documentHeaders = "Cache-Control ETag Last-Modified"
	pageHeaders     = "Cache-Control ETag"
)

// operations has an entry for each route of the server, by method and path.
var operations = map[string]operation{
	"POST /auth/register":                         {ID: "register", Refuses: "slug_taken registration_closed"},
	"POST /auth/register/solve":                   {ID: "solveChallenge", Refuses: "pow_invalid registration_closed slug_taken challenge_used challenge_expired not_found"},
	"POST /auth/verify-email":                     {ID: "verifyEmail", Refuses: "not_found gone"},
	"POST /oauth/token":                           {ID: "createToken"},
	"GET /.well-known/oauth-authorization-server": {ID: "getAuthorizationServer", Headers: documentHeaders},
	"GET /.well-known/jwks.json":                  {ID: "getSigningKeys", Headers: documentHeaders},

	"POST /messages":                   {ID: "sendMessage", Refuses: "agent_required epoch_conflict mls_pending mls_removal_pending not_found gone not_member incoming_policy outgoing_policy isolated_agent quota_exceeded signature_invalid self_message no_recipients"},
	"POST /messages/sync":              {ID: "sendMessageAndWait", Refuses: "agent_required not_found gone incoming_policy outgoing_policy isolated_agent quota_exceeded signature_invalid self_message"},
	"GET /messages/{id}":               {ID: "getMessage", Refuses: "not_owner gone"},
	"POST /messages/{id}/reply":        {ID: "replyToMessage", Refuses: "not_owner gone isolated_agent incoming_policy quota_exceeded signature_invalid conversation_closed"},
	"POST /messages/{id}/read":         {ID: "markMessageRead", Refuses: "not_owner gone"},
	"GET /messages/{id}/receipt":       {ID: "getMessageReceipt", Refuses: "not_owner gone"},
	"GET /messages/{id}/trace":         {ID: "traceMessage", Refuses: "not_owner gone"},
	"GET /agents/{id}/messages":        {ID: "listMessages", Refuses: "not_owner"},
	"POST /agents/{id}/messages/ack":   {ID: "acknowledgeMessages", Refuses: "not_owner gone"},
	"GET /agents/{id}/wait":            {ID: "waitForMessages", Refuses: "not_owner gone"},
	"GET /agents/{id}/stream":          {ID: "streamAgent", Refuses: "not_owner gone quota_exceeded"},
	"GET /conversations/{id}/messages": {ID: "listConversationMessages", Refuses: "not_owner gone"},
	"GET /poll/{token}":                {ID: "countMessages"},
	"POST /agents/{id}/poll-token":     {ID: "createPollToken", Refuses: "not_owner gone quota_exceeded"},
	"DELETE /agents/{id}/poll-token":   {ID: "deletePollToken", Refuses: "not_owner gone"},

	"PUT /agents/{id}/card":                  {ID: "putAgentCard", Refuses: "not_owner gone card_security_fields quota_exceeded"},
	"GET /agents/{id}/card":                  {ID: "getAgentCard", Headers: documentHeaders, Refuses: "gone"},
	"GET /.well-known/agent-cards/{id}.json": {ID: "getWellKnownAgentCard", Headers: documentHeaders, Refuses: "gone"},
	"DELETE /agents/{id}/card":               {ID: "deleteAgentCard", Refuses: "not_owner gone"},

	"POST /a2a/{handle}":                            {ID: "callA2A", Refuses: "not_found"},
	"GET /a2a/{handle}/agent.json":                  {ID: "getA2ACard", Headers: documentHeaders, Refuses: "gone"},
	"GET /a2a/{handle}/.well-known/agent-card.json": {ID: "getWellKnownA2ACard", Headers: documentHeaders, Refuses: "gone"},
	"GET /ext/{brand}/v1":                           {ID: "getA2AExtension", Headers: documentHeaders},

	"GET /agents":                     {ID: "listAgents"},
	"POST /agents":                    {ID: "createAgent", Refuses: "name_taken quota_exceeded"},
	"GET /agents/keys":                {ID: "getKeysOfAgents", Headers: documentHeaders},
	"GET /agents/{id}":                {ID: "getAgent", Refuses: "not_owner gone"},
	"PATCH /agents/{id}":              {ID: "updateAgent", Refuses: "not_owner gone name_immutable quota_exceeded"},
	"DELETE /agents/{id}":             {ID: "revokeAgent", Refuses: "not_owner"},
	"GET /agents/{id}/keys":           {ID: "getAgentKeys", Headers: documentHeaders, Refuses: "gone"},
	"POST /agents/{id}/keys":          {ID: "uploadAgentKeys", Refuses: "not_owner gone signature_invalid binding_stale invalid_transition quota_exceeded"},
	"POST /agents/{id}/keys/pq":       {ID: "setAgentPQKey", Refuses: "not_owner gone quota_exceeded"},
	"DELETE /agents/{id}/keys/pq":     {ID: "removeAgentPQKey", Refuses: "not_owner gone"},
	"POST /agents/{id}/keys/retire":   {ID: "retireAgentKey", Refuses: "not_owner gone invalid_transition"},
	"PUT /agents/{id}/key-binding":    {ID: "bindAgentKeys", Refuses: "not_owner gone signature_invalid binding_stale quota_exceeded"},
	"GET /agents/{id}/key-bindings":   {ID: "listKeyBindings", Headers: documentHeaders, Refuses: "gone"},
	"GET /agents/{id}/key-log":        {ID: "listKeyLogEntries", Headers: documentHeaders, Refuses: "gone"},
	"GET /key-log":                    {ID: "getKeyLog", Headers: documentHeaders},
	"GET /key-log/checkpoint":         {ID: "getKeyLogCheckpoint", Headers: documentHeaders},
	"GET /key-log/proofs/inclusion":   {ID: "proveKeyLogInclusion", Headers: documentHeaders},
	"GET /key-log/proofs/consistency": {ID: "proveKeyLogConsistency", Headers: documentHeaders},
	"GET /.well-known/webfinger":      {ID: "getWebFinger", Headers: documentHeaders, Refuses: "not_found"},
	"GET /agents/{name}/did.json":     {ID: "getDIDDocument", Headers: documentHeaders, Refuses: "gone"},
	"GET /agents/{id}/conversations":  {ID: "listConversations", Refuses: "not_owner"},

	"POST /reports":                      {ID: "createReport", Again: "The organization has an open report about the same subject.", Refuses: "not_found gone quota_exceeded"},
	"PUT /agents/{id}/blocks/{other}":    {ID: "blockForAgent", Refuses: "not_owner not_found gone quota_exceeded"},
	"DELETE /agents/{id}/blocks/{other}": {ID: "unblockForAgent", Refuses: "not_owner not_found gone"},
	"GET /agents/{id}/blocks":            {ID: "listBlocks", Refuses: "not_owner"},

	"POST /agents/{id}/mls/key-packages":       {ID: "publishKeyPackages", Refuses: "not_owner gone key_package_invalid quota_exceeded"},
	"GET /agents/{id}/mls/key-packages/count":  {ID: "countKeyPackages", Refuses: "not_owner"},
	"POST /agents/{id}/mls/key-packages/claim": {ID: "claimKeyPackage", Refuses: "agent_required not_owner not_found quota_exceeded"},

	"POST /agents/{id}/verify-svid/challenge": {ID: "createSVIDChallenge", Refuses: "not_owner gone svid_not_configured"},
	"POST /agents/{id}/verify-svid":           {ID: "verifySVID", Refuses: "not_owner gone svid_not_configured svid_invalid challenge_used challenge_expired quota_exceeded"},

	"GET /org":                            {ID: "getOrganization"},
	"PATCH /org":                          {ID: "updateOrganization", Refuses: "slug_immutable quota_exceeded"},
	"GET /org/quotas":                     {ID: "getQuotas"},
	"POST /org/credentials":               {ID: "createCredentials", Refuses: "quota_exceeded"},
	"GET /org/credentials":                {ID: "listCredentials"},
	"DELETE /org/credentials/{client_id}": {ID: "revokeCredentials", Refuses: "last_credential"},
	"DELETE /orgs/{id}":                   {ID: "eraseOrganization", Refuses: "not_owner legal_hold"},

	"POST /groups":                                 {ID: "createGroup", Refuses: "agent_required name_taken isolation_conflict quota_exceeded gone"},
	"GET /groups":                                  {ID: "listGroups"},
	"GET /groups/invites":                          {ID: "listInvitations"},
	"GET /groups/{id}":                             {ID: "getGroup", Refuses: "not_owner gone"},
	"PATCH /groups/{id}":                           {ID: "updateGroup", Refuses: "not_owner not_admin gone frozen name_immutable isolated_immutable quota_exceeded"},
	"DELETE /groups/{id}":                          {ID: "deleteGroup", Refuses: "not_owner not_admin gone"},
	"GET /groups/{id}/members":                     {ID: "listGroupMembers", Refuses: "not_owner gone"},
	"PATCH /groups/{id}/members/{agent_id}":        {ID: "updateGroupMember", Refuses: "not_owner not_admin gone frozen last_admin quota_exceeded"},
	"POST /groups/{id}/admins":                     {ID: "appointGroupAdmin", Refuses: "agent_required not_owner gone invalid_transition already_invited isolation_conflict quota_exceeded"},
	"DELETE /groups/{id}/members/{agent_id}":       {ID: "removeGroupMember", Refuses: "agent_required agent_required/409 mls_commit_required not_owner not_admin gone frozen last_admin"},
	"POST /groups/{id}/join":                       {ID: "joinGroup", Refuses: "agent_required gone frozen invitation_required isolation_conflict quota_exceeded already_member"},
	"POST /groups/{id}/invite":                     {ID: "inviteToGroup", Refuses: "not_owner not_admin not_member gone frozen already_member already_invited isolation_conflict quota_exceeded"},
	"GET /groups/{id}/requests":                    {ID: "listJoinRequests", Refuses: "not_owner gone"},
	"DELETE /groups/{id}/requests/{request_id}":    {ID: "endJoinRequest", Refuses: "not_owner gone request_closed"},
	"POST /groups/{id}/requests/{request_id}/vote": {ID: "voteOnJoinRequest", Refuses: "agent_required gone frozen not_in_electorate electorate_empty request_closed quota_exceeded"},

	"POST /groups/{id}/mls/commits":                 {ID: "commitMLS", Again: "The agent has made this very commit before.", Refuses: "agent_required not_member not_admin gone frozen epoch_conflict mls_pending last_admin quota_exceeded"},
	"GET /groups/{id}/mls/commits":                  {ID: "listMLSCommits", Refuses: "agent_required not_member gone"},
	"GET /groups/{id}/mls/group-info":               {ID: "getMLSGroupInfo", Refuses: "agent_required not_member gone"},
	"GET /groups/{id}/mls/welcomes":                 {ID: "listMLSWelcomes", Refuses: "agent_required not_member gone"},
	"DELETE /groups/{id}/mls/welcomes/{welcome_id}": {ID: "acknowledgeMLSWelcome", Refuses: "agent_required not_member gone"},

	"POST /webhooks":                             {ID: "createWebhook", Refuses: "not_owner not_found gone duplicate_webhook quota_exceeded ssrf_blocked"},
	"GET /webhooks":                              {ID: "listWebhooks", Refuses: "not_owner not_found"},
	"PATCH /webhooks/{id}":                       {ID: "updateWebhook", Refuses: "gone quota_exceeded"},
	"DELETE /webhooks/{id}":                      {ID: "deleteWebhook"},
	"POST /webhooks/{id}/test":                   {ID: "testWebhook", Refuses: "invalid_transition gone quota_exceeded"},
	"POST /webhooks/{id}/rotate-secret":          {ID: "rotateWebhookSecret", Refuses: "quota_exceeded"},
	"GET /webhooks/{id}/deliveries":              {ID: "listDeliveries"},
	"GET /webhooks/{id}/deliveries/summary":      {ID: "countDeliveries"},
	"POST /webhooks/{id}/deliveries/{job}/retry": {ID: "retryDelivery", Refuses: "invalid_transition gone quota_exceeded"},
	"GET /directory/agents":                      {ID: "searchAgents"},
	"GET /directory/agents/stream":               {ID: "streamAgentSearch"},
	"GET /directory/agents/{id}":                 {ID: "getListedAgent", Refuses: "gone"},
	"GET /directory/categories":                  {ID: "listCategories"},
	"GET /directory/groups":                      {ID: "searchGroups"},
	"GET /directory/groups/{id}":                 {ID: "getGroupProfile"},
	"GET /conversations/{id}":                    {ID: "getConversation", Refuses: "not_owner gone"},
	"GET /conversations/{id}/participants":       {ID: "listParticipants", Refuses: "not_owner gone"},
	"PATCH /conversations/{id}/status":           {ID: "updateConversationStatus", Refuses: "not_owner not_member role_not_allowed invalid_transition gone isolated_agent incoming_policy quota_exceeded"},
	"GET /health":                                {ID: "getHealth", Bodies: map[int]reflect.Type{fasthttp.StatusServiceUnavailable: reflect.TypeFor[api.Health]()}},
	"GET /readyz":                                {ID: "getReadiness", Bodies: map[int]reflect.Type{fasthttp.StatusServiceUnavailable: reflect.TypeFor[api.Ready](), fasthttp.StatusNotFound: reflect.TypeFor[api.Ready]()}},
	"GET /version":                               {ID: "getVersion"},

	"GET /orgs/{id}/export": {ID: "exportOrganization", Refuses: "not_owner quota_exceeded invalid_request"},
	"GET /compliance/info":  {ID: "getComplianceInfo", Headers: documentHeaders},
	"GET /llms.txt":         {ID: "getLLMsText", Headers: documentHeaders},

	"GET /":              {ID: "getStart", Headers: pageHeaders},
	"GET /find/agents":   {ID: "getAgentsPage", Headers: pageHeaders},
	"GET /find/groups":   {ID: "getGroupsPage", Headers: pageHeaders},
	"GET /a/{handle}":    {ID: "getAgentPage", Headers: pageHeaders, Refuses: "gone"},
	"GET /g/{handle}":    {ID: "getGroupPage", Headers: pageHeaders},
	"GET /assets/{file}": {ID: "getAsset", Headers: pageHeaders},

	"GET /openapi.json": {ID: "getOpenAPI", Headers: pageHeaders},
	"GET /docs":         {ID: "getDocumentation", Headers: pageHeaders},
	"GET /docs/{file}":  {ID: "getDocumentationFile", Headers: pageHeaders},
}
