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
func Succeeds(t testing.TB, args ...string) obj {
	t.Helper()
	out, said, code := Command(t, append(args, "--json")...)
	var v obj
	if code != 0 || json.Unmarshal([]byte(out), &v) != nil {
		t.Fatalf("parley %v: exit code %d\n%s%s", args, code, out, said)
	}
	return v
}

// Snapshots returns the names of the snapshots that a backup directory lists.
func Snapshots(t testing.TB, dir string) []string {
	t.Helper()
	out, said, code := Command(t, "backup", "list", dir, "--json")
	var listed struct{ Items []obj }
	if code != 0 || json.Unmarshal([]byte(out), &listed) != nil {
		t.Fatalf("backup list: exit code %d\n%s%s", code, out, said)
	}
	names := []string{}
	for _, r := range listed.Items {
		names = append(names, Text(r, "snapshot"))
	}
	return names
}

// sentMessages records the messages whose sends succeeded, while the sends continue.
type sentMessages struct {
	mu    sync.Mutex
	acked []*Answer
	stop  chan struct{}
	wg    sync.WaitGroup
}

func (l *sentMessages) known() []*Answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked[:len(l.acked):len(l.acked)]
}

// write sends messages until it is stopped and replies to one in four.
func (l *sentMessages) write(from, to *Agent) {
	payload := strings.Repeat("c2VhbGVk", 100)
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		default:
		}
		a := from.TrySend(to, obj{"encrypted_payload": payload}, "Idempotency-Key", from.ID+strconv.Itoa(n))
		if a.Err == nil && a.Status == 201 && n%4 == 0 {
			if r := to.TryReply(a.Body, nil); r.Err != nil || r.Status != 201 {
				r.Errorf("a reply under load")
			}
		}
		if a.Err != nil || a.Status != 201 {
			a.Errorf("a send under load")
			return
		}
		l.mu.Lock()
		l.acked = append(l.acked, a)
		l.mu.Unlock()
	}
}

// waitForMore waits until n more messages are acknowledged.
func (l *sentMessages) waitForMore(t testing.TB, n int) []*Answer {
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
	Own(t, func(t *testing.T, journals string) {
		admin := FreeAddress(t)
		s := Start(t, "--journals", journals, "--admin-listen", admin)
		to := s.Org(t).Agent("target")
		l := &sentMessages{stop: make(chan struct{})}
		var senders []*Agent
		for range 6 {
			from := s.Org(t).Agent("sender")
			senders = append(senders, from)
			l.wg.Go(func() { l.write(from, to) })
		}
		dir := filepath.Join(t.TempDir(), "backups")
		promised := map[string][]*Answer{}
		var copied []float64
		for round := range 4 {
			before := l.waitForMore(t, []int{800, 40, 40, 40}[round])
			b := Succeeds(t, "backup", "--to", dir, "--admin", "http://"+admin, "--data", s.Dir)
			promised[Text(b, "snapshot")] = before
			n, _ := b["copied"].(float64)
			copied = append(copied, n)
		}
		close(l.stop)
		l.wg.Wait()
		s.Kill()
		t.Logf("%d messages, copied %v bytes", len(l.known()), copied)
		if slices.Min(copied[1:]) >= copied[0] {
			t.Errorf("no later backup copied less than the first: %v bytes", copied)
		}
		listed := Snapshots(t, dir)
		if len(listed) != 4 {
			t.Fatalf("the list has %q", listed)
		}
		for _, name := range listed[:3] {
			data := filepath.Join(t.TempDir(), "data")
			Succeeds(t, "restore", "--from", dir+"@"+name, "--data", data)
			checkRestored(t, s, data, to, senders, promised[name])
		}
		damagedBackup(t, dir)
	})
}

// checkRestored serves a restored directory with the server's old base address, so that tokens
// stay valid, and checks everything in it.
func checkRestored(t *testing.T, s *Server, data string, to *Agent, senders []*Agent, before []*Answer) {
	t.Helper()
	again, err := Launch("127.0.0.1:0", data, "--base-url", s.Base)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Kill()
	to, senders = to.On(again), slices.Clone(senders)
	for i, from := range senders {
		senders[i] = from.On(again)
	}
	inbox := DistinctIDs(t, to.Everything())
	for _, a := range before {
		if !inbox[a.Str("id")] {
			a.Errorf("acknowledged before the backup began, but not in it")
		}
	}
	if len(inbox) < len(before) {
		t.Errorf("%d messages, want at least %d", len(inbox), len(before))
	}
	byConversation := map[string]bool{}
	for _, from := range senders {
		replies := DistinctIDs(t, from.Everything())
		rows := 0
		for _, c := range from.Pages(from.Path("/conversations"), "?limit=100") {
			transcript := from.Pages("/conversations/"+Text(c, "id")+"/messages", "?limit=200")
			rows += len(transcript)
			for i, m := range transcript {
				id := Text(m, "id")
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
	to.Get("/messages/"+last.Str("id")).Want(200).Is("encrypted_payload", last.At("encrypted_payload"), "conversation_id", last.At("conversation_id"))
	m := senders[0].Send(to)
	if rows := to.Inbox("?limit=1").Items(); Text(rows[0], "id") != Text(m, "id") {
		t.Errorf("a message sent after the restore is not the newest of the inbox")
	}
	if n := len(to.Everything()); n != len(inbox)+1 {
		t.Errorf("%d messages after a further send, want %d", n, len(inbox)+1)
	}
	if err := again.Drain(10 * time.Second); err != nil {
		t.Error(err)
	}
}

// damagedBackup flips a bit of the largest table and of the largest blob file. Restore
// must name the file and create nothing.
func damagedBackup(t *testing.T, dir string) {
	t.Helper()
	names := Snapshots(t, dir)
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
		_, said, code := Command(t, "restore", "--from", dir+"@"+name, "--data", data)
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
		if _, said, code := Command(t, "backup", "check", dir+"@"+name); code != 1 || !strings.Contains(said, largest) {
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
	Own(t, func(t *testing.T, journals string) {
		admin := FreeAddress(t)
		s := Start(t, "--journals", journals, "--admin-listen", admin)
		a, b := Pair(t, s)
		payload := strings.Repeat("c2VhbGVk", 8000)
		Concurrently(8, func(int) any {
			for range 12 {
				a.TrySend(b, obj{"encrypted_payload": payload}).Want(201)
			}
			return nil
		})
		dir := filepath.Join(t.TempDir(), "backups")
		began := time.Now()
		Succeeds(t, "backup", "--to", filepath.Join(t.TempDir(), "first"), "--admin", "http://"+admin, "--data", s.Dir)
		took, cut := time.Since(began), 0
		for try := range 6 {
			a.TrySend(b, obj{"encrypted_payload": payload}).Want(201)
			into := dir + strconv.Itoa(try)
			done := make(chan int, 1)
			go func() {
				cmd := exec.Command(Binary, "backup", "--to", into, "--admin", "http://"+admin, "--data", s.Dir)
				_ = cmd.Run()
				done <- cmd.ProcessState.ExitCode()
			}()
			for i := 0; i < 2000 && !Exists(into); i++ {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(took * time.Duration(try) / 8)
			s.Kill()
			code := <-done
			s.Restart(t)
			if left, err := filepath.Glob(filepath.Join(s.Dir, "journal", "checkpoint.*")); err != nil || len(left) > 0 {
				t.Errorf("leftovers in the data directory: %v %v", left, err)
			}
			listed := []string{}
			if Exists(filepath.Join(into, "snapshots")) {
				listed = Snapshots(t, into)
			}
			if code != 0 && len(listed) == 0 {
				cut++
			}
			if code == 0 && len(listed) == 0 {
				t.Error("a backup that was reported as done is not listed")
			}
			for _, name := range listed {
				Succeeds(t, "backup", "check", into+"@"+name)
			}
			// The next backup into the same directory succeeds.
			Succeeds(t, "backup", "--to", into, "--admin", "http://"+admin, "--data", s.Dir)
			if n := len(Snapshots(t, into)); n != len(listed)+1 {
				t.Errorf("%d snapshots, want %d", n, len(listed)+1)
			}
		}
		t.Logf("a backup takes %v; %d of 6 were interrupted", took, cut)
		if n := len(b.Everything()); n != 8*12+6 {
			t.Errorf("%d messages, want %d", n, 8*12+6)
		}
	})
}

func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestBackupRequests: the admin address accepts backup requests from the command and none
// that a browser could send.
func TestBackupRequests(t *testing.T) {
	OneServerOnly(t, "it opens the directory of a server")
	Own(t, func(t *testing.T, journals string) {
		admin := FreeAddress(t)
		s := Start(t, "--journals", journals, "--admin-listen", admin)
		dir := filepath.Join(t.TempDir(), "backups")
		body := `{"to":"` + dir + `"}`
		ask := &Server{Base: "http://" + admin, Addr: admin}
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
			if a := ask.Call(t, s.AdminToken(t), "POST", "/backup", Verbatim(c.body), c.headers...); a.Err != nil || a.Status != c.want {
				a.As("%s", name).Errorf("want %d", c.want)
			}
		}
		if a := s.Call(t, "", "POST", "/backup", Verbatim(body), "Content-Type", "application/json"); a.Status != 404 {
			a.Errorf("the public address has no backups")
		}
		if Exists(dir) {
			t.Error("a refused request created the directory")
		}
		_, said, code := Command(t, "backup", "--to", filepath.Join(s.Dir, "inside"), "--admin", "http://"+admin, "--data", s.Dir)
		if code == 0 || !strings.Contains(said, "inside the data directory") {
			t.Errorf("into the data directory: exit code %d, %s", code, said)
		}
		if _, said, code = Command(t, "backup", "--to", dir, "--data", s.Dir); code != 1 || !strings.Contains(said, "in use by another process") {
			t.Errorf("of an open directory: exit code %d, %s", code, said)
		}
	})
}
