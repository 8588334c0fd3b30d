package operator

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// adminRequest calls an admin address as any local program could. It returns the status
// and the body.
func adminRequest(t testing.TB, method, address string, headers ...string) (status int, said string) {
	t.Helper()
	req, err := http.NewRequest(method, address, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := kit.AdminClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// privilegedCalls are calls that change something or reveal the inside of the process.
var privilegedCalls = [][2]string{
	{"GET", "/orgs/acme"},
	{"POST", "/orgs/acme/tier"},
	{"POST", "/orgs/acme/quota"},
	{"POST", "/backup"},
	{"GET", "/debug/pprof/"},
	{"GET", "/debug/pprof/goroutine?debug=2"},
	{"GET", "/debug/pprof/heap"},
	{"GET", "/debug/pprof/profile?seconds=1"},
	{"GET", "/debug/pprof/cmdline"},
	{"GET", "/nothing"},
}

// TestOperatorCallsNeedTheToken: without the token, a caller that reaches the admin
// address can read metrics and readiness, and nothing else.
func TestOperatorCallsNeedTheToken(t *testing.T) {
	admin := kit.FreeAddress(t)
	s := kit.Start(t, "--admin-listen", admin, "--tier1", "email", "--smtp-url", "smtp://mailer:Canary-SMTP-password@127.0.0.1:1")
	info, err := os.Stat(filepath.Join(s.Dir, "admin.token"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("admin.token: %v %v", info.Mode(), err)
	}
	token := s.AdminToken(t)
	for _, path := range []string{"/metrics", "/livez", "/readyz"} {
		if status, _ := adminRequest(t, "GET", "http://"+admin+path); status != 200 {
			t.Errorf("%s without a token: %d", path, status)
		}
	}
	for _, call := range privilegedCalls {
		for _, presented := range []string{"", "Bearer ", "Bearer x", "Bearer " + token + "x", "Bearer " + token[:len(token)-1], "Basic " + token, token} {
			headers := []string{"Content-Type", "application/json"}
			if presented != "" {
				headers = append(headers, "Authorization", presented)
			}
			if status, said := adminRequest(t, call[0], "http://"+admin+call[1], headers...); status != 401 || !strings.Contains(said, "token of an operator") {
				t.Errorf("%v with %q: %d %s", call, presented, status, said)
			}
		}
	}
	// Profiles need the token. The command line is never shown.
	for path, want := range map[string]int{"/debug/pprof/": 200, "/debug/pprof/goroutine?debug=2": 200, "/debug/pprof/cmdline": 404, "/nothing": 404} {
		status, said := adminRequest(t, "GET", "http://"+admin+path, "Authorization", "Bearer "+token)
		if status != want || strings.Contains(said, "Canary") {
			t.Errorf("%s with the token: %d %s", path, status, said)
		}
	}
	s.Kill()
	s.Restart(t)
	if s.AdminToken(t) != token {
		t.Error("a restart created another token")
	}
	if strings.Contains(s.Log.Text(), "Canary") || strings.Contains(s.Log.Text(), token) {
		t.Error("the log contains a secret")
	}
}

// TestPagesCannotReachTheAdminListener: the server rejects requests whose Host is a
// foreign name that resolves to this machine, and requests that the browser marks as
// cross-origin, with or without the token.
func TestPagesCannotReachTheAdminListener(t *testing.T) {
	kit.OneServerOnly(t, "its nodes would share an address for metrics")
	admin, metrics := kit.FreeAddress(t), kit.FreeAddress(t)
	s := kit.Start(t, "--admin-listen", admin, "--admin-hosts", "ops.example,OTHER.example", "--metrics-listen", metrics)
	_, port, _ := strings.Cut(admin, ":")
	bearer := []string{"Authorization", "Bearer " + s.AdminToken(t)}
	for host, want := range map[string]int{
		"evil.example": 403, "evil.example:" + port: 403, "127.0.0.1.evil.example": 403, "localhost.evil.example": 403, "192.0.2.1": 403,
		"0.0.0.0": 403, "evil.example:80:" + port: 403, "::1.evil.example": 403, "sub.ops.example": 403,
		admin: 200, "localhost": 200, "LOCALHOST:" + port: 200, "127.0.0.1": 200, "127.9.9.9:1": 200, "[::1]:" + port: 200, "[::1]": 200,
		"ops.example": 200, "ops.example:" + port: 200, "other.example": 200,
	} {
		for _, path := range []string{"/metrics", "/readyz", "/debug/pprof/"} {
			if status, said := adminRequest(t, "GET", "http://"+admin+path, append(bearer, "Host", host)...); status != want {
				t.Errorf("%s as %q: %d %s", path, host, status, said)
			}
		}
	}
	for site, want := range map[string]int{"cross-site": 403, "same-site": 403, "odd": 403, "same-origin": 200, "none": 200} {
		if status, _ := adminRequest(t, "GET", "http://"+admin+"/debug/pprof/", append(bearer, "Sec-Fetch-Site", site)...); status != want {
			t.Errorf("Sec-Fetch-Site: %s: %d", site, status)
		}
	}
	for path, want := range map[string]int{"/metrics": 200, "/readyz": 200, "/livez": 200, "/debug/pprof/": 404, "/orgs/acme": 404, "/backup": 404} {
		if status, _ := adminRequest(t, "GET", "http://"+metrics+path, bearer...); status != want {
			t.Errorf("%s at the metrics address: %d", path, status)
		}
	}
	s.Call(t, "", "GET", "/readyz", nil).Want(200).Is("status", "ready", "reason", nil)
}

// TestTheCommandFindsTheToken: the command reads the token from the data directory or the
// environment variable. If it finds none, it says what to do.
func TestTheCommandFindsTheToken(t *testing.T) {
	admin := kit.FreeAddress(t)
	s := kit.Start(t, "--admin-listen", admin)
	o, other := s.Org(t), kit.Start(t)
	url := "http://" + admin
	if got := kit.Succeeds(t, "org", "show", o.Slug, "--admin", url, "--data", s.Dir); kit.Text(got, "id") != o.ID {
		t.Errorf("shown: %v", got)
	}
	for what, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no token":      {[]string{"org", "show", o.Slug, "--admin", url}, 4, "parley-data/admin.token does not exist"},
		"another's":     {[]string{"org", "show", o.Slug, "--admin", url, "--data", other.Dir}, 4, "does not accept the admin token of " + other.Dir},
		"of a backup":   {[]string{"backup", "--to", t.TempDir(), "--admin", url}, 4, "PARLEY_ADMIN_TOKEN"},
		"no such place": {[]string{"org", "show", o.Slug, "--admin", "x", "--data", s.Dir}, 2, "--admin"},
	} {
		if _, said, code := kit.Command(t, c.args...); code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%s: exit code %d, %s", what, code, said)
		}
	}
	if err := os.Chmod(filepath.Join(s.Dir, "admin.token"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, said, code := kit.Command(t, "org", "show", o.Slug, "--admin", url, "--data", s.Dir); code == 0 || !strings.Contains(said, "chmod 600") {
		t.Errorf("a token that other users may read: exit code %d, %s", code, said)
	}
	s.Kill()
	if said := kit.Fails(t, s.Dir); !strings.Contains(said, "chmod 600") {
		t.Errorf("a server starts with a token that other users may read: %s", said)
	}
}

// TestBackupsStayInAllowedDirectories: even with the token, the server writes backups
// only below the allowed directory, and not where other users could interfere.
func TestBackupsStayInAllowedDirectories(t *testing.T) {
	admin, top := kit.FreeAddress(t), t.TempDir()
	allowed := filepath.Join(top, "allowed")
	free := kit.Start(t, "--admin-listen", admin)
	open := filepath.Join(top, "open")
	if err := errors.Join(os.Mkdir(allowed, 0o755), os.Mkdir(open, 0o755), os.Chmod(open, 0o777), os.Symlink(allowed, filepath.Join(top, "link"))); err != nil {
		t.Fatal(err)
	}
	ask := func(s *kit.Server, admin, to string, want int) {
		t.Helper()
		operator := &kit.Server{Base: "http://" + admin, Addr: admin}
		if a := operator.Call(t, s.AdminToken(t), "POST", "/backup", obj{"to": to, "keep": 1}); a.Err != nil || a.Status != want {
			a.Errorf("a backup to %s: want %d", to, want)
		}
	}
	for _, to := range []string{open, filepath.Join(open, "new"), filepath.Join(top, "link")} {
		ask(free, admin, to, 403)
	}
	if left, err := os.ReadDir(open); err != nil || len(left) > 0 {
		t.Errorf("a refused backup left %v (%v)", left, err)
	}
	bound := kit.FreeAddress(t)
	s := kit.Start(t, "--admin-listen", bound, "--backup-dir", allowed)
	for _, to := range []string{filepath.Join(top, "elsewhere"), top, allowed + "-not", filepath.Join(allowed, "..", "elsewhere")} {
		ask(s, bound, to, 403)
		if kit.Exists(filepath.Join(top, "elsewhere")) {
			t.Fatalf("%s was created", to)
		}
	}
	// Two servers share a directory, and each keeps a subdirectory of its own.
	shared := filepath.Join(allowed, "shared")
	for range 2 {
		ask(free, admin, shared, 200)
		ask(s, bound, shared, 200)
	}
	if listed := kit.Snapshots(t, shared); len(listed) != 2 {
		t.Errorf("the list has %q, want one of each server", listed)
	}
	for _, name := range kit.Snapshots(t, shared) {
		kit.Succeeds(t, "backup", "check", shared+"@"+name)
	}
}

// TestNoFileIsEverReadableByOthers watches the files of a backup while it is written.
// Setting the mode after creating a file would be too late.
func TestNoFileIsEverReadableByOthers(t *testing.T) {
	admin, top := kit.FreeAddress(t), t.TempDir()
	s := kit.Start(t, "--admin-listen", admin)
	a, b := kit.Pair(t, s)
	a.Send(b)
	w := watchModes(top, s.Dir)
	for i := range 6 {
		before := w.looks.Load()
		kit.Succeeds(t, "backup", "--to", filepath.Join(top, "b"+strconv.Itoa(i)), "--admin", "http://"+admin, "--data", s.Dir)
		for deadline := time.Now().Add(10 * time.Second); w.looks.Load() == before && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
	}
	if file := w.end(); file != "" {
		t.Errorf("other users could read %s", file)
	}
	if w.looks.Load() == 0 {
		t.Error("the watch made no scan")
	}
}

// TestNoFileIsEverReadableByOthersControl sets the mode of a file after creating it.
func TestNoFileIsEverReadableByOthersControl(t *testing.T) {
	top := t.TempDir()
	path := filepath.Join(top, "master.key")
	w := watchModes(top)
	for deadline := time.Now().Add(20 * time.Second); len(w.seen) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("a file that other users could read at first was not found")
		}
		err := os.WriteFile(path, []byte("secret"), 0o644)
		if err = errors.Join(err, os.Chmod(path, 0o644), os.Chmod(path, 0o600), os.Remove(path)); err != nil {
			t.Fatal(err)
		}
	}
	if file := w.end(); !strings.HasPrefix(file, path) {
		t.Errorf("the watch found %q", file)
	}
}

// modeWatch scans all files below directories repeatedly until it finds one that other
// users have a permission on.
type modeWatch struct {
	looks atomic.Int64
	stop  chan struct{}
	seen  chan string
}

func watchModes(roots ...string) *modeWatch {
	w := &modeWatch{stop: make(chan struct{}), seen: make(chan string, 1)}
	go func() {
		defer close(w.seen)
		for {
			for _, root := range roots {
				if file := readable(root, &w.looks); file != "" {
					w.seen <- file
					return
				}
			}
			select {
			case <-w.stop:
				return
			default:
			}
		}
	}()
	return w
}

// end stops the scan and returns the path it found, or "".
func (w *modeWatch) end() string {
	close(w.stop)
	return <-w.seen
}

// readable returns a file or directory below root that other users have a permission on,
// or "".
func readable(root string, looks *atomic.Int64) (found string) {
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return nil // removed during the scan
		}
		if info, err := d.Info(); err == nil {
			looks.Add(1)
			if info.Mode().Perm()&0o077 != 0 {
				found = fmt.Sprintf("%s (%v)", path, info.Mode())
				return fs.SkipAll
			}
		}
		return nil
	})
	return found
}
