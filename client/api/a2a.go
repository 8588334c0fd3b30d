package api

// GetA2ACard gets the A2A card of an active agent whose card has a2a_enabled: GET
// /a2a/{handle}/agent.json.
type GetA2ACard struct {
	// Handle is the agent's handle. Its id is accepted as well.
	Handle string `json:"-" path:"handle" required:"true" example:"bob@acme.localhost"`
}

// GetA2AExtension gets the description of the extension of A2A cards: GET /ext/{brand}/v1.
type GetA2AExtension struct {
	Brand string `json:"-" path:"brand" required:"true" example:"svc"`
}

// A2AExtensionDocument describes the extension of A2A cards. It is found at the URI by
// which cards name the extension.
type A2AExtensionDocument struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Description string `json:"description"`
	// Required is false: clients that do not know the extension lose nothing else.
	Required bool `json:"required"`
	// Params says what each member of the extension's params means.
	Params map[string]string `json:"params"`
	// MediaTypes says what the data of parts of these media types is.
	MediaTypes map[string]string `json:"media_types"`
	// Documentation is the address of the description of the whole API.
	Documentation string `json:"documentation"`
}

// A2ACard is the card of an agent for clients that speak A2A 1.0. No member is empty, null
// or false. // source: A2A 1.0 section 4.4.1
type A2ACard struct {
	Name                string         `json:"name"`
	Description         string         `json:"description"`
	SupportedInterfaces []A2AInterface `json:"supportedInterfaces"`
	Provider            *CardProvider  `json:"provider,omitempty"`
	Version             string         `json:"version"`
	// Capabilities are those of the A2A bridge, whatever the stored card says.
	Capabilities         A2ACapabilities              `json:"capabilities"`
	SecuritySchemes      map[string]A2ASecurityScheme `json:"securitySchemes"`
	SecurityRequirements []A2ASecurityRequirement     `json:"securityRequirements"`
	DefaultInputModes    []string                     `json:"defaultInputModes"`
	DefaultOutputModes   []string                     `json:"defaultOutputModes"`
	Skills               []A2ASkill                   `json:"skills"`
	// Signatures cover all other members, in the canonical form of RFC 8785.
	Signatures []A2ASignature `json:"signatures,omitempty"`
}

// A2AInterface is an address at which an agent is reached.
type A2AInterface struct {
	URL             string `json:"url" example:"https://parley.example/a2a/bob@acme.parley.example"`
	ProtocolBinding string `json:"protocolBinding" enum:"JSONRPC"`
	ProtocolVersion string `json:"protocolVersion" enum:"1.0"`
}

// A2ACapabilities are the optional parts of A2A that the bridge supports.
type A2ACapabilities struct {
	Streaming         bool           `json:"streaming"`
	PushNotifications bool           `json:"pushNotifications"`
	ExtendedAgentCard bool           `json:"extendedAgentCard"`
	Extensions        []A2AExtension `json:"extensions"`
}

// A2AExtension holds the part of a card that A2A does not have.
type A2AExtension struct {
	URI         string `json:"uri"`
	Description string `json:"description"`
	// Params are the members of the card's own extension. Those that are empty, null, false
	// or 0 are left out.
	Params map[string]any `json:"params"`
}

// A2ASecurityScheme has exactly one member.
type A2ASecurityScheme struct {
	HTTPAuth *A2AHTTPAuth `json:"httpAuthSecurityScheme,omitempty"`
	OAuth2   *A2AOAuth2   `json:"oauth2SecurityScheme,omitempty"`
}

// A2AHTTPAuth is a scheme of the Authorization header.
type A2AHTTPAuth struct {
	Scheme       string `json:"scheme" enum:"Bearer"`
	BearerFormat string `json:"bearerFormat" enum:"JWT"`
}

// A2AOAuth2 says how to get an access token.
type A2AOAuth2 struct {
	Flows       A2AFlows `json:"flows"`
	MetadataURL string   `json:"oauth2MetadataUrl"`
}

// A2AFlows are the OAuth 2.0 flows that the server has.
type A2AFlows struct {
	ClientCredentials A2AClientCredentials `json:"clientCredentials"`
}

// A2AClientCredentials is the client credentials flow.
type A2AClientCredentials struct {
	TokenURL string            `json:"tokenUrl"`
	Scopes   map[string]string `json:"scopes"`
}

// A2ASecurityRequirement names the schemes that a request needs, all of them.
type A2ASecurityRequirement struct {
	Schemes map[string]A2AScopes `json:"schemes"`
}

// A2AScopes are the scopes that a request needs.
type A2AScopes struct {
	List []string `json:"list"`
}

// A2ASkill is one skill on an A2A card.
type A2ASkill struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	// Tags are those of the stored card; if it has none, the skill's id.
	Tags        []string `json:"tags"`
	Examples    []string `json:"examples,omitempty"`
	InputModes  []string `json:"inputModes,omitempty"`
	OutputModes []string `json:"outputModes,omitempty"`
}

// A2ASignature is a signature over a card, in the parts of a flattened JWS.
// // source: A2A 1.0 section 8.4
type A2ASignature struct {
	// Protected is the header in base64url: alg, jku, kid and typ.
	Protected string `json:"protected"`
	Signature string `json:"signature"`
}

// A2ARequest is a JSON-RPC request to the A2A bridge.
type A2ARequest struct {
	// Handle is the handle of the addressed agent. Its id is accepted as well.
	Handle string `json:"-" path:"handle" required:"true"`
	// ActingAgent names the sender by id, handle or bare name; the default is the
	// organization's first active agent that is not the addressed one.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`
	// Version is the version of A2A that the client speaks; the default is 1.0.
	Version string `json:"-" header:"A2A-Version"`
	// VersionQuery is for clients that cannot set headers. The header wins.
	VersionQuery string `json:"-" query:"A2A-Version" goName:"A2AVersionQuery"`
	// Timeout is how long a request that sends a message waits for the reply, in seconds: at
	// most 300, by default 60.
	Timeout string `json:"-" header:"X-A2A-Timeout"`
	// LastEventID resumes the stream of a task after an event.
	LastEventID string `json:"-" header:"Last-Event-ID"`

	JSONRPC string `json:"jsonrpc" required:"true" enum:"2.0"`
	// ID is a string or a whole number, and comes back in the answer.
	ID string `json:"id" required:"true" types:"string,integer,null"`
	// Method is a method of A2A 1.0.
	Method string `json:"method" required:"true" example:"SendMessage"`
	// Params are the parameters of the method, as A2A 1.0 defines them.
	Params Object `json:"params,omitzero"`
}

// A2AResponse is a JSON-RPC response of the A2A bridge. It has either a result or an error.
type A2AResponse struct {
	JSONRPC string `json:"jsonrpc" enum:"2.0"`
	// ID is that of the request, and null if the request could not be read.
	ID any `json:"id" types:"string,integer,null"`
	// Result is what the method returns, as A2A 1.0 defines it.
	Result Object `json:"result,omitempty" null:"never"`
	// Error is present instead of the result if the method failed.
	Error *A2AError `json:"error,omitempty"`
}

// A2ARefusal is the body of a request to the A2A bridge that is refused with an HTTP status:
// a JSON-RPC error, with the members that errors of other routes have.
type A2ARefusal struct {
	JSONRPC string `json:"jsonrpc" enum:"2.0"`
	// ID is null, because the request was not read.
	ID    any      `json:"id" types:"null"`
	Error A2AError `json:"error"`
	// Detail is one sentence for people, the same as the message of the error.
	Detail string `json:"detail"`
	// Code is a stable snake_case word, such as not_found.
	Code string `json:"code"`
	// RequestID is the value of the response's X-Request-ID header.
	RequestID string `json:"request_id"`
}

// A2AError is an error of JSON-RPC.
type A2AError struct {
	// Code is a number that JSON-RPC or A2A defines, or -32000 for a refusal of the service.
	Code int `json:"code"`
	// Message is one sentence for people.
	Message string `json:"message"`
	// Data has an ErrorInfo, whose reason says what failed, and for wrong parameters a
	// BadRequest.
	Data []A2AErrorDetail `json:"data,omitempty"`
}

// A2AErrorDetail is an ErrorInfo or a BadRequest of google.rpc.
type A2AErrorDetail struct {
	// Type names which of the two it is.
	Type string `json:"@type" enum:"type.googleapis.com/google.rpc.ErrorInfo,type.googleapis.com/google.rpc.BadRequest"`
	// Reason is a constant of A2A, such as TASK_NOT_FOUND, or the service's code in capitals.
	Reason string `json:"reason,omitempty"`
	// Domain is that of the reasons: a2a-protocol.org.
	Domain string `json:"domain,omitempty"`
	// Metadata has further values of the error.
	Metadata map[string]string `json:"metadata,omitempty"`
	// FieldViolations has one entry for each wrong parameter.
	FieldViolations []A2AFieldViolation `json:"fieldViolations,omitempty"`
}

// A2AFieldViolation says what is wrong with one parameter.
type A2AFieldViolation struct {
	// Field is the path of the parameter, joined by dots.
	Field string `json:"field"`
	// Description says in one sentence what is wrong.
	Description string `json:"description"`
}
