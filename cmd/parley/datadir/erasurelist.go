package datadir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"parley/client/parley"
)

// erasureListName is the name of the list of erasures in a data directory.
const erasureListName = "erasures.jsonl"

// ErasureList is the file that lists the organizations that were erased, a JSON object per
// line. It has ids and instants only. It can be kept apart from the data directory: a
// server that is started on a restored backup erases what is in it before it
// listens.
type ErasureList struct {
	path string
	mu   sync.Mutex
}

// Erased is a line of the list.
type Erased struct {
	OrgID    parley.OrgID `json:"org_id"`
	ErasedAt time.Time    `json:"erased_at"`
}

// NewErasureList returns the list at a path, which need not exist; an empty path is that in
// the data directory.
func NewErasureList(path, data string) *ErasureList {
	if path == "" {
		path = filepath.Join(data, erasureListName)
	}
	return &ErasureList{path: path}
}

// Read returns the lines of the list; none if there is no file. What a crash has left of
// the last line is skipped: that erasure has not begun to destroy anything.
func (l *ErasureList) Read() (all []Erased, err error) {
	content, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines := bytes.Split(content, []byte("\n"))
	for n, line := range lines[:len(lines)-1] {
		var e Erased
		if json.Unmarshal(line, &e) != nil || e.OrgID.Zero() {
			return nil, fmt.Errorf("the list of erasures %s: line %d is not a JSON object with org_id and erased_at", l.path, n+1)
		}
		all = append(all, e)
	}
	return all, nil
}

// Add adds organizations, durably.
func (l *ErasureList) Add(all ...Erased) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []byte
	for _, e := range all {
		line, err := json.Marshal(Erased{e.OrgID, e.ErasedAt.UTC()})
		if err != nil {
			return err
		}
		lines = append(append(lines, line...), '\n')
	}
	_, before := os.Stat(l.path)
	file, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = appendLines(file, lines)
	if err = errors.Join(err, file.Close()); err != nil || before == nil {
		return err
	}
	return syncDirectory(filepath.Dir(l.path))
}

// appendLines adds lines after the last complete one.
func appendLines(file *os.File, lines []byte) error {
	end, err := lastLineEnd(file)
	if err == nil {
		err = file.Truncate(end)
	}
	if err == nil {
		_, err = file.WriteAt(lines, end)
	}
	if err == nil {
		err = file.Sync()
	}
	return err
}

// lastLineEnd returns the offset after the last line break of a file.
func lastLineEnd(file *os.File) (int64, error) {
	size, err := file.Stat()
	if err != nil {
		return 0, err
	}
	var b [1]byte
	for end := size.Size(); end > 0; end-- {
		if _, err := file.ReadAt(b[:], end-1); err != nil || b[0] == '\n' {
			return end, err
		}
	}
	return 0, nil
}

func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
