package backup

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/disk"
	"parley/persistence/layout"
)

// headIn opens a checkpoint or a restored directory for reading only, and gives its
// last commit and its number of journals.
func headIn(fsys vfs.FS, dir string) (last disk.Head, journals int, err error) {
	db, err := pebble.Open(dir, &pebble.Options{
		FS: fsys, ReadOnly: true, Merger: layout.Merger, FormatMajorVersion: disk.EngineFormat,
		CacheSize: 1 << 20, Logger: silent{}, EventListener: &pebble.EventListener{},
	})
	if err != nil {
		return disk.Head{}, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	format, _, err := layout.ReadFormat(db)
	if err == nil {
		last, _, _, err = layout.LastHead(db, 0)
	}
	return last, format.Journals, err
}

// silent is a logger for an engine that is opened for inspection: its problems come
// back as errors.
type silent struct{}

func (silent) Infof(string, ...any)         {}
func (silent) Errorf(string, ...any)        {}
func (silent) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }
