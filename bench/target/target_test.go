package target

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// role makes the test binary run as a peer program; see play.
const role = "PARLEY_TARGET_TEST_ROLE"

func TestMain(m *testing.M) {
	if part := os.Getenv(role); part != "" {
		play(part)
	}
	os.Exit(m.Run())
}

// play runs a peer that behaves as part says.
func play(part string) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	switch part {
	case "lacking":
		fmt.Fprintln(os.Stderr, "install the database first")
		os.Exit(3)
	case "strange":
		fmt.Println(`{"name":"p","address":"127.0.0.1:1","kind":"telepathy"}`)
		<-stop
	default:
		dir := os.Args[slices.Index(os.Args, "--dir")+1]
		_, before := os.Stat(filepath.Join(dir, "mark"))
		_ = os.WriteFile(filepath.Join(dir, "mark"), nil, 0o600)
		ln, _ := net.Listen("tcp", os.Args[slices.Index(os.Args, "--listen")+1])
		fmt.Println("a line that is no greeting")
		fmt.Printf("{\"name\":\"p\",\"version\":\"%v\",\"address\":\"%s\",\"token\":\"t\",\"kind\":\"plain\"}\n", before == nil, ln.Addr())
		<-stop
	}
	if part == "rude" {
		os.Exit(1)
	}
	os.Exit(0)
}

func newPeer(t *testing.T, part string) *Peer {
	p := &Peer{Binary: os.Args[0], Dir: t.TempDir(), Env: append(os.Environ(), role+"="+part)}
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

func TestPeer(t *testing.T) {
	p := newPeer(t, "polite")
	endpoint, err := p.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if endpoint.Kind != Plain || endpoint.Token != "t" || endpoint.Version != "p false" || len(p.Processes()) != 1 {
		t.Errorf("%+v, processes %v", endpoint, p.Processes())
	}
	conn, err := net.Dial("tcp", endpoint.Address)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if _, err := p.Start(t.Context()); err == nil {
		t.Error("the peer can be started twice")
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if endpoint, err = p.Start(t.Context()); err != nil || endpoint.Version != "p true" {
		t.Errorf("after a restart its directory is missing: %+v, %v", endpoint, err)
	}
	pid := p.Processes()[0]
	if err := p.Kill(); err != nil || syscall.Kill(pid, 0) == nil {
		t.Errorf("killed, but still running: %v", err)
	}
	if err := p.Stop(); err != nil {
		t.Errorf("a process that does not run cannot be stopped: %v", err)
	}
}

// A database that runs as another user gets to its files also if the bench was started
// with a strict umask, as parley bench starts it.
func TestPeerDirectoryIsOpenToOtherUsers(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	p := newPeer(t, "polite")
	p.Dir = filepath.Join(p.Dir, "beside-p")
	if _, err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{p.Dir, filepath.Join(p.Dir, "data")} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", dir, info.Mode(), err)
		}
	}
}

func TestPeerThatCannotStartSaysWhy(t *testing.T) {
	for part, why := range map[string]string{"lacking": "install the database first", "strange": "telepathy"} {
		if _, err := newPeer(t, part).Start(t.Context()); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", part, err)
		}
	}
	absent := &Peer{Binary: "/no/such/program", Dir: t.TempDir()}
	if _, err := absent.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("%v", err)
	}
}

func TestDisorderlyEndIsReported(t *testing.T) {
	p := newPeer(t, "rude")
	if _, err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("%v", err)
	}
	p = newPeer(t, "polite")
	if _, err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	killGroup(p.running.cmd.Process)
	select {
	case <-p.running.exited:
	case <-time.After(5 * time.Second):
		t.Fatal("the peer does not end")
	}
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "gone before it was stopped") {
		t.Errorf("%v", err)
	}
}

func TestRemote(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1:80": "127.0.0.1:80", "http://example.org/": "example.org:80", "http://[::1]:9": "[::1]:9",
		"https://example.org": "", "http://": "", "127.0.0.1:80": "", "http://a/b": "", "http://u@a": "",
	} {
		got, err := hostPort(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	r := &Remote{Label: "r", URL: "http://127.0.0.1:1", PID: 7}
	if !errors.Is(r.Kill(), ErrNotOurs) || r.Stop() != nil || !slices.Equal(r.Processes(), []int{7}) {
		t.Error("a server that the bench did not start is not left alone")
	}
}
