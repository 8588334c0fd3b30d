package http

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/actors"
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
		for _, old := range []time.Duration{0, month - time.Hour, month + time.Hour, month + time.Hour + keyPublication} {
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
