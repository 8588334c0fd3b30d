// Package directory tests cards, the directory, identities (WebFinger, DIDs) and the A2A bridge.
package directory

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

type obj = kit.Obj

func TestMain(m *testing.M) { kit.Main(m) }

func TestStoriesAtFollower(t *testing.T) {
	kit.RunAtFollower(t, "TestA2ACard", "TestBridgeStrangers", "TestPushNotifications")
}
