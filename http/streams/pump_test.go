package streams

import (
	"testing"

	"parley/journal"
)

// TestWaitingStreamHoldsNoMessages: a waiting stream keeps the positions of its entries
// without their messages, and does not change the entries that it shares.
func TestWaitingStreamHoldsNoMessages(t *testing.T) {
	shared := []journal.FeedEntry{{Position: 1, Record: []byte("a")}, {Position: 2, Record: []byte("b")}}
	st := &agentStream{}
	if err := st.leave(errFull, shared); err != errFull || shared[1].Record == nil {
		t.Errorf("%v, %v", err, shared)
	}
	for i, e := range st.pending.entries {
		if e.Record != nil || e.Position != shared[i].Position {
			t.Errorf("kept %+v", e)
		}
	}
}
