package backup

import (
	"fmt"
	"testing"
	"time"
)

// TestForgedIndex: an index with a correct checksum still cannot name files outside the
// backup.
func TestForgedIndex(t *testing.T) {
	taken := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	good := File{Name: "journal/000001.sst", Size: 1, Sum: sum(nil)}
	for _, f := range []File{
		{Name: "../x"},
		{Name: "journal/../x"},
		{Name: "/etc/x"},
		{Name: "journal/"},
		{Name: ".."},
		{Name: ""},
		{Name: "journal"},
		{Name: `a\b`},
		{Name: "journal/a/b"},
		{Name: "admin.token"},
		{Name: "erasures.jsonl"},
		{Name: "journal/witness"},
		{Name: "journal/000001.sst.tmp"},
		{Name: "master.key/x"},
		{Name: good.Name, Sum: "../" + good.Sum},
		{Name: good.Name, Sum: good.Sum[1:]},
		{Name: good.Name, Size: -1},
	} {
		if f.Sum == "" {
			f.Sum = good.Sum
		}
		forged := Snapshot{Taken: taken, Files: []File{good, f}}
		if s, err := decodeSnapshot(forged.encode()); err == nil {
			t.Errorf("%+v is read as %+v", f, s.Files[1])
		}
	}
	sound := Snapshot{ID: taken.Format(snapshotName), Taken: taken, Journals: 4, Commits: 7, Copied: 1, Files: []File{good}}
	s, err := decodeSnapshot(sound.encode())
	if err != nil || fmt.Sprint(*s) != fmt.Sprint(sound) {
		t.Errorf("%+v came back as %+v (%v)", sound, s, err)
	}
}
