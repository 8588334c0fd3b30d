package server

import (
	"fmt"
	"io/fs"

	"parley/cmd/parley/machine"
)

// memoryLimit is a number of bytes, 0 for no limit, or autoLimit.
type memoryLimit int64

// autoLimit is nine tenths of the container's memory limit, or no limit outside a
// container.
const autoLimit memoryLimit = -1

// UnmarshalText reads a size, or auto.
func (m *memoryLimit) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*m = autoLimit
		return nil
	}
	var size ByteSize
	if err := size.UnmarshalText(text); err != nil {
		return fmt.Errorf("%w, or auto", err)
	}
	*m = memoryLimit(size)
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (m memoryLimit) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

func (m memoryLimit) String() string {
	if m == autoLimit {
		return "auto"
	}
	return ByteSize(m).String()
}

// bytes returns the limit for the runtime in bytes, 0 for none. The rest of the
// container's memory is for what the runtime does not count: kernel stacks and pages of
// files that are being written. root is the machine's file system.
func (m memoryLimit) bytes(root fs.FS) int64 {
	if m != autoLimit {
		return int64(m)
	}
	return machine.ContainerLimit(root) / 10 * 9
}
