package kit

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Command runs the binary and waits for it to exit.
func Command(t testing.TB, args ...string) (out, said string, code int) {
	t.Helper()
	cmd := exec.Command(Binary, args...)
	cmd.Env, cmd.Dir = CleanEnvironment(), t.TempDir()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// Succeeds runs the binary, which must exit with 0, and returns its output as JSON.
func Succeeds(t testing.TB, args ...string) Obj {
	t.Helper()
	out, said, code := Command(t, append(args, "--json")...)
	var v Obj
	if code != 0 || json.Unmarshal([]byte(out), &v) != nil {
		t.Fatalf("parley %v: exit code %d\n%s%s", args, code, out, said)
	}
	return v
}

// Snapshots returns the names of the snapshots that a backup directory lists.
func Snapshots(t testing.TB, dir string) []string {
	t.Helper()
	out, said, code := Command(t, "backup", "list", dir, "--json")
	var listed struct{ Items []Obj }
	if code != 0 || json.Unmarshal([]byte(out), &listed) != nil {
		t.Fatalf("backup list: exit code %d\n%s%s", code, out, said)
	}
	names := []string{}
	for _, r := range listed.Items {
		names = append(names, Text(r, "snapshot"))
	}
	return names
}

// Exists reports whether a file or folder is there.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ContentOf returns the bytes of a file.
func ContentOf(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// CheckMessage checks that an error contains all of the words and no stack trace.
func CheckMessage(t *testing.T, what, said string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Errorf("%s: the output does not contain %q:\n%s", what, w, said)
		}
	}
	if strings.Contains(said, "goroutine ") || strings.Contains(said, Announcement) {
		t.Errorf("%s: the output is\n%s", what, said)
	}
}

// InEnvironment runs a program with a master key in its environment.
func InEnvironment(key []byte) []string {
	return []string{"/usr/bin/env", "PARLEY_MASTER_KEY=" + base64.StdEncoding.EncodeToString(key)}
}

// DistinctIDs returns the ids of rows, which must be distinct.
func DistinctIDs(t testing.TB, rows []Obj) map[string]bool {
	t.Helper()
	seen := map[string]bool{}
	for _, id := range IDs(rows) {
		if seen[id] {
			t.Errorf("%s is in the inbox twice", id)
		}
		seen[id] = true
	}
	return seen
}

// VerifyDirectory stops the server and verifies its data directory.
func VerifyDirectory(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Drain(15 * time.Second); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(Binary, "verify", "--help")
	cmd.Env = CleanEnvironment()
	if err := cmd.Run(); err != nil {
		t.Log("this binary has no command to verify a directory")
		return
	}
	began := time.Now()
	cmd = exec.Command(Binary, "verify", "--data", s.Dir)
	cmd.Env = CleanEnvironment()
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("parley verify: %v\n%s", err, said)
		return
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	t.Logf("parley verify took %v: %s", time.Since(began).Round(time.Millisecond), lines[len(lines)-1])
}
