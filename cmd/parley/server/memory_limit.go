package server

import (
	"fmt"
	"io/fs"
	"iter"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
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
	return containerLimit(root) / 10 * 9
}

// containerLimit returns the memory limit of this process's control groups in bytes, the
// lowest of all groups above it; 0 if there is no limit. source: cgroups(7)
func containerLimit(root fs.FS) int64 {
	least := int64(math.MaxInt64)
	eachGroup(root, func(group, controllers string) {
		top, names := "sys/fs/cgroup", []string{"memory.max", "memory.high"}
		switch {
		case controllers == "": // version 2
		case slices.Contains(strings.Split(controllers, ","), "memory"): // version 1
			top, names = "sys/fs/cgroup/memory", []string{"memory.limit_in_bytes"}
		default:
			return
		}
		for at := range upwards(group) {
			for _, name := range names {
				least = min(least, limitIn(root, path.Join(top, at, name)))
			}
		}
	})
	const noLimit = 1 << 50 // version 1 writes a large number for none
	if least >= noLimit {
		return 0
	}
	return least
}

// eachGroup calls fn with each control group of this process, and with the controllers of its
// hierarchy, none in version 2. source: cgroups(7)
func eachGroup(root fs.FS, fn func(group, controllers string)) {
	groups, err := fs.ReadFile(root, "proc/self/cgroup") // Linux only
	if err != nil {
		return
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) == 3 && (parts[1] != "" || parts[0] == "0") {
			fn(parts[2], parts[1])
		}
	}
}

// upwards yields a group and all above it. In a container the path may be the machine's, so
// that files may be missing, which sets no limit.
func upwards(group string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for at := path.Clean("/" + group); yield(at) && at != "/"; at = path.Dir(at) {
		}
	}
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
