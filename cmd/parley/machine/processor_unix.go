//go:build unix

package machine

import (
	"syscall"
	"time"
)

// processUsed returns the processor time of this process since its start.
func processUsed() (time.Duration, bool) {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0, false
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), true
}
