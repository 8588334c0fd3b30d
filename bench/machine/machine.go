// Package machine examines the machine that a measurement runs on: what it is, how fast
// its disk syncs, which processes use its processors and how much memory they use. It
// reads /proc of Linux; on other systems it returns zero values and says so.
package machine

import (
	"bytes"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"parley/bench/result"
)

// Describe returns a description of the machine and of the file system of dataPath,
// because a sync on a file system in memory costs nothing. Memory is what the bench may
// use: the limit of a control group, if that is lower than the machine's memory.
func Describe(dataPath string) result.Machine { return linux.describe(dataPath) }

// OpenFiles returns how many file descriptors process pid has open; an error if they
// cannot be read.
func OpenFiles(pid int) (int, error) { return linux.openFiles(pid) }

func (s system) describe(dataPath string) result.Machine {
	if absolute, err := filepath.Abs(dataPath); err == nil {
		dataPath = absolute
	}
	machine := result.Machine{
		CPU: notSeen, Kernel: notSeen,
		Cores: runtime.NumCPU(), Go: runtime.Version(), DataPath: dataPath,
	}
	if text, err := s.read("proc/cpuinfo"); err == nil {
		machine.CPU = processorName(text)
	}
	if text, err := s.read("proc/sys/kernel/osrelease"); err == nil {
		machine.Kernel = "Linux " + string(bytes.TrimSpace(text))
	}
	if text, err := s.read("proc/meminfo"); err == nil {
		machine.Memory = kilobytes(text, "MemTotal:")
	}
	if text, err := s.read("sys/fs/cgroup/memory.max"); err == nil {
		if limit, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64); err == nil && limit < machine.Memory {
			machine.Memory = limit
		}
	}
	if text, err := s.read("proc/self/limits"); err == nil {
		machine.FileMax = openFilesLimit(text)
	}
	if text, err := s.read("proc/self/mountinfo"); err == nil {
		if resolved, err := filepath.EvalSymlinks(dataPath); err == nil {
			dataPath = resolved
		}
		if kind := fileSystem(text, dataPath); kind != "" {
			machine.DataPath += " (" + kind + ")"
		}
	}
	return machine
}

func (s system) openFiles(pid int) (int, error) {
	names, err := s.names(fmt.Sprintf("proc/%d/fd", pid))
	if err != nil {
		return 0, fmt.Errorf("machine: open files of process %d: %w", pid, err)
	}
	return len(names), nil
}

// processorName reads /proc/cpuinfo. x86 has "model name"; other architectures have
// "Model", "cpu model" or no name of the processor.
func processorName(text []byte) string {
	for _, wanted := range []string{"model name", "Model", "cpu model", "uarch"} {
		for line := range bytes.Lines(text) {
			name, value, found := strings.Cut(string(line), ":")
			if value = strings.TrimSpace(value); found && strings.TrimSpace(name) == wanted && value != "" {
				return strings.Join(strings.Fields(value), " ")
			}
		}
	}
	return runtime.GOARCH + ", not named"
}

// kilobytes reads "Name:  123 kB" in /proc/meminfo and smaps_rollup, as bytes.
func kilobytes(text []byte, name string) uint64 {
	for line := range bytes.Lines(text) {
		words := strings.Fields(string(line))
		if len(words) >= 2 && words[0] == name {
			value, _ := strconv.ParseUint(words[1], 10, 64)
			return value << 10
		}
	}
	return 0
}

// openFilesLimit reads the soft limit in /proc/PID/limits; without a limit it returns 0.
func openFilesLimit(text []byte) uint64 {
	const name = "Max open files"
	for line := range bytes.Lines(text) {
		rest, found := strings.CutPrefix(string(line), name)
		words := strings.Fields(rest)
		if !found || len(words) == 0 {
			continue
		}
		limit, _ := strconv.ParseUint(words[0], 10, 64)
		return limit
	}
	return 0
}

// fileSystem reads /proc/PID/mountinfo: "id parent major:minor root mountpoint options
// [tags] - type source superoptions". The longest mount point above path applies. Of
// several with the same path the last applies, because it covers the others.
func fileSystem(text []byte, path string) string {
	longest, kind := -1, ""
	for line := range bytes.Lines(text) {
		left, right, found := strings.Cut(string(line), " - ")
		before, after := strings.Fields(left), strings.Fields(right)
		if !found || len(before) < 5 || len(after) < 2 {
			continue
		}
		point := unescape.Replace(before[4])
		below := point == "/" || path == point || strings.HasPrefix(path, point+"/")
		if below && len(point) >= longest {
			longest, kind = len(point), after[0]
			if strings.HasPrefix(after[1], "/") {
				kind += " on " + unescape.Replace(after[1])
			}
		}
	}
	return kind
}

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
