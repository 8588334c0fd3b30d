package nodes

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/recorded"
	"parley/cmd/parley/history"
)

var nodesRot = flag.Int("nodes.rot", 2, "at how many places TestFollowerRots and TestLeaderRots flip a byte of each kind of file")

// TestFollowerRots stops a cluster and damages a file of one node, at many places: the node
// refuses to start, or to answer, or shows what it should. It never shows a wrong message, and
// none is missing. Then a new node takes its place.
func TestFollowerRots(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 3)
	w := recorded.NewServer(t, n.Server(), 2, 6)
	victim := n.Follower()
	sound, want := rottable(w, n, victim)

	results := map[string]int{}
	all := damages(t, filepath.Join(sound, victim.Flag("--node-name")))
	for _, d := range all {
		result := judge(w, victim, startFrom(t, n, sound, victim, d), want)
		t.Logf("%s: %s", d, result)
		if strings.HasSuffix(d.file, "raftlog") && result != neverStarts {
			t.Errorf("%s: the node had acknowledged what is damaged: %s\n%s", d, result, victim.Log.Tail())
		}
		results[d.kind()+" "+result]++
		for _, s := range n.All {
			s.Kill()
		}
	}
	t.Log(results)

	if startFrom(t, n, sound, victim, all[0]) == nil {
		t.Error("a node with a damaged log starts")
	}
	replaceLost(t, n, numberOf(n, victim))
	n.Ready(t)
	w.ReadAll(nil, true)
	w.Check()
	w.CheckDetectsLosses()
}

// rottable stops a cluster in which one node has tables, blob files and a log of some length. It
// returns where the directories are, and what all inboxes have.
func rottable(w *recorded.Server, n *kit.Nodes, victim *kit.Server) (sound string, want map[*recorded.Participant][]string) {
	w.T.Helper()
	load := func() {
		w.RunClients(nil, recorded.ClientCounts{Writers: 12, Movers: 2, Readers: 2}, 700*time.Millisecond, func() {})
		w.RepeatUnanswered()
	}
	load()
	victim.Kill() // so that it begins with tables
	kit.Must(w.T, victim.Again())
	n.Ready(w.T)
	load()
	kit.Must(w.T, victim.Drain(15*time.Second))
	load() // it has to catch up
	w.ReadAll(nil, false)
	w.Check()
	want = inboxesAt(w, n.Node((numberOf(n, victim)+1)%3))
	if len(want[w.Popular[0]]) < 20 {
		w.T.Fatalf("too little load: %d messages", len(want[w.Popular[0]]))
	}
	return stopAndKeep(w.T, n, victim), want
}

// TestLeaderRots damages tables and blob files of a node, at many places, and has it lead: when a
// read meets the damage, another node leads soon, and clients go on with everything that was
// acknowledged. The control is a node without damage: it goes on leading.
func TestLeaderRots(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 3)
	w := recorded.NewServer(t, n.Server(), 2, 6)
	victim := n.Follower()
	sound, want := rottable(w, n, victim)

	var met damage
	for _, d := range append([]damage{{}}, damages(t, filepath.Join(sound, victim.Flag("--node-name")))...) {
		if d.kind() == "raftlog" { // such a node does not start
			continue
		}
		failed := startFrom(t, n, sound, victim, d)
		led := failed == nil && hasLead(n, victim)
		result := judge(w, victim, failed, want)
		t.Logf("%s: the node leads: %v; it %s", d, led, result)
		switch {
		case d == damage{}:
			if !led || result != showsAll || n.Leader() != victim {
				t.Errorf("a node without damage does not go on leading\n%s", victim.Log.Tail())
			}
		case led && result != showsAll:
			yields(t, n, victim)
			if met == (damage{}) && result == failsToRead { // tables come first: they have what is decided on, too
				met = d
			}
		}
		for _, s := range n.All {
			s.Kill()
		}
	}
	if met == (damage{}) {
		t.Fatal("no leader met damage")
	}

	kit.Must(t, startFrom(t, n, sound, victim, met))
	if !hasLead(n, victim) {
		t.Fatalf("%s: the node does not lead a second time\n%s", met, victim.Log.Tail())
	}
	n.Heed(t)
	w.Apart.Store(true) // a read may meet the damage at once
	w.RunThrough(nil, recorded.ClientCounts{Writers: 8, Movers: 2, Readers: 2}, 300*time.Millisecond, func() {
		inboxesAt(w, victim)
		yields(t, n, victim)
		t.Logf("first 201 after %v more", firstSend(w).Round(time.Millisecond))
		time.Sleep(300 * time.Millisecond)
	})
	w.RepeatUnanswered()
	w.ReadAll(nil, true)
	w.Check()
	w.CheckDetectsLosses()
	t.Log(&w.Tally)
}

// hasLead hands the leadership to a node, and reports whether it leads within 5 s.
func hasLead(n *kit.Nodes, s *kit.Server) bool {
	for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(50 * time.Millisecond) {
		if _, err := s.Operate("cluster", "balance", "--to", s.Flag("--node-name")); err == nil {
			return true
		}
	}
	return false
}

// yields waits until another node leads than one that met damage.
func yields(t *testing.T, n *kit.Nodes, victim *kit.Server) {
	t.Helper()
	began := time.Now()
	kit.Eventually(t, "another node leads", func() bool { l := n.Leader(); return l != nil && l != victim })
	t.Logf("another node leads after %v", time.Since(began).Round(time.Millisecond))
}

// stopAndKeep stops all nodes of which one is stopped already, and moves their directories.
func stopAndKeep(t testing.TB, n *kit.Nodes, stopped *kit.Server) (sound string) {
	t.Helper()
	for _, s := range n.All {
		if s != stopped {
			s.Kill() // the last one to lead would wait for a majority in vain
		}
	}
	sound = t.TempDir()
	for _, s := range n.All {
		kit.Must(t, os.Rename(s.Dir, filepath.Join(sound, s.Flag("--node-name"))))
	}
	return sound
}

// startFrom starts all nodes as they were, one of them with a damaged file, if d names one, and
// returns why that one did not start.
func startFrom(t *testing.T, n *kit.Nodes, sound string, victim *kit.Server, d damage) (failed error) {
	t.Helper()
	for _, s := range n.All {
		kit.Must(t, os.RemoveAll(s.Dir))
		if said, err := exec.Command("cp", "-a", filepath.Join(sound, s.Flag("--node-name")), s.Dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
	}
	if path := filepath.Join(victim.Dir, d.file); d.file != "" {
		content, err := os.ReadFile(path)
		kit.Must(t, err)
		kit.Must(t, os.WriteFile(path, d.do(content), 0o600))
	}
	for i, err := range kit.Concurrently(len(n.All), func(i int) error { return n.Node(i).Again() }) {
		switch {
		case n.Node(i) == victim:
			failed = err
		case err != nil:
			t.Fatal(err)
		}
	}
	return failed
}

// damage is what happens to a file: a byte at a place of what is used is flipped, or everything
// from there on is cut off.
type damage struct {
	file    string
	part    float64
	cutsOff bool
}

func (d damage) kind() string { return strings.TrimPrefix(filepath.Ext(d.file), ".") }

func (d damage) String() string {
	switch {
	case d.file == "":
		return "no damage"
	case d.cutsOff:
		return fmt.Sprintf("%s, cut off at %.2f", d.file, d.part)
	}
	return fmt.Sprintf("%s, a byte flipped at %.2f", d.file, d.part)
}

func (d damage) do(content []byte) []byte {
	used := len(content)
	for used > 1 && content[used-1] == 0 {
		used--
	}
	at := int(float64(used) * d.part)
	if d.cutsOff {
		return content[:at]
	}
	content[at] ^= 0x55
	return content
}

// damages lists what these tests do to a directory.
func damages(t *testing.T, dir string) (all []damage) {
	t.Helper()
	for _, kind := range []string{"raftlog", "sst", "blob"} {
		var files []string
		kit.Must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, "."+kind) {
				files = append(files, strings.TrimPrefix(path, dir+string(filepath.Separator)))
			}
			return err
		}))
		if len(files) == 0 {
			t.Fatalf("the node has no files of kind %s", kind)
		}
		for i := range *nodesRot {
			all = append(all, damage{file: files[i%len(files)], part: float64(i+1) / float64(*nodesRot+1)})
		}
		if kind == "raftlog" {
			last := files[len(files)-1]
			all = append(all, damage{last, 0.5, true}, damage{last, 0.999, true})
		}
	}
	return all
}

// What becomes of a damaged node.
const (
	neverStarts = "does not start"
	neverReady  = "is not ready"
	failsToRead = "refuses some reads"
	showsAll    = "shows everything"
)

// judge says what becomes of a node with a damaged file. What it answers must be right.
func judge(w *recorded.Server, s *kit.Server, failed error, want map[*recorded.Participant][]string) string {
	w.T.Helper()
	if failed != nil {
		said := failed.Error()
		if !strings.Contains(said, "damaged") && !strings.Contains(said, "checksum mismatch") || strings.Contains(said, "goroutine ") {
			w.T.Errorf("it does not say why it ended: %v", failed)
		}
		if !strings.Contains(said, "cluster replace") || strings.Contains(said, "accept-loss") {
			w.T.Errorf("it does not say what to do: %v", failed)
		}
		return neverStarts
	}
	result := showsAll
	for began := time.Now(); result == showsAll && s.Call(w.T, "", "GET", "/readyz", nil).Status != http.StatusOK; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > 5*time.Second {
			result = neverReady
		}
	}
	got := inboxesAt(w, s)
	for p, rows := range want {
		if got[p] == nil && result == showsAll {
			result = failsToRead
			if a := s.Call(w.T, "", "GET", "/readyz", nil); a.Status != http.StatusServiceUnavailable {
				w.T.Errorf("it refuses reads, and /readyz is %d %s", a.Status, a.Raw)
			}
		}
		if got[p] != nil && !slices.Equal(got[p], rows) {
			w.T.Errorf("the inbox of %s differs: %d rows instead of %d", p.Name, len(got[p]), len(rows))
		}
	}
	if err := s.Log.Trouble(); err != nil {
		w.T.Errorf("%v\n%s", err, s.Log.Tail())
	}
	return result
}

// inboxesAt reads the inboxes of all participants on a node. One that cannot be read is nil.
func inboxesAt(w *recorded.Server, s *kit.Server) map[*recorded.Participant][]string {
	all := map[*recorded.Participant][]string{}
	direct := &recorded.Server{T: w.T, S: &kit.Server{Base: s.Base}, H: history.New(kit.SettleWait), Began: time.Now()}
	direct.Dying.Store(true) // a damaged node may end
	for _, p := range w.Parties() {
		rows, cursor := []string{}, ""
		for rows != nil {
			a := direct.Ask(context.Background(), p, "GET", p.Path("/messages?limit=100"+cursor), nil)
			var page struct {
				Items []struct {
					ID      string `json:"id"`
					Payload string `json:"encrypted_payload"`
				}
				More bool   `json:"has_more"`
				Next string `json:"next_cursor"`
			}
			if code, _ := a.Code(); a.Err == nil && a.Status != http.StatusOK && (a.Status != http.StatusServiceUnavailable || code != "overloaded") {
				w.T.Errorf("%s: the node answers %d %s", p.Name, a.Status, a.Raw)
			}
			if a.Err != nil || a.Status != http.StatusOK || a.Into(&page) != nil {
				rows = nil
				break
			}
			for _, m := range page.Items {
				rows = append(rows, m.ID+" "+m.Payload)
			}
			if !page.More {
				break
			}
			cursor = "&cursor=" + url.QueryEscape(page.Next)
		}
		all[p] = rows
	}
	return all
}
