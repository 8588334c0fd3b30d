package delivery

import (
	"log/slog"
	"testing"

	"parley/client/parley"
	"parley/journal"
)

func TestWaitingReceiptsAreCounted(t *testing.T) {
	rs := &Receipts{}
	rs.batch = &batcher{receipts: rs, logger: slog.New(slog.DiscardHandler), closed: true}
	for _, agent := range []byte{1, 1, 2} {
		rs.RecordSoon(journal.RecordReceipt{Recipient: parley.AgentID{agent}})
	}
	if n := rs.Waiting(); n != 3 {
		t.Errorf("%d receipts are pending, want 3", n)
	}
}
