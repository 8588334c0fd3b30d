package blackbox

import (
	"path/filepath"
	"testing"
	"time"
)

// onDisks has nodes run beside each other, each on a disk of its own.
func onDisks(dir func(i int) string) func(i int) (place, error) {
	local := localPlace("")
	return func(i int) (place, error) {
		at, err := local(i)
		at.dir = filepath.Join(dir(i), "data")
		return at, err
	}
}

// TestLeaderDiskFull fills the disk of the leader under load: another node leads, and messages
// go on. The node is ready again when there is room.
func TestLeaderDiskFull(t *testing.T) {
	disks := map[int]*smallDisk{}
	for i := range 3 {
		disks[i] = mountDisk(t, 256)
	}
	n := startNodesAt(t, onDisks(func(i int) string { return disks[i].dir }), 3)
	n.heed(t)
	w := newRecordedServer(t, n.server(), 2, 6)
	victim := n.leader()
	disk := disks[n.numberOf(victim)]
	w.runThrough(nil, clientCounts{8, 2, 2}, 300*time.Millisecond, func() {
		disk.ballast("ballast", -1)
		began := time.Now()
		eventually(t, "another node leads", func() bool { l := n.leader(); return l != nil && l != victim })
		t.Logf("another node leads %v after the disk is full; first 201 after %v more", time.Since(began).Round(time.Millisecond), w.firstSend().Round(time.Millisecond))
		time.Sleep(time.Second)
		disk.drop("ballast")
	})
	n.ready(t)
	w.repeatUnanswered()
	w.readAll(nil, true)
	w.check()
	t.Log(&w.tally)
}
