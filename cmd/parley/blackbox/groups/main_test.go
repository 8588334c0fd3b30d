// Package groups tests groups: members, votes, isolation and broadcasts.
package groups

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

type obj = kit.Obj

func TestMain(m *testing.M) { kit.Main(m) }

func TestStoriesAtFollower(t *testing.T) {
	kit.RunAtFollower(t, "TestGroupQuota", "TestJoining", "TestLeaveOrKick", "TestVotesAtOnce", "TestBroadcast", "TestGroupDeletion")
}
