// Package streams tests how agents learn of messages: server-sent events, waiting and polling.
package streams

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

type obj = kit.Obj

func TestMain(m *testing.M) { kit.Main(m) }

func TestStoriesAtFollower(t *testing.T) {
	kit.RunAtFollower(t, "TestPoll", "TestPollTokens")
}
