package judges

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// a2aSchema has the messages of a2a.proto that answers consist of: "!" marks what is
// required, "[]" what is repeated, "{}" what is a map. A line "oneof" names members of which
// exactly one is there.
// // source: specification/a2a.proto of A2A 1.0.1
const a2aSchema = `
SendMessageResponse: oneof task message; task Task; message Message
StreamResponse: oneof task message statusUpdate artifactUpdate; task Task; message Message; statusUpdate TaskStatusUpdateEvent; artifactUpdate TaskArtifactUpdateEvent
Task: id! string; contextId string; status! TaskStatus; artifacts [] Artifact; history [] Message; metadata object
TaskStatus: state! TaskState; message Message; timestamp time
Message: messageId! string; contextId string; taskId string; role! Role; parts! [] Part; metadata object; extensions [] string; referenceTaskIds [] string
Part: oneof text raw url data; text string; raw bytes; url string; data any; metadata object; filename string; mediaType string
Artifact: artifactId! string; name string; description string; parts! [] Part; metadata object; extensions [] string
TaskStatusUpdateEvent: taskId! string; contextId! string; status! TaskStatus; metadata object
TaskArtifactUpdateEvent: taskId! string; contextId! string; artifact! Artifact; append bool; lastChunk bool; metadata object
AgentCard: name! string; description! string; supportedInterfaces! [] AgentInterface; provider AgentProvider; version! string; documentationUrl string; capabilities! AgentCapabilities; securitySchemes {} SecurityScheme; securityRequirements [] SecurityRequirement; defaultInputModes! [] string; defaultOutputModes! [] string; skills! [] AgentSkill; signatures [] AgentCardSignature; iconUrl string
AgentInterface: url! string; protocolBinding! string; tenant string; protocolVersion! string
AgentProvider: url! string; organization! string
AgentCapabilities: streaming bool; pushNotifications bool; extensions [] AgentExtension; extendedAgentCard bool
AgentExtension: uri string; description string; required bool; params object
AgentSkill: id! string; name! string; description! string; tags! [] string; examples [] string; inputModes [] string; outputModes [] string; securityRequirements [] SecurityRequirement
AgentCardSignature: protected! string; signature! string; header object
SecurityRequirement: schemes {} StringList
StringList: list [] string
SecurityScheme: oneof apiKeySecurityScheme httpAuthSecurityScheme oauth2SecurityScheme openIdConnectSecurityScheme mtlsSecurityScheme; apiKeySecurityScheme object; httpAuthSecurityScheme HTTPAuthSecurityScheme; oauth2SecurityScheme OAuth2SecurityScheme; openIdConnectSecurityScheme object; mtlsSecurityScheme object
HTTPAuthSecurityScheme: description string; scheme! string; bearerFormat string
OAuth2SecurityScheme: description string; flows! OAuthFlows; oauth2MetadataUrl string
OAuthFlows: oneof authorizationCode clientCredentials implicit password deviceCode; authorizationCode object; clientCredentials ClientCredentialsOAuthFlow; implicit object; password object; deviceCode object
ClientCredentialsOAuthFlow: tokenUrl! string; refreshUrl string; scopes! {} string
`

// a2aMessage is a message of the schema.
type a2aMessage struct {
	fields   map[string]a2aField
	required []string
	oneof    []string
}

type a2aField struct{ of, kind string } // of is "", "[]" or "{}"

var a2aMessages = parseSchema(a2aSchema)

func parseSchema(text string) map[string]a2aMessage {
	messages := map[string]a2aMessage{}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		name, rest, _ := strings.Cut(line, ": ")
		m := a2aMessage{fields: map[string]a2aField{}}
		for _, field := range strings.Split(rest, "; ") {
			words := strings.Fields(field)
			if words[0] == "oneof" {
				m.oneof = words[1:]
				continue
			}
			member, required := strings.CutSuffix(words[0], "!")
			if required {
				m.required = append(m.required, member)
			}
			m.fields[member] = a2aField{of: strings.Join(words[1:len(words)-1], ""), kind: words[len(words)-1]}
		}
		messages[name] = m
	}
	return messages
}

// conforms checks a JSON value against a message of A2A.
func conforms(kind string, value any) error { return conformsAt(kind, kind, value) }

func conformsAt(path, kind string, value any) error {
	m, ok := a2aMessages[kind]
	if !ok {
		return conformsScalar(path, kind, value)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is %s, want an object", path, shown(value, true))
	}
	for _, name := range m.required {
		if _, there := object[name]; !there {
			return fmt.Errorf("%s has no %s", path, name)
		}
	}
	if there := slices.DeleteFunc(slices.Clone(m.oneof), func(name string) bool { _, there := object[name]; return !there }); m.oneof != nil && len(there) != 1 {
		return fmt.Errorf("%s has %q, want one of %q", path, there, m.oneof)
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		field, known := m.fields[name]
		if !known {
			return fmt.Errorf("%s has a member %s, which A2A does not have", path, name)
		}
		if err := conformsField(path+"."+name, field, object[name]); err != nil {
			return err
		}
	}
	return nil
}

func conformsField(path string, field a2aField, value any) error {
	switch field.of {
	case "[]":
		list, ok := value.([]any)
		if !ok {
			return fmt.Errorf("%s is %s, want an array", path, shown(value, true))
		}
		for i, element := range list {
			if err := conformsAt(fmt.Sprintf("%s[%d]", path, i), field.kind, element); err != nil {
				return err
			}
		}
		return nil
	case "{}":
		object, ok := value.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %s, want an object", path, shown(value, true))
		}
		for name, member := range object {
			if err := conformsAt(path+"."+name, field.kind, member); err != nil {
				return err
			}
		}
		return nil
	}
	return conformsAt(path, field.kind, value)
}

func conformsScalar(path, kind string, value any) error {
	text, isText := value.(string)
	ok := false
	switch kind {
	case "any":
		ok = true
	case "string":
		ok = isText
	case "object":
		ok = kindOf(value) == "object"
	case "bool":
		ok = kindOf(value) == "boolean"
	case "bytes":
		_, err := base64.StdEncoding.DecodeString(text)
		ok = isText && err == nil
	case "time":
		_, err := time.Parse("2006-01-02T15:04:05.000Z", text)
		ok = err == nil
	case "Role":
		ok = text == "ROLE_USER" || text == "ROLE_AGENT"
	case "TaskState":
		ok = ended(text) || slices.Contains([]string{"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"}, text)
	default:
		return fmt.Errorf("%s: the schema has no %s", path, kind)
	}
	if !ok {
		return fmt.Errorf("%s is %s, want %s", path, shown(value, true), kind)
	}
	return nil
}

func TestA2ASchema(t *testing.T) {
	for text, want := range map[string]bool{
		`{"task":{"id":"1","contextId":"2","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2026-01-01T00:00:00.000Z"},"history":[{"messageId":"3","role":"ROLE_USER","parts":[{"text":"x"}]}]}}`: true,
		`{"task":{"id":"1"}}`:                                false,
		`{"task":{"id":"1","status":{"state":"completed"}}}`: false,
		`{"task":{"id":"1","status":{"state":"TASK_STATE_COMPLETED","timestamp":"yesterday"}}}`: false,
		`{"message":{"messageId":"3","role":"ROLE_AGENT","parts":[{"text":"x","url":"y"}]}}`:    false,
		`{"message":{"messageId":"3","role":"ROLE_AGENT","parts":[{"raw":"!"}]}}`:               false,
		`{"message":{"messageId":"3","role":"ROLE_AGENT","parts":[],"kind":"message"}}`:         false,
		`{}`: false,
	} {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		if err := conforms("SendMessageResponse", value); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}
