package rules

import (
	"crypto/sha256"
	"encoding/binary"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/group"
	"parley/actors/issuer"
	"parley/actors/keylog"
	"parley/actors/operator"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// The aggregates.
var (
	Org = Aggregate[*org.State, org.Command, org.Event]{
		Decide: org.Decide, Evolve: org.Evolve, Tag: org.Tag, New: org.New,
		Owners: func(s *org.State) journal.Owners { return journal.OwnedBy(s.OrgID()) },
	}
	Agent = Aggregate[*agent.State, agent.Command, agent.Event]{
		Decide: agent.Decide, Evolve: agent.Evolve, Tag: agent.Tag, New: agent.New,
		Owners: func(s *agent.State) journal.Owners { return journal.OwnedBy(s.Owner()) },
	}
	Conversation = Aggregate[*conversation.State, conversation.Command, conversation.Event]{
		Decide: conversation.Decide, Evolve: conversation.Evolve, Tag: conversation.Tag, New: conversation.New, Start: started,
		Owners: func(s *conversation.State) journal.Owners {
			return journal.Owners{A: parley.IDFromBytes[parley.OrgID](s.GetOwner()), B: parley.IDFromBytes[parley.OrgID](s.GetOtherOwner())}
		},
		HasContent: conversation.HasContent,
	}
	Issuer = Aggregate[*issuer.State, issuer.Command, issuer.Event]{
		Decide: issuer.Decide, Evolve: issuer.Evolve, Tag: issuer.Tag, New: issuer.New,
	}
	Operator = Aggregate[*operator.State, operator.Command, operator.Event]{
		Decide: operator.Decide, Evolve: operator.Evolve, Tag: operator.Tag, New: operator.New,
	}
	KeyLog = Aggregate[*keylog.State, keylog.Command, keylog.Event]{
		Decide: keylog.Decide, Evolve: keylog.Evolve, Tag: keylog.Tag, New: keylog.New,
	}
	Group = Aggregate[*group.State, group.Command, group.Event]{
		Decide: group.Decide, Evolve: group.Evolve, Tag: group.Tag, New: group.New,
		Owners: func(s *group.State) journal.Owners { return journal.OwnedBy(s.Org) },
	}
	Webhook = Aggregate[*webhook.State, webhook.Command, webhook.Event]{
		Decide: webhook.Decide, Evolve: webhook.Evolve, Tag: webhook.Tag, New: webhook.New,
		Owners: func(s *webhook.State) journal.Owners { return journal.OwnedBy(s.Owner()) },
	}
)

// started reads the start of a conversation between two agents from its first message. A
// group's conversation has no such message: its start is its event 1.
func started(v Stored, s journal.Stream) (e conversation.Event, found bool, err error) {
	_, err = v.Messages.Message(s.Slot(), conversation.FirstMessageID(parley.ConversationID(s.ID)), func(stored []byte) error {
		m := &record.Message{}
		if err := m.UnmarshalHeader(stored); err != nil {
			return err
		}
		e, found = m.Started(), m.Starts()
		return nil
	})
	return e, found, err
}

// OrgStream returns the stream of an organization.
func OrgStream(id parley.OrgID) journal.Stream {
	return journal.Stream{Kind: journal.OrgStream, ID: parley.AnyID(id)}
}

// AgentStream returns the stream of an agent.
func AgentStream(id parley.AgentID) journal.Stream {
	return journal.Stream{Kind: journal.AgentStream, ID: parley.AnyID(id)}
}

// ConversationStream returns the stream of a conversation.
func ConversationStream(id parley.ConversationID) journal.Stream {
	return journal.Stream{Kind: journal.ConversationStream, ID: parley.AnyID(id)}
}

// GroupStream returns the stream of a group.
func GroupStream(id parley.GroupID) journal.Stream {
	return journal.Stream{Kind: journal.GroupStream, ID: parley.AnyID(id)}
}

// WebhookStream returns the stream of a webhook.
func WebhookStream(id webhook.ID) journal.Stream {
	return journal.Stream{Kind: journal.WebhookStream, ID: parley.AnyID(id)}
}

// SlugStream returns the stream whose existence claims a slug. Its id is derived from the
// slug and is in the slug's slot.
func SlugStream(slug string) journal.Stream { return claimOf(journal.SlugStream, slug) }

// WorkloadStream returns the stream whose existence claims a SPIFFE id, in the slot of the
// SPIFFE id.
func WorkloadStream(spiffeID string) journal.Stream { return claimOf(journal.WorkloadStream, spiffeID) }

// claimOf returns the stream whose existence claims a name.
func claimOf(kind journal.StreamKind, name string) journal.Stream {
	sum := sha256.Sum256([]byte(name))
	id := parley.AnyID(sum[:16])
	binary.BigEndian.PutUint16(id[6:], 0x7000|uint16(parley.SlotOf(name)))
	return journal.Stream{Kind: kind, ID: id}
}

// The streams of the platform's signing keys, one for each purpose. Their states are
// stored with each event.
var (
	// SigningKeyStream holds the keys that sign access tokens.
	SigningKeyStream = journal.Stream{Kind: journal.IssuerStream, ID: parley.AnyID{6: 0x70, 8: 0x80, 15: 1}}
	// CardKeyStream holds the keys that sign the A2A cards of agents.
	CardKeyStream = journal.Stream{Kind: journal.IssuerStream, ID: parley.AnyID{6: 0x70, 8: 0x80, 15: 2}}
	// ReceiptKeyStream holds the keys that sign receipts of messages.
	ReceiptKeyStream = journal.Stream{Kind: journal.IssuerStream, ID: parley.AnyID{6: 0x70, 8: 0x80, 15: 3}}
	// LogKeyStream holds the key that signs checkpoints of the key log.
	LogKeyStream = journal.Stream{Kind: journal.IssuerStream, ID: parley.AnyID{6: 0x70, 8: 0x80, 15: 4}}
)

// OperatorStream is the stream of the tokens of operators and of registration. There is one for all
// journals.
var OperatorStream = journal.Stream{Kind: journal.OperatorStream, ID: parley.AnyID{6: 0x70, 8: 0x80, 15: 1}}

// KeyLogStream is the stream of the key log. There is one for all journals.
var KeyLogStream = journal.Stream{Kind: journal.KeyLogStream, ID: parley.AnyID{6: 0x70, 8: 0x80, 15: 1}}
