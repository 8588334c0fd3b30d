package blackbox

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

func TestStoriesAtFollower(t *testing.T) {
	kit.RunAtFollower(t, "TestWebhookDelivers", "TestEventsOf.*", "TestHold.*", "TestRetryByHand.*", "TestGone", "TestProcessing", "TestRevokedAgentsHaveNoWebhooks",
		"TestSuspension", "TestQuotas", "TestGroupQuota", "TestPoll", "TestPollTokens", "TestErase", "TestErasedAgent",
		"TestJoining", "TestLeaveOrKick", "TestVotesAtOnce", "TestBroadcast", "TestGroupDeletion",
		"TestA2ACard", "TestBridgeStrangers", "TestPushNotifications", "TestChallengeSolvedTwiceAtOnce")
}
