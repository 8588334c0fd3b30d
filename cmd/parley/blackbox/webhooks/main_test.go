// Package webhooks tests webhooks: what is delivered, signed, repeated, held and given up.
package webhooks

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

type obj = kit.Obj

func TestMain(m *testing.M) { kit.Main(m) }

func TestStoriesAtFollower(t *testing.T) {
	kit.RunAtFollower(t, "TestWebhookDelivers", "TestEventsOf.*", "TestHold.*", "TestRetryByHand.*", "TestGone", "TestProcessing", "TestRevokedAgentsHaveNoWebhooks")
}
