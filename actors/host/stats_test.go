package host

import (
	"errors"
	"testing"
	"time"

	"parley/client/parley"
)

func TestStatsCountRejections(t *testing.T) {
	k, pool := &messageSink{pause: make(chan struct{})}, &askPool{}
	defer close(k.pause)
	m := openMailbox(k)
	late := post(m, pool)
	eventually(t, "the first is being handled", func() bool { return m.UserMessageCount() == 0 })
	for range mailboxMax + 3 {
		post(m, pool)
	}
	m.PostUserMessage(&ask{command: TimerDue{}, silent: true}) // no caller is rejected by this
	if _, err := late.wait(time.Nanosecond); !errors.Is(err, parley.ErrOutcomeUnknown) {
		t.Fatalf("wait without an answer returned %v", err)
	}
	if turned, overdue := pool.refused.Load(), pool.overdue.Load(); turned != 3 || overdue != 1 {
		t.Errorf("%d were rejected and %d overdue, want 3 and 1", turned, overdue)
	}
}
