package persistence

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"parley/journal"
	"parley/persistence/disk"
	"parley/persistence/keyring"
)

// keyringFaults is a directory with a store and a keyring, of which only the keyring's
// files fail.
type keyringFaults struct {
	t    *testing.T
	base *vfs.MemFS
}

const keyringFaultKeys = 12

func newKeyringFaults(t *testing.T) *keyringFaults {
	x := &keyringFaults{t, vfs.NewCrashableMem()}
	s := mustOpen(t, "d", testOptions(x.base, 1))
	keyringIn(t, x.base, s)
	mustClose(t, s)
	return x
}

func (x *keyringFaults) open(fs vfs.FS) (s *Store, k *keyring.Keyring, err error) {
	opts := testOptions(fs, 1)
	opts.OpenKeyring = func(witnessed disk.KeyringState) (_ Keyring, err error) {
		k, err = keyring.Open(fs, "d/"+KeyringName, keyringWrapping, keyring.Options{Witnessed: witnessed})
		return k, err
	}
	s, err = Open("d", opts)
	return s, k, err
}

// run makes keys and appends entries beside them, and returns what was wrong. Every key
// is tried until it is stored; lies is the control, which believes in keys that failed.
func (x *keyringFaults) run(f fault, counts map[string]int64, lies bool) (refused int, faults []string) {
	complain := func(format string, args ...any) {
		faults = append(faults, f.String()+": "+fmt.Sprintf(format, args...))
	}
	mem := x.base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: seeded(1)})
	d := &faulty{fault: f, counts: counts}
	s, k, err := x.open(errorfs.Wrap(mem, d))
	if err != nil {
		if f.err == nil || !errors.Is(err, f.err) || errors.Is(err, ErrDamaged) {
			complain("it does not open: %v", err)
		}
		return 1, faults
	}
	if err := startQuietly(s); err != nil {
		x.t.Fatal(err)
	}
	stream := newStream(1)
	activation := activated(x.t, s, stream)
	acked := map[byte]keyring.Key{}
	for n := range byte(keyringFaultKeys) {
		key, err := k.Create(orgOf(n))
		for tries := 0; err != nil && !lies && tries < 3; tries++ {
			if refused++; f.err == nil || !errors.Is(err, f.err) {
				complain("a key was refused with %v", err)
			}
			if tries == 1 {
				d.mended.Store(true)
			}
			key, err = k.Create(orgOf(n))
		}
		if err != nil && !lies {
			complain("the disk is repaired, and a key is refused with %v", err)
			continue
		}
		acked[n] = key
		e := &journal.Entry{Slot: stream.Slot(), Stream: stream, Activation: activation, Expect: uint64(n), Events: []journal.StoredEvent{{Tag: 1}}}
		if err := <-appended(s, e); err != nil {
			complain("an entry was refused with %v", err)
		}
	}
	for _, kept := range []int{100, 0} {
		image := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: seeded(1)})
		after, k, err := x.open(image)
		if err != nil {
			complain("with %d%% of the unsynced data it does not open: %v", kept, err)
			continue
		}
		for n, key := range acked {
			if found, state := k.Key(orgOf(n)); state != keyring.Live || found != key {
				complain("lost: with %d%% of the unsynced data the key of organization %d", kept, n)
			}
		}
		mustClose(x.t, after)
	}
	mustClose(x.t, s)
	return refused, faults
}

// TestDiskFaultsOfKeyring makes the disk fail at operations of every kind on the keyring's
// files. No key is acknowledged that is not stored, the store goes on, and keys are made
// again when the cause is gone.
func TestDiskFaultsOfKeyring(t *testing.T) {
	unraced(t)
	t.Parallel()
	x := newKeyringFaults(t)
	counts := map[string]int64{}
	if _, faults := x.run(fault{}, counts, false); len(faults) > 0 {
		t.Fatalf("without a fault: %q", faults)
	}
	tried, refusals, unnoticed := map[string]int{}, 0, 0
	for what, n := range counts {
		if !strings.HasSuffix(what, " of keyring") || strings.HasPrefix(what, "close") {
			continue
		}
		for _, at := range faultPlaces(n) {
			for _, err := range []error{errIO, errNoSpace} {
				for _, forever := range []bool{true, false} {
					refused, faults := x.run(fault{what, at, forever, err}, nil, false)
					tried[what], refusals = tried[what]+1, refusals+min(refused, 1)
					for _, f := range faults {
						t.Error(f)
					}
				}
				if _, faults := x.run(fault{what, at, true, err}, nil, true); len(faults) == 0 {
					unnoticed++
				}
			}
		}
	}
	t.Logf("%v, %d runs with a refusal; %d runs of the control were not noticed", tried, refusals, unnoticed)
	for _, what := range []string{"create of keyring", "write of keyring", "sync of keyring", "rename of keyring"} {
		if tried[what] == 0 {
			t.Errorf("no %s failed: %v", what, tried)
		}
	}
	if refusals == 0 || unnoticed > refusals/2 {
		t.Error("refusals are not noticed, or the control is not")
	}
}
