package http

import (
	"reflect"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"parley/http/api"
)

// operation is what the document says of a route beyond what follows from the
// route itself: its name, the codes its handler refuses with, and the headers
// its answer bears.
type operation struct {
	id string
	// refuses lists codes, separated by blanks. Those that follow from the route
	// (its access, parameters and body) are added by refusalsOf.
	refuses string
	// headers lists headers of the answer, separated by blanks.
	headers string
	// bodies are statuses that are answered with a body other than Error.
	bodies map[int]reflect.Type
}

const documentHeaders = "Cache-Control ETag Last-Modified"

// operations has an entry for each route of the service, by method and path.
var operations = map[string]operation{
	"POST /auth/register":                         {id: "register", refuses: "slug_taken"},
	"POST /auth/register/solve":                   {id: "solveChallenge", refuses: "pow_invalid slug_taken challenge_used challenge_expired not_found"},
	"POST /auth/verify-email":                     {id: "verifyEmail", refuses: "not_found gone"},
	"POST /oauth/token":                           {id: "createToken"},
	"GET /.well-known/oauth-authorization-server": {id: "getAuthorizationServer", headers: documentHeaders},
	"GET /.well-known/jwks.json":                  {id: "getSigningKeys", headers: documentHeaders},

	"POST /messages":                   {id: "sendMessage", refuses: "agent_required not_found gone not_member incoming_policy outgoing_policy isolated_agent quota_exceeded signature_invalid self_message no_recipients"},
	"POST /messages/sync":              {id: "sendMessageAndWait", refuses: "agent_required not_found gone incoming_policy outgoing_policy isolated_agent quota_exceeded signature_invalid self_message"},
	"GET /messages/{id}":               {id: "getMessage", refuses: "not_owner"},
	"POST /messages/{id}/reply":        {id: "replyToMessage", refuses: "not_owner gone isolated_agent quota_exceeded signature_invalid conversation_closed"},
	"POST /messages/{id}/read":         {id: "markMessageRead", refuses: "not_owner"},
	"GET /messages/{id}/trace":         {id: "traceMessage", refuses: "not_owner"},
	"GET /agents/{id}/messages":        {id: "listMessages", refuses: "not_owner"},
	"POST /agents/{id}/messages/ack":   {id: "acknowledgeMessages", refuses: "not_owner"},
	"GET /agents/{id}/wait":            {id: "waitForMessages", refuses: "not_owner gone"},
	"GET /agents/{id}/stream":          {id: "streamAgent", refuses: "not_owner gone quota_exceeded"},
	"GET /conversations/{id}/messages": {id: "listConversationMessages", refuses: "not_owner"},
	"GET /poll/{token}":                {id: "countMessages"},
	"POST /agents/{id}/poll-token":     {id: "createPollToken", refuses: "not_owner gone"},
	"DELETE /agents/{id}/poll-token":   {id: "deletePollToken", refuses: "not_owner gone"},

	"GET /agents":                    {id: "listAgents"},
	"POST /agents":                   {id: "createAgent", refuses: "name_taken quota_exceeded"},
	"GET /agents/keys":               {id: "getKeysOfAgents", headers: documentHeaders},
	"GET /agents/{id}":               {id: "getAgent", refuses: "not_owner"},
	"PATCH /agents/{id}":             {id: "updateAgent", refuses: "not_owner gone name_immutable"},
	"DELETE /agents/{id}":            {id: "revokeAgent", refuses: "not_owner"},
	"GET /agents/{id}/keys":          {id: "getAgentKeys", headers: documentHeaders},
	"POST /agents/{id}/keys":         {id: "uploadAgentKeys", refuses: "not_owner gone signature_invalid binding_stale invalid_transition quota_exceeded"},
	"POST /agents/{id}/keys/retire":  {id: "retireAgentKey", refuses: "not_owner gone invalid_transition"},
	"PUT /agents/{id}/key-binding":   {id: "bindAgentKeys", refuses: "not_owner gone signature_invalid binding_stale quota_exceeded"},
	"GET /agents/{id}/key-bindings":  {id: "listKeyBindings", headers: documentHeaders},
	"GET /agents/{id}/conversations": {id: "listConversations", refuses: "not_owner"},

	"GET /org":                            {id: "getOrganization"},
	"PATCH /org":                          {id: "updateOrganization", refuses: "slug_immutable"},
	"GET /org/quotas":                     {id: "getQuotas"},
	"POST /org/credentials":               {id: "createCredentials", refuses: "quota_exceeded"},
	"DELETE /org/credentials/{client_id}": {id: "revokeCredentials", refuses: "last_credential"},

	"POST /groups":                                 {id: "createGroup", refuses: "agent_required name_taken isolation_conflict quota_exceeded gone"},
	"GET /groups":                                  {id: "listGroups"},
	"GET /groups/invites":                          {id: "listInvitations"},
	"GET /groups/{id}":                             {id: "getGroup", refuses: "not_owner gone"},
	"PATCH /groups/{id}":                           {id: "updateGroup", refuses: "not_owner not_admin gone name_immutable isolated_immutable"},
	"DELETE /groups/{id}":                          {id: "deleteGroup", refuses: "not_owner not_admin gone"},
	"GET /groups/{id}/members":                     {id: "listGroupMembers", refuses: "not_owner gone"},
	"PATCH /groups/{id}/members/{agent_id}":        {id: "updateGroupMember", refuses: "not_owner not_admin gone last_admin"},
	"DELETE /groups/{id}/members/{agent_id}":       {id: "removeGroupMember", refuses: "agent_required not_owner not_admin gone last_admin"},
	"POST /groups/{id}/join":                       {id: "joinGroup", refuses: "agent_required gone invitation_required isolation_conflict quota_exceeded already_member"},
	"POST /groups/{id}/invite":                     {id: "inviteToGroup", refuses: "not_owner not_admin not_member gone already_member already_invited isolation_conflict quota_exceeded"},
	"GET /groups/{id}/requests":                    {id: "listJoinRequests", refuses: "not_owner gone"},
	"POST /groups/{id}/requests/{request_id}/vote": {id: "voteOnJoinRequest", refuses: "agent_required gone not_in_electorate electorate_empty request_closed"},

	"POST /webhooks":                             {id: "createWebhook", refuses: "not_owner not_found gone duplicate_webhook quota_exceeded ssrf_blocked"},
	"GET /webhooks":                              {id: "listWebhooks", refuses: "not_owner not_found"},
	"PATCH /webhooks/{id}":                       {id: "updateWebhook", refuses: "gone quota_exceeded"},
	"DELETE /webhooks/{id}":                      {id: "deleteWebhook"},
	"POST /webhooks/{id}/test":                   {id: "testWebhook", refuses: "invalid_transition gone"},
	"POST /webhooks/{id}/rotate-secret":          {id: "rotateWebhookSecret"},
	"GET /webhooks/{id}/deliveries":              {id: "listDeliveries"},
	"GET /webhooks/{id}/deliveries/summary":      {id: "countDeliveries"},
	"POST /webhooks/{id}/deliveries/{job}/retry": {id: "retryDelivery", refuses: "invalid_transition gone"},
	"GET /directory/groups":                      {id: "searchGroups"},
	"GET /directory/groups/{id}":                 {id: "getGroupProfile"},
	"GET /conversations/{id}":                    {id: "getConversation", refuses: "not_owner"},
	"GET /conversations/{id}/participants":       {id: "listParticipants", refuses: "not_owner"},
	"PATCH /conversations/{id}/status":           {id: "updateConversationStatus", refuses: "not_owner not_member role_not_allowed invalid_transition"},
	"GET /health":                                {id: "getHealth", bodies: map[int]reflect.Type{fasthttp.StatusServiceUnavailable: reflect.TypeFor[api.Health]()}},
	"GET /readyz":                                {id: "getReadiness", bodies: map[int]reflect.Type{fasthttp.StatusServiceUnavailable: reflect.TypeFor[api.Ready]()}},
	"GET /version":                               {id: "getVersion"},

	"GET /":             {id: "getStart"},
	"GET /openapi.json": {id: "getOpenAPI"},
	"GET /docs":         {id: "getDocumentation"},
	"GET /docs/{file}":  {id: "getDocumentationFile"},
}

// statusCodes are the codes of refusals by the status they travel with. A code
// that is missing here cannot be declared by a route.
var statusCodes = []struct {
	status int
	codes  []string
}{
	{fasthttp.StatusBadRequest, []string{"agent_required", "invalid_cursor", "invalid_request", "pow_invalid", "unsupported_grant_type"}},
	{fasthttp.StatusUnauthorized, []string{"invalid_client", "invalid_token", "not_authenticated", "token_expired"}},
	{fasthttp.StatusForbidden, []string{
		"electorate_empty", "incoming_policy", "invitation_required", "isolated_agent", "not_admin", "not_in_electorate", "not_member", "not_owner",
		"outgoing_policy", "quota_exceeded", "role_not_allowed", "signature_invalid", "suspended", "svid_invalid", "svid_not_configured", "trust_tier_required",
	}},
	{fasthttp.StatusNotFound, []string{"not_found"}},
	{fasthttp.StatusConflict, []string{
		"already_invited", "already_member", "challenge_used", "conversation_closed", "duplicate_webhook", "idempotency_mismatch", "invalid_transition",
		"isolated_immutable", "isolation_conflict", "last_credential", "name_immutable", "name_taken", "request_closed", "slug_immutable", "slug_taken",
	}},
	{fasthttp.StatusGone, []string{"challenge_expired", "gone"}},
	{fasthttp.StatusRequestEntityTooLarge, []string{"payload_too_large"}},
	{fasthttp.StatusUnsupportedMediaType, []string{"unsupported_media_type"}},
	{fasthttp.StatusUnprocessableEntity, []string{"binding_stale", "card_security_fields", "last_admin", "no_recipients", "self_message", "ssrf_blocked", "validation_error"}},
	{fasthttp.StatusTooManyRequests, []string{"rate_limited"}},
	{fasthttp.StatusServiceUnavailable, []string{"outcome_unknown", "overloaded"}},
}

// statusOfCode is the status that a code travels with, 0 for a code that is unknown.
func statusOfCode(code string) int {
	for _, s := range statusCodes {
		if slices.Contains(s.codes, code) {
			return s.status
		}
	}
	return 0
}

// operationOf is the entry of a route; a route without one is named by method
// and path.
func operationOf(r *Route) operation {
	o, known := operations[r.Method+" "+r.Path]
	if !known {
		o.id = derivedID(r)
	}
	return o
}

// derivedID is unique because method and path are.
func derivedID(r *Route) string {
	var b strings.Builder
	b.WriteString(strings.ToLower(r.Method))
	for _, word := range strings.FieldsFunc(r.Path, func(c rune) bool { return strings.ContainsRune("/{}._-", c) }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	if strings.HasSuffix(r.Path, "/") {
		b.WriteString("Slash")
	}
	return b.String()
}

// refusal is one status that a route refuses with, and its codes.
type refusal struct {
	status int
	codes  []string
}

// refusalsOf are all refusals that a caller of a route has to reckon with, by
// status: those that follow from the route and those of its handler.
func refusalsOf(r *Route) []refusal {
	codes := append(impliedCodes(r), strings.Fields(operationOf(r).refuses)...)
	var all []refusal
	for _, s := range statusCodes {
		found := refusal{status: s.status}
		for _, code := range s.codes {
			if slices.Contains(codes, code) {
				found.codes = append(found.codes, code)
			}
		}
		if found.codes != nil {
			all = append(all, found)
		}
	}
	return all
}

// impliedCodes follow from who may call a route and from what it takes.
func impliedCodes(r *Route) []string {
	secured, writes := r.Access == bearer || r.Access == tier1, r.Method != fasthttp.MethodGet
	named := func(fields []field, name string) bool {
		return slices.ContainsFunc(fields, func(f field) bool { return f.names[0] == name })
	}
	acting := slices.ContainsFunc(r.plan.header, func(f field) bool {
		return strings.HasPrefix(f.name, "X-") && strings.HasSuffix(f.name, "-Agent")
	})
	var codes []string
	for _, c := range []struct {
		applies bool
		codes   string
	}{
		{secured, "not_authenticated token_expired invalid_token"},
		{secured && !r.openToSuspended(), "suspended"},
		{r.Access == tier1, "trust_tier_required"},
		{r.Access == basic, "invalid_client invalid_request unsupported_grant_type"},
		{acting, "not_owner"},
		{named(r.plan.header, "idempotency-key"), "idempotency_mismatch"},
		{named(r.plan.query, "cursor"), "invalid_cursor"},
		{len(r.plan.path) > 0, "not_found"},
		{r.plan.body != nil, "payload_too_large"},
		{r.plan.body != nil && r.Access != basic, "unsupported_media_type"},
		{(r.plan.body != nil || len(r.plan.path)+len(r.plan.query)+len(r.plan.header) > 0) && r.Access != basic, "validation_error"},
		{!isProbe(r.Path), "rate_limited overloaded"},
		{secured && writes, "outcome_unknown"},
	} {
		if c.applies {
			codes = append(codes, strings.Fields(c.codes)...)
		}
	}
	return codes
}

// isProbe reports whether a path is one that load balancers ask again and again:
// it is held to no rate and never shed.
func isProbe(path string) bool { return path == "/health" || path == "/readyz" }
