package server

import (
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// memoryLimit is a number of bytes, 0 for no limit, or that of the container.
type memoryLimit int64

// autoLimit is nine tenths of what the container may use, and no limit where there
// is no container.
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

// bytes is the limit that the runtime is to keep to, 0 for none. The rest of a
// container's is for what the runtime does not count: stacks of the kernel, pages
// of files that are being written. root is the machine's file system.
func (m memoryLimit) bytes(root fs.FS) int64 {
	if m != autoLimit {
		return int64(m)
	}
	return containerLimit(root) / 10 * 9
}

// containerLimit is the memory that the control groups of this process allow it,
// the least of all above it, and 0 where there is no limit. source: cgroups(7)
func containerLimit(root fs.FS) int64 {
	groups, err := fs.ReadFile(root, "proc/self/cgroup") // of Linux
	if err != nil {
		return 0
	}
	least := int64(math.MaxInt64)
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		top, names := "sys/fs/cgroup", []string{"memory.max", "memory.high"}
		switch {
		case parts[0] == "0" && parts[1] == "": // version 2
		case slices.Contains(strings.Split(parts[1], ","), "memory"): // version 1
			top, names = "sys/fs/cgroup/memory", []string{"memory.limit_in_bytes"}
		default:
			continue
		}
		// In a container the path may be the machine's: what is not there sets no limit.
		for at := path.Clean("/" + parts[2]); ; at = path.Dir(at) {
			for _, name := range names {
				least = min(least, limitIn(root, path.Join(top, at, name)))
			}
			if at == "/" {
				break
			}
		}
	}
	const noLimit = 1 << 50 // version 1 writes a large number for none
	if least >= noLimit {
		return 0
	}
	return least
}

func limitIn(root fs.FS, file string) int64 {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n <= 0 { // "max"
		return math.MaxInt64
	}
	return n
}
