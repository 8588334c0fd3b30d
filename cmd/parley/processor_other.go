//go:build !unix

package main

import "time"

// processUsed is not known here.
func processUsed() (time.Duration, bool) { return 0, false }
