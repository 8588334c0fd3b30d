package machine

import (
	"io/fs"
	"iter"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// ContainerLimit returns the memory limit of this process's control groups in bytes, the
// lowest of all groups above it; 0 if there is no limit. source: cgroups(7)
func ContainerLimit(root fs.FS) int64 {
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
