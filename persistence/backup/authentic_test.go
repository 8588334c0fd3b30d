package backup

import (
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestCheckRestored: a data directory is accepted only with the key of the backup that it was
// restored from, and if nothing of the index was changed.
func TestCheckRestored(t *testing.T) {
	key := []byte("key")
	signed := func() *Snapshot {
		s := &Snapshot{Taken: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), Journals: 4, Commits: 7, Files: []File{{Name: "journal/000001.sst", Size: 1, Sum: sum(nil)}}}
		s.mac = mac(key, s.body())
		return s
	}
	for what, c := range map[string]struct {
		change func(*Snapshot)
		key    string
		forged bool
	}{
		"as it was written": {func(*Snapshot) {}, "key", false},
		"another key":       {func(*Snapshot) {}, "another", true},
		"without a mac":     {func(s *Snapshot) { s.mac = "" }, "key", true},
		"another file":      {func(s *Snapshot) { s.Files[0].Sum = sum([]byte("x")) }, "key", true},
		"a file more":       {func(s *Snapshot) { s.Files = append(s.Files, File{Name: MasterKeyName, Sum: sum(nil)}) }, "key", true},
		"another instant":   {func(s *Snapshot) { s.Taken = s.Taken.Add(time.Hour) }, "key", true},
	} {
		fsys, s := vfs.NewMem(), signed()
		c.change(s)
		if err := errors.Join(fsys.MkdirAll("data", 0o700), keepIndex(fsys, "data", s)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			err := CheckRestored(fsys, "data", func() ([]byte, error) { return []byte(c.key), nil })
			if errors.Is(err, ErrForged) != c.forged || !c.forged && err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if names, err := fsys.List("data"); err != nil || (len(names) == 0) == c.forged {
			t.Errorf("%s: the directory has %v (%v)", what, names, err)
		}
	}
}
