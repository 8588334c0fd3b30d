package groups

import (
	"math/rand/v2"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// TestGroupsUnderKills runs random foundings, joins, departures, removals, invitations,
// votes, promotions, deletions and revocations while the server is killed again and
// again. After each restart the groups keep their invariants, and at the end the data
// directory passes verification.
func TestGroupsUnderKills(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals)
		v := grouptest.NewDeployment(t, s)
		// On a slow machine 100 requests take more than four lives.
		for lives := 0; lives < 4 || lives < 12 && v.Done.Load() < 100; lives++ {
			v.RunUntilKilled(time.Duration(150+rand.IntN(250)) * time.Millisecond)
			v.Settle()
		}
		t.Logf("%d requests, %d groups, %d agents left", v.Done.Load(), len(v.Groups), len(v.Agents))
		if v.Done.Load() < 100 {
			t.Errorf("only %d requests", v.Done.Load())
		}
		kit.VerifyDirectory(t, s)
	})
}
