package httpserver

import (
	"runtime"
	"syscall"
	"time"
)

// sleepers are the threads that sleep exactly: at most half of those that can compute.
var sleepers = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// sleep waits for d. Timers of an idle process fire after whole milliseconds, so the time that was
// spent before would still show in when they do. A busy one is exact enough, and has no thread to spare.
func sleep(d time.Duration) {
	select {
	case sleepers <- struct{}{}:
		defer func() { <-sleepers }()
	default:
		time.Sleep(d)
		return
	}
	left := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&left, &left) == syscall.EINTR { // a signal came in between
	}
}
