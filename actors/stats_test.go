package actors

import (
	"testing"

	"parley/client/parley"
	"parley/journal"
)

func TestStatsCountActorsAndReceipts(t *testing.T) {
	r := newTestNode(t)
	before := r.node.Stats()
	if before.Live != 0 || before.Activations != 0 || before.Receipts != 0 {
		t.Fatalf("before anything happened: %+v", before)
	}
	r.agent(r.org("acme").Org.OrgID(), "ann")
	after := r.node.Stats()
	if after.Live == 0 || after.Activations < uint64(after.Live) {
		t.Errorf("after an agent was created: %+v", after)
	}
	r.node.Receipts.RecordSoon(journal.RecordReceipt{Recipient: parley.AgentID{1}})
	if n := r.node.Stats().Receipts; n > 1 {
		t.Errorf("%d receipts are pending, want 1", n)
	}
}
