package blackbox

import "testing"

func TestStoriesAtFollower(t *testing.T) {
	RunAtFollower(t, "TestWebhookDelivers", "TestEventsOf.*", "TestHold.*", "TestRetryByHand.*", "TestGone", "TestProcessing", "TestRevokedAgentsHaveNoWebhooks",
		"TestSuspension", "TestQuotas", "TestGroupQuota", "TestPoll", "TestPollTokens", "TestErase", "TestErasedAgent",
		"TestJoining", "TestLeaveOrKick", "TestVotesAtOnce", "TestBroadcast", "TestGroupDeletion",
		"TestA2ACard", "TestBridgeStrangers", "TestPushNotifications", "TestChallengeSolvedTwiceAtOnce")
}
