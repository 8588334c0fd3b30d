// Package machine knows what the process may use: processors, threads, memory, open files.
package machine

import (
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
)

// threadsPerCore is how many threads run goroutines for each core. With one, a goroutine
// that returns from a sync waits until one of the few threads has nothing else to do, under
// load for milliseconds, and so do the answers that wait for the sync with it. With two, the
// kernel shares out the cores, and a thread that has slept comes first.
const threadsPerCore = 2

// perCore is how many threads run goroutines for each core now.
var perCore atomic.Int32

func init() { perCore.Store(1) }

// Cores returns how many processors the process may use.
func Cores() int { return runtime.GOMAXPROCS(0) / int(perCore.Load()) }

// AddThreads gives the runtime threadsPerCore. What is sized by the cores must have been made
// before.
func AddThreads() {
	_, set := os.LookupEnv("GOMAXPROCS")
	if mayAddThreads(set, os.DirFS("/")) && perCore.CompareAndSwap(1, threadsPerCore) {
		runtime.GOMAXPROCS(threadsPerCore * runtime.GOMAXPROCS(0))
	}
}

// mayAddThreads reports whether more threads than cores help: not against the operator, who
// has set GOMAXPROCS, nor where a control group limits the processor time. There more threads
// would use it up sooner in each period, and the kernel would stop all of them until the next.
// root is the machine's file system.
func mayAddThreads(set bool, root fs.FS) bool { return !set && !processorTimeLimited(root) }

// processorTimeLimited reports whether one of this process's control groups, or one above
// them, limits its processor time. source: cgroups(7)
func processorTimeLimited(root fs.FS) (limited bool) {
	eachGroup(root, func(group, controllers string) {
		top, name, unlimited := "sys/fs/cgroup", "cpu.max", "max"
		switch {
		case controllers == "": // version 2
		case slices.Contains(strings.Split(controllers, ","), "cpu"): // version 1
			top, name, unlimited = "sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "-1"
		default:
			return
		}
		for at := range upwards(group) {
			text, err := fs.ReadFile(root, path.Join(top, at, name))
			quota := strings.Fields(string(text))
			limited = limited || err == nil && len(quota) > 0 && quota[0] != unlimited
		}
	})
	return limited
}
