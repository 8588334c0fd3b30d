package server

import (
	"testing"
	"testing/fstest"

	"parley/cmd/parley/machine"
)

// TestContainerLimit: the limit is the smallest of the cgroups above the process, for
// both cgroup versions, whether or not the container sees its path.
func TestContainerLimit(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no Linux":                     {nil, 0},
		"v2, none":                     {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 0},
		"v2, in its namespace":         {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n"}, 536870912},
		"v2, a path that is not there": {map[string]string{"proc/self/cgroup": "0::/kubepods/pod1/c1\n", "sys/fs/cgroup/memory.max": "1000\n"}, 1000},
		"v2, the slice is tighter": {map[string]string{
			"proc/self/cgroup": "0::/a.slice/b.service\n", "sys/fs/cgroup/a.slice/memory.max": "1000\n",
			"sys/fs/cgroup/a.slice/b.service/memory.max": "2000\n",
		}, 1000},
		"v2, high is tighter": {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n", "sys/fs/cgroup/a/memory.high": "700\n"}, 700},
		"v1":                  {map[string]string{"proc/self/cgroup": "3:cpu,cpuacct:/x\n2:memory:/docker/abc\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "3000\n"}, 3000},
		"v1, none":            {map[string]string{"proc/self/cgroup": "2:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"nonsense":            {map[string]string{"proc/self/cgroup": "what\n0::\n", "sys/fs/cgroup/memory.max": "-5\n"}, 0},
		"another controller":  {map[string]string{"proc/self/cgroup": "3:cpu:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "3000\n"}, 0},
	} {
		root := fstest.MapFS{}
		for path, text := range c.files {
			root[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := machine.ContainerLimit(root); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestAutoLimitIsTheContainers: the default is 90% of the container's limit; a limit that
// the operator sets is used unchanged.
func TestAutoLimitIsTheContainers(t *testing.T) {
	container := fstest.MapFS{
		"proc/self/cgroup":         &fstest.MapFile{Data: []byte("0::/\n")},
		"sys/fs/cgroup/memory.max": &fstest.MapFile{Data: []byte("1000000\n")},
	}
	for limit, want := range map[memoryLimit][2]int64{autoLimit: {900_000, 0}, 0: {0, 0}, 5_000_000: {5_000_000, 5_000_000}} {
		if inside, outside := limit.bytes(container), limit.bytes(fstest.MapFS{}); inside != want[0] || outside != want[1] {
			t.Errorf("%v: %d in a container and %d outside, want %v", limit, inside, outside, want)
		}
	}
}

func TestMemoryLimitIsASizeOrAuto(t *testing.T) {
	for _, text := range []string{"auto", "0", "512MiB"} {
		cfg, err := parseServe(t, "--memory-limit", text)
		if err != nil || cfg.MemoryLimit.String() != text {
			t.Errorf("%s: %v %v", text, cfg.MemoryLimit, err)
		}
	}
	if cfg, err := parseServe(t); err != nil || cfg.MemoryLimit != autoLimit {
		t.Errorf("the default is %v (%v)", cfg.MemoryLimit, err)
	}
	if _, err := parseServe(t, "--memory-limit", "most"); err == nil {
		t.Error("an arbitrary word was accepted as a limit")
	}
}
