// Package orgs tests organizations, from registration and email to suspension, export and
// erasure, and their tokens.
package orgs

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

type obj = kit.Obj

func TestMain(m *testing.M) { kit.Main(m) }

func TestStoriesAtFollower(t *testing.T) {
	kit.RunAtFollower(t, "TestSuspension", "TestQuotas", "TestReports", "TestErase", "TestErasedAgent", "TestChallengeSolvedTwiceAtOnce")
}
