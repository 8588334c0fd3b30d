package record

import (
	"fmt"

	"parley/client/parley"
	"parley/journal"
)

// Retired is the first byte of the message by which an agent notifies its organization
// that it was revoked.
const Retired = 'r'

// DecodeSagaMessage decodes a message from the durable queue of an actor of that kind. An
// error means that this release can never handle it: it cannot be parsed, its kind is
// unknown or invalid for such an actor, or an id is missing.
func DecodeSagaMessage(to journal.StreamKind, data []byte) (*SagaMessage, error) {
	if to == journal.OrgStream && len(data) == 17 && data[0] == Retired {
		return &SagaMessage{Kind: SagaMessage_retired, Agent: data[1:]}, nil
	}
	m := &SagaMessage{}
	if err := m.UnmarshalVT(data); err != nil {
		return nil, err
	}
	var ids [][]byte
	if m.GetKind() == SagaMessage_leaf {
		if to != journal.KeyLogStream || len(m.GetCommitment()) != parley.KeyLogHashBytes {
			return nil, fmt.Errorf("a leaf of %d bytes to a stream of kind %d", len(m.GetCommitment()), to)
		}
		return m, nil
	}
	switch k := m.GetKind(); {
	case to == journal.AgentStream && (k == SagaMessage_offer || k == SagaMessage_depart):
		ids = [][]byte{m.GetGroup()}
	case to == journal.AgentStream && (k == SagaMessage_concern || k == SagaMessage_settled):
		ids = [][]byte{m.GetGroup(), m.GetRequest()}
	case to == journal.GroupStream && (k == SagaMessage_answer || k == SagaMessage_forget):
		ids = [][]byte{m.GetAgent()}
	case to == journal.WebhookStream && k == SagaMessage_forget:
		ids = [][]byte{m.GetAgent()}
	case to == journal.OrgStream && k == SagaMessage_ended:
		ids = [][]byte{m.GetGroup()}
	default:
		return nil, fmt.Errorf("a message of kind %d, which is never sent to it", k)
	}
	for _, id := range ids {
		if len(id) != 16 {
			return nil, fmt.Errorf("a message of kind %d with an id of %d bytes", m.GetKind(), len(id))
		}
	}
	return m, nil
}
