package http

import (
	"crypto/ed25519"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/actors"
	"parley/actors/issuer"
	"parley/client/parley"
	"parley/http/auth"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/seal/sealtest"
	"parley/persistence/sealed"
)

// TestSigningKeyLifetimeIsApplied: a key is replaced at the age that the operator set.
// By default it lives longer.
func TestSigningKeyLifetimeIsApplied(t *testing.T) {
	const month = 30 * 24 * time.Hour
	for lifetime, replaced := range map[time.Duration]bool{month: true, 0: false} {
		entropy, logger, began := parley.CountingEntropy(), slog.New(slog.DiscardHandler), time.Now()
		var age atomic.Int64 // the node's goroutines read the clock too
		clock := func() time.Time { return began.Add(time.Duration(age.Load())) }
		store, err := persistence.Open("data", persistence.Options{FS: vfs.NewMem(), Clock: time.Now, Logger: logger, CacheBytes: 8 << 20, MemTableBytes: 8 << 20})
		if err != nil {
			t.Fatal(err)
		}
		n := actors.New(actors.Options{Journal: journal.Of(&harnessJournal{Journal: sealed.New(store.Journal, sealtest.Sealer())}), Clock: clock, Entropy: entropy, Logger: logger})
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close(); _ = store.Close() })
		master, err := auth.NewMasterKey(make([]byte, 32))
		if err != nil {
			t.Fatal(err)
		}
		kids := map[string]bool{}
		for _, old := range []time.Duration{0, month - time.Hour, month + time.Hour, month + time.Hour + parley.SigningKeyPublication} {
			age.Store(int64(old))
			keys, err := SigningKeys(t.Context(), n.Keys, master, lifetime, clock, entropy)
			if err != nil {
				t.Fatal(err)
			}
			kids[keys.Current.Kid] = true
			if want := old > month+time.Hour && replaced; (len(kids) == 2) != want {
				t.Errorf("with a lifetime of %v, after %v, %d keys have signed", lifetime, old, len(kids))
			}
		}
	}
}

// TestRotatedKeySigns: a key that an operator rotates to signs once verifiers have it, also if
// another rotation follows, or at once if the operator says so.
func TestRotatedKeySigns(t *testing.T) {
	master, err := auth.NewMasterKey(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	began, entropy := time.UnixMilli(1_700_000_000_000).UTC(), parley.CountingEntropy()
	state, kids := &issuer.State{}, map[string]string{}
	mint := func(name string, after time.Duration, atOnce bool) {
		seed := auth.NewSeed(entropy)
		public := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
		kid := parley.Thumbprint(parley.Ed25519, public)
		events, err := issuer.Decide(state, issuer.Mint{Kid: kid, Public: public, SealedSeed: master.SealSeed(kid, seed), Force: true, AtOnce: atOnce}, began.Add(after))
		if err != nil || len(events) != 1 {
			t.Fatalf("%v, %v", events, err)
		}
		issuer.Evolve(state, events[0])
		kids[kid] = name
	}
	signs := func(after time.Duration, want string, published int) {
		t.Helper()
		set, err := keySet(state, master, began.Add(after))
		if err != nil || kids[set.Current.Kid] != want || len(set.Others) != published-1 {
			t.Errorf("after %v %q signs instead of %q, and %d others are published, %v", after, kids[set.Current.Kid], want, len(set.Others), err)
		}
	}
	const wait = parley.SigningKeyPublication
	mint("first", 0, false)
	signs(0, "first", 1)
	mint("second", time.Minute, false)
	signs(time.Minute, "first", 2)
	mint("third", 30*time.Minute, false)
	signs(wait+time.Minute-time.Millisecond, "first", 3)
	signs(wait+time.Minute, "second", 3)
	signs(wait+30*time.Minute, "third", 3)
	mint("fourth", 3*time.Hour, true)
	signs(3*time.Hour, "fourth", 4)
}
