package apply

import (
	"parley/journal"
	"parley/persistence/layout"
)

// marks knows which marks messages have of which their senders were told, those of the batch
// included.
type marks struct {
	rows Rows
	// told are the marks that this batch tells senders of, by the key of the receipts: rows does
	// not show them yet.
	told map[string]journal.ReceiptMarks
}

// of returns the marks of the message whose receipts have a key.
func (m *marks) of(key []byte) (journal.ReceiptMarks, error) {
	stored, err := m.rows.Marks(key)
	return stored | m.told[string(key)], err
}

// tell keeps marks for the rest of the batch.
func (m *marks) tell(key []byte, news journal.ReceiptMarks) {
	if m.told == nil {
		m.told = map[string]journal.ReceiptMarks{}
	}
	m.told[string(key)] |= news
}

// Marks reads the receipts that have a key.
func (r Stored) Marks(key []byte) (journal.ReceiptMarks, error) {
	value, found, err := layout.Get(r, key)
	if err != nil || !found {
		return 0, err
	}
	receipts, err := layout.DecodeReceipts(value)
	return receipts.Marks(), err
}
