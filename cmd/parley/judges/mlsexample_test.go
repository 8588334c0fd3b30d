package judges

import (
	"strings"
	"testing"
)

const mlsExample = "../../../examples/mls-ts"

// TestMLSExample checks the types of the example program and runs its own tests.
func TestMLSExample(t *testing.T) {
	buildMLSExample(t)
	t.Log(node(t, "", "--test", mlsExample+"/dist/test/*.js"))
}

// TestMLSDemo: three agents follow their streams and read what the others send.
func TestMLSDemo(t *testing.T) {
	buildMLSExample(t)
	out := nodeWith(t, []string{"PARLEY_URL=" + serve(t)}, "", mlsExample+"/dist/src/demo.js")
	if read := strings.Count(out, "text: 'Hello!'"); read != 6 {
		t.Errorf("the three read %d messages of each other, want 6:\n%s", read, out)
	}
}

// buildMLSExample mends ts-mls and compiles the example program. It fails on a wrong type.
func buildMLSExample(t *testing.T) {
	t.Helper()
	needNode(t)
	install(t, mlsExample)
	node(t, "", mlsExample+"/patch.mjs")
	node(t, "", mlsExample+"/node_modules/typescript/bin/tsc", "--project", mlsExample)
}
