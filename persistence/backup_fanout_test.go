package persistence

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/journal"
	"parley/persistence/apply"
	"parley/persistence/backup"
)

// TestBackupOfAFanoutUnderWay takes snapshots during fan-outs. After a restore the
// fan-outs continue until every agent has each copy exactly once.
func TestBackupOfAFanoutUnderWay(t *testing.T) {
	unraced(t)
	for _, journals := range []int{1, 4} {
		fs := vfs.NewMem()
		s, group, to := running(t, fs, "data/journal", journals), newGroup(0), newSeats(600)
		activation, sent := activated(t, s, group), uint64(0)
		say := func() <-chan error {
			e := broadcast(group, activation, to, 9)
			e.Expect, e.Events = sent, []journal.StoredEvent{{Tag: 1}}
			sent++
			return appended(s, e)
		}
		var snapshots []*backup.Snapshot
		for range 3 {
			for range 10 {
				say()
			}
			if err := <-say(); err != nil {
				t.Fatal(err)
			}
			snapshots = append(snapshots, mustBackup(t, s, backup.Options{To: "backup"}))
		}
		mustClose(t, s)
		for i, snapshot := range snapshots {
			again := restored(t, fs, "backup", snapshot.ID, fmt.Sprint("restored-", journals, i))
			for outboxesBusy(again) {
				time.Sleep(time.Millisecond)
			}
			v := again.view()
			said, err := apply.Stored{Reader: v.Reader}.Length(group)
			if err != nil || said < uint64(11*(i+1)) {
				t.Errorf("%d broadcasts of %d (%v)", said, 11*(i+1), err)
			}
			for _, seat := range to {
				got := uint64(0)
				err := v.parts().Feed(seat.Agent, 0, ^uint64(0), func(journal.FeedEntry) bool { got++; return true })
				if got != said || err != nil {
					t.Fatalf("seat %d has %d copies of %d (%v)", seat.Number, got, said, err)
				}
			}
			v.Close()
			if names, found, _ := verifyArchive(t, again.Archive()); names != nil {
				t.Error(found)
			}
			mustClose(t, again)
		}
	}
}
