package machine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"parley/bench/result"
)

// captured writes texts of /proc under a new root.
func captured(t *testing.T, files map[string]string) system {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("7", filepath.Join(root, "proc", "self")); err != nil {
		t.Fatal(err)
	}
	return system{root: root}
}

func stat(pid int, name string, parent, user, system, childUser, childSystem, pages int) string {
	return fmt.Sprintf("%d (%s) S %d 24503 22224 0 -1 4194304 100 0 0 0 %d %d %d %d 20 0 7 0 1166469 3133440 %d 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n",
		pid, name, parent, user, system, childUser, childSystem, pages)
}

const busyLine = "cpu  1094571 4817 117168 1071457 9341 0 9322 24287 500 0\ncpu0 543964 1828 55917 545186 2794 0 3727 12145 0 0\n"

func TestFileSystem(t *testing.T) {
	mounts := `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 27 0:23 / /tmp rw - ext4 /dev/vdb rw
31 30 0:24 / /tmp rw shared:3 master:1 - tmpfs tmpfs rw,size=24683656k
32 27 0:25 / /data\040disk rw - xfs /dev/vdc1 rw
`
	s := captured(t, map[string]string{"proc/7/mountinfo": mounts})
	proc, err := s.proc()
	if err != nil {
		t.Fatal(err)
	}
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	all, err := self.MountInfo()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/work/main": "ext4 on /dev/vda", "/tmp": "tmpfs", "/tmp/x": "tmpfs", "/tmpx": "ext4 on /dev/vda", "/data disk/a": "xfs on /dev/vdc1",
	} {
		if got := fileSystem(all, path); got != want {
			t.Errorf("%s is on %q, want %q", path, got, want)
		}
	}
}

func TestDescribeCaptured(t *testing.T) {
	s := captured(t, map[string]string{
		"proc/cpuinfo":              "processor\t: 0\nmodel name\t: AMD EPYC\n",
		"proc/sys/kernel/osrelease": "6.18.44\n",
		"proc/meminfo":              "MemTotal: 4096 kB\n",
		"sys/fs/cgroup/memory.max":  "1048576\n",
		"proc/7/limits":             "Limit Soft Limit Hard Limit Units\nMax open files            1024                 20000                files     \n",
		"proc/7/mountinfo":          "27 1 254:0 / / rw - ext4 /dev/vda rw\n",
	})
	got := s.describe("/")
	want := result.Machine{
		CPU: "AMD EPYC", Cores: runtime.NumCPU(), Memory: 1 << 20, Kernel: "Linux 6.18.44",
		Go: runtime.Version(), FileMax: 1024, DataPath: "/ (ext4 on /dev/vda)",
	}
	if runtime.GOOS != "windows" && got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestNothingToSee(t *testing.T) {
	s := system{root: t.TempDir()}
	got := s.describe(".")
	if !strings.Contains(got.CPU, "not seen") || !strings.Contains(got.Kernel, "not seen") || got.Memory != 0 || got.FileMax != 0 || got.Cores == 0 {
		t.Errorf("%+v", got)
	}
	if usage := s.usage([]int{1}); usage.Err == nil || usage.CPU != 0 {
		t.Errorf("%+v", usage)
	}
	if n, err := s.openFiles(1); n != 0 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
	window := &CPUWindow{system: s, own: func() (time.Duration, error) { return 0, nil }}
	window.Begin()
	if cpu := window.End(); cpu != (result.CPU{}) {
		t.Errorf("%+v", cpu)
	}
}

func TestTreesAndMemory(t *testing.T) {
	rollup := "56216166e000-7ffdcd986000 ---p 00000000 00:00 0   [rollup]\nRss:    9000 kB\nPss:    %d kB\n"
	s := captured(t, map[string]string{
		"proc/1/stat":          stat(1, "init", 0, 9000, 0, 0, 0, 1),
		"proc/10/stat":         stat(10, "postgres", 1, 100, 50, 25, 5, 1),
		"proc/11/stat":         stat(11, "postgres: io", 10, 10, 0, 0, 0, 1),
		"proc/12/stat":         stat(12, "grandchild", 11, 1, 1, 0, 0, 2),
		"proc/20/stat":         stat(20, "other", 1, 700, 0, 0, 0, 10),
		"proc/meminfo":         "MemTotal: 4096 kB\n",
		"proc/10/smaps_rollup": fmt.Sprintf(rollup, 300),
		"proc/11/smaps_rollup": fmt.Sprintf(rollup, 200),
	})
	page := uint64(os.Getpagesize())
	for _, test := range []struct {
		pids     []int
		cpu      time.Duration
		resident uint64
		count    int
	}{
		{[]int{10, 12}, 1920 * time.Millisecond, 500<<10 + 2*page, 3},
		{[]int{20}, 7 * time.Second, 10 * page, 1},
	} {
		got := s.usage(test.pids)
		if got.Err != nil || got.CPU != test.cpu || got.Resident != test.resident || len(got.processes) != test.count {
			t.Errorf("%v: %+v", test.pids, got)
		}
	}
	if got := s.usage([]int{99}); got.Err == nil {
		t.Errorf("none: %+v", got)
	}
}

func TestCPUWindowDividesTime(t *testing.T) {
	files := map[string]string{"proc/stat": busyLine, "proc/10/stat": stat(10, "target", 1, 100, 0, 0, 0, 1)}
	s := captured(t, files)
	own := time.Second
	window := &CPUWindow{system: s, pids: []int{10}, own: func() (time.Duration, error) { return own, nil }}
	window.Begin()
	// As if the window had lasted ten seconds.
	window.start.at = window.start.at.Add(-10 * time.Second)
	own += 4 * time.Second
	for name, text := range map[string]string{
		"proc/stat":    strings.Replace(busyLine, "1094571", "1095871", 1), // 13 s more
		"proc/10/stat": stat(10, "target", 1, 700, 0, 0, 0, 1),             // 6 s more
	} {
		if err := os.WriteFile(filepath.Join(s.root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cpu := window.End()
	near := func(a, b float64) bool { return math.Abs(a-b) < 0.01 }
	if !near(cpu.Target, 0.6) || !near(cpu.Generator, 0.4) || !near(cpu.Neighbours, 0.3) {
		t.Errorf("%+v", cpu)
	}
	if got := PerOperation(cpu, 10, 100_000); !near(got, 60) && math.Abs(got-60) > 1 {
		t.Errorf("%v µs for one operation", got)
	}
	own += time.Hour
	if cpu := window.End(); cpu.Neighbours != 0 {
		t.Errorf("%v cores of neighbours", cpu.Neighbours)
	}
	if PerOperation(cpu, 10, 0) != 0 {
		t.Error("a window without operations has a cost for each operation")
	}
}

func TestInvalid(t *testing.T) {
	if reason := Invalid(result.CPU{Target: 2, Neighbours: 0.2}); reason != "" {
		t.Error(reason)
	}
	if reason := invalid(result.CPU{Target: 0.25, Generator: 1.75}, 2); reason != "" {
		t.Error(reason)
	}
	if reason := invalid(result.CPU{Target: 0.1, Generator: 1.85}, 2); !strings.Contains(reason, "1.85 of 2") {
		t.Error(reason)
	}
	if reason := Invalid(result.CPU{Neighbours: 0.34}); !strings.Contains(reason, "0.34") {
		t.Errorf("%q", reason)
	}
}

func TestProbeDisk(t *testing.T) {
	directory := t.TempDir()
	disk, err := ProbeDisk(t.Context(), directory, 5*time.Millisecond)
	if err != nil || disk.Syncs < 1 || disk.P50ms <= 0 || disk.P99ms < disk.P50ms {
		t.Errorf("%+v, %v", disk, err)
	}
	if left, _ := os.ReadDir(directory); len(left) != 0 {
		t.Errorf("the probe left %v", left)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ProbeDisk(ctx, directory, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := ProbeDisk(t.Context(), filepath.Join(directory, "absent"), 0); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	sorted := []time.Duration{1e6, 2e6, 3e6, 4e6}
	if at(sorted, 50) != 2 || at(sorted, 99) != 4 || at(sorted[:1], 50) != 1 {
		t.Errorf("percentiles %v %v", at(sorted, 50), at(sorted, 99))
	}
}

func TestThisMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux reports these figures")
	}
	got := Describe(t.TempDir())
	if strings.Contains(got.CPU+got.Kernel, "not seen") || got.Memory < 1<<20 || got.FileMax < 16 || !strings.HasSuffix(got.DataPath, ")") {
		t.Errorf("%+v", got)
	}
	if n, err := OpenFiles(os.Getpid()); err != nil || n < 3 {
		t.Errorf("%d open files, %v", n, err)
	}
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Skip("no child to measure:", err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	if usage := Processes(child.Process.Pid); len(usage.processes) != 1 || usage.Resident == 0 || usage.Err != nil {
		t.Errorf("child %+v", usage)
	}
	if usage := Processes(os.Getpid()); len(usage.processes) < 2 {
		t.Errorf("tree of this process %+v", usage)
	}
	window := NewCPUWindow([]int{child.Process.Pid})
	window.Begin()
	for start := time.Now(); time.Since(start) < 50*time.Millisecond; {
	}
	cpu := window.End()
	if cpu.Generator < 0.1 || cpu.Target > 0.5 || cpu.Neighbours < 0 {
		t.Errorf("%+v", cpu)
	}
}

func TestFilesUnder(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"x": 5000, "a/y": 300, "a/b/z": 20} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("x", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if files, err := FilesUnder(dir); err != nil || files.Written != 5320 || files.Taken == 0 {
		t.Errorf("%+v, %v", files, err)
	}
	if files, err := FilesUnder(filepath.Join(dir, "absent")); err != nil || files.Written != 0 {
		t.Errorf("%+v, %v", files, err)
	}
}
