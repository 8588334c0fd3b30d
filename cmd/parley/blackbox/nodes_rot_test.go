package blackbox

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

	"parley/cmd/parley/history"
)

var nodesRot = flag.Int("nodes.rot", 2, "at how many places TestFollowerRots and TestLeaderRots flip a byte of each kind of file")

// TestFollowerRots stops a cluster and damages a file of one node, at many places: the node
// refuses to start, or to answer, or shows what it should. It never shows a wrong message, and
// none is missing. Then a new node takes its place.
func TestFollowerRots(t *testing.T) {
	t.Parallel()
	n := StartNodes(t, 3)
	w := newRecordedServer(t, n.Server(), 2, 6)
	victim := n.Follower()
	sound, want := w.rottable(n, victim)

	results := map[string]int{}
	all := damages(t, filepath.Join(sound, victim.Flag("--node-name")))
	for _, d := range all {
		result := w.judge(victim, n.startFrom(t, sound, victim, d), want)
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

	if n.startFrom(t, sound, victim, all[0]) == nil {
		t.Error("a node with a damaged log starts")
	}
	replaceLost(t, n, n.numberOf(victim))
	n.Ready(t)
	w.readAll(nil, true)
	w.check()
	w.checkDetectsLosses()
}

// rottable stops a cluster in which one node has tables, blob files and a log of some length. It
// returns where the directories are, and what all inboxes have.
func (w *recordedServer) rottable(n *Nodes, victim *Server) (sound string, want map[*participant][]string) {
	w.t.Helper()
	load := func() {
		w.runClients(nil, clientCounts{12, 2, 2}, 700*time.Millisecond, func() {})
		w.repeatUnanswered()
	}
	load()
	victim.Kill() // so that it begins with tables
	Must(w.t, victim.Again())
	n.Ready(w.t)
	load()
	Must(w.t, victim.Drain(15*time.Second))
	load() // it has to catch up
	w.readAll(nil, false)
	w.check()
	want = w.inboxes(n.Node((n.numberOf(victim) + 1) % 3))
	if len(want[w.popular[0]]) < 20 {
		w.t.Fatalf("too little load: %d messages", len(want[w.popular[0]]))
	}
	return n.stopAndKeep(w.t, victim), want
}

// TestLeaderRots damages tables and blob files of a node, at many places, and has it lead: when a
// read meets the damage, another node leads soon, and clients go on with everything that was
// acknowledged. The control is a node without damage: it goes on leading.
func TestLeaderRots(t *testing.T) {
	t.Parallel()
	n := StartNodes(t, 3)
	w := newRecordedServer(t, n.Server(), 2, 6)
	victim := n.Follower()
	sound, want := w.rottable(n, victim)

	var met damage
	for _, d := range append([]damage{{}}, damages(t, filepath.Join(sound, victim.Flag("--node-name")))...) {
		if d.kind() == "raftlog" { // such a node does not start
			continue
		}
		failed := n.startFrom(t, sound, victim, d)
		led := failed == nil && n.hasLead(victim)
		result := w.judge(victim, failed, want)
		t.Logf("%s: the node leads: %v; it %s", d, led, result)
		switch {
		case d == damage{}:
			if !led || result != showsAll || n.Leader() != victim {
				t.Errorf("a node without damage does not go on leading\n%s", victim.Log.Tail())
			}
		case led && result != showsAll:
			n.yields(t, victim)
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

	Must(t, n.startFrom(t, sound, victim, met))
	if !n.hasLead(victim) {
		t.Fatalf("%s: the node does not lead a second time\n%s", met, victim.Log.Tail())
	}
	n.Heed(t)
	w.apart.Store(true) // a read may meet the damage at once
	w.runThrough(nil, clientCounts{8, 2, 2}, 300*time.Millisecond, func() {
		w.inboxes(victim)
		n.yields(t, victim)
		t.Logf("first 201 after %v more", w.firstSend().Round(time.Millisecond))
		time.Sleep(300 * time.Millisecond)
	})
	w.repeatUnanswered()
	w.readAll(nil, true)
	w.check()
	w.checkDetectsLosses()
	t.Log(&w.tally)
}

// hasLead hands the leadership to a node, and reports whether it leads within 5 s.
func (n *Nodes) hasLead(s *Server) bool {
	for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(50 * time.Millisecond) {
		if _, err := s.Operate("cluster", "balance", "--to", s.Flag("--node-name")); err == nil {
			return true
		}
	}
	return false
}

// yields waits until another node leads than one that met damage.
func (n *Nodes) yields(t *testing.T, victim *Server) {
	t.Helper()
	began := time.Now()
	Eventually(t, "another node leads", func() bool { l := n.Leader(); return l != nil && l != victim })
	t.Logf("another node leads after %v", time.Since(began).Round(time.Millisecond))
}

// stopAndKeep stops all nodes of which one is stopped already, and moves their directories.
func (n *Nodes) stopAndKeep(t testing.TB, stopped *Server) (sound string) {
	t.Helper()
	for _, s := range n.All {
		if s != stopped {
			s.Kill() // the last one to lead would wait for a majority in vain
		}
	}
	sound = t.TempDir()
	for _, s := range n.All {
		Must(t, os.Rename(s.Dir, filepath.Join(sound, s.Flag("--node-name"))))
	}
	return sound
}

// startFrom starts all nodes as they were, one of them with a damaged file, if d names one, and
// returns why that one did not start.
func (n *Nodes) startFrom(t *testing.T, sound string, victim *Server, d damage) (failed error) {
	t.Helper()
	for _, s := range n.All {
		Must(t, os.RemoveAll(s.Dir))
		if said, err := exec.Command("cp", "-a", filepath.Join(sound, s.Flag("--node-name")), s.Dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
	}
	if path := filepath.Join(victim.Dir, d.file); d.file != "" {
		content, err := os.ReadFile(path)
		Must(t, err)
		Must(t, os.WriteFile(path, d.do(content), 0o600))
	}
	for i, err := range Concurrently(len(n.All), func(i int) error { return n.Node(i).Again() }) {
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
		Must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
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
func (w *recordedServer) judge(s *Server, failed error, want map[*participant][]string) string {
	w.t.Helper()
	if failed != nil {
		said := failed.Error()
		if !strings.Contains(said, "damaged") && !strings.Contains(said, "checksum mismatch") || strings.Contains(said, "goroutine ") {
			w.t.Errorf("it does not say why it ended: %v", failed)
		}
		if !strings.Contains(said, "cluster replace") || strings.Contains(said, "accept-loss") {
			w.t.Errorf("it does not say what to do: %v", failed)
		}
		return neverStarts
	}
	result := showsAll
	for began := time.Now(); result == showsAll && s.Call(w.t, "", "GET", "/readyz", nil).Status != http.StatusOK; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > 5*time.Second {
			result = neverReady
		}
	}
	got := w.inboxes(s)
	for p, rows := range want {
		if got[p] == nil && result == showsAll {
			result = failsToRead
			if a := s.Call(w.t, "", "GET", "/readyz", nil); a.Status != http.StatusServiceUnavailable {
				w.t.Errorf("it refuses reads, and /readyz is %d %s", a.Status, a.Raw)
			}
		}
		if got[p] != nil && !slices.Equal(got[p], rows) {
			w.t.Errorf("the inbox of %s differs: %d rows instead of %d", p.Name, len(got[p]), len(rows))
		}
	}
	if err := s.Log.Trouble(); err != nil {
		w.t.Errorf("%v\n%s", err, s.Log.Tail())
	}
	return result
}

// inboxes reads the inboxes of all participants on a node. One that cannot be read is nil.
func (w *recordedServer) inboxes(s *Server) map[*participant][]string {
	all := map[*participant][]string{}
	direct := &recordedServer{t: w.t, s: &Server{Base: s.Base}, h: history.New(SettleWait), began: time.Now()}
	direct.dying.Store(true) // a damaged node may end
	for _, p := range w.parties() {
		rows, cursor := []string{}, ""
		for rows != nil {
			a := direct.ask(context.Background(), p, "GET", p.Path("/messages?limit=100"+cursor), nil)
			var page struct {
				Items []struct {
					ID      string `json:"id"`
					Payload string `json:"encrypted_payload"`
				}
				More bool   `json:"has_more"`
				Next string `json:"next_cursor"`
			}
			if code, _ := a.code(); a.err == nil && a.status != http.StatusOK && (a.status != http.StatusServiceUnavailable || code != "overloaded") {
				w.t.Errorf("%s: the node answers %d %s", p.Name, a.status, a.raw)
			}
			if a.err != nil || a.status != http.StatusOK || a.into(&page) != nil {
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
