package e2ee

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails if a stream, token request or proof of work outlives its test.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
