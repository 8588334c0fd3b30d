package e2ee

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"parley/client/parley"
	"parley/client/secretfile"
)

const somewhere = "http://127.0.0.1:1"

func testPin(n int) *Pin {
	id := parley.AgentID{1, byte(n >> 16), byte(n >> 8), byte(n)}
	return &Pin{Handle: fmt.Sprintf("agent-%d@acme.localhost", n), AgentID: id, SigningKid: "s", EncryptionKid: "e", UsedAt: time.Unix(int64(n), 0).UTC()}
}

func keep(t *testing.T, p *Pins, was, is *Pin) []pinChange {
	t.Helper()
	stale, err := p.apply(somewhere, []pinChange{{was, is}})
	if err != nil {
		t.Fatal(err)
	}
	return stale
}

func TestPinsAreKept(t *testing.T) {
	rings := filepath.Join(t.TempDir(), "keys")
	p := OpenPins(rings)
	if pin, err := p.Find(somewhere, "agent-1@acme.localhost"); pin != nil || err != nil {
		t.Fatalf("nothing was pinned: %+v %v", pin, err)
	}
	first := testPin(1)
	keep(t, p, nil, first)
	for _, opened := range []*Pins{p, OpenPins(rings)} {
		pin, err := opened.Find(somewhere, "AGENT-1@acme.localhost")
		if err != nil || !pin.same(first) {
			t.Fatalf("%+v %v", pin, err)
		}
		if pin, err := opened.FindAgent(somewhere, first.AgentID); err != nil || !pin.same(first) {
			t.Fatalf("by id: %+v %v", pin, err)
		}
		if pin, err := opened.Find("http://127.0.0.1:2", first.Handle); pin != nil || err != nil {
			t.Fatalf("on another server: %+v %v", pin, err)
		}
	}
	// A change of the returned pin does not change the stored one.
	got, _ := p.Find(somewhere, first.Handle)
	got.EncryptionKid = "changed"
	if pin, _ := p.Find(somewhere, first.Handle); !pin.same(first) {
		t.Fatal("a pin changed without being applied")
	}
	path := filepath.Join(rings, pinsDirectory, pinsFile)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info.Mode(), err)
	}
	if rings, err := filepath.Glob(filepath.Join(rings, "*.json")); err != nil || len(rings) != 0 {
		t.Fatalf("the pins were read as key rings: %v %v", rings, err)
	}
	if runtime.GOOS != "windows" {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenPins(rings).Find(somewhere, first.Handle); !errors.Is(err, secretfile.ErrOpenToOthers) {
			t.Fatalf("a file that others may change: %v", err)
		}
	}
}

// TestDamagedPinsAreRefused: damaged pins are an error. They are never treated as no
// pins.
func TestDamagedPinsAreRefused(t *testing.T) {
	for _, text := range []string{"{", `{"version":2}`, `{"version":1,"servers":{"x":{"a":null}}}`, `{"version":1,"servers":{"x":{"a":{"handle":"b"}}}}`} {
		rings := t.TempDir()
		path := filepath.Join(rings, pinsDirectory, pinsFile)
		if err := secretfile.Replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenPins(rings).Find(somewhere, "a"); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestPinsOfSeveralProcesses: if two processes pin the same agent at once, the second
// compares its keys with the first pin.
func TestPinsOfSeveralProcesses(t *testing.T) {
	rings := t.TempDir()
	var all sync.WaitGroup
	var mu sync.Mutex
	first := 0
	for n := range 20 {
		all.Go(func() {
			own := testPin(n + 100)
			shared := testPin(1)
			shared.EncryptionKid = fmt.Sprint("e", n)
			p := OpenPins(rings)
			stale, err := p.apply(somewhere, []pinChange{{nil, own}, {nil, shared}})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if len(stale) == 0 {
				first++
			}
		})
	}
	all.Wait()
	if first != 1 {
		t.Errorf("%d processes were first to pin one agent", first)
	}
	p := OpenPins(rings)
	for n := range 20 {
		if pin, err := p.Find(somewhere, testPin(n+100).Handle); err != nil || pin == nil {
			t.Errorf("the pin of process %d is lost: %v", n, err)
		}
	}
}

// TestPinsAreBounded: pins of strangers do not displace the pin of an agent to which a
// message was sent.
func TestPinsAreBounded(t *testing.T) {
	pins := map[string]*Pin{}
	friend := testPin(0)
	friend.WroteTo = true
	pins[friend.Handle] = friend
	for n := 1; n <= 2*pinsMax; n++ {
		next := testPin(n)
		if err := makeRoom(pins, next); err != nil {
			t.Fatal(err)
		}
		pins[next.Handle] = next
	}
	if len(pins) != pinsMax || pins[friend.Handle] == nil || pins[testPin(2*pinsMax).Handle] == nil || pins[testPin(1).Handle] != nil {
		t.Fatalf("%d pins", len(pins))
	}
	for _, pin := range pins {
		pin.WroteTo = true
	}
	if err := makeRoom(pins, testPin(5)); !errors.Is(err, ErrPinsFull) {
		t.Fatalf("with messages sent to all: %v", err)
	}
	if err := makeRoom(pins, friend); err != nil {
		t.Fatalf("an agent that is pinned already: %v", err)
	}
	many := testPin(1)
	for n := range 3 * formerKeysMax {
		many.addFormer(FormerKey{SigningKid: fmt.Sprint(n)})
	}
	if len(many.Former) != formerKeysMax || many.Former[formerKeysMax-1].SigningKid != fmt.Sprint(3*formerKeysMax-1) {
		t.Fatalf("%d former keys", len(many.Former))
	}
}
