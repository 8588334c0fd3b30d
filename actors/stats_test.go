package actors

import (
	"errors"
	"testing"
	"time"

	"parley"
	"parley/journal"
)

func TestStatsCountWhatIsRefused(t *testing.T) {
	k, pool := &taker{pause: make(chan struct{})}, &askPool{}
	defer close(k.pause)
	m := openMailbox(k)
	late := post(m, pool)
	eventually(t, "the first is being handled", func() bool { return m.UserMessageCount() == 0 })
	for range mailboxMax + 3 {
		post(m, pool)
	}
	m.PostUserMessage(&ask{command: timerFired{}, silent: true}) // nobody is refused by that
	if _, err := late.wait(time.Nanosecond); !errors.Is(err, parley.ErrOutcomeUnknown) {
		t.Fatalf("an answer that never came: %v", err)
	}
	if turned, overdue := pool.turned.Load(), pool.overdue.Load(); turned != 3 || overdue != 1 {
		t.Errorf("%d were refused and %d overdue, not 3 and 1", turned, overdue)
	}
}

func TestStatsCountActorsAndMarks(t *testing.T) {
	r := newRig(t)
	before := r.node.Stats()
	if before.Live != 0 || before.Begun != 0 || before.Marks != 0 {
		t.Fatalf("before anything happened: %+v", before)
	}
	r.agent(r.org("acme").Org.OrgID(), "ann")
	after := r.node.Stats()
	if after.Live == 0 || after.Begun < uint64(after.Live) {
		t.Errorf("after an agent was created: %+v", after)
	}
	r.node.marker.mu.Lock()
	r.node.marker.waiting = map[parley.AgentID][]journal.RecordReceipt{{1}: make([]journal.RecordReceipt, 2), {2}: make([]journal.RecordReceipt, 1)}
	r.node.marker.mu.Unlock()
	if n := r.node.marker.length(); n != 3 {
		t.Errorf("%d marks wait, not 3", n)
	}
	r.node.marker.mu.Lock()
	r.node.marker.waiting = nil
	r.node.marker.mu.Unlock()
}
