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

var nodesRot = flag.Int("nodes.rot", 2, "at how many places TestFollowerRots flips a byte of each kind of file")

// TestFollowerRots stops a cluster and damages a file of one node, at many places: the node
// refuses to start, or to answer, or shows what it should. It never shows a wrong message, and
// none is missing. Then a new node takes its place.
func TestFollowerRots(t *testing.T) {
	t.Parallel()
	n := startNodes(t, 3)
	w := newRecordedServer(t, n.server(), 2, 6)
	victim := n.follower()
	load := func() {
		w.runClients(nil, clientCounts{12, 2, 2}, 700*time.Millisecond, func() {})
		w.repeatUnanswered()
	}
	load()
	victim.kill() // so that it begins with tables
	must(t, victim.again())
	n.ready(t)
	load()
	must(t, victim.drain(15*time.Second))
	load() // it has to catch up
	w.readAll(nil, false)
	w.check()
	want := w.inboxes(n.node((n.numberOf(victim) + 1) % 3))
	if len(want[w.popular[0]]) < 20 {
		t.Fatalf("too little load: %d messages", len(want[w.popular[0]]))
	}
	sound := n.stopAndKeep(t, victim)

	results := map[string]int{}
	all := damages(t, filepath.Join(sound, victim.flag("--node-name")))
	for _, d := range all {
		result := w.judge(victim, n.startFrom(t, sound, victim, d), want)
		t.Logf("%s: %s", d, result)
		if strings.HasSuffix(d.file, "raftlog") && result != neverStarts {
			t.Errorf("%s: the node had acknowledged what is damaged: %s\n%s", d, result, victim.log.tail())
		}
		results[d.kind()+" "+result]++
		for _, s := range n.all {
			s.kill()
		}
	}
	t.Log(results)

	if n.startFrom(t, sound, victim, all[0]) == nil {
		t.Error("a node with a damaged log starts")
	}
	replaceLost(t, n, n.numberOf(victim))
	n.ready(t)
	w.readAll(nil, true)
	w.check()
	w.checkDetectsLosses()
}

// stopAndKeep stops all nodes of which one is stopped already, and moves their directories.
func (n *nodes) stopAndKeep(t *testing.T, stopped *server) (sound string) {
	t.Helper()
	for _, s := range n.all {
		if s != stopped {
			s.kill() // the last one to lead would wait for a majority in vain
		}
	}
	sound = t.TempDir()
	for _, s := range n.all {
		must(t, os.Rename(s.dir, filepath.Join(sound, s.flag("--node-name"))))
	}
	return sound
}

// startFrom starts all nodes as they were, one of them with a damaged file, and returns why that
// one did not start.
func (n *nodes) startFrom(t *testing.T, sound string, victim *server, d damage) (failed error) {
	t.Helper()
	for _, s := range n.all {
		must(t, os.RemoveAll(s.dir))
		if said, err := exec.Command("cp", "-a", filepath.Join(sound, s.flag("--node-name")), s.dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
	}
	path := filepath.Join(victim.dir, d.file)
	content, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, d.do(content), 0o600))
	for i, err := range concurrently(len(n.all), func(i int) error { return n.node(i).again() }) {
		switch {
		case n.node(i) == victim:
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
	if d.cutsOff {
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

// damages lists what TestFollowerRots does to a directory.
func damages(t *testing.T, dir string) (all []damage) {
	t.Helper()
	for _, kind := range []string{"raftlog", "sst", "blob"} {
		var files []string
		must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
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
func (w *recordedServer) judge(s *server, failed error, want map[*participant][]string) string {
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
	for began := time.Now(); result == showsAll && s.call(w.t, "", "GET", "/readyz", nil).status != http.StatusOK; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > 5*time.Second {
			result = neverReady
		}
	}
	got := w.inboxes(s)
	for p, rows := range want {
		if got[p] == nil && result == showsAll {
			result = failsToRead
			if a := s.call(w.t, "", "GET", "/readyz", nil); a.status != http.StatusServiceUnavailable {
				w.t.Errorf("it refuses reads, and /readyz is %d %s", a.status, a.raw)
			}
		}
		if got[p] != nil && !slices.Equal(got[p], rows) {
			w.t.Errorf("the inbox of %s differs: %d rows instead of %d", p.name, len(got[p]), len(rows))
		}
	}
	if err := s.log.trouble(); err != nil {
		w.t.Errorf("%v\n%s", err, s.log.tail())
	}
	return result
}

// inboxes reads the inboxes of all participants on a node. One that cannot be read is nil.
func (w *recordedServer) inboxes(s *server) map[*participant][]string {
	all := map[*participant][]string{}
	direct := &recordedServer{t: w.t, s: &server{base: s.base}, h: history.New(settleWait), began: time.Now()}
	direct.dying.Store(true) // a damaged node may end
	for _, p := range w.parties() {
		rows, cursor := []string{}, ""
		for rows != nil {
			a := direct.ask(context.Background(), p, "GET", p.path("/messages?limit=100"+cursor), nil)
			var page struct {
				Items []struct {
					ID      string `json:"id"`
					Payload string `json:"encrypted_payload"`
				}
				More bool   `json:"has_more"`
				Next string `json:"next_cursor"`
			}
			if a.err == nil && a.status != http.StatusOK && a.status != http.StatusServiceUnavailable {
				w.t.Errorf("%s: the node answers %d %s", p.name, a.status, a.raw)
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
