package disk

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestEngineFormat: the pinned number means what it meant when it was chosen, the
// engine still opens it, and a new directory has it.
func TestEngineFormat(t *testing.T) {
	if EngineFormat != pebble.FormatValueSeparation {
		t.Fatalf("the number %d means another format: FormatValueSeparation is %d now", EngineFormat, pebble.FormatValueSeparation)
	}
	fs := vfs.NewMem()
	db, err := pebble.Open("d", &pebble.Options{FS: fs, FormatMajorVersion: EngineFormat, Logger: silent{t}})
	if err != nil {
		t.Fatal(err)
	}
	if got := db.FormatMajorVersion(); got != EngineFormat {
		t.Errorf("the directory has format %d, want %d", got, EngineFormat)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestStoreEngineFormat: Pebble begins a new directory in the pinned format. Otherwise its
// first write-ahead log is in an earlier one, which the last case shows.
func TestStoreEngineFormat(t *testing.T) {
	for _, stored := range []bool{true, false} {
		fs, raised := vfs.NewMem(), false
		if stored {
			for range 2 { // once more after a crash before Pebble opened it
				if err := errors.Join(fs.MkdirAll("d", 0o700), StoreEngineFormat(fs, "d")); err != nil {
					t.Fatal(err)
				}
			}
		}
		listener := &pebble.EventListener{FormatUpgrade: func(pebble.FormatMajorVersion) { raised = true }}
		db, err := pebble.Open("d", &pebble.Options{FS: fs, FormatMajorVersion: EngineFormat, Logger: silent{t}, EventListener: listener})
		if err != nil {
			t.Fatal(err)
		}
		if db.FormatMajorVersion() != EngineFormat || raised == stored {
			t.Errorf("stored before: %v. The format is %d, and Pebble raised it: %v", stored, db.FormatMajorVersion(), raised)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// silent drops the engine's messages, except fatal ones.
type silent struct{ t testing.TB }

func (silent) Infof(string, ...any)             {}
func (silent) Errorf(string, ...any)            {}
func (s silent) Fatalf(format string, a ...any) { s.t.Fatalf(format, a...) }
