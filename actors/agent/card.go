package agent

import (
	"time"

	"parley/client/parley"
)

// PublishCard publishes the agent's card, in place of any it had before. The card itself
// is stored beside the events. // spec: Agent cards
type PublishCard struct {
	// Public: the directory may show the card.
	Public bool
	// A2AEnabled: the A2A bridge serves the agent.
	A2AEnabled bool
	// NamesSecurity: the request contains securitySchemes or security.
	NamesSecurity bool
}

// WithdrawCard removes the agent's card. If there is none, it changes nothing.
type WithdrawCard struct{}

func (PublishCard) command()  {}
func (WithdrawCard) command() {}

func (*CardPublished) event() {}
func (*CardWithdrawn) event() {}

// ErrCardSecurity rejects members that the service writes itself for an agent that the A2A
// bridge serves. // spec: Agent card
var ErrCardSecurity = parley.Refuse(parley.Unprocessable, "card_security_fields", "securitySchemes and security are added by the service for an A2A-enabled agent and cannot be sent.")

// CardChangedAt returns when what the agent's state adds to its card last changed, or
// the card itself, UTC; zero if it has no card.
func (s *State) CardChangedAt() time.Time {
	c := s.GetCard()
	if c == nil {
		return time.Time{}
	}
	latest := time.UnixMilli(max(c.GetUpdatedMs(), c.GetShownMs())).UTC()
	if keys := s.KeysChangedAt(); keys.After(latest) {
		return keys
	}
	return latest
}

// decidePublishCard counts an agent as A2A-enabled if its card says so, before or after
// the change. A card is published even if it equals the one that it replaces: the state
// does not remember what a card says.
func decidePublishCard(s *State, c PublishCard, now time.Time) ([]Event, error) {
	if err := s.active(); err != nil {
		return nil, err
	}
	if c.NamesSecurity && (c.A2AEnabled || s.GetCard().GetA2AEnabled()) {
		return nil, ErrCardSecurity
	}
	at := max(now.UnixMilli(), s.GetCard().GetUpdatedMs())
	return []Event{&CardPublished{IsPublic: c.Public, A2AEnabled: c.A2AEnabled, AtMs: at}}, nil
}

func decideWithdrawCard(s *State, now time.Time) ([]Event, error) {
	if err := s.active(); err != nil {
		return nil, err
	}
	if s.GetCard() == nil {
		return nil, nil
	}
	return []Event{&CardWithdrawn{AtMs: now.UnixMilli()}}, nil
}

// evolveCardPublished keeps the instant of the first publication over later ones.
func evolveCardPublished(s *State, e *CardPublished) {
	created := e.AtMs
	if s.Card != nil {
		created = s.Card.CreatedMs
	}
	s.Card = &Card{CreatedMs: created, UpdatedMs: e.AtMs, IsPublic: e.IsPublic, A2AEnabled: e.A2AEnabled}
	s.CardRevision++
}
