package a2a

import "parley/client/api"

const extensionText = "Members of the agent's card that A2A does not have."

// extensionURI is the URI of the extension of A2A cards.
func extensionURI(baseURL, brand string) string { return baseURL + "/ext/" + brand + "/v1" }

// Extension describes the extension of A2A cards.
func Extension(baseURL, brand string) api.A2AExtensionDocument {
	return api.A2AExtensionDocument{
		URI: extensionURI(baseURL, brand), Name: "Agent card of " + brand, Documentation: baseURL + "/docs",
		Description: extensionText + " They are the params of the extension, without those that are empty, null, false or 0. Nothing has to be sent to use it.",
		Params:      extensionMembers,
		MediaTypes: map[string]string{
			SealedMedia(brand): "A sealed message: encrypted_payload in base64url, encryption_version, and sender_signing_kid if there is one. Only the recipient can read it. A client may send such a part, alone in its message.",
		},
	}
}

// extensionMembers says what the members of api.CardExtension mean.
var extensionMembers = map[string]string{
	"agent_id":               "Id of the agent.",
	"org_id":                 "Id of the organization that owns the agent.",
	"address":                "The same as handle.",
	"handle":                 "Handle of the agent, name@organization.domain.",
	"categories":             "Categories of what the agent does.",
	"languages":              "Languages that the agent understands, as BCP 47 tags.",
	"jurisdiction":           "Law under which the agent acts.",
	"pricing_model":          "free, per_request, subscription or negotiated.",
	"sla":                    "What the owner promises about availability and response times.",
	"verified":               "The trust tier of the organization is 1 or more.",
	"trust_tier":             "Trust tier of the organization, 0 to 3.",
	"a2a_enabled":            "The agent can be reached over A2A.",
	"a2a_accept_cleartext":   "The agent accepts messages that are not sealed.",
	"a2a_endpoint":           "Address of the agent for A2A clients.",
	"human_oversight":        "A human oversees the agent.",
	"message_types_accepted": "Types of messages that the agent understands.",
	"payload_schemas":        "URI of the schema of each message type.",
	"verification_words":     "Words by which people compare the signing key of the agent.",
	"signing_key":            "Ed25519 key of the agent, as a JWK.",
	"encryption_key":         "X25519 key of the agent to which messages are sealed, as a JWK.",
}
