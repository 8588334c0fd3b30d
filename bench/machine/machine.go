// Package machine examines the machine that a measurement runs on: what it is, how fast
// its disk syncs, which processes use its processors and how much memory they use. It
// reads /proc of Linux; on other systems it returns zero values and says so.
package machine

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

	"parley/bench/result"
)

// system is the root of the file tree that contains proc and sys.
type system struct{ root string }

// linux is the root of this machine.
var linux = system{root: "/"}

// notSeen is the text for values that this machine does not provide.
var notSeen = "not seen here (" + runtime.GOOS + ")"

func (s system) proc() (procfs.FS, error) { return procfs.NewFS(filepath.Join(s.root, "proc")) }

// Describe returns a description of the machine and of the file system of dataPath,
// because a sync on a file system in memory costs nothing. Memory is what the bench may
// use: the limit of a control group, if that is lower than the machine's memory.
func Describe(dataPath string) result.Machine { return linux.describe(dataPath) }

func (s system) describe(dataPath string) result.Machine {
	if absolute, err := filepath.Abs(dataPath); err == nil {
		dataPath = absolute
	}
	machine := result.Machine{
		CPU: notSeen, Kernel: notSeen,
		Cores: runtime.NumCPU(), Go: runtime.Version(), DataPath: dataPath,
	}
	proc, err := s.proc()
	if err != nil {
		return machine
	}
	machine.CPU = processorName(proc)
	if release, err := proc.SysctlStrings("kernel/osrelease"); err == nil {
		machine.Kernel = "Linux " + strings.Join(release, " ")
	}
	if memory, err := proc.Meminfo(); err == nil && memory.MemTotalBytes != nil {
		machine.Memory = *memory.MemTotalBytes
	}
	if text, err := os.ReadFile(filepath.Join(s.root, "sys/fs/cgroup/memory.max")); err == nil {
		if limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
			machine.Memory = min(machine.Memory, limit)
		}
	}
	self, err := proc.Self()
	if err != nil {
		return machine
	}
	if limits, err := self.Limits(); err == nil && limits.OpenFiles != math.MaxUint64 {
		machine.FileMax = limits.OpenFiles
	}
	if mounts, err := self.MountInfo(); err == nil {
		if resolved, err := filepath.EvalSymlinks(dataPath); err == nil {
			dataPath = resolved
		}
		if kind := fileSystem(mounts, dataPath); kind != "" {
			machine.DataPath += " (" + kind + ")"
		}
	}
	return machine
}

// fileSystem returns the type and the device of the file system of a path. The longest mount
// point above it applies; of several with the same path the last, because it covers the others.
func fileSystem(mounts []*procfs.MountInfo, path string) (kind string) {
	longest := -1
	for _, m := range mounts {
		point := strings.ReplaceAll(m.MountPoint, `\040`, " ")
		below := point == "/" || path == point || strings.HasPrefix(path, point+"/")
		if below && len(point) >= longest {
			longest, kind = len(point), m.FSType
			if strings.HasPrefix(m.Source, "/") {
				kind += " on " + m.Source
			}
		}
	}
	return kind
}
