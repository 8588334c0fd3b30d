package webhooks

import (
	"encoding/json"
	"testing"

	"parley/client/api"
)

// TestWebhookBytesLeast: no webhook takes less in an answer than is counted for it.
func TestWebhookBytesLeast(t *testing.T) {
	shortest, err := json.Marshal(api.Webhook{URL: "https://a", Events: []string{}})
	if err != nil || len(shortest) < hookBytesLeast {
		t.Errorf("the shortest webhook takes %d bytes, %d are counted: %v", len(shortest), hookBytesLeast, err)
	}
}
