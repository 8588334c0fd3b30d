package machine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

const (
	// appendsEvery is the interval at which the positions of files are read. Data written
	// to a file between the last reading and its closing is missed.
	appendsEvery = 10 * time.Millisecond
	// appendsSearch is how many readings there are per search for new files.
	appendsSearch = 10
)

// Appends measures how much a process writes to files that it only appends to, such as a
// store's log. It reads the positions of open files rather than their lengths, because
// lengths mean nothing if a store preallocates space or overwrites old files.
type Appends struct {
	system system
	pid    int
	is     func(name string) bool
	stop   chan struct{}
	done   chan struct{}

	mu   sync.Mutex
	open map[string]*growing
	sum  uint64
	err  error
}

// growing is one open file.
type growing struct {
	name     string
	position uint64
}

// FollowAppends measures what process pid writes from now on to files whose base name
// satisfies the function is. Close ends the measurement.
func FollowAppends(pid int, is func(name string) bool) *Appends {
	return linux.followAppends(pid, is)
}

func (s system) followAppends(pid int, is func(name string) bool) *Appends {
	a := &Appends{system: s, pid: pid, is: is, stop: make(chan struct{}), done: make(chan struct{}), open: map[string]*growing{}}
	a.search()
	a.sum = 0 // data written before
	go a.follow()
	return a
}

func (a *Appends) follow() {
	defer close(a.done)
	pace := time.NewTicker(appendsEvery)
	defer pace.Stop()
	for n := 1; ; n++ {
		select {
		case <-a.stop:
			return
		case <-pace.C:
		}
		if n%appendsSearch == 0 {
			a.search()
		} else {
			a.look()
		}
	}
}

// Bytes returns the number of bytes written so far; an error if it cannot be read.
func (a *Appends) Bytes() (uint64, error) {
	a.search()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sum, a.err
}

// Close ends the measurement.
func (a *Appends) Close() {
	close(a.stop)
	<-a.done
}

// search finds the files that are open now.
func (a *Appends) search() {
	a.mu.Lock()
	defer a.mu.Unlock()
	numbers, err := a.system.names(fmt.Sprintf("proc/%d/fd", a.pid))
	if err != nil {
		a.err = fmt.Errorf("machine: files of process %d: %w", a.pid, err)
		return
	}
	there := make(map[string]bool, len(a.open))
	for _, number := range numbers {
		name, err := a.name(number)
		if err != nil || !a.is(filepath.Base(name)) {
			continue
		}
		there[number] = true
		if known := a.open[number]; known == nil || known.name != name {
			a.open[number] = &growing{name: name}
		}
	}
	for number := range a.open {
		if !there[number] {
			delete(a.open, number)
		}
	}
	a.err = nil
	a.positions()
}

// look reads the positions of the known files.
func (a *Appends) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for number, file := range a.open {
		if name, err := a.name(number); err != nil || name != file.name {
			delete(a.open, number)
		}
	}
	a.positions()
}

func (a *Appends) name(number string) (string, error) {
	return os.Readlink(filepath.Join(a.system.root, fmt.Sprintf("proc/%d/fd/%s", a.pid, number)))
}

// positions adds what was written since the last reading.
func (a *Appends) positions() {
	for number, file := range a.open {
		text, err := a.system.read(fmt.Sprintf("proc/%d/fdinfo/%s", a.pid, number))
		if err != nil {
			continue // The file was closed a moment ago.
		}
		if now := filePosition(text); now > file.position {
			a.sum += now - file.position
			file.position = now
		}
	}
}

// filePosition reads the line "pos:       123" of /proc/PID/fdinfo/FD.
func filePosition(text []byte) uint64 {
	for line := range bytes.Lines(text) {
		if value, found := bytes.CutPrefix(line, []byte("pos:")); found {
			position, _ := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 64)
			return position
		}
	}
	return 0
}
