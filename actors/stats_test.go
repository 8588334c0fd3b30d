package actors

import (
	"testing"

	"parley"
	"parley/journal"
)

func TestStatsCountActorsAndMarks(t *testing.T) {
	r := newRig(t)
	before := r.node.Stats()
	if before.Live != 0 || before.Activations != 0 || before.Receipts != 0 {
		t.Fatalf("before anything happened: %+v", before)
	}
	r.agent(r.org("acme").Org.OrgID(), "ann")
	after := r.node.Stats()
	if after.Live == 0 || after.Activations < uint64(after.Live) {
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
