package durability

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/recorded"
)

// TestBackupsUnderLoad takes backups under load and restores each. A restored server has
// everything acknowledged before the backup began, nothing partial, and accepts new
// messages. Later backups copy less, unless compaction rewrote all tables in between,
// which does not happen three times in a row.
func TestBackupsUnderLoad(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		admin := kit.FreeAddress(t)
		s := kit.Start(t, "--journals", journals, "--admin-listen", admin)
		to := s.Org(t).Agent("target")
		l := &recorded.SentMessages{Stop: make(chan struct{})}
		var senders []*kit.Agent
		for range 6 {
			from := s.Org(t).Agent("sender")
			senders = append(senders, from)
			l.Wg.Go(func() { l.Write(from, to) })
		}
		dir := filepath.Join(t.TempDir(), "backups")
		promised := map[string][]*kit.Answer{}
		var copied []float64
		for round := range 4 {
			before := l.WaitForMore(t, []int{800, 40, 40, 40}[round])
			b := kit.Succeeds(t, "backup", "--to", dir, "--admin", "http://"+admin, "--data", s.Dir)
			promised[kit.Text(b, "snapshot")] = before
			n, _ := b["copied"].(float64)
			copied = append(copied, n)
		}
		close(l.Stop)
		l.Wg.Wait()
		s.Kill()
		t.Logf("%d messages, copied %v bytes", len(l.Known()), copied)
		if slices.Min(copied[1:]) >= copied[0] {
			t.Errorf("no later backup copied less than the first: %v bytes", copied)
		}
		listed := kit.Snapshots(t, dir)
		if len(listed) != 4 {
			t.Fatalf("the list has %q", listed)
		}
		for _, name := range listed[:3] {
			data := filepath.Join(t.TempDir(), "data")
			kit.Succeeds(t, "restore", "--from", dir+"@"+name, "--data", data)
			recorded.CheckRestored(t, s, data, to, senders, promised[name])
		}
		damagedBackup(t, dir)
	})
}

// damagedBackup flips a bit of the largest table and of the largest blob file. Restore
// must name the file and create nothing.
func damagedBackup(t *testing.T, dir string) {
	t.Helper()
	names := kit.Snapshots(t, dir)
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
		_, said, code := kit.Command(t, "restore", "--from", dir+"@"+name, "--data", data)
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
		if _, said, code := kit.Command(t, "backup", "check", dir+"@"+name); code != 1 || !strings.Contains(said, largest) {
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
	kit.Own(t, func(t *testing.T, journals string) {
		admin := kit.FreeAddress(t)
		s := kit.Start(t, "--journals", journals, "--admin-listen", admin)
		a, b := kit.Pair(t, s)
		payload := strings.Repeat("c2VhbGVk", 8000)
		kit.Concurrently(8, func(int) any {
			for range 12 {
				a.TrySend(b, obj{"encrypted_payload": payload}).Want(201)
			}
			return nil
		})
		dir := filepath.Join(t.TempDir(), "backups")
		began := time.Now()
		kit.Succeeds(t, "backup", "--to", filepath.Join(t.TempDir(), "first"), "--admin", "http://"+admin, "--data", s.Dir)
		took, cut := time.Since(began), 0
		for try := range 6 {
			a.TrySend(b, obj{"encrypted_payload": payload}).Want(201)
			into := dir + strconv.Itoa(try)
			done := make(chan int, 1)
			go func() {
				cmd := exec.Command(kit.Binary, "backup", "--to", into, "--admin", "http://"+admin, "--data", s.Dir)
				_ = cmd.Run()
				done <- cmd.ProcessState.ExitCode()
			}()
			for i := 0; i < 2000 && !kit.Exists(into); i++ {
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
			if kit.Exists(filepath.Join(into, "snapshots")) {
				listed = kit.Snapshots(t, into)
			}
			if code != 0 && len(listed) == 0 {
				cut++
			}
			if code == 0 && len(listed) == 0 {
				t.Error("a backup that was reported as done is not listed")
			}
			for _, name := range listed {
				kit.Succeeds(t, "backup", "check", into+"@"+name)
			}
			// The next backup into the same directory succeeds.
			kit.Succeeds(t, "backup", "--to", into, "--admin", "http://"+admin, "--data", s.Dir)
			if n := len(kit.Snapshots(t, into)); n != len(listed)+1 {
				t.Errorf("%d snapshots, want %d", n, len(listed)+1)
			}
		}
		t.Logf("a backup takes %v; %d of 6 were interrupted", took, cut)
		if n := len(b.Everything()); n != 8*12+6 {
			t.Errorf("%d messages, want %d", n, 8*12+6)
		}
	})
}

// TestBackupRequests: the admin address accepts backup requests from the command and none
// that a browser could send.
func TestBackupRequests(t *testing.T) {
	kit.OneServerOnly(t, "it opens the directory of a server")
	kit.Own(t, func(t *testing.T, journals string) {
		admin := kit.FreeAddress(t)
		s := kit.Start(t, "--journals", journals, "--admin-listen", admin)
		dir := filepath.Join(t.TempDir(), "backups")
		body := `{"to":"` + dir + `"}`
		ask := &kit.Server{Base: "http://" + admin, Addr: admin}
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
			if a := ask.Call(t, s.AdminToken(t), "POST", "/backup", kit.Verbatim(c.body), c.headers...); a.Err != nil || a.Status != c.want {
				a.As("%s", name).Errorf("want %d", c.want)
			}
		}
		if a := s.Call(t, "", "POST", "/backup", kit.Verbatim(body), "Content-Type", "application/json"); a.Status != 404 {
			a.Errorf("the public address has no backups")
		}
		if kit.Exists(dir) {
			t.Error("a refused request created the directory")
		}
		_, said, code := kit.Command(t, "backup", "--to", filepath.Join(s.Dir, "inside"), "--admin", "http://"+admin, "--data", s.Dir)
		if code == 0 || !strings.Contains(said, "inside the data directory") {
			t.Errorf("into the data directory: exit code %d, %s", code, said)
		}
		if _, said, code = kit.Command(t, "backup", "--to", dir, "--data", s.Dir); code != 1 || !strings.Contains(said, "in use by another process") {
			t.Errorf("of an open directory: exit code %d, %s", code, said)
		}
	})
}
