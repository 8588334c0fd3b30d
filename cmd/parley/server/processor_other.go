//go:build !unix

package server

import "time"

// processUsed is not known here.
func processUsed() (time.Duration, bool) { return 0, false }
