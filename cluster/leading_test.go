package cluster

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// slowLeading is asked to begin, and takes its time.
type slowLeading struct {
	asked, begin chan struct{}
	ends         atomic.Int64
}

func (l *slowLeading) Begin() error {
	close(l.asked)
	<-l.begin
	return nil
}

func (l *slowLeading) End() { l.ends.Add(1) }

// TestLeadershipEndsWithMember: a member that is closed while a leadership begins ends it too,
// and follows nobody after that.
func TestLeadershipEndsWithMember(t *testing.T) {
	for range 10 { // what is done next is chosen at random if there is a choice
		l := &slowLeading{asked: make(chan struct{}), begin: make(chan struct{})}
		s := &replicas{t: t, journals: 1, dir: "group", tick: time.Millisecond, disks: []vfs.FS{vfs.NewMem()}, leading: l}
		g := s.openAll()
		g.onQueue, g.onTimer, g.voters = ignoreQueue, ignoreTimer, []uint64{1}
		if err := g.startOne(0, false); err != nil {
			t.Fatal(err)
		}
		m := g.members[0]
		<-l.asked
		closed := make(chan struct{})
		go func() { m.Close(); close(closed) }()
		<-m.stop
		close(l.begin)
		<-closed
		if got := l.ends.Load(); got != 1 {
			t.Fatalf("the leadership ended %d times", got)
		}
		if m.Term() != 0 || m.Leads() {
			t.Fatal("a member that is closed leads")
		}
		if err := g.logs[0].Close(); err != nil {
			t.Fatal(err)
		}
		if err := g.stores[0].Close(); err != nil {
			t.Fatal(err)
		}
		close(g.over)
	}
}
