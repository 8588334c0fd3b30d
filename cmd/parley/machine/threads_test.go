package machine

import (
	"testing"
	"testing/fstest"
)

// TestThreadsAreAddedOutsideLimits: a server has more threads than cores unless the operator
// has set their number, or one of the control groups above the process limits its time.
func TestThreadsAreAddedOutsideLimits(t *testing.T) {
	for name, c := range map[string]struct {
		set   bool
		files map[string]string
		want  bool
	}{
		"no Linux":        {want: true},
		"GOMAXPROCS":      {set: true},
		"v2, none":        {files: map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, want: true},
		"v2, one core":    {files: map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "100000 100000\n"}},
		"v2, the slice":   {files: map[string]string{"proc/self/cgroup": "0::/a.slice/b.service\n", "sys/fs/cgroup/a.slice/cpu.max": "150000 100000\n", "sys/fs/cgroup/a.slice/b.service/cpu.max": "max 100000\n"}},
		"v1":              {files: map[string]string{"proc/self/cgroup": "3:cpu,cpuacct:/x\n", "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "350000\n"}},
		"v1, none":        {files: map[string]string{"proc/self/cgroup": "3:cpu,cpuacct:/x\n", "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "-1\n"}, want: true},
		"another of v1":   {files: map[string]string{"proc/self/cgroup": "3:memory:/x\n", "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "350000\n"}, want: true},
		"an empty answer": {files: map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": ""}, want: true},
	} {
		root := fstest.MapFS{}
		for path, text := range c.files {
			root[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := mayAddThreads(c.set, root); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
