package blackbox

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestStartOnAFullDisk fills a disk to its last byte beside a server, kills the server and starts
// it, several times: it reads, refuses to write, and writes again when there is space. The control
// takes away what is kept for such a start.
func TestStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	for _, mebibytes := range []int{64, 256} {
		t.Run(fmt.Sprintf("%d MiB", mebibytes), func(t *testing.T) {
			t.Parallel()
			disk := mountDisk(t, mebibytes)
			s, err := launch("127.0.0.1:0", filepath.Join(disk.dir, "data"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				s.kill()
				if t.Failed() {
					t.Log(s.log.tail())
				}
			})
			a, b := pair(t, s)
			sent := 0
			send := func() *answer { return a.trySend(b, obj{"encrypted_payload": b64([]byte(randomHex(8 << 10)))}) }
			for ; sent < 20; sent++ {
				send().want(201)
			}
			eventually(t, "space is kept", func() bool { return len(ballastOf(t, s)) == 16 })
			for round := range 4 {
				disk.ballast(fmt.Sprint("others", round), -1)
				s.kill()
				if err := s.again(); err != nil {
					t.Fatalf("start %d on a full disk: %v", round+1, err)
				}
				if got := len(b.inbox("?limit=100").items()); got != sent {
					t.Errorf("start %d: %d of %d messages are read", round+1, got, sent)
				}
				send().refused(503, "overloaded")
			}
			for round := range 4 {
				disk.drop(fmt.Sprint("others", round))
			}
			s.waitUntilHealthy(t, 10*time.Second)
			send().want(201)
			eventually(t, "space is kept again", func() bool { return len(ballastOf(t, s)) == 16 })

			disk.ballast("others", -1)
			s.kill()
			for _, file := range ballastOf(t, s) {
				must(t, os.Remove(file))
			}
			disk.ballast("more", -1)
			if err := s.again(); err == nil {
				t.Error("control: a server starts on a disk without space")
			}
		})
	}
}

// ballastOf lists the files that keep space for a start.
func ballastOf(t *testing.T, s *server) []string {
	files, err := filepath.Glob(filepath.Join(s.dir, "journal", "ballast.*"))
	must(t, err)
	return files
}
