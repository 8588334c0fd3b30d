package journaltest

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/disk"
)

// Pair is a key and its value as a store stores them.
type Pair struct{ Key, Value []byte }

// Fill creates the directory of a store with exactly these pairs, whichever release wrote
// them. It has no witness: open it with AcceptLoss.
func Fill(dir string, pairs []Pair) error {
	db, err := pebble.Open(dir, &pebble.Options{
		FormatMajorVersion: disk.EngineFormat, Logger: silent{},
		// Values are merged already; the engine only compares the merger's name.
		Merger: &pebble.Merger{Name: "parley.v1", Merge: pebble.DefaultMerger.Merge},
	})
	if err != nil {
		return err
	}
	batch := db.NewBatch()
	for _, p := range pairs {
		err = errors.Join(err, batch.Set(p.Key, p.Value, nil))
	}
	return errors.Join(err, batch.Commit(pebble.Sync), db.Close())
}

// silent drops the engine's messages, except errors.
type silent struct{}

func (silent) Infof(string, ...any)         {}
func (silent) Errorf(string, ...any)        {}
func (silent) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }
