package api

import (
	"bytes"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley/client/parley"
)

// Pricing models of a card. // spec: Agent card
const (
	PricingFree         = "free"
	PricingPerRequest   = "per_request"
	PricingSubscription = "subscription"
	PricingNegotiated   = "negotiated"
)

// Card is an agent's card. The server adds what it knows about the agent: the ids, the
// instants, and a part of the extension.
type Card struct {
	// ID is the agent's id.
	ID parley.AgentID `json:"id"`
	// AgentID is the same as ID.
	AgentID parley.AgentID `json:"agent_id"`
	// CreatedAt is when the card was first published since it was last deleted.
	CreatedAt Time `json:"created_at"`
	// UpdatedAt is when the card was last published.
	UpdatedAt          *Time             `json:"updated_at"`
	Name               string            `json:"name"`
	Description        *string           `json:"description"`
	Version            *string           `json:"version"`
	Provider           *CardProvider     `json:"provider"`
	Capabilities       *CardCapabilities `json:"capabilities"`
	DefaultInputModes  []string          `json:"defaultInputModes"`
	DefaultOutputModes []string          `json:"defaultOutputModes"`
	Skills             []AgentSkill      `json:"skills"`
	// IsPublic makes the card appear in the directory, unless the agent is unlisted.
	IsPublic bool `json:"is_public"`
	// Extension has the server's brand as its name.
	Extension CardExtension `json:"svc" brand:"true"`
}

// CardProvider is who provides an agent.
type CardProvider struct {
	Organization string `json:"organization" required:"true" minLength:"1" maxLength:"500" example:"Acme"`
	// URL is an absolute http or https URL.
	URL string `json:"url" required:"true" minLength:"1" maxLength:"2048" format:"uri" example:"https://acme.example"`
}

// CardCapabilities is what an agent says it can do over A2A.
type CardCapabilities struct {
	Streaming         bool `json:"streaming"`
	PushNotifications bool `json:"pushNotifications"`
}

// AgentSkill is something that an agent can do, as its card describes it.
type AgentSkill struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	// Tags are in lower case, without repetitions.
	Tags        []string `json:"tags"`
	Examples    []string `json:"examples"`
	InputModes  []string `json:"inputModes"`
	OutputModes []string `json:"outputModes"`
}

// CardServiceLevel is what an agent promises.
type CardServiceLevel struct {
	ResponseTimeP95Ms   *int64   `json:"response_time_p95_ms"`
	AvailabilityPercent *float64 `json:"availability_percent"`
}

// CardExtension is the part of a card that A2A does not have.
type CardExtension struct {
	AgentID parley.AgentID `json:"agent_id"`
	OrgID   parley.OrgID   `json:"org_id"`
	// Address is the same as Handle.
	Address string `json:"address"`
	Handle  string `json:"handle"`
	// Categories are in lower case, without repetitions.
	Categories []string `json:"categories"`
	// Languages are in lower case, without repetitions.
	Languages    []string          `json:"languages"`
	Jurisdiction *string           `json:"jurisdiction"`
	PricingModel *string           `json:"pricing_model" enum:"free,per_request,subscription,negotiated"`
	SLA          *CardServiceLevel `json:"sla"`
	// Verified is true if the organization's trust tier is 1 or more.
	Verified bool `json:"verified"`
	// TrustTier is the organization's.
	TrustTier int `json:"trust_tier"`
	// A2AEnabled is true if the agent can be reached through the A2A bridge.
	A2AEnabled         bool `json:"a2a_enabled"`
	A2AAcceptCleartext bool `json:"a2a_accept_cleartext"`
	// A2AEndpoint is the agent's address at the A2A bridge; null unless a2a_enabled.
	A2AEndpoint *string `json:"a2a_endpoint"`
	// HumanOversight is the agent's.
	HumanOversight       bool     `json:"human_oversight"`
	MessageTypesAccepted []string `json:"message_types_accepted"`
	// PayloadSchemas maps message types to the URIs of their schemas.
	PayloadSchemas    map[string]string `json:"payload_schemas"`
	VerificationWords string            `json:"verification_words"`
	SigningKey        JWK               `json:"signing_key"`
	EncryptionKey     JWK               `json:"encryption_key"`
}

// PutCard publishes an agent's card, in place of any it had before: PUT
// /agents/{id}/card. Members that the server adds itself are ignored. The card takes at
// most 65536 bytes of compact JSON.
type PutCard struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`

	Name        string        `json:"name" required:"true" minLength:"1" maxLength:"500" example:"Invoice checker"`
	Description string        `json:"description" required:"true" maxLength:"5000" example:"Checks invoices against purchase orders."`
	Version     *string       `json:"version,omitzero" maxLength:"100"`
	Provider    *CardProvider `json:"provider,omitzero"`
	// Capabilities are what the agent can do over A2A.
	Capabilities       *PutCardCapabilities `json:"capabilities,omitzero"`
	DefaultInputModes  []string             `json:"defaultInputModes,omitzero" maxItems:"32" maxLength:"255" pattern:"^[A-Za-z0-9!#$&^_.+*-]+/[A-Za-z0-9!#$&^_.+*-]+(?: *;.*)?$" words:"a media type, such as text/plain"`
	DefaultOutputModes []string             `json:"defaultOutputModes,omitzero" maxItems:"32" maxLength:"255" pattern:"^[A-Za-z0-9!#$&^_.+*-]+/[A-Za-z0-9!#$&^_.+*-]+(?: *;.*)?$" words:"a media type, such as text/plain"`
	// Skills must have different ids.
	Skills    []PutCardSkill    `json:"skills,omitzero" maxItems:"64" example:"[{\"id\":\"check\",\"name\":\"Check an invoice\",\"description\":\"Compares an invoice with its order.\",\"tags\":[\"invoices\"]}]"`
	Extension *PutCardExtension `json:"svc,omitzero" brand:"true" example:"{\"categories\":[\"finance\"],\"languages\":[\"en\"],\"pricing_model\":\"free\"}"`
	// IsPublic makes the card appear in the directory, unless the agent is unlisted.
	IsPublic bool `json:"is_public,omitzero" default:"false" example:"true"`
	// SecuritySchemes is refused for an A2A-enabled agent, and ignored for any other.
	SecuritySchemes jsontext.Value `json:"securitySchemes,omitzero"`
	// Security is refused for an A2A-enabled agent, and ignored for any other.
	Security jsontext.Value `json:"security,omitzero"`
}

// PutCardCapabilities is what an agent says it can do over A2A, as its owner sends it.
type PutCardCapabilities struct {
	Streaming         bool `json:"streaming,omitzero"`
	PushNotifications bool `json:"pushNotifications,omitzero"`
}

// PutCardSkill describes something that an agent can do, for people and for searches.
type PutCardSkill struct {
	ID          string `json:"id" required:"true" minLength:"1" maxLength:"200"`
	Name        string `json:"name" required:"true" minLength:"1" maxLength:"500"`
	Description string `json:"description" required:"true" maxLength:"5000"`
	// Tags are stored in lower case, without surrounding space and repetitions.
	Tags        []string `json:"tags,omitzero" maxItems:"32" maxLength:"64"`
	Examples    []string `json:"examples,omitzero" maxItems:"32" maxLength:"2000"`
	InputModes  []string `json:"inputModes,omitzero" maxItems:"32" maxLength:"255" pattern:"^[A-Za-z0-9!#$&^_.+*-]+/[A-Za-z0-9!#$&^_.+*-]+(?: *;.*)?$" words:"a media type, such as text/plain"`
	OutputModes []string `json:"outputModes,omitzero" maxItems:"32" maxLength:"255" pattern:"^[A-Za-z0-9!#$&^_.+*-]+/[A-Za-z0-9!#$&^_.+*-]+(?: *;.*)?$" words:"a media type, such as text/plain"`
}

// PutCardServiceLevel is what an agent promises, as its owner sends it.
type PutCardServiceLevel struct {
	ResponseTimeP95Ms   *int64   `json:"response_time_p95_ms,omitzero" minimum:"0"`
	AvailabilityPercent *float64 `json:"availability_percent,omitzero" minimum:"0" maximum:"100"`
}

// PutCardExtension is the part of a card that A2A does not have, as its owner sends it.
type PutCardExtension struct {
	// Categories are stored in lower case, without surrounding space and repetitions.
	Categories []string `json:"categories,omitzero" maxItems:"32" maxLength:"64"`
	// Languages are stored in lower case, without surrounding space and repetitions.
	Languages []string `json:"languages,omitzero" maxItems:"64" maxLength:"64" pattern:"^\\s*[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8})*\\s*$" words:"an ISO language code, such as en or en-GB"`
	// Jurisdiction is the code of a country or region, stored in upper case.
	Jurisdiction *string              `json:"jurisdiction,omitzero" maxLength:"32" pattern:"^\\s*[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*\\s*$" words:"the code of a country or region, such as DE or US-CA"`
	PricingModel *string              `json:"pricing_model,omitzero" enum:"free,per_request,subscription,negotiated"`
	SLA          *PutCardServiceLevel `json:"sla,omitzero"`
	// A2AEnabled makes the agent reachable through the A2A bridge.
	A2AEnabled bool `json:"a2a_enabled,omitzero" default:"false"`
	// A2AAcceptCleartext says that the agent accepts unencrypted messages over the bridge.
	A2AAcceptCleartext *bool `json:"a2a_accept_cleartext,omitzero" default:"true"`
	// MessageTypesAccepted are stored without repetitions.
	MessageTypesAccepted []string `json:"message_types_accepted,omitzero" maxItems:"64" maxLength:"200" pattern:"^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+){2,}$" words:"three or more segments of letters, digits, hyphens and underscores, joined by dots, such as vendor.v1.name"`
	// PayloadSchemas maps message types to the absolute URIs of their schemas.
	PayloadSchemas map[string]string `json:"payload_schemas,omitzero" maxItems:"64" minLength:"1" maxLength:"2048"`
}

// GetCard gets the card of any active agent, whether it is public or not: GET
// /agents/{id}/card.
type GetCard struct {
	// ID is the agent's id or its handle.
	ID string `json:"-" path:"id" required:"true"`
}

// GetWellKnownCard gets the public card of an active agent: GET
// /.well-known/agent-cards/{id}.json.
type GetWellKnownCard struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
}

// DeleteCard deletes an agent's card: DELETE /agents/{id}/card.
type DeleteCard struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
}

// Check checks what the schema of no single field can state: names that show as they
// are, URLs, the ids of skills, and the size of the card.
func (in *PutCard) Check() []FieldError {
	faults := checkPlain("name", &in.Name)
	if p := in.Provider; p != nil {
		faults = append(faults, within(checkPlain("organization", &p.Organization), "provider")...)
		if u, err := url.Parse(p.URL); p.URL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || !parley.Dialable(u)) {
			faults = append(faults, FieldError{Loc: []any{"body", "provider", "url"}, Msg: "Value error, the URL should be absolute, with http or https", Type: valueError})
		}
	}
	seen := map[string]bool{}
	for i, s := range in.Skills {
		faults = append(faults, within(checkPlain("name", &s.Name), "skills", i)...)
		if s.ID != "" && seen[s.ID] {
			faults = append(faults, FieldError{Loc: []any{"body", "skills", i, "id"}, Msg: "Value error, an earlier skill has the same id", Type: valueError})
		}
		seen[s.ID] = true
	}
	if in.Extension != nil {
		faults = append(faults, checkSchemas(in.Extension.PayloadSchemas)...)
	}
	if n := in.size(); n > parley.CardBytesMax {
		faults = append(faults, FieldError{
			Loc: []any{"body"}, Msg: "Value error, the card should have at most " + strconv.Itoa(parley.CardBytesMax) + " bytes of compact JSON, not " + strconv.Itoa(n), Type: valueError,
		})
	}
	return faults
}

// size returns the length of the card as compact JSON, without what is ignored and
// without flags that have their default.
func (in *PutCard) size() int {
	counted := *in
	counted.Security, counted.SecuritySchemes = nil, nil
	if x := in.Extension; x != nil && x.A2AAcceptCleartext != nil && *x.A2AAcceptCleartext {
		short := *x
		short.A2AAcceptCleartext = nil // it may not have been sent
		counted.Extension = &short
	}
	b, err := json.Marshal(&counted)
	if err != nil {
		return 0 // not reached: every text is valid UTF-8
	}
	return len(b)
}

// within moves faults of the body's members below one of its members.
func within(faults []FieldError, under ...any) []FieldError {
	for i := range faults {
		faults[i].Loc = slices.Insert(faults[i].Loc, 1, under...)
	}
	return faults
}

// messageType is the form of message types. // spec: Message types
var messageType = regexp.MustCompile(`^[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+){2,}$`)

// checkSchemas checks the types and URIs of payload schemas.
func checkSchemas(schemas map[string]string) (faults []FieldError) {
	fault := func(name, msg string) {
		faults = append(faults, FieldError{Loc: []any{"body", DefaultBrand, "payload_schemas", name}, Msg: "Value error, " + msg, Type: valueError})
	}
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		if len(name) > parley.MessageTypeMax || !messageType.MatchString(name) {
			fault(name, "the name should be a message type, such as vendor.v1.name")
		}
		if u, err := url.Parse(schemas[name]); schemas[name] != "" && (err != nil || !u.IsAbs()) {
			fault(name, "the schema should be an absolute URI")
		}
	}
	return faults
}

// DefaultBrand is the brand of a server that is not told another. The wire structs use
// it in the names of branded members.
const DefaultBrand = "svc"

// Rebrand renames one member of a JSON object: a sender writes the member of a wire
// struct under the server's brand, a receiver does the opposite. Members inside the
// object's members keep their names. A body that has no such member, or is no object, is
// returned as it is.
func Rebrand(body []byte, from, to string) []byte {
	if from == to {
		return body
	}
	dec := jsontext.NewDecoder(bytes.NewReader(body))
	if dec.PeekKind() != '{' {
		return body
	}
	if _, err := dec.ReadToken(); err != nil {
		return body
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return body
		}
		if name.String() == from {
			end := dec.InputOffset()
			start := bytes.LastIndexByte(body[:end-1], '"')
			quoted, err := jsontext.AppendQuote(nil, to)
			if err != nil {
				return body
			}
			return bytes.Join([][]byte{body[:start], quoted, body[end:]}, nil)
		}
		if err := dec.SkipValue(); err != nil {
			return body
		}
	}
	return body
}
