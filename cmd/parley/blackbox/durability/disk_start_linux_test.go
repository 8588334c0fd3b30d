package durability

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// TestStartOnAFullDisk fills a disk to its last byte beside a server, kills the server and starts
// it, several times: it reads, refuses to write, and writes again when there is space. The control
// takes away what is kept for such a start.
func TestStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	for _, mebibytes := range []int{64, 256} {
		t.Run(fmt.Sprintf("%d MiB", mebibytes), func(t *testing.T) {
			t.Parallel()
			disk := kit.MountDisk(t, mebibytes)
			s, err := kit.Launch("127.0.0.1:0", filepath.Join(disk.Dir, "data"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				s.Kill()
				if t.Failed() {
					t.Log(s.Log.Tail())
				}
			})
			a, b := kit.Pair(t, s)
			sent := 0
			send := func() *kit.Answer {
				return a.TrySend(b, obj{"encrypted_payload": kit.B64([]byte(kit.RandomHex(8 << 10)))})
			}
			for ; sent < 20; sent++ {
				send().Want(201)
			}
			kit.Eventually(t, "space is kept", func() bool { return len(ballastOf(t, s)) == 16 })
			for round := range 4 {
				disk.Ballast(fmt.Sprint("others", round), -1)
				s.Kill()
				if err := s.Again(); err != nil {
					t.Fatalf("start %d on a full disk: %v", round+1, err)
				}
				if got := len(b.Inbox("?limit=100").Items()); got != sent {
					t.Errorf("start %d: %d of %d messages are read", round+1, got, sent)
				}
				send().Refused(503, "overloaded")
			}
			for round := range 4 {
				disk.Drop(fmt.Sprint("others", round))
			}
			waitUntilHealthy(t, s, 10*time.Second)
			send().Want(201)
			kit.Eventually(t, "space is kept again", func() bool { return len(ballastOf(t, s)) == 16 })

			disk.Ballast("others", -1)
			s.Kill()
			for _, file := range ballastOf(t, s) {
				kit.Must(t, os.Remove(file))
			}
			disk.Ballast("more", -1)
			if err := s.Again(); err == nil {
				t.Error("control: a server starts on a disk without space")
			}
		})
	}
}

// ballastOf lists the files that keep space for a start.
func ballastOf(t *testing.T, s *kit.Server) []string {
	files, err := filepath.Glob(filepath.Join(s.Dir, "journal", "ballast.*"))
	kit.Must(t, err)
	return files
}
