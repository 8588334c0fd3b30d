package persistence

import (
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/apply"
	"parley/persistence/layout"
)

// TestPendingKinds: kinds of flights that are not applied yet count until the store has them.
func TestPendingKinds(t *testing.T) {
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var applied atomic.Uint64
	r := &pendingRows{stored: apply.Stored{Reader: db}, applied: &applied}
	one, other := layout.ReceiptKey(journal.RecordReceipt{Recipient: parley.AgentID{1}, Position: 1}), layout.ReceiptKey(journal.RecordReceipt{Recipient: parley.AgentID{1}, Position: 2})
	expect := func(when string, wantOne, wantOther journal.ReceiptKinds) {
		t.Helper()
		for key, want := range map[string]journal.ReceiptKinds{string(one): wantOne, string(other): wantOther} {
			if got, err := r.Kinds([]byte(key)); err != nil || got != want {
				t.Errorf("%s: kinds %d %v, want %d", when, got, err, want)
			}
		}
	}
	const both = journal.DeliveredReceipt | journal.ReadReceipt
	expect("at first", 0, 0)
	r.note(nil, map[string]journal.ReceiptKinds{string(one): journal.DeliveredReceipt}, 1)
	expect("after the first flight", journal.DeliveredReceipt, 0)
	r.note(nil, map[string]journal.ReceiptKinds{string(one): journal.ReadReceipt, string(other): journal.ReadReceipt}, 2)
	expect("after the second", both, journal.ReadReceipt)
	if err := db.Set(one, layout.EncodeReceipts(journal.Receipts{TransferredAt: 5}), nil); err != nil {
		t.Fatal(err)
	}
	applied.Store(1)
	expect("with the first stored", both, journal.ReadReceipt)
	applied.Store(2)
	expect("what is applied is read from the store", journal.DeliveredReceipt, 0)
	if r.note(nil, nil, 3); len(r.told) != 0 {
		t.Errorf("%d kinds of stored flights are kept", len(r.told))
	}
}
