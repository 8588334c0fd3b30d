package export

import (
	"errors"

	"parley/actors/query"
	"parley/client/parley"
)

// Messages visits the messages that the organization's agents sent or received. Of a
// broadcast that they sent there is the first copy, of one that they received each of
// their copies. Messages are
// not shared with the cache; visit must not keep them, because the next one is decoded into
// the same memory.
func (x *Export) Messages(visit func(query.Message) error) error {
	return x.ascendIDs(x.messageIDs, func(id parley.AnyID) error {
		m, err := x.message(parley.MessageID(id))
		if err != nil {
			return unlessErased(err)
		}
		if m.Record.SenderOrg() != x.org && m.Record.RecipientOrg() != x.org {
			return nil
		}
		return visit(m)
	})
}

// message reads a message with the receipts that its recipient's home has, if the
// recipient is the organization's.
func (x *Export) message(id parley.MessageID) (query.Message, error) {
	m, err := query.ReadMessageInto(&x.record, x.view, id.Slot(), id)
	if err != nil {
		return m, err
	}
	if m.Record.Copied() {
		return m, x.messages.Addressed(x.ctx, m.Record)
	}
	if m.Position == 0 && m.Record.RecipientOrg() == x.org {
		received, err := query.ReadMessageInto(&x.record, x.view, m.Record.Recipient().Slot(), id)
		if err == nil || !errors.Is(err, parley.ErrNotFound) { // else it is on its way
			return received, err
		}
	}
	return m, nil
}
