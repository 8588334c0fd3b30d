package blackbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestImportRestoresLargeBroadcasts: a broadcast to more members than one batch appends to
// is restored with all copies.
func TestImportRestoresLargeBroadcasts(t *testing.T) {
	t.Parallel()
	s := start(t, importFlags("4")...)
	us := s.org(t)
	alice := us.agent("alice")
	r := alice.group(obj{"enrollment_policy": "open"})
	others := us.newAgents(300, "member-")
	r.joinAll(others)
	for range 3 {
		r.broadcast(alice)
		r.broadcast(others[7])
		others[290].send(others[3])
	}
	for i, g := range others {
		if i != 3 && i != 7 {
			awaitCount(t, g, 6)
		}
	}
	export := exportBytes(t, us)
	for _, journals := range []string{"1", "4"} {
		compareExports(t, export, exportBytes(t, imported(t, export, us.slug, journals)))
	}
}

// awaitCount waits until an agent's inbox has a number of messages: copies of a large
// broadcast arrive later than the answer to it.
func awaitCount(t *testing.T, g *agent, count int) {
	t.Helper()
	for range 200 {
		if len(g.everything()) == count {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("agent %s has %d messages, want %d", g.name, len(g.everything()), count)
}

// TestImportCompletesFeeds: what was on its way to a feed or a list when the export began
// comes at its end, and a feed that has what did not happen is refused.
func TestImportCompletesFeeds(t *testing.T) {
	t.Parallel()
	s := start(t, importFlags("1")...)
	us := s.org(t)
	alice, bob, cleo := us.agent("alice"), us.agent("bob"), us.agent("cleo")
	r := alice.groupWithPolicy("majority", bob)
	r.applied(cleo)
	sent := r.broadcast(alice)
	export := exportBytes(t, us)
	change := func(kind, id, member string, edit func([]any) []any) (changed []byte) {
		for line := range bytes.Lines(export) {
			var v obj
			if err := json.Unmarshal(line, &v); err != nil {
				t.Fatal(err)
			}
			if data := v["data"].(obj); v["type"] == kind && data["id"] == id {
				data[member] = edit(data[member].([]any))
				body, _ := json.Marshal(data)
				line = fmt.Appendf(nil, "{\"type\":%q,\"data\":%s}\n", kind, body)
			}
			changed = append(changed, line...)
		}
		return changed
	}
	last := func(all []any) []any { return all[:len(all)-1] }
	for what, changed := range map[string][]byte{
		"an event of the group":   change("group", r.id, "announced", last),
		"the initiator's list":    change("conversation", text(sent, "conversation_id"), "listed", func(all []any) []any { return listedOf(all, bob) }),
		"all events of the group": change("group", r.id, "announced", func([]any) []any { return []any{} }),
	} {
		if bytes.Equal(changed, export) {
			t.Fatalf("%s: nothing is missing", what)
		}
		o := imported(t, changed, us.slug, "1") // which verifies the directory
		if n := len(o.pages(alice.path("/conversations"), "?limit=100")); n != 1 {
			t.Errorf("%s: alice has %d conversations", what, n)
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "export.ndjson")
	twice := change("group", r.id, "announced", func(all []any) []any { return append(all, all[0]) })
	if err := os.WriteFile(file, twice, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, told, code := command(t, "import", file, "--data", filepath.Join(dir, "data")); code == 0 || !strings.Contains(told, "not in the history") {
		t.Errorf("an event twice: exit code %d: %s", code, told)
	}
}

// listedOf returns the places that are those of an agent.
func listedOf(all []any, of *agent) []any {
	return slices.DeleteFunc(all, func(p any) bool { return text(p.(obj), "agent_id") != of.id })
}

// TestImportOfAnExportUnderWay: an export that is made while agents join, vote, leave and
// broadcast is whole, and the directory that is made of it is sound.
func TestImportOfAnExportUnderWay(t *testing.T) {
	t.Parallel()
	s := start(t, importFlags("4")...)
	us := s.org(t)
	alice, bob := us.agent("alice"), us.agent("bob")
	open, poll := alice.group(obj{"enrollment_policy": "open"}), alice.groupWithPolicy("majority", bob)
	open.joined(bob)
	guests := us.newAgents(6, "guest-")
	stop := make(chan struct{})
	var busy sync.WaitGroup
	for _, g := range guests {
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				open.join(g)
				open.tryBroadcast(g, nil)
				asked := poll.join(g)
				if id, ok := asked.at("request.id").(string); ok {
					poll.vote(alice, id, "approve")
					poll.vote(bob, id, "deny")
				}
				open.remove(g, g)
			}
		})
	}
	var exports [][]byte
	for range 4 {
		time.Sleep(300 * time.Millisecond)
		exports = append(exports, exportBytes(t, us))
	}
	close(stop)
	busy.Wait()
	for _, export := range exports {
		imported(t, export, us.slug, "4") // which verifies the directory
	}
}
