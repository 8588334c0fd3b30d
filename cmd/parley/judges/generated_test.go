package judges

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// toolsWait bounds the download of what programs of other people are built from.
	toolsWait = 3 * time.Minute
	// tools is where such programs are kept, because they take a minute to build.
	tools = "../../../bin"
)

// agentOf is what generated clients ask for.
type agentOf struct{ Token, ID string }

// TestGenerators: what generators make of the server's OpenAPI document compiles, and calls
// the server.
func TestGenerators(t *testing.T) {
	needNode(t)
	base := serve(t)
	document := fetchDocument(t, base)
	var agent agentOf
	if err := json.Unmarshal([]byte(node(t, "", "generated/agent.mjs", base)), &agent); err != nil {
		t.Fatal(err)
	}
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		generateGo(t, document, base, agent)
	})
	t.Run("typescript", func(t *testing.T) {
		t.Parallel()
		generateTypeScript(t, document, base, agent)
	})
}

func fetchDocument(t *testing.T, base string) []byte {
	t.Helper()
	resp, err := http.Get(base + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	document, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("/openapi.json: %s, %v", resp.Status, err)
	}
	return document
}

// generateGo has oapi-codegen and ogen write clients, and calls the server with each.
func generateGo(t *testing.T, document []byte, base string, agent agentOf) {
	buildTools(t, "generated/testdata/client", "oapi-codegen", "ogen")
	dir := workspace(t, "generated/testdata/client", document)
	if err := os.Mkdir(filepath.Join(dir, "oapi"), 0o755); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	run(t, dir, tool(t, "oapi-codegen"), "-config", "oapi.yaml", "openapi.json")
	run(t, dir, tool(t, "ogen"), "--target", "ogen", "--package", "ogen", "openapi.json")
	t.Logf("generated in %v", time.Since(began).Round(time.Millisecond))
	began = time.Now()
	// Unoptimized, because the compiler takes half the time. The build cache keeps it as long
	// as the document does not change.
	run(t, dir, "go", "build", "-trimpath", "-gcflags=parley/judges/generated/...=-N -l", "-o", "out/", "./oapicall", "./ogencall")
	t.Logf("compiled in %v", time.Since(began).Round(time.Millisecond))
	for _, program := range []string{"oapicall", "ogencall"} {
		t.Log(run(t, dir, filepath.Join(dir, "out", program), base, agent.Token, agent.ID))
	}
}

// generateTypeScript has three generators write clients and types, compiles them, and calls
// the server with each.
func generateTypeScript(t *testing.T, document []byte, base string, agent agentOf) {
	modules, err := filepath.Abs("node_modules")
	if err != nil {
		t.Fatal(err)
	}
	dir := workspace(t, "generated/testdata/typescript", document)
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "base.txt"), []byte(base), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{"openapi-typescript/bin/cli.js", "openapi.json", "-o", "schema.ts"},
		{"@hey-api/openapi-ts/bin/run.js", "-i", "openapi.json", "-o", "hey", "--no-log-file"},
		{"orval/dist/bin/orval.mjs", "--config", "orval.config.mjs"},
		{"typescript/bin/tsc", "--project", "."},
	} {
		began := time.Now()
		command[0] = "node_modules/" + command[0]
		run(t, dir, nodePath(t), command...)
		t.Logf("%s: %v", command[0], time.Since(began).Round(time.Millisecond))
	}
	t.Log(run(t, dir, nodePath(t), "out/call.js", base, agent.Token, agent.ID))
}

// buildTools builds the programs that a module names as its tools, unless bin has them
// already. If their modules cannot be downloaded, the test is skipped with a prominent
// notice; in CI it fails.
func buildTools(t *testing.T, module string, names ...string) {
	t.Helper()
	if !slices.ContainsFunc(names, func(name string) bool { return !newerThan(tool(t, name), module+"/go.mod") }) {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), toolsWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "mod", "download")
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI checks everything, and the modules of %s cannot be downloaded: %v\n%s", names, err, out)
		}
		t.Skipf("!! NOT CHECKED: %s: their modules cannot be downloaded: %v\n%s", names, err, out)
	}
	if err := os.MkdirAll(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	run(t, module, "go", "build", "-trimpath", "-o", tool(t, "")+"/", "tool")
	t.Logf("%s built in %v", names, time.Since(began).Round(time.Millisecond))
}

// newerThan reports whether a file exists and was written after another one.
func newerThan(file, other string) bool {
	written, err := os.Stat(file)
	if err != nil {
		return false
	}
	changed, err := os.Stat(other)
	return err == nil && !written.ModTime().Before(changed.ModTime())
}

// workspace copies a folder to a temporary directory, where generated code does not count as
// the project's, and adds the document.
func workspace(t *testing.T, from string, document []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "openapi.json"), document, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// run runs a program in a directory and returns its output. An error fails the test.
func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = append(withoutSettings(os.Environ()), "CGO_ENABLED=0") // as the Makefile has it: the build cache is shared
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// tool returns the path of a program that buildTools builds.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(tools, name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
