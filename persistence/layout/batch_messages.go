package layout

import (
	"github.com/cockroachdb/pebble/v2"

	"parley/client/parley"
)

// BatchMessages calls found with the messages whose records a batch writes. Copies of a record
// come with each home that it is written to.
func BatchMessages(repr []byte, found func(parley.MessageID)) error {
	if len(repr) == 0 {
		return nil
	}
	var b pebble.Batch
	if err := b.SetRepr(repr); err != nil {
		return err
	}
	for batch := b.Reader(); ; {
		kind, k, _, ok, err := batch.Next()
		if err != nil || !ok {
			return err
		}
		if kind != pebble.InternalKeyKindSet {
			continue
		}
		if _, family := FamilyOf(k); family == RecordFamily && len(k) == MessageKeyBytes {
			found(parley.MessageID(k[len(k)-len(parley.MessageID{}):]))
		}
	}
}
