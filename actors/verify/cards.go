package verify

import (
	"bytes"
	"fmt"

	"parley"
	"parley/actors/agent"
	"parley/actors/record"
)

// carded records the row that an agent's card must have: one that says of the card what
// the agent's events say.
func (x *verifier) carded(self parley.AgentID, s *agent.State) {
	if c := s.GetCard(); c != nil {
		x.cards.Expect(self.Slot(), 1, self[:], record.CardSummary(c.GetCreatedMs(), c.GetUpdatedMs(), s.GetCardRevision(), c.GetIsPublic(), c.GetA2AEnabled()))
	}
}

// cardRow checks the row of a card. It is never in an outbox: the agent itself writes it.
func (x *verifier) cardRow(slot parley.Slot, key, value []byte) {
	x.cardContent.Checked++
	if slot != parley.IDFromBytes[parley.AgentID](key).Slot() {
		x.cardContent.Fault("agent "+idText(key), "its card is in slot %d, where nobody looks for it", slot)
	}
	c := &record.Card{}
	if err := c.UnmarshalVT(value); err != nil {
		x.cardContent.Fault("agent "+idText(key), "its card cannot be read: %v", err)
	} else if again, err := c.MarshalVT(); err != nil || !bytes.Equal(again, value) {
		x.cardContent.Fault("agent "+idText(key), "its card is stored in another form than this release writes")
	}
	x.cards.Find(slot, 1, key, record.CardSummary(c.GetCreatedMs(), c.GetUpdatedMs(), c.GetRevision(), c.GetIsPublic(), c.GetA2AEnabled()))
}

// cardMember names a member of the multiset of cards.
func cardMember(m []byte) string { return fmt.Sprintf("card of agent %s", idText(m)) }
