package client

import (
	"testing"

	"go.uber.org/goleak"
)

// No stream, token request or proof of work outlives the test that began it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
