package disk

import "github.com/cockroachdb/pebble/v2"

// EngineFormat is the format of the storage engine's files. Every opening of a
// directory uses it; the engine raises a directory of an earlier format to it, and
// never lowers one. It is a number so that an upgrade of the engine cannot change
// what is written, which an earlier release could not read any more. It is the first
// format with blob files.
const EngineFormat pebble.FormatMajorVersion = 24
