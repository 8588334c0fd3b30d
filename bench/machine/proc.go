package machine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// system is the root of the file tree that contains proc and sys.
type system struct{ root string }

// linux is the root of this machine.
var linux = system{root: "/"}

// notSeen is the text for values that this machine does not provide.
var notSeen = "not seen here (" + runtime.GOOS + ")"

var errFormat = errors.New("machine: not the format of Linux")

func (s system) read(path string) ([]byte, error) {
	return os.ReadFile(filepath.Join(s.root, path))
}

func (s system) names(path string) ([]string, error) {
	directory, err := os.Open(filepath.Join(s.root, path))
	if err != nil {
		return nil, err
	}
	defer directory.Close()
	return directory.Readdirnames(-1)
}

// ticksPerSecond is USER_HZ, the unit of times in /proc, which Linux fixes at
// 100 for programs on every architecture that Go runs on.
const ticksPerSecond = 100

func ticks(n uint64) time.Duration {
	return time.Duration(n) * (time.Second / ticksPerSecond)
}

// process is the content of /proc/PID/stat.
type process struct {
	pid, parent int
	// cpu includes the children that ended and were waited for, so the sum over a tree
	// does not fall when one of its processes ends.
	cpu time.Duration
}

// parseProcess reads "pid (name) state ppid …"; the name may contain anything, including
// parentheses and spaces. utime, stime, cutime and cstime are fields 14 to 17.
func parseProcess(text []byte) (process, error) {
	open, shut := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || shut < open {
		return process{}, errFormat
	}
	words := strings.Fields(string(text[shut+1:]))
	if len(words) < 15 {
		return process{}, errFormat
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:open])))
	if err != nil {
		return process{}, fmt.Errorf("%w: pid: %w", errFormat, err)
	}
	parent, err := strconv.Atoi(words[1])
	if err != nil {
		return process{}, fmt.Errorf("%w: parent: %w", errFormat, err)
	}
	var sum uint64
	for _, word := range words[11:15] {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return process{}, fmt.Errorf("%w: time: %w", errFormat, err)
		}
		sum += uint64(max(n, 0))
	}
	return process{pid: pid, parent: parent, cpu: ticks(sum)}, nil
}

// parseBusy reads the first line of /proc/stat: "cpu user nice system idle iowait irq
// softirq steal guest guest_nice". Busy is everything except idle and iowait; user
// already includes guest. Time that the hypervisor stole counts as busy, because it was
// not available.
func parseBusy(text []byte) (time.Duration, error) {
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	words := strings.Fields(string(line))
	if len(words) < 5 || words[0] != "cpu" {
		return 0, errFormat
	}
	const idle, iowait = 3, 4
	var sum uint64
	for i, word := range words[1:min(len(words), 9)] {
		n, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errFormat, err)
		}
		if i != idle && i != iowait {
			sum += n
		}
	}
	return ticks(sum), nil
}

// busy returns the time that all processors have worked since the machine started.
func (s system) busy() (time.Duration, error) {
	text, err := s.read("proc/stat")
	if err != nil {
		return 0, err
	}
	return parseBusy(text)
}

// tree returns the processes under roots and the roots themselves, each once.
func (s system) tree(roots []int) ([]process, error) {
	names, err := s.names("proc")
	if err != nil {
		return nil, err
	}
	all := make(map[int]process, len(names))
	for _, name := range names {
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		text, err := s.read("proc/" + name + "/stat")
		if err != nil {
			continue // It ended after the directory was read.
		}
		one, err := parseProcess(text)
		if err != nil {
			return nil, err
		}
		all[one.pid] = one
	}
	under := make(map[int]bool, len(roots))
	for _, root := range roots {
		under[root] = true
	}
	var found []process
	for _, one := range all {
		if descends(one.pid, all, under) {
			found = append(found, one)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no process of %v: %w", roots, fs.ErrNotExist)
	}
	return found, nil
}

// descends walks up from pid. The walk is bounded by the number of processes, because
// files read one after another may not form a consistent tree.
func descends(pid int, all map[int]process, under map[int]bool) bool {
	for range len(all) {
		if under[pid] {
			return true
		}
		one, known := all[pid]
		if !known {
			return false
		}
		pid = one.parent
	}
	return false
}

// resident returns the memory of processes in bytes. If the kernel reports proportional
// sizes, a page that several processes share counts once.
func (s system) resident(processes []process) uint64 {
	var sum uint64
	for _, one := range processes {
		if len(processes) > 1 {
			if text, err := s.read(fmt.Sprintf("proc/%d/smaps_rollup", one.pid)); err == nil {
				sum += kilobytes(text, "Pss:")
				continue
			}
		}
		if text, err := s.read(fmt.Sprintf("proc/%d/statm", one.pid)); err == nil {
			sum += residentPages(text) * uint64(os.Getpagesize())
		}
	}
	return sum
}

// residentPages reads the second number of /proc/PID/statm.
func residentPages(text []byte) uint64 {
	words := strings.Fields(string(text))
	if len(words) < 2 {
		return 0
	}
	pages, _ := strconv.ParseUint(words[1], 10, 64)
	return pages
}
