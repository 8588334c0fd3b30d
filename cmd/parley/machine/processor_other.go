//go:build !unix

package machine

import "time"

// processUsed returns false: the time is not known on this system.
func processUsed() (time.Duration, bool) { return 0, false }
