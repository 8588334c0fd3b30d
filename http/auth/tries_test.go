package auth

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley"
)

// TestTriesAreBounded: at most twenty wrong nonces of a challenge are checked, even if
// they arrive at once, and clients without credentials cannot fill the memory with
// challenges.
func TestTriesAreBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	tries := NewTries(func() time.Time { return now })
	var judged atomic.Int32
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 10 {
				if tries.Take("one") {
					judged.Add(1)
				}
			}
		})
	}
	group.Wait()
	if judged.Load() != parley.ChallengeTriesMax || tries.Take("one") || !tries.Take("another") {
		t.Errorf("%d tries were checked, want %d", judged.Load(), parley.ChallengeTriesMax)
	}
	tries.GiveBack("one")
	if !tries.Take("one") || tries.Take("one") {
		t.Error("one try was given back, but no further try is allowed")
	}
	for i := range 2 * triesChallenges {
		tries.Take(strconv.Itoa(i))
	}
	tries.taken.CleanUp()
	if n := tries.taken.EstimatedSize(); n > triesChallenges {
		t.Errorf("%d challenges are kept, want at most %d", n, triesChallenges)
	}
}
