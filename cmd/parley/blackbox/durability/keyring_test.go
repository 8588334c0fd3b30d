package durability

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// keyringOf returns the directory of a keyring and the two files of a shard with a key:
// the longest ones.
func keyringOf(t *testing.T, data string) (dir, a, b string) {
	t.Helper()
	dir = filepath.Join(data, "journal", "keyring")
	files, err := filepath.Glob(filepath.Join(dir, "*.a"))
	if err != nil || len(files) != 256 {
		t.Fatalf("%d first copies in %s (%v)", len(files), dir, err)
	}
	most := 0
	for _, f := range files {
		if n := len(kit.ContentOf(t, f)); n > most {
			a, most = f, n
		}
	}
	return dir, a, strings.TrimSuffix(a, "a") + "b"
}

// faultsIn returns the faults that `parley verify` finds in a data directory, by check.
func faultsIn(t *testing.T, data string) (byCheck map[string]float64, means string) {
	t.Helper()
	cmd := exec.Command(kit.Binary, "verify", "--json", "--data", data)
	cmd.Env = kit.CleanEnvironment()
	out, err := cmd.Output()
	var v struct {
		Checks []struct {
			Name   string
			Faults float64
		}
		First []obj
	}
	if json.Unmarshal(out, &v) != nil {
		t.Fatalf("verify: %v\n%s", err, out)
	}
	byCheck = map[string]float64{}
	for _, c := range v.Checks {
		if c.Faults > 0 {
			byCheck[c.Name] = c.Faults
		}
	}
	for _, f := range v.First {
		means += kit.Text(f, "where") + ": " + kit.Text(f, "means") + "\n"
	}
	if (err == nil) != (len(byCheck) == 0) {
		t.Errorf("verify ended with %v and found %v", err, byCheck)
	}
	return byCheck, means
}

// putBack replaces a directory by a copy.
func putBack(t *testing.T, from, to string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))); err != nil {
		t.Fatal(err)
	}
}

// TestKeyringDamage attacks the files of a keyring. One sound copy is enough and repairs
// the other; without one, or with an old file, no server starts, and the error names the
// shard. verify finds each of them and changes nothing.
func TestKeyringDamage(t *testing.T) {
	kit.OneServerOnly(t, "it works on the directory of a stopped server")
	t.Parallel()
	s := kit.Start(t)
	first := s.Org(t)
	if err := s.Drain(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	former := filepath.Join(t.TempDir(), "former")
	putBack(t, filepath.Join(s.Dir, "journal", "keyring"), former)
	s.Restart(t)
	o := s.Org(t)
	for range 3 {
		s.Org(t)
	}
	if err := s.Drain(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if faults, means := faultsIn(t, s.Dir); len(faults) != 0 {
		t.Fatalf("control: %v\n%s", faults, means)
	}
	dir, a, b := keyringOf(t, s.Dir)
	shard := strings.TrimSuffix(filepath.Base(a), ".a")
	sound := filepath.Join(t.TempDir(), "sound")
	putBack(t, dir, sound)
	flip := func(path string) {
		content := bytes.Clone(kit.ContentOf(t, path))
		content[len(content)/2] ^= 4
		write(t, path, content, 0o600)
	}
	remove := func(paths ...string) {
		for _, p := range paths {
			if err := os.RemoveAll(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	for what, c := range map[string]struct {
		attack func()
		starts bool
		check  string
		says   string
	}{
		"a copy removed":           {func() { remove(a) }, true, "keyring", shard + ".a"},
		"a bit flipped":            {func() { flip(b) }, true, "keyring", shard + ".b"},
		"both copies removed":      {func() { remove(a, b) }, false, "keyring", "shard " + shard},
		"one removed, one flipped": {func() { remove(a); flip(b) }, false, "keyring", "shard " + shard},
		"all removed":              {func() { remove(dir) }, false, "keyring", "keyring"},
		"an old one":               {func() { putBack(t, former, dir) }, false, "keyring", "an old file is in its place"},
	} {
		putBack(t, sound, dir)
		c.attack()
		faults, means := faultsIn(t, s.Dir)
		if faults[c.check] == 0 || !strings.Contains(means, strings.TrimPrefix(c.says, "shard ")) {
			t.Errorf("%s: verify finds %v\n%s", what, faults, means)
		}
		if lost := strings.HasPrefix(c.says, "shard "); lost && strings.Contains(means, "an old file") {
			t.Errorf("%s: verify takes a lost shard for an old one\n%s", what, means)
		}
		if said := verifyError(t, s.Dir); strings.Contains(said, "the next start of the server") != c.starts || strings.Contains(said, "parley restore") == c.starts {
			t.Errorf("%s: verify says %s", what, said)
		}
		if strings.HasPrefix(c.says, "shard ") || what == "an old one" {
			if faults["org-keys"] == 0 {
				t.Errorf("%s: verify misses no key: %v", what, faults)
			}
		}
		if !c.starts {
			said := kit.Fails(t, s.Dir)
			kit.CheckMessage(t, what, said, c.says, "parley restore")
			if what == "all removed" {
				kit.CheckMessage(t, what+", loss accepted", kit.Fails(t, s.Dir, "--accept-loss"), "keyring", "organizations")
				if faults, means := faultsIn(t, s.Dir); !maps.Equal(faults, map[string]float64{"keyring": 1}) {
					t.Errorf("after refusals: %v\n%s", faults, means)
				}
			}
			continue
		}
		repairs(t, s, what, c.says, first, o)
	}
}

// verifyError returns what verify writes to standard error when it finds faults.
func verifyError(t *testing.T, data string) string {
	t.Helper()
	cmd := exec.Command(kit.Binary, "verify", "--data", data)
	cmd.Env = kit.CleanEnvironment()
	var failed *exec.ExitError
	if _, err := cmd.Output(); !errors.As(err, &failed) {
		t.Fatalf("verify ended with %v", err)
	}
	return string(failed.Stderr)
}

// TestALostKeyringIsNotMadeAnew: without the witness, which records that there was a
// keyring, organizations in the journal show it.
func TestALostKeyringIsNotMadeAnew(t *testing.T) {
	t.Parallel()
	dir, _, _ := served(t)
	keys, witness := filepath.Join(dir, "journal", "keyring"), filepath.Join(dir, "journal", "witness")
	if err := errors.Join(os.RemoveAll(keys), os.Remove(witness)); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{"--accept-loss"}, nil} {
		kit.CheckMessage(t, "lost", kit.Fails(t, dir, flags...), "keyring", "is missing, and the journal has organizations", "parley restore")
	}
	if kit.Exists(keys) {
		t.Error("a refused start made a keyring")
	}
	if faults, means := faultsIn(t, dir); faults["org-keys"] != 1 {
		t.Errorf("%v\n%s", faults, means)
	}
}

// repairs starts a server, which must repair a file of the keyring and log its name.
func repairs(t *testing.T, s *kit.Server, what, file string, orgs ...*kit.Org) {
	t.Helper()
	again, err := kit.Launch(s.Addr, s.Dir)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	for _, o := range orgs {
		again.Grant(t, o.Client, o.Secret).Want(200)
	}
	if err := again.Drain(10 * time.Second); err != nil {
		t.Error(err)
	}
	if said := again.Log.Text(); !strings.Contains(said, "repaired") || !strings.Contains(said, file) {
		t.Errorf("%s: the log does not name the file\n%s", what, said)
	}
	if faults, means := faultsIn(t, s.Dir); len(faults) != 0 {
		t.Errorf("%s: after the repair: %v\n%s", what, faults, means)
	}
}

// TestKillDuringRegistrations kills a server while organizations register, and during its
// first start, when it makes the keyring. Every start after a kill succeeds, and verify
// finds a key for every organization.
func TestKillDuringRegistrations(t *testing.T) {
	const kills = 6
	s := kit.Start(t)
	acked := map[string]*kit.Org{}
	for range kills {
		var mu sync.Mutex
		var clients sync.WaitGroup
		for range 6 {
			clients.Go(func() {
				for {
					slug := kit.FreshSlug()
					challenge := s.Call(t, "", "POST", "/auth/register", obj{"email": slug + "@example.org", "org_slug": slug, "org_name": slug})
					if challenge.Err != nil || challenge.Status != 201 {
						return
					}
					solved := s.Call(t, "", "POST", "/auth/register/solve", challenge.Solution())
					if solved.Err != nil || solved.Status != 201 {
						return
					}
					mu.Lock()
					acked[slug] = &kit.Org{Client: solved.Str("client_id"), Secret: solved.Str("client_secret")}
					mu.Unlock()
				}
			})
		}
		time.Sleep(time.Duration(50+rand.IntN(200)) * time.Millisecond)
		s.Kill()
		clients.Wait()
		if faults, means := faultsIn(t, s.Dir); faults["org-keys"] != 0 {
			t.Fatalf("after a kill: %v\n%s", faults, means)
		}
		s.Restart(t)
	}
	for slug, o := range acked {
		if a := s.Grant(t, o.Client, o.Secret); a.Status != 200 {
			a.Errorf("%s was acknowledged", slug)
		}
	}
	if len(acked) < kills {
		t.Errorf("only %d organizations registered", len(acked))
	}
	if _, a, _ := keyringOf(t, s.Dir); len(kit.ContentOf(t, a)) < 100+49 {
		t.Error("no key was stored")
	}
	if err := s.Drain(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if faults, means := faultsIn(t, s.Dir); len(faults) != 0 {
		t.Errorf("%v\n%s", faults, means)
	}
}

// TestKillDuringTheFirstStart kills a server while it makes journal, master key and
// keyring. The next start completes what is missing.
func TestKillDuringTheFirstStart(t *testing.T) {
	kit.OneServerOnly(t, "it works on the directory of a stopped server")
	whole, cut := 0, 0
	for try := range 16 {
		dir := filepath.Join(t.TempDir(), strconv.Itoa(try))
		s := &kit.Server{Dir: dir}
		if err := s.Begin("127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(try*20) * time.Millisecond)
		s.Kill()
		if kit.Exists(filepath.Join(dir, "journal", "keyring")) {
			whole++
		} else if kit.Exists(filepath.Join(dir, "journal")) {
			cut++
		}
		again, err := kit.Launch("127.0.0.1:0", dir)
		if err != nil {
			t.Fatalf("try %d: %v", try, err)
		}
		again.Org(t)
		if err := again.Drain(10 * time.Second); err != nil {
			t.Error(err)
		}
		if faults, means := faultsIn(t, dir); len(faults) != 0 {
			t.Errorf("try %d: %v\n%s", try, faults, means)
		}
	}
	t.Logf("%d kills before the keyring was complete, %d after", cut, whole)
	if cut == 0 {
		t.Error("no kill came before the keyring was complete")
	}
}

// TestServersShareABackupDirectory: servers with different keyrings do. One that was
// started from a backup, while the old one goes on, is refused, and changes nothing.
func TestServersShareABackupDirectory(t *testing.T) {
	t.Parallel()
	backups := filepath.Join(t.TempDir(), "b")
	first, _, _ := served(t)
	second, _, _ := served(t)
	kit.Succeeds(t, "backup", "--data", first, "--to", backups)
	kit.Succeeds(t, "backup", "--data", second, "--to", backups)
	twin := filepath.Join(t.TempDir(), "twin")
	kit.Succeeds(t, "restore", "--from", backups+"@"+kit.Snapshots(t, backups)[0], "--data", twin)
	register := func(data string) {
		t.Helper()
		s, err := kit.Launch("127.0.0.1:0", data)
		if err != nil {
			t.Fatal(err)
		}
		s.Org(t)
		if err := s.Drain(10 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	register(first)
	register(twin)
	kit.Succeeds(t, "backup", "--data", first, "--to", backups)
	before := kit.Snapshots(t, backups)
	_, said, code := kit.Command(t, "backup", "--data", twin, "--to", backups)
	if kit.CheckMessage(t, "the twin", said, "keys that this keyring does not have", "its own backup directory"); code == 0 {
		t.Error("the twin made a backup")
	}
	if after := kit.Snapshots(t, backups); !slices.Equal(before, after) || len(before) != 3 {
		t.Errorf("the snapshots %q became %q", before, after)
	}
	kit.Succeeds(t, "backup", "--data", twin, "--to", backups+"-of-the-twin")
	for _, snapshot := range before {
		data := filepath.Join(t.TempDir(), snapshot)
		kit.Succeeds(t, "backup", "check", backups+"@"+snapshot)
		kit.Succeeds(t, "restore", "--from", backups+"@"+snapshot, "--data", data)
		if faults, means := faultsIn(t, data); len(faults) != 0 {
			t.Errorf("%s: %v\n%s", snapshot, faults, means)
		}
		serves(t, data)
	}
}
