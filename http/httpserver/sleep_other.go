//go:build !linux

package httpserver

import "time"

func sleep(d time.Duration) { time.Sleep(d) }
