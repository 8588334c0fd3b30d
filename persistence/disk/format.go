package disk

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// EngineFormat is the format of the storage engine's files, the first one with blob
// files. Every opening of a directory uses it. It is a number so that an upgrade of the
// engine cannot change what is written.
const EngineFormat pebble.FormatMajorVersion = 24

// StoreEngineFormat stores EngineFormat in a new directory before Pebble opens it. Pebble
// begins a directory without a format in the oldest that it supports, and raises that only
// when the first write-ahead log is open.
func StoreEngineFormat(fs vfs.FS, dir string) error {
	marker, _, err := atomicfs.LocateMarker(fs, dir, "format-version")
	if err != nil {
		return err
	}
	return errors.Join(marker.Move(EngineFormat.String()), marker.Close())
}
