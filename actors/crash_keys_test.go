package actors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/crashtest"
	"parley/persistence/disk"
	"parley/persistence/keyring"
)

// keyCrash registers organizations on a node whose keyring lies in its journal's
// directory, so that a power failure cuts both at one instant.
type keyCrash struct {
	t *testing.T
	// late is the control: keys are made after their organizations.
	late bool

	mu    sync.Mutex
	acked []parley.OrgID
}

const crashKeyring = crashDir + "/" + persistence.KeyringName

var crashWrapping = bytes.Repeat([]byte{7}, keyring.WrappingKeyBytes)

func (x *keyCrash) known() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.acked)
}

// open opens the keyring and the store of a disk.
func (x *keyCrash) open(fs vfs.FS, o persistence.Options) (s *persistence.Store, k *keyring.Keyring, err error) {
	o.FS, o.Clock, o.Logger = fs, newWorkload(x.t, 1).clock, slog.New(slog.DiscardHandler)
	o.Fatal = func(err error) { panic(err) }
	smallFiles(&o)
	o.OpenKeyring = func(witnessed disk.KeyringState) (persistence.Keyring, error) {
		k, err = keyring.Open(fs, crashKeyring, crashWrapping, keyring.Options{Witnessed: witnessed})
		return k, err
	}
	s, err = persistence.Open(crashDir, o)
	return s, k, err
}

// run registers organizations, from several clients at a time, and returns what was wrong
// with the images.
func (x *keyCrash) run(orgs int) (tally crashtest.Tally, faults []string) {
	mem := vfs.NewCrashableMem()
	s, err := persistence.Open(crashDir, persistence.Options{FS: mem, Clock: newWorkload(x.t, 1).clock, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = errors.Join(s.Close(), keyring.Make(mem, crashKeyring, crashWrapping, nil))
	}
	if err != nil {
		x.t.Fatal(err)
	}
	d := crashtest.NewDisk(mem, crashDir, 1, x.known)
	var inspecting sync.WaitGroup
	var mu sync.Mutex
	for range runtime.GOMAXPROCS(0) {
		inspecting.Go(func() {
			for i := range d.Images() {
				found := x.inspect(i)
				mu.Lock()
				faults = append(faults, found...)
				mu.Unlock()
			}
		})
	}
	s, k, err := x.open(d.FS(), persistence.Options{})
	if err != nil {
		x.t.Fatal(err)
	}
	w := newWorkload(x.t, 1)
	o := Options{Journal: s.Journal, Clock: w.clock, Entropy: w.entropy, Logger: slog.New(slog.DiscardHandler)}
	if !x.late {
		o.NewKey = func(id parley.OrgID) error { _, err := k.Create(id); return err }
	}
	n := New(o)
	if err := n.Start(); err != nil {
		x.t.Fatal(err)
	}
	var clients sync.WaitGroup
	for c := range 4 {
		clients.Go(func() {
			for i := range orgs / 4 {
				x.register(n, k, fmt.Sprintf("org-%d-%d", c, i))
			}
		})
	}
	clients.Wait()
	n.Close()
	if err := s.Close(); err != nil {
		x.t.Error(err)
	}
	tally = d.Stop()
	inspecting.Wait()
	return tally, faults
}

func (x *keyCrash) register(n *Node, k *keyring.Keyring, slug string) {
	one, err := challengeFor(n, slug, slug, 0, time.Hour)
	if err != nil {
		x.t.Error(err)
		return
	}
	var made Registered
	for range 1000 { // the recording of images makes the disk slow
		made, err = n.Orgs.Register(context.Background(), Solution{Challenge: one, Nonce: "n", Tier: 1, SecretHash: []byte("hash")})
		if !errors.Is(err, parley.ErrOverloaded) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err == nil && x.late {
		_, err = k.Create(made.Org.OrgID())
	}
	if err != nil {
		x.t.Error(err)
		return
	}
	x.mu.Lock()
	x.acked = append(x.acked, made.Org.OrgID())
	x.mu.Unlock()
}

// inspect opens an image: every organization in it has a live key, and all that were
// acknowledged are there.
func (x *keyCrash) inspect(i crashtest.Image) (faults []string) {
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf("before %s, %d%% kept: ", i.Op, i.Kept)+fmt.Sprintf(format, args...))
	}
	s, k, err := x.open(i.FS, persistence.Options{})
	if err != nil {
		fault("it does not open: %v", err)
		return faults
	}
	defer func() { _ = s.Close() }()
	v := s.View()
	defer v.Close()
	there := map[parley.OrgID]bool{}
	err = v.Table(journal.SlugTable, func(_, id []byte) bool {
		org := parley.IDFromBytes[parley.OrgID](id)
		there[org] = true
		if _, state := k.Key(org); state != keyring.Live {
			fault("an organization has no key")
		}
		return true
	})
	if err != nil {
		fault("%v", err)
	}
	x.mu.Lock()
	acked := x.acked[:i.Known:i.Known]
	x.mu.Unlock()
	for _, org := range acked {
		if !there[org] {
			fault("an acknowledged organization is missing")
		}
	}
	return faults
}

// TestCrashKeys: whenever the power fails, every organization that exists has its key,
// and the keyring has what the durability witness records.
func TestCrashKeys(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	tally, faults := (&keyCrash{t: t}).run(12)
	t.Log(tally)
	if tally.Before["keyring"] < 50 || tally.Before["log"] == 0 || tally.Before["witness"] == 0 {
		t.Errorf("too few images of the keyring, the log or the witness: %v", tally.Before)
	}
	for _, f := range faults[:min(len(faults), 10)] {
		t.Error(f)
	}
}

// TestCrashKeysControl: with keys made after their organizations, images have
// organizations without a key.
func TestCrashKeysControl(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	if _, faults := (&keyCrash{t: t, late: true}).run(8); !strings.Contains(strings.Join(faults, "\n"), "has no key") {
		t.Errorf("nothing was noticed: %q", faults)
	}
}

// TestNoKeyNoOrganization: if the key of an organization cannot be stored, or the journal
// would refuse the organization, nothing happens, and the solution can be used again.
func TestNoKeyNoOrganization(t *testing.T) {
	broken, made := true, 0
	refusing := &refusingJournal{}
	r := newTestNode(t, withWrap(func(j journal.Journal) journal.Journal { refusing.Journal = j; return journal.Of(refusing) }), withTuning(func(n *Node) {
		n.newKey = func(parley.OrgID) error {
			made++
			if broken {
				return errors.New("no space left")
			}
			return nil
		}
	}))
	one := must(r.challenge("acme"))(t)
	if _, err := r.solve(one); !errors.Is(err, parley.ErrOverloaded) || made != 1 {
		t.Errorf("without a key: %v, %d attempts", err, made)
	}
	if _, err := r.node.Orgs.BySlug(t.Context(), "acme"); !errors.Is(err, parley.ErrNotFound) {
		t.Errorf("without a key the organization exists: %v", err)
	}
	broken, refusing.refuses = false, true
	if _, err := r.solve(one); !errors.Is(err, parley.ErrOverloaded) || made != 1 {
		t.Errorf("with a full journal: %v, %d attempts", err, made)
	}
	refusing.refuses = false
	if _, err := r.solve(one); err != nil || made != 2 {
		t.Errorf("the second time: %v, %d attempts", err, made)
	}
}

// refusingJournal admits nothing if it is told so.
type refusingJournal struct {
	journal.Journal
	refuses bool
}

func (j *refusingJournal) Overloaded() *parley.Refusal {
	if j.refuses {
		return parley.ErrOverloaded
	}
	return j.Journal.Overloaded()
}
