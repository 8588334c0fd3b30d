package blackbox

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// command runs the binary and waits for it to exit.
func command(t testing.TB, args ...string) (out, said string, code int) {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env, cmd.Dir = cleanEnvironment(), t.TempDir()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// succeeds runs the binary, which must exit with 0, and returns its output as JSON.
func succeeds(t testing.TB, args ...string) obj {
	t.Helper()
	out, said, code := command(t, append(args, "--json")...)
	var v obj
	if code != 0 || json.Unmarshal([]byte(out), &v) != nil {
		t.Fatalf("parley %v: exit code %d\n%s%s", args, code, out, said)
	}
	return v
}

// snapshots returns the names of the snapshots that a backup directory lists.
func snapshots(t testing.TB, dir string) []string {
	t.Helper()
	out, said, code := command(t, "backup", "list", dir, "--json")
	var listed struct{ Items []obj }
	if code != 0 || json.Unmarshal([]byte(out), &listed) != nil {
		t.Fatalf("backup list: exit code %d\n%s%s", code, out, said)
	}
	names := []string{}
	for _, r := range listed.Items {
		names = append(names, text(r, "snapshot"))
	}
	return names
}

// sentMessages records the messages whose sends succeeded, while the sends continue.
type sentMessages struct {
	mu    sync.Mutex
	acked []*answer
	stop  chan struct{}
	wg    sync.WaitGroup
}

func (l *sentMessages) known() []*answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked[:len(l.acked):len(l.acked)]
}

// write sends messages until it is stopped and replies to one in four.
func (l *sentMessages) write(from, to *agent) {
	payload := strings.Repeat("c2VhbGVk", 100)
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		default:
		}
		a := from.trySend(to, obj{"encrypted_payload": payload}, "Idempotency-Key", from.id+strconv.Itoa(n))
		if a.err == nil && a.status == 201 && n%4 == 0 {
			if r := to.tryReply(a.body, nil); r.err != nil || r.status != 201 {
				r.errorf("a reply under load")
			}
		}
		if a.err != nil || a.status != 201 {
			a.errorf("a send under load")
			return
		}
		l.mu.Lock()
		l.acked = append(l.acked, a)
		l.mu.Unlock()
	}
}

// waitForMore waits until n more messages are acknowledged.
func (l *sentMessages) waitForMore(t testing.TB, n int) []*answer {
	t.Helper()
	want := len(l.known()) + n
	for deadline := time.Now().Add(20 * time.Second); len(l.known()) < want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d messages in 20 s, want %d", len(l.known()), want)
		}
	}
	return l.known()
}

// TestBackupsUnderLoad takes backups under load and restores each. A restored server has
// everything acknowledged before the backup began, nothing partial, and accepts new
// messages. Later backups copy less, unless compaction rewrote all tables in between,
// which does not happen three times in a row.
func TestBackupsUnderLoad(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		admin := freeAddress(t)
		s := start(t, "--journals", journals, "--admin-listen", admin)
		to := s.org(t).agent("target")
		l := &sentMessages{stop: make(chan struct{})}
		var senders []*agent
		for range 6 {
			from := s.org(t).agent("sender")
			senders = append(senders, from)
			l.wg.Go(func() { l.write(from, to) })
		}
		dir := filepath.Join(t.TempDir(), "backups")
		promised := map[string][]*answer{}
		var copied []float64
		for round := range 4 {
			before := l.waitForMore(t, []int{800, 40, 40, 40}[round])
			b := succeeds(t, "backup", "--to", dir, "--admin", "http://"+admin, "--data", s.dir)
			promised[text(b, "snapshot")] = before
			n, _ := b["copied"].(float64)
			copied = append(copied, n)
		}
		close(l.stop)
		l.wg.Wait()
		s.kill()
		t.Logf("%d messages, copied %v bytes", len(l.known()), copied)
		if slices.Min(copied[1:]) >= copied[0] {
			t.Errorf("no later backup copied less than the first: %v bytes", copied)
		}
		listed := snapshots(t, dir)
		if len(listed) != 4 {
			t.Fatalf("the list has %q", listed)
		}
		for _, name := range listed[:3] {
			data := filepath.Join(t.TempDir(), "data")
			succeeds(t, "restore", "--from", dir+"@"+name, "--data", data)
			checkRestored(t, s, data, to, senders, promised[name])
		}
		damagedBackup(t, dir)
	})
}

// checkRestored serves a restored directory with the server's old base address, so that tokens
// stay valid, and checks everything in it.
func checkRestored(t *testing.T, s *server, data string, to *agent, senders []*agent, before []*answer) {
	t.Helper()
	again, err := launch("127.0.0.1:0", data, "--base-url", s.base)
	if err != nil {
		t.Fatal(err)
	}
	defer again.kill()
	to, senders = to.on(again), slices.Clone(senders)
	for i, from := range senders {
		senders[i] = from.on(again)
	}
	inbox := distinctIDs(t, to.everything())
	for _, a := range before {
		if !inbox[a.str("id")] {
			a.errorf("acknowledged before the backup began, but not in it")
		}
	}
	if len(inbox) < len(before) {
		t.Errorf("%d messages, want at least %d", len(inbox), len(before))
	}
	byConversation := map[string]bool{}
	for _, from := range senders {
		replies := distinctIDs(t, from.everything())
		rows := 0
		for _, c := range from.pages(from.path("/conversations"), "?limit=100") {
			transcript := from.pages("/conversations/"+text(c, "id")+"/messages", "?limit=200")
			rows += len(transcript)
			for i, m := range transcript {
				id := text(m, "id")
				byConversation[id] = true
				if !inbox[id] && !replies[id] {
					t.Errorf("%s is in a transcript but in no inbox", id)
				}
				if i == 0 && !inbox[id] {
					t.Errorf("a conversation begins with %s, which did not arrive", id)
				}
			}
		}
		if rows == 0 {
			t.Error("a sender has no conversation")
		}
	}
	for id := range inbox {
		if !byConversation[id] {
			t.Errorf("%s is in the inbox but in no conversation", id)
		}
	}
	last := before[len(before)-1]
	to.get("/messages/"+last.str("id")).want(200).is("encrypted_payload", last.at("encrypted_payload"), "conversation_id", last.at("conversation_id"))
	m := senders[0].send(to)
	if rows := to.inbox("?limit=1").items(); text(rows[0], "id") != text(m, "id") {
		t.Errorf("a message sent after the restore is not the newest of the inbox")
	}
	if n := len(to.everything()); n != len(inbox)+1 {
		t.Errorf("%d messages after a further send, want %d", n, len(inbox)+1)
	}
	if err := again.drain(10 * time.Second); err != nil {
		t.Error(err)
	}
}

// damagedBackup flips a bit of the largest table and of the largest blob file. Restore
// must name the file and create nothing.
func damagedBackup(t *testing.T, dir string) {
	t.Helper()
	names := snapshots(t, dir)
	files, err := os.ReadDir(filepath.Join(dir, "files"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%s: mode %v (%v)", f.Name(), info.Mode(), err)
		}
	}
	for _, suffix := range []string{".sst", ".blob"} {
		largest, most := "", 0
		for _, name := range names {
			index, err := os.ReadFile(filepath.Join(dir, "snapshots", name))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(index)) { // file SUM SIZE NAME
				words := strings.Fields(line)
				if words[0] != "file" || !strings.HasSuffix(line, suffix+"\n") {
					continue
				}
				if size, err := strconv.Atoi(words[2]); err == nil && size > most {
					largest, most = words[1], size
				}
			}
		}
		if largest == "" {
			t.Fatalf("no snapshot has a %s file", suffix)
		}
		damagedFile(t, dir, largest, names)
	}
}

// damagedFile flips a bit of one file of a backup, and repairs it afterwards.
func damagedFile(t *testing.T, dir, largest string, names []string) {
	t.Helper()
	path := filepath.Join(dir, "files", largest)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	defer func() {
		content[len(content)/2] ^= 1
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}()
	refused := 0
	for _, name := range names {
		data := filepath.Join(t.TempDir(), "data")
		_, said, code := command(t, "restore", "--from", dir+"@"+name, "--data", data)
		if code == 0 {
			continue // this one does not need the file
		}
		refused++
		if code != 1 || !strings.Contains(said, largest) {
			t.Errorf("exit code %d, said %q, which does not name %s", code, said, largest)
		}
		if left, err := os.ReadDir(data); err == nil && len(left) > 0 {
			t.Errorf("a refused restore left %v", left)
		}
		if _, said, code := command(t, "backup", "check", dir+"@"+name); code != 1 || !strings.Contains(said, largest) {
			t.Errorf("check: exit code %d, %s", code, said)
		}
	}
	if refused == 0 {
		t.Error("no snapshot needs the largest file")
	}
}

// TestKillDuringABackup: the snapshot in progress is unlisted or complete, and the server
// starts without leftovers.
func TestKillDuringABackup(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		admin := freeAddress(t)
		s := start(t, "--journals", journals, "--admin-listen", admin)
		a, b := pair(t, s)
		payload := strings.Repeat("c2VhbGVk", 8000)
		concurrently(8, func(int) any {
			for range 12 {
				a.trySend(b, obj{"encrypted_payload": payload}).want(201)
			}
			return nil
		})
		dir := filepath.Join(t.TempDir(), "backups")
		began := time.Now()
		succeeds(t, "backup", "--to", filepath.Join(t.TempDir(), "first"), "--admin", "http://"+admin, "--data", s.dir)
		took, cut := time.Since(began), 0
		for try := range 6 {
			a.trySend(b, obj{"encrypted_payload": payload}).want(201)
			into := dir + strconv.Itoa(try)
			done := make(chan int, 1)
			go func() {
				cmd := exec.Command(binary, "backup", "--to", into, "--admin", "http://"+admin, "--data", s.dir)
				_ = cmd.Run()
				done <- cmd.ProcessState.ExitCode()
			}()
			for i := 0; i < 2000 && !exists(into); i++ {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(took * time.Duration(try) / 8)
			s.kill()
			code := <-done
			s.restart(t)
			if left, err := filepath.Glob(filepath.Join(s.dir, "journal", "checkpoint.*")); err != nil || len(left) > 0 {
				t.Errorf("leftovers in the data directory: %v %v", left, err)
			}
			listed := []string{}
			if exists(filepath.Join(into, "snapshots")) {
				listed = snapshots(t, into)
			}
			if code != 0 && len(listed) == 0 {
				cut++
			}
			if code == 0 && len(listed) == 0 {
				t.Error("a backup that was reported as done is not listed")
			}
			for _, name := range listed {
				succeeds(t, "backup", "check", into+"@"+name)
			}
			// The next backup into the same directory succeeds.
			succeeds(t, "backup", "--to", into, "--admin", "http://"+admin, "--data", s.dir)
			if n := len(snapshots(t, into)); n != len(listed)+1 {
				t.Errorf("%d snapshots, want %d", n, len(listed)+1)
			}
		}
		t.Logf("a backup takes %v; %d of 6 were interrupted", took, cut)
		if n := len(b.everything()); n != 8*12+6 {
			t.Errorf("%d messages, want %d", n, 8*12+6)
		}
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestBackupRequests: the admin address accepts backup requests from the command and none
// that a browser could send.
func TestBackupRequests(t *testing.T) {
	oneServerOnly(t, "it opens the directory of a server")
	own(t, func(t *testing.T, journals string) {
		admin := freeAddress(t)
		s := start(t, "--journals", journals, "--admin-listen", admin)
		dir := filepath.Join(t.TempDir(), "backups")
		body := `{"to":"` + dir + `"}`
		ask := &server{base: "http://" + admin, addr: admin}
		for name, c := range map[string]struct {
			body    string
			headers []string
			want    int
		}{
			"another type":     {body, []string{"Content-Type", "text/plain"}, 403},
			"a page's":         {body, []string{"Content-Type", "application/json", "Origin", "http://evil.example"}, 403},
			"a relative path":  {`{"to":"backups"}`, []string{"Content-Type", "application/json"}, 400},
			"unknown member":   {`{"to":"` + dir + `","x":1}`, []string{"Content-Type", "application/json"}, 400},
			"negative number":  {`{"to":"` + dir + `","keep":-1}`, []string{"Content-Type", "application/json"}, 400},
			"not JSON":         {`to`, []string{"Content-Type", "application/json"}, 400},
			"too long to read": {`{"to":"/` + strings.Repeat("a", 70_000) + `"}`, []string{"Content-Type", "application/json"}, 400},
		} {
			if a := ask.call(t, s.adminToken(t), "POST", "/backup", verbatim(c.body), c.headers...); a.err != nil || a.status != c.want {
				a.as("%s", name).errorf("want %d", c.want)
			}
		}
		if a := s.call(t, "", "POST", "/backup", verbatim(body), "Content-Type", "application/json"); a.status != 404 {
			a.errorf("the public address has no backups")
		}
		if exists(dir) {
			t.Error("a refused request created the directory")
		}
		_, said, code := command(t, "backup", "--to", filepath.Join(s.dir, "inside"), "--admin", "http://"+admin, "--data", s.dir)
		if code == 0 || !strings.Contains(said, "inside the data directory") {
			t.Errorf("into the data directory: exit code %d, %s", code, said)
		}
		if _, said, code = command(t, "backup", "--to", dir, "--data", s.dir); code != 1 || !strings.Contains(said, "in use by another process") {
			t.Errorf("of an open directory: exit code %d, %s", code, said)
		}
	})
}
