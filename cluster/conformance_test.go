package cluster

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/journal"
	"parley/persistence/journaltest"
)

// three is off by default: a machine that stalls makes the members choose another leader, as
// they should, and the suite does not expect that.
var three = flag.Bool("three", false, "run the suite over three voters too, on a machine with nothing else to do")

// TestConformanceOfMoving: a group whose leader moves before each claim, and one whose leader
// loses its power after each append, are a journal as any other.
func TestConformanceOfMoving(t *testing.T) {
	if !*three {
		t.Skip("three voters need a quiet machine: -three")
	}
	for name, kills := range map[string]bool{"moved": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			journaltest.Run(t, func(t *testing.T, journals int) journaltest.Harness {
				s := &replicas{t: t, journals: journals, dir: "group"}
				disks := make([]*vfs.MemFS, 3)
				for n := range disks {
					disks[n] = vfs.NewCrashableMem()
					s.disks = append(s.disks, disks[n])
				}
				var now *moving
				open := func() journaltest.Journal {
					now = newMoving(s.openAll(), disks, kills)
					return journaltest.Journal{Journal: journal.Of(now), Close: now.Close}
				}
				closeAll := func() {
					if err := now.Close(); err != nil {
						t.Errorf("close: %v", err)
					}
				}
				t.Cleanup(closeAll)
				return journaltest.Harness{
					Journal: open(),
					Reopen:  func() journaltest.Journal { closeAll(); disks = now.disks; return open() },
					Crash: func() journaltest.Journal {
						before := now
						disks = before.crash()
						for n := range disks {
							s.disks[n] = disks[n]
						}
						after := open()
						if err := before.Close(); err != nil {
							t.Errorf("close the abandoned group: %v", err)
						}
						return after
					},
					Clock:    s.now,
					Advance:  func(d time.Duration) { s.ahead.Add(int64(d)) },
					Follower: true, Moving: true,
				}
			})
		})
	}
}

// TestConformance: one voter, and three of which one leads and another one serves reads, are
// a journal as any other. A power failure hits all of them at once: each store reopens where
// it was last flushed, and its log brings the rest.
func TestConformance(t *testing.T) {
	for _, voters := range []int{1, 3} {
		if voters > 1 && !*three {
			continue
		}
		t.Run(fmt.Sprintf("%d voters", voters), func(t *testing.T) {
			journaltest.Run(t, func(t *testing.T, journals int) journaltest.Harness {
				s := &replicas{t: t, journals: journals, dir: "group", tick: 10 * time.Millisecond}
				disks := make([]*vfs.MemFS, voters)
				for n := range disks {
					disks[n] = vfs.NewCrashableMem()
					s.disks = append(s.disks, disks[n])
				}
				closeAll := func() {
					if err := s.open.Close(); err != nil {
						t.Errorf("close: %v", err)
					}
				}
				t.Cleanup(closeAll)
				return journaltest.Harness{
					Journal: s.openAll().tested(),
					Reopen:  func() journaltest.Journal { closeAll(); return s.openAll().tested() },
					Crash: func() journaltest.Journal {
						before := s.open
						disks = before.crashDisks(disks)
						for n := range disks {
							s.disks[n] = disks[n]
						}
						after := s.openAll()
						if err := before.Close(); err != nil {
							t.Errorf("close the abandoned group: %v", err)
						}
						return after.tested()
					},
					Clock:    s.now,
					Advance:  func(d time.Duration) { s.ahead.Add(int64(d)) },
					Follower: voters > 1,
				}
			})
		})
	}
}
