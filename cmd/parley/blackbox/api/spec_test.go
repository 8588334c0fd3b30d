package api

import (
	"os"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
	"parley/cmd/parley/blackbox/kit/hooktest"
)

// specKinds are the kinds of the specification's types. // spec: Resources and their fields
var specKinds = map[string]string{
	"UUID": "uuid", "string": "str", "int": "int", "bool": "bool", "datetime": "time", "JWK": "jwk", "object": "obj", "array": "arr",
	"string[]": "arr", "UUID[]": "arr",
}

// TestSpecifiedFields: the shapes, with which the tests of this package compare answers,
// have every field of the specification's tables, with its type. null occurs only where the
// specification allows it.
func TestSpecifiedFields(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/spec.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after, shape string
		input        bool // the table is of a request too: any field may be absent there
	}{
		{"### Organization\n", kit.OrgShape, false},
		{"### Agent (AgentRead)\n", kit.AgentShape + " poll_url:str?", false},
		{"### Message (MessageRead)\n", kit.MessageShape, false},
		{"the record may also carry:\n", kit.MessageShape + " self_encrypted_payload:str?", false},
		{"### Conversation\n", kit.ConversationShape, false},
		{"### Group (GroupRead)\n", grouptest.Shape, false},
		{"### Group member\n", grouptest.MemberShape, false},
		{"### Join request\n", grouptest.RequestShape, false},
		{"### Webhook (WebhookRead)\n", hooktest.Shape, false},
		{"AgentSkill:\n", kit.SkillShape, true},
		{"Card extension object `svc`:\n", kit.ExtensionShape, true},
	} {
		fields := specFields(string(page), c.after)
		if len(fields) < 3 {
			t.Errorf("%q: found only %v", c.after, fields)
		}
		shape := map[string]string{}
		for field := range strings.FieldsSeq(c.shape) {
			name, kind, _ := strings.Cut(field, ":")
			shape[name] = kind
		}
		for name, kind := range fields {
			base, nullable := strings.CutSuffix(kind, "?")
			want := specKinds[base]
			got, null := strings.CutSuffix(shape[name], "?")
			if want == "" || got != want || null && !nullable && !c.input {
				t.Errorf("%q: %s is %q, in the specification %q", c.after, name, shape[name], kind)
			}
		}
	}
	party := map[string]bool{}
	for field := range strings.FieldsSeq(kit.PartyShape) {
		party[field] = true
	}
	if !strings.Contains(string(page), "Participant: `agent_id` (UUID), `role` (") || !party["agent_id:uuid"] || !party["role:str"] || !party["joined_at:time"] {
		t.Errorf("a participant is %q", kit.PartyShape)
	}
}

// specFields returns the types of the fields of the first table after a text.
func specFields(page, after string) map[string]string {
	fields := map[string]string{}
	_, rest, _ := strings.Cut(page, after)
	for line := range strings.Lines(rest[max(strings.Index(rest, "|---"), 0):]) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			break
		}
		for name := range strings.SplitSeq(cells[1], ", ") {
			if name = strings.TrimSpace(name); !strings.HasPrefix(name, "-") {
				kind := strings.TrimSpace(cells[2])
				if strings.HasPrefix(kind, "{") || strings.HasPrefix(kind, "`{") {
					kind = "object"
				}
				fields[name] = kind
			}
		}
	}
	return fields
}
