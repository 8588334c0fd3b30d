package submission

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json"

	"parley/actors/conversation"
	"parley/client/api"
	"parley/client/parley"
)

var errReservedType = parley.Refuse(parley.Unprocessable, "validation_error", "Value error, the type is in the reserved namespace and not one of its types").With("loc", "type")

// coreTypes are the types of the reserved namespace, after "<brand>.v1.".
// // spec: Message types
var coreTypes = map[string]bool{
	"dm": true, "task_request": true, "task_response": true, "status_update": true, "negotiation": true, "receipt": true,
	"error": true, "capability_query": true, "capability_response": true, "payment_request": true, "payment_confirmation": true,
	"consent_request": true, "consent_grant": true, "consent_revoke": true, "identity_verification": true,
	"sender_key_distribution": true, "sender_key_request": true,
}

// CheckType refuses types of the reserved namespace that the specification does not have, and
// group_invite, which only the server sends.
func (d *Desk) CheckType(messageType string) error {
	word, reserved := strings.CutPrefix(messageType, d.brand+".v1.")
	if reserved && !coreTypes[word] {
		return errReservedType
	}
	return nil
}

// exchangesKeys reports whether a message distributes or requests a sender key.
// // spec: Message types
func (d *Desk) exchangesKeys(messageType string) bool {
	word, reserved := strings.CutPrefix(messageType, d.brand+".v1.")
	return reserved && (word == "sender_key_distribution" || word == "sender_key_request")
}

// Types of messages that A2A gives a meaning, after "<brand>.v1.". // spec: Message types
const (
	TaskRequest  = "task_request"
	TaskResponse = "task_response"
	StatusUpdate = "status_update"
	TaskError    = "error"
)

// outcome returns the status to which a reply of a type moves a task, 0 for none.
func (d *Desk) outcome(messageType string) conversation.Status {
	switch word, _ := strings.CutPrefix(messageType, d.brand+".v1."); word {
	case TaskResponse:
		return conversation.Completed
	case TaskError:
		return conversation.Failed
	}
	return 0
}

// isLone reports whether a reply asks to be a message without a task: metadata.a2a.as is
// "message". Most replies have no such member, and are not parsed.
func isLone(metadata api.Object) bool {
	if !bytes.Contains(metadata, []byte(`a2a`)) && !bytes.Contains(metadata, []byte(`\`)) {
		return false
	}
	var of struct {
		A2A struct {
			As string `json:"as"`
		} `json:"a2a"`
	}
	return json.Unmarshal(metadata, &of) == nil && of.A2A.As == "message"
}
