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
	Version      string `json:"-" header:"A2A-Version"`
	VersionQuery string `json:"-" query:"A2A-Version"`
	// Timeout is how long a request that sends a message waits for the reply, in seconds: at
	// most 300, by default 60.
	Timeout string `json:"-" header:"X-A2A-Timeout"`
	// LastEventID resumes the stream of a task after an event.
	LastEventID string `json:"-" header:"Last-Event-ID"`

	JSONRPC string `json:"jsonrpc" required:"true" enum:"2.0"`
	// ID is a string or a whole number, and comes back in the answer.
	ID string `json:"id" required:"true"`
	// Method is a method of A2A 1.0.
	Method string `json:"method" required:"true" example:"SendMessage"`
	Params Object `json:"params,omitzero"`
}
