package apply

import (
	"parley/journal"
	"parley/persistence/layout"
)

// kinds knows of which kinds of receipts the senders of messages were notified, by earlier batches
// and by this one.
type kinds struct {
	rows Rows
	// told are the kinds of this batch, by the key of the receipts: rows does not show them yet.
	told map[string]journal.ReceiptKinds
}

// of returns the kinds of the message whose receipts have a key.
func (m *kinds) of(key []byte) (journal.ReceiptKinds, error) {
	stored, err := m.rows.Kinds(key)
	return stored | m.told[string(key)], err
}

// tell keeps kinds for the rest of the batch.
func (m *kinds) tell(key []byte, news journal.ReceiptKinds) {
	if m.told == nil {
		m.told = map[string]journal.ReceiptKinds{}
	}
	m.told[string(key)] |= news
}

// Kinds reads the receipts that have a key.
func (r Stored) Kinds(key []byte) (journal.ReceiptKinds, error) {
	value, found, err := layout.Get(r, key)
	if err != nil || !found {
		return 0, err
	}
	receipts, err := layout.DecodeReceipts(value)
	return receipts.Kinds(), err
}
