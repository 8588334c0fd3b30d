package judges

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestA2ACommand: the command line of the A2A project sends an agent a message and reads the
// task. It is told the transport, because it cannot read a card with security requirements
// (https://github.com/a2aproject/a2a-go/issues/430).
func TestA2ACommand(t *testing.T) {
	needNode(t)
	buildTools(t, "a2acommand/testdata", "a2a")
	base, binary := serveBinary(t)
	url := base + "/a2a/" + echo(t, base, binary)
	var caller agentOf
	if err := json.Unmarshal([]byte(node(t, "", "generated/agent.mjs", base)), &caller); err != nil {
		t.Fatal(err)
	}
	a2a := func(args ...string) string { return run(t, ".", tool(t, "a2a"), args...) }
	authorized := []string{"--auth", "Bearer " + caller.Token, "--transport", "jsonrpc", "--output", "json"}
	out := a2a(append([]string{"send", url, "Hello over A2A"}, authorized...)...)
	var sent struct{ ID string } // a task
	if err := json.Unmarshal([]byte(out), &sent); err != nil || sent.ID == "" || !strings.Contains(out, "Hello over A2A") {
		t.Fatalf("send: %v\n%s", err, out)
	}
	if got := a2a(append([]string{"get", "task", url, sent.ID}, authorized...)...); !strings.Contains(got, sent.ID) || !strings.Contains(got, "COMPLETED") {
		t.Errorf("get task: %s", got)
	}
	t.Log("ok - a2a sends a message and reads the completed task")
}
