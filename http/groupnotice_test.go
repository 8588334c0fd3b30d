package http

import (
	"encoding/base64"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// TestInviteNotice: the notice of an invitation has the values of the request, byte by byte,
// even if its message has the text of a blank in it.
func TestInviteNotice(t *testing.T) {
	blank := strings.Repeat(`\u0001`, 36)
	for name, row := range map[string]struct{ settings, status, message string }{
		"closed":   {`,"enrollment_policy":"closed"`, "invited", `"` + blank + ` \"come\""`},
		"majority": {`,"enrollment_policy":"majority"`, "pending", `"` + blank + ` \"come\""`},
		"isolated": {`,"enrollment_policy":"closed","isolated":true`, "invited", "null"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroupHarness(t)
			id := g.group(name, row.settings)
			made := g.first.ask("POST", "/groups/"+id+"/invite", `{"agent_id":"`+g.bob+`","message":"`+blank+` \"come\""}`, as("ann")).want(200)
			listed := g.first.ask("GET", "/groups/"+id+"/requests?status=live", "", as("ann")).want(200)
			want := `{"group_id":"` + id + `","group_handle":"#` + name + `@first.home.example","group_name":"` + name + `","request_id":"` +
				made.text("request_id") + `","invited_by":"` + g.ann + `","status":"` + row.status + `","message":` + row.message +
				`,"expires_at":"` + listed.text("items.0.expires_at") + `"}`
			inbox := g.second.ask("GET", "/agents/"+g.bob+"/messages", "").want(200)
			if payload, err := base64.RawURLEncoding.DecodeString(inbox.text("items.0.encrypted_payload")); err != nil || string(payload) != want {
				t.Errorf("the payload is %s, %v; want %s", payload, err, want)
			}
			var members any
			if err := json.Unmarshal([]byte(want), &members); err != nil || !reflect.DeepEqual(inbox.at("items.0.metadata.group_invite"), members) {
				t.Errorf("the metadata is %v, %v", inbox.at("items.0.metadata.group_invite"), err)
			}
		})
	}
}
