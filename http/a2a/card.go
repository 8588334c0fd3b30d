package a2a

import (
	"cmp"

	"github.com/go-json-experiment/json"

	"parley/client/api"
	"parley/client/parley"
)

const (
	// Version is the version of the protocol as cards and headers name it: without the
	// patch number. // source: A2A 1.0 section 3.6
	Version = "1.0"
	// binding is the only binding that the bridge speaks.
	binding = "JSONRPC"
	// bearer and oauth name the security schemes of every card.
	bearer, oauth = "bearer", "oauth"
	// versionUnset is the version of an agent whose card has none.
	versionUnset = "1.0.0"
	// skillUnset is the id of the skill of an agent whose card has none.
	skillUnset = "message"
)

// SealedMedia returns the media type of a data part whose content only the recipient can
// read.
func SealedMedia(brand string) string { return "application/vnd." + brand + ".encrypted+json" }

// needing returns the requirement of a token with a scope.
func needing(scope parley.Scope) api.A2ASecurityRequirement {
	return api.A2ASecurityRequirement{Schemes: map[string]api.A2AScopes{oauth: {List: []string{string(scope)}}}}
}

// NewCard translates an agent's card as GET /agents/{id}/card shows it. The result is not
// signed yet. It has no empty, null or false member: verifiers disagree about which of
// those are a part of the signed text.
func NewCard(shown api.Card, baseURL, brand string) (api.A2ACard, error) {
	params, err := paramsOf(shown.Extension)
	if err != nil {
		return api.A2ACard{}, err
	}
	modes := []string{SealedMedia(brand)}
	if shown.Extension.A2AAcceptCleartext {
		modes = []string{"text/plain", "application/json", SealedMedia(brand)}
	}
	card := api.A2ACard{
		Name: shown.Name, Description: firstOf(shown.Description, shown.Name), Version: firstOf(shown.Version, versionUnset),
		SupportedInterfaces: []api.A2AInterface{{URL: firstOf(shown.Extension.A2AEndpoint, baseURL), ProtocolBinding: binding, ProtocolVersion: Version}},
		Provider:            shown.Provider,
		Capabilities: api.A2ACapabilities{
			Streaming: true, PushNotifications: true, ExtendedAgentCard: true,
			Extensions: []api.A2AExtension{{
				URI: extensionURI(baseURL, brand), Description: extensionText, Params: params,
			}},
		},
		SecuritySchemes: map[string]api.A2ASecurityScheme{
			bearer: {HTTPAuth: &api.A2AHTTPAuth{Scheme: "Bearer", BearerFormat: "JWT"}},
			oauth: {OAuth2: &api.A2AOAuth2{
				MetadataURL: baseURL + "/.well-known/oauth-authorization-server",
				Flows: api.A2AFlows{ClientCredentials: api.A2AClientCredentials{
					TokenURL: baseURL + "/oauth/token", Scopes: map[string]string{
						string(parley.ScopeOrg):    "Act for the organization that the client belongs to.",
						string(parley.ScopeAgents): "Act for some agents of that organization.",
					},
				}},
			}},
		},
		SecurityRequirements: []api.A2ASecurityRequirement{needing(parley.ScopeOrg), needing(parley.ScopeAgents)},
		DefaultInputModes:    orElse(shown.DefaultInputModes, modes...), DefaultOutputModes: orElse(shown.DefaultOutputModes, modes...),
	}
	for _, skill := range shown.Skills {
		card.Skills = append(card.Skills, api.A2ASkill{
			ID: skill.ID, Name: skill.Name, Description: cmp.Or(skill.Description, skill.Name), Tags: orElse(skill.Tags, skill.ID),
			Examples: orElse(skill.Examples), InputModes: orElse(skill.InputModes), OutputModes: orElse(skill.OutputModes),
		})
	}
	if len(card.Skills) == 0 {
		// A2A requires a skill. Every agent can at least be written to.
		card.Skills = []api.A2ASkill{{ID: skillUnset, Name: card.Name, Description: card.Description, Tags: []string{skillUnset}}}
	}
	return card, nil
}

// firstOf returns a text, or another one if it is absent or empty.
func firstOf(text *string, unset string) string {
	if text == nil || *text == "" {
		return unset
	}
	return *text
}

// orElse returns the texts that are not empty, or others if there are none.
func orElse(texts []string, unset ...string) []string {
	var kept []string
	for _, text := range texts {
		if text != "" {
			kept = append(kept, text)
		}
	}
	if kept == nil {
		return unset
	}
	return kept
}

// paramsOf returns the members of a card's extension that are not empty, null, false or 0.
func paramsOf(x api.CardExtension) (map[string]any, error) {
	text, err := json.Marshal(x)
	if err != nil {
		return nil, err
	}
	members := map[string]any{}
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	kept, _ := pruned(members).(map[string]any)
	return kept, nil
}

// pruned returns a JSON value without what is empty, null, false or 0 in it; nil if
// nothing remains.
func pruned(value any) any {
	switch value := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, member := range value {
			if member = pruned(member); member != nil {
				kept[name] = member
			}
		}
		if len(kept) > 0 {
			return kept
		}
	case []any:
		var kept []any
		for _, element := range value {
			if element = pruned(element); element != nil {
				kept = append(kept, element)
			}
		}
		if len(kept) > 0 {
			return kept
		}
	case string:
		if value != "" {
			return value
		}
	case float64:
		if value != 0 {
			return value
		}
	case bool:
		if value {
			return value
		}
	}
	return nil
}
