package http

import (
	"strconv"
	"strings"
	"testing"
)

// members returns that many members of a JSON object.
func members(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`"` + strconv.Itoa(i) + `":0,`)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// TestMembersOfBodiesAreBounded: a body may have at most as many members as the schema
// of its route allows.
func TestMembersOfBodiesAreBounded(t *testing.T) {
	g := newGroupHarness(t)
	g.first.ask("POST", "/messages", `{"to_agent_id":"`+g.bob+`","type":"a.b.c","encrypted_payload":"AA",`+members(80_000)+`}`).want(422, "validation_error")
	g.first.ask("POST", "/agents/"+g.ann+"/messages/ack", `{"up_to":null,`+members(1100)+`}`).want(422, "validation_error")
	g.first.ask("DELETE", "/agents/"+g.art, `{`+members(2000)+`}`).want(204) // this route reads no body
	target := `{"agent_id":"` + g.bob + `","message":"come",` + members(10) + `},`
	asked := `{"agents":[` + strings.TrimSuffix(strings.Repeat(target, 100), ",") + `]}`
	g.first.ask("POST", "/groups/"+g.group("ops", "")+"/invite", asked+strings.Repeat(" ", 200_000), as("ann")).want(200).is(map[string]any{"invited": 1, "skipped": 99})
}
