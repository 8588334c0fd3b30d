package webhooks

import (
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// between returns the time from one field of an object to another.
func between(t testing.TB, o obj, from, to string) time.Duration {
	t.Helper()
	return kit.Moment(t, o, to).Sub(kit.Moment(t, o, from))
}
